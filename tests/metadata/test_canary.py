"""Marked values and known keys go through every operation; then every byte that was left anywhere is searched for them.

Column names, table names and key ids are in metadata.json by design. So are partition values in the paths of
partitioned tables, as in Java: `write.object-storage.enabled` without `write.object-storage.partitioned-paths` has
paths without them, and a test here says so.
"""

from __future__ import annotations

import base64
import logging
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import BinaryType, ListType, LongType, NestedField, StringType

from kit.tables import tables
from sealberg.errors import ConfigError, SealbergError
from sealberg.files.file_io import EncryptingFileIO, KeyedLocation
from sealberg.keys.kms.client import WrappedKey, client_from_properties

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.table.catalog_table import CatalogTable

MARK = "CANARY-7f3a-"
PUFFIN = StatisticsFile.model_validate(
    {
        "snapshot-id": 1,
        "statistics-path": "file:///nowhere/1.stats",
        "file-size-in-bytes": 100,
        "file-footer-size-in-bytes": 50,
        "blob-metadata": [],
    }
)
NUMBER = 0x5EA1BE26CAFED00D  # a long that no counter reaches
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "secret", LongType(), required=False),
    NestedField(4, "blob", BinaryType(), required=False),
    NestedField(5, "words", ListType(6, StringType(), element_required=False), required=False),
)


def some(*ids: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"{MARK}{one}" for one in ids],
            "secret": pa.array([NUMBER] * len(ids), pa.int64()),
            "blob": [f"{MARK}{one}".encode() for one in ids],
            "words": [[f"{MARK}{one}"] for one in ids],
        }
    )


