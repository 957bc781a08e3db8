"""What compact, rewrite_manifests and rewrite_position_delete_files do with manifests and deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.compact_tables import BY_CAT, SCHEMA, VECTORS, filled, registered, some, sound, state
from kit.tables.small_tables import SmallTable
from kit.tables.tables import (
    check_lineage,
    data_files,
    delete_files,
    entries,
    head,
    manifests,
    sealed_catalog,
)
from sealberg.errors import ConfigError
from sealberg.jobs import rewrite_manifests, rewrite_position_delete_files
from sealberg.jobs.compact import plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as made:
        yield made


def test_manifests_are_merged_and_clustered_by_partition(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT, **VECTORS)
    table.delete("id == 3")
    table.delete("id == 15")
    before, files = state(table), {str(file.file_path): file.first_row_id for file in data_files(table)}
    ages = {str(entry.data_file.file_path): entry.sequence_number for entry in entries(table)}
    result = rewrite_manifests.plan(table).execute()
    assert state(table) == before
    assert {str(file.file_path): file.first_row_id for file in data_files(table)} == files
    assert {str(entry.data_file.file_path): entry.sequence_number for entry in entries(table)} == ages
    assert len(manifests(table)) == 2, "one of data, one of deletes"
    assert (result.rewritten_manifests_count, result.added_manifests_count) == (8, 2)
    found = head(table).summary.additional_properties  # type: ignore[union-attr]
    assert (found["manifests-replaced"], found["entries-processed"]) == ("8", "14")
    sound(table)


def test_manifests_of_the_target_size_have_few_partitions_each(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT)
    whole = sum(manifest.manifest_length for manifest in manifests(table))
    rewrite_manifests.plan(table, target_size=whole // 2 + 1).execute()
    table.refresh()
    found = [
        {entry.data_file.partition[0] for entry in manifest.fetch_manifest_entry(table.io)}
        for manifest in manifests(table)
    ]
    assert found == [{"x"}, {"y"}]
    sound(table)


def test_a_single_manifest_is_left_alone(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, files=1)
    result = rewrite_manifests.plan(table).execute()
    assert result.snapshot_id is None
    assert not rewrite_manifests.plan(table).changes
    with pytest.raises(ConfigError, match="has no partition spec 9"):
        rewrite_manifests.plan(table, spec_id=9)


def test_compact_merges_manifests_of_files_that_stay(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, files=4)
    before = state(table)
    result = plan(table).execute()
    assert state(table) == before
    assert (result.merged_manifests_count, result.added_manifests_count) == (4, 1)
    assert len(data_files(table)) == 4
    assert len(manifests(table)) == 1
    sound(table)


def test_vectors_of_many_files_go_into_one_puffin_file(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT, **VECTORS)
    for i in (3, 15, 27, 38, 41, 42):
        table.delete(f"id == {i}")
    before, vectors = state(table), {file.referenced_data_file: file.record_count for file in delete_files(table)}
    made = rewrite_position_delete_files.plan(table)
    assert made.steps[0].reads.files == 6
    result = made.execute()
    assert (result.rewritten_delete_files_count, result.added_delete_files_count) == (6, 1)
    assert state(table) == before
    assert {file.referenced_data_file: file.record_count for file in delete_files(table)} == vectors
    assert len({str(file.file_path) for file in delete_files(table)}) == 1
    sound(table)
    assert rewrite_position_delete_files.plan(table).execute().snapshot_id is None


def test_position_deletes_become_vectors(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    small = SmallTable(tmp_path / "small", SCHEMA)
    files = [small.parquet(some(i * 5, i * 5 + 5)) for i in range(3)]
    small.snapshot(*files)
    small.snapshot(small.position_deletes((files[0], 0), (files[0], 1), (files[1], 2)))
    small.snapshot(small.position_deletes((files[0], 3)))
    table = registered(tmp_path, small)
    before = state(table)
    assert rewrite_position_delete_files.plan(table).execute().snapshot_id is None, "two files are few"
    rewrite_position_delete_files.plan(table, options={"min-input-files": "2"}).execute()
    assert state(table) == before
    assert {file.record_count for file in delete_files(table)} == {3, 1}
    assert all(file.is_deletion_vector for file in delete_files(table))
    ages = {entry.data_file.record_count: entry.sequence_number for entry in entries(table) if entry.data_file.content}
    assert ages == {3: 3, 1: 2}, "the largest sequence number of what they replace"
    check_lineage(table)
    for options, message in (
        ({"min-input-files": "x"}, "min-input-files is 'x', expected an integer"),
        ({"nonsense": "1"}, "unknown options of rewrite_position_delete_files: nonsense"),
        ({"min-input-files": "0"}, "min-input-files is 0, expected 1 or more"),
    ):
        with pytest.raises(ConfigError, match=message):
            rewrite_position_delete_files.plan(table, options=options)
