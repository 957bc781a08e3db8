"""Encrypted tables against plaintext PyIceberg version 2 tables with the same rows, in one run."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record

from bench.figures import Figure, best
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.keys.kms.memory import MemoryKms
from sealberg.metadata import decode_cache as cache
from sealberg.metadata.manifest import DataFileV3
from sealberg.table.catalog_table import CatalogTable
from sealberg.write.snapshot_builder import FileChanges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

ROWS = 6_000_000
FILES = 10_000
KEY_METADATA = bytes.fromhex("0120" + "30" * 16 + "0220" + "31" * 16 + "02c0843d")


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        catalog = _catalog(Path(name))
        yield from _rows(catalog, rounds)
        yield from _planning(catalog, max(3, rounds // 2))
        yield _kms_calls(catalog)
        yield _key_entries(catalog)


class _CountingKms(MemoryKms):
    unwraps = 0

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        type(self).unwraps += 1
        return super().unwrap(wrapped, master_key_id)


def _catalog(folder: Path) -> EncryptedSqlCatalog:
    catalog = EncryptedSqlCatalog(
        "bench",
        uri=f"sqlite:///{folder}/catalog.db",
        warehouse=folder.as_uri(),
        **{"encryption.kms-impl": "bench.tables._CountingKms", "encryption.kms.memory.key.k": "ab" * 16},
    )
    catalog.create_namespace("b")
    return catalog


def _make(catalog: Catalog, name: str, schema: pa.Schema, *, sealed: bool, **properties: str) -> Table:
    given = {**properties, "encryption.key-id": "k"} if sealed else {**properties, "format-version": "2"}
    return catalog.create_table(f"b.{name}", schema, properties=given)


def _table(rows: int) -> pa.Table:
    dice = np.random.default_rng(1)
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "amount": pa.array(dice.normal(100, 30, rows)),
            "code": pa.array(dice.integers(0, 1_000_000, rows)),
            "kind": pa.array(np.array(["a", "bb", "ccc", "dddd"])[dice.integers(0, 4, rows)]),
            "day": pa.array(dice.integers(0, 3650, rows).astype("datetime64[D]")),
            "note": pa.array([f"note {i % 9973}" for i in range(rows)]),
        }
    )


def _rows(catalog: Catalog, rounds: int) -> Iterator[Figure]:
    rows = _table(ROWS)
    parts = [rows.slice(i * ROWS // 4, ROWS // 4) for i in range(4)]
    plain, sealed = (_make(catalog, name, rows.schema, sealed=name == "sealed") for name in ("plain", "sealed"))
    counter = iter(range(1000))

    def append(sealed_one: bool) -> None:
        table = _make(catalog, f"a{next(counter)}", rows.schema, sealed=sealed_one)
        table.append(parts[0])
        catalog.purge_table(table.name())

    for part in parts:
        plain.append(part)
        sealed.append(part)
    one = f"id == {ROWS // 2}"
    spent = best(
        {
            "append plain": lambda: append(False),
            "append": lambda: append(True),
            "scan plain": lambda: plain.scan().to_arrow(),
            "scan": lambda: sealed.scan().to_arrow(),
            "two plain": lambda: plain.scan(selected_fields=("id", "amount")).to_arrow(),
            "two": lambda: sealed.scan(selected_fields=("id", "amount")).to_arrow(),
            "one plain": lambda: plain.scan(row_filter=one).to_arrow(),
            "one": lambda: sealed.scan(row_filter=one).to_arrow(),
        },
        rounds,
    )
    stored = sum(path.stat().st_size for path in Path(_folder(sealed)).rglob("*.parquet"))
    for name, words, bound in (
        ("scan", f"full scan to Arrow, {stored / 1e6:.0f} MB of Parquet in several files", 1.10),
        ("two", "two of six columns", 1.10),
        ("one", "one-row filter", 1.10),
        ("append", "append of the same data", 1.15),
    ):
        note = f"{spent[name] * 1000:.0f} ms, plain {spent[f'{name} plain'] * 1000:.0f} ms"
        yield Figure(
            f"{words}, over plaintext PyIceberg", spent[name] / spent[f"{name} plain"], bound, False, note=note
        )


def _folder(table: Table) -> str:
    return table.location().removeprefix("file://")


def _fake_files(count: int, cls: type[DataFile], **more: Any) -> list[Any]:
    files = []
    for i in range(count):
        columns = range(1, 7)
        file = cls.from_args(
            _table_format_version=3 if cls is DataFileV3 else 2,
            content=DataFileContent.DATA,
            file_path=f"file:///nowhere/{i:08}-{os.urandom(8).hex()}.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1000,
            file_size_in_bytes=100_000,
            column_sizes=dict.fromkeys(columns, 1000),
            value_counts=dict.fromkeys(columns, 1000),
            null_value_counts=dict.fromkeys(columns, 0),
            nan_value_counts={},
            lower_bounds={1: (i * 1000).to_bytes(8, "little")},
            upper_bounds={1: (i * 1000 + 999).to_bytes(8, "little")},
            split_offsets=[4],
            **more,
        )
        file.spec_id = 0
        files.append(file)
    return files


def _planning(catalog: Catalog, rounds: int) -> Iterator[Figure]:
    schema = _table(10).schema
    plain, sealed = (_make(catalog, f"{name}10k", schema, sealed=name == "sealed") for name in ("plain", "sealed"))
    assert isinstance(sealed, CatalogTable)
    for _ in range(10):
        with plain.transaction() as tx, tx.update_snapshot().fast_append() as producer:
            for file in _fake_files(FILES // 10, DataFile):
                producer.append_data_file(file)
        commit_files(sealed, FILES // 10)

    def first() -> None:
        cache.clear()
        assert len(list(sealed.scan(row_filter="id < 5000").plan_files())) >= 50

    def again() -> None:
        assert len(list(sealed.scan(row_filter="id < 5000").plan_files())) >= 50

    def commit_plain() -> None:
        with plain.transaction() as tx, tx.update_snapshot().fast_append() as producer:
            producer.append_data_file(_fake_files(1, DataFile)[0])

    spent = best(
        {
            "plain": lambda: list(plain.scan(row_filter="id < 5000").plan_files()),
            "first": first,
            "again": again,
            "commit plain": commit_plain,
            "commit": lambda: commit_files(sealed, 1),
        },
        rounds,
    )
    note = f"{spent['first'] * 1000:.0f} ms, plain {spent['plain'] * 1000:.0f} ms"
    yield Figure(
        "plan 10,000 files, first time, over plaintext", spent["first"] / spent["plain"], 1.10, False, note=note
    )
    yield Figure("plan 10,000 files, again, over plaintext", spent["again"] / spent["plain"], 0.25, False)
    note = f"{spent['commit'] * 1000:.0f} ms, plain {spent['commit plain'] * 1000:.0f} ms"
    ratio = spent["commit"] / spent["commit plain"]
    yield Figure("commit one file onto 10,000, over plaintext", ratio, 1.10, False, note=note)


def commit_files(table: CatalogTable, count: int) -> None:
    """Commit entries of data files that do not exist, with a key that opens nothing."""
    transaction = table.transaction()
    added = tuple(_fake_files(count, DataFileV3, key_metadata=KEY_METADATA))
    transaction.commit_changes(FileChanges(added=added, operation=Operation.APPEND))
    transaction.commit_transaction()


def _kms_calls(catalog: EncryptedSqlCatalog) -> Figure:
    rows = pa.table({"id": pa.array(range(1000), pa.int64())})
    table = _make(catalog, "thousand", rows.schema, sealed=True, **{"write.target-file-size-bytes": "8"})
    table.append(rows)
    fresh = EncryptedSqlCatalog("bench", **catalog.properties)
    _CountingKms.unwraps = 0
    assert fresh.load_table("b.thousand").scan().to_arrow().num_rows == 1000
    files = len(list(table.scan().plan_files()))
    return Figure(f"KMS calls to read a table of {files} files with one KEK", _CountingKms.unwraps, 1, False)


def _key_entries(catalog: Catalog) -> Figure:
    rows = pa.table({"id": pa.array([1], pa.int64())})
    table = _make(catalog, "many", rows.schema, sealed=True)
    for _ in range(1000):
        table.append(rows)
        old = [snapshot.snapshot_id for snapshot in table.snapshots()[:-10]]
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()
    assert isinstance(table, CatalogTable)
    return Figure(
        "key entries after 1,000 commits with expiry to 10 snapshots",
        len(table.metadata.encryption_keys),
        11,
        False,
        note="10 list keys and a KEK",
    )