def needles(secret: bytes) -> set[bytes]:
    """A secret as it is, in hex, and in base64 wherever it may lie in a longer text."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode()}
    for shift in range(3):
        body = base64.b64encode(bytes(shift) + secret + bytes(2))
        start = -(-shift * 8 // 6) + (1 if shift else 0)
        core = body[start : (shift + len(secret)) * 8 // 6]
        found |= {core, core.replace(b"+", b"-").replace(b"/", b"_")}
    return found


def every_operation(table: CatalogTable, folder: Path, outside: Path) -> list[BaseException]:
    """Writes, changes, reads; and what goes wrong, with the errors that tell of it."""
    table.append(some(*range(20)))
    table.append(pa.RecordBatchReader.from_batches(some(1).schema, iter(some(*range(20, 30)).to_batches())))
    table.delete("id in (1, 21)")
    table.delete("id = 2")
    table.upsert(some(3, 4, 100).set_column(2, "secret", pa.array([NUMBER + 1] * 3, pa.int64())), ["id"])
    table.overwrite(some(5, 6), "id in (5, 6)")
    table.transaction().set_properties({"write.delete.mode": "copy-on-write"}).commit_transaction()
    table.delete(f"name = '{MARK}7'")
    table.transaction().set_properties({"write.format.default": "avro"}).commit_transaction()
    table.append(some(200, 201))
    with table.update_schema() as change:
        change.add_column("note", StringType())
    table.manage_snapshots().create_branch(tables.head(table).snapshot_id, "work").commit()
    table.append(some(300), branch="work")
    with table.transaction() as tx:
        tx.append(some(400))
        tx.delete("id = 400")
    table.scan(row_filter=f"name = '{MARK}8'").to_arrow()
    table.maintenance.expire_snapshots().by_id(table.metadata.snapshots[0].snapshot_id).commit()

    def broken() -> Iterator[pa.RecordBatch]:
        yield from some(*range(500, 520)).to_batches()
        raise RuntimeError("the source is gone")

    def stream() -> None:
        table.append(pa.RecordBatchReader.from_batches(some(1).schema, broken()))

    def change_of_mind() -> None:
        with table.transaction() as tx:
            tx.append(some(600))
            tx.upsert(some(3, 601), ["id"])
            raise RuntimeError("changed my mind")

    def plaintext_file() -> None:
        table.add_files([f"file://{outside}/elsewhere.parquet"])

    def tampered() -> None:
        path = tables.local(tables.data_files(table)[0].file_path)
        content = path.read_bytes()
        path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
        try:
            table.scan().to_arrow()
        finally:
            path.write_bytes(content)

    def wrong_key() -> None:
        other = {"encryption.kms.memory.key.hr": "00" * 16}
        with tables.sealed_catalog(folder, **other) as blind:
            blind.load_table(table.name()).scan().to_arrow()

    errors: list[BaseException] = []
    attempts: list[Any] = [
        stream,
        change_of_mind,
        plaintext_file,
        tampered,
        wrong_key,
        lambda: table.upsert(pa.concat_tables([some(9), some(9)]), ["id"]),
        lambda: table.append(some(1).append_column("stranger", [[f"{MARK}x"]])),
        lambda: table.transaction().set_properties({"encryption.key-id": "other"}).commit_transaction(),
        lambda: table.update_statistics().set_statistics(PUFFIN),
    ]
    for attempt in attempts:
        try:
            attempt()
        except (SealbergError, ValueError, RuntimeError, OSError) as error:
            errors.append(error)
    assert len(errors) == len(attempts)
    return errors


def all_keys(table: CatalogTable, master: bytes) -> set[bytes]:
    """The master key, the KEKs, and the key and AAD prefix of every file."""
    kms = client_from_properties(table.catalog.properties)
    metadata = table.metadata
    found = {master}
    for entry in metadata.encryption_keys:
        if entry.encrypted_by_id == "hr":
            found.add(kms.unwrap(WrappedKey(entry.encrypted_key_metadata, entry.properties), "hr"))
    assert isinstance(table.io, EncryptingFileIO)
    for snapshot in metadata.snapshots:
        assert snapshot.key_id is not None
        locations = [manifest.manifest_path for manifest in tables.manifests(table, snapshot)]
        locations += [entry.data_file.file_path for entry in tables.entries(table, snapshot, deleted=True)]
        found.add(table.io.open_list_key(snapshot.key_id).encryption_key)
        for location in locations:
            assert isinstance(location, KeyedLocation)
            found.add(location.keys.encryption_key)
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything is, temporary files included."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_no_value_and_no_key_is_left_anywhere(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = secrets.token_bytes(32)
    outside = folder.parent / f"{folder.name}-outside"  # a plaintext file that somebody else has
    outside.mkdir()
    pq.write_table(some(1), outside / "elsewhere.parquet")
    removed: dict[str, bytes] = {}  # what a failure has deleted again was on storage for a while
    delete = PyArrowFileIO.delete

    def remembering(io: PyArrowFileIO, location: Any) -> None:
        path = tables.local(location)
        if path.is_file():
            removed[f"removed {path}"] = path.read_bytes()
        delete(io, location)

    monkeypatch.setattr(PyArrowFileIO, "delete", remembering)
    with (
        caplog.at_level(logging.DEBUG),
        tables.sealed_catalog(folder, **{"encryption.kms.memory.key.hr": master.hex()}) as catalog,
    ):
        table = tables.make(
            catalog,
            SCHEMA,
            PartitionSpec(PartitionField(1, 1000, BucketTransform(2), "shard")),
            **{
                "write.delete.mode": "merge-on-read",
                "write.update.mode": "merge-on-read",
                "encryption.data-key-length": "32",
                "commit.manifest.min-count-to-merge": "3",
            },
        )
        errors = every_operation(table, folder, outside)
        keys = all_keys(table, master)
        shown = [
            f"{part!r} {part!s}"
            for part in (
                table,
                table.metadata,
                table.io,
                table.encryption,
                catalog,
                *table.metadata.snapshots,
                *tables.manifests(table),
                *tables.entries(table),
                *tables.data_files(table),
                *tables.delete_files(table),
                *table.scan().plan_files(),
                *errors,
                *(error.__cause__ for error in errors),
            )
        ]
        shown += [
            repr(getattr(table.inspect, name)().to_pylist()) for name in ("manifests", "snapshots", "refs", "history")
        ]
        shown += [table.metadata.to_json(), table.metadata.model_dump_json()]
    assert len(keys) > 20
    shown.append(caplog.text)
    places = {str(path): path.read_bytes() for path in tables.stored(folder)}
    places |= {f"shown {number}": text.encode() for number, text in enumerate(shown)} | removed
    assert removed
    assert {Path(path).suffix for path in places} >= {".parquet", ".avro", ".puffin", ".json", ".db"}
    marks = {MARK.encode(), str(NUMBER).encode(), NUMBER.to_bytes(8, "little"), MARK.encode().hex().encode()}
    marks |= needles(MARK.encode())
    sought = dict.fromkeys(marks, "a value") | {n: "a key" for key in keys for n in needles(key)}
    assert any(b'"name":"secret"' in content for content in places.values()), "names of columns are there by design"
    for place, content in places.items():
        for needle, what in sought.items():
            assert needle not in content, f"{what} is in {place}"


def test_the_search_finds_what_it_seeks() -> None:
    secret = secrets.token_bytes(16)
    for text in (
        secret,
        secret.hex().encode(),
        *(base64.b64encode(secrets.token_bytes(n) + secret + secrets.token_bytes(5)) for n in range(6)),
        base64.urlsafe_b64encode(secret),
    ):
        assert any(needle in b"before" + text + b"after" for needle in needles(secret))
    assert not any(needle in secrets.token_bytes(1000) for needle in needles(secret))


def test_bounds_and_partitions_of_a_table_are_in_encrypted_files_only(folder: Path) -> None:
    """The summary of a snapshot tells how many partitions changed, and not which."""
    by_name = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    with tables.sealed_catalog(folder) as catalog:
        table = tables.make(
            catalog,
            SCHEMA,
            by_name,
            **{"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"},
        )
        table.append(some(1, 2))
        table.delete("id = 1")
        summary = tables.head(table).summary
        assert summary is not None
        assert summary["changed-partition-count"] == "1"
    for path in tables.stored(folder):
        assert MARK not in str(path)
        assert MARK.encode() not in path.read_bytes(), path


def test_summaries_of_an_encrypted_table_show_no_partition_values(folder: Path) -> None:
    """metadata.json is not encrypted. Paths show the values by default, as in Java."""
    by_name = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    limit = {"write.summary.partition-limit": "2"}
    with tables.sealed_catalog(folder) as catalog:
        with pytest.raises(ConfigError, match=r"partition-limit is 2 for an encrypted table, expected 0"):
            tables.make(catalog, SCHEMA, by_name, **limit)
        table = tables.make(catalog, SCHEMA, by_name, **{"write.summary.partition-limit": "0"})
        with pytest.raises(ConfigError, match=r"partition-limit is 2 for an encrypted table"):
            table.transaction().set_properties(limit).commit_transaction()
        table.refresh()
        # As another tool sets it, by the catalog and past these checks.
        table.metadata.properties.update(limit)
        table.append(some(1, 2))
        summary = tables.head(table).summary
        assert summary is not None
        assert not [name for name in summary.additional_properties if name.startswith("partition")]
        assert all(f"name={MARK}" in str(file.file_path) for file in tables.data_files(table))
