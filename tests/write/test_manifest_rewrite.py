"""Manifests that are written anew: which entries go together, and how many are in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from kit.tables import tables
from sealberg.jobs import rewrite_manifests
from sealberg.write import manifest_rewrite
from sealberg.write.manifest_rewrite import ManifestRewrite, comparable, regroup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", LongType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def manifest(name: int, values: list[int | None]) -> Any:
    entries = [SimpleNamespace(partition=(value,)) for value in values]
    return SimpleNamespace(
        manifest_path=str(name),
        partition_spec_id=0,
        content=0,
        manifest_length=len(values),
        added_files_count=len(values),
        existing_files_count=0,
        entries=entries,
    )


@pytest.mark.parametrize("window", [10, 40, 95, 1_000])
def test_at_most_a_window_of_entries_is_in_memory_and_none_is_lost(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_rewrite, "WINDOW", window)
    given = [manifest(n, [None if (7 * n + i) % 50 == 0 else (7 * n + i) % 50 for i in range(10)]) for n in range(30)]
    held, most = 0, 0

    def read(one: Any) -> Any:
        nonlocal held, most
        held += len(one.entries)
        most = max(held, most)
        return one.entries

    def write(_like: Any, entries: Any) -> Any:
        nonlocal held
        held -= len(entries)
        return manifest(-1, [entry.partition[0] for entry in entries])

    def lowest(one: Any) -> Any:
        return min(comparable(entry.partition) for entry in one.entries)

    made = regroup(ManifestRewrite(target_size=20), given, read, write, lowest)
    assert (made.replaced, made.entries, len(made.manifests)) == (30, 300, 15)
    assert most <= max(window, 20) + 20
    anew: list[Any] = list(made.manifests)
    found = [entry.partition for one in anew for entry in one.entries]
    expected = [entry.partition for one in given for entry in one.entries]
    assert sorted(map(comparable, found)) == sorted(map(comparable, expected))
    if window == 1_000:
        assert list(map(comparable, found)) == sorted(map(comparable, found))


def test_windows_of_a_clustered_table_keep_it_clustered(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_rewrite, "WINDOW", 4)
    table = tables.make(catalog, SCHEMA, BY_PART)
    for part in (300, 2, 257, 1, 256, 3):  # the order of the numbers is not the order of their stored bytes
        for i in range(2):
            table.append(pa.table({"id": [i], "part": [part]}))
    before = tables.in_order(tables.rows(table))
    whole = sum(one.manifest_length for one in tables.manifests(table))
    rewrite_manifests.plan(table, target_size=whole // 6 + 1).execute()
    table.refresh()
    assert tables.in_order(tables.rows(table)) == before
    found = [
        [entry.data_file.partition[0] for entry in one.fetch_manifest_entry(table.io)]
        for one in tables.manifests(table)
    ]
    assert found == [[1, 1], [2, 2], [3, 3], [256, 256], [257, 257], [300, 300]]
