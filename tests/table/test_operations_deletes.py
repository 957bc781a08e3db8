"""Deletes: which rows go, as files or as deletion vectors, and what the manifests say of it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from kit.tables import tables
from sealberg.scan.data_file_reader import load_vector

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.table.catalog_table import CatalogTable

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "part", StringType(), required=False),
    NestedField(3, "x", DoubleType(), required=False),
)
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
VECTORS = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
NAN = float("nan")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def some(start: int, stop: int, part: str | None = "a", x: float | None = 0.0) -> pa.Table:
    ids = list(range(start, stop))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "part": pa.array([part] * len(ids), pa.string()),
            "x": pa.array([x] * len(ids), pa.float64()),
        }
    )


def ids(table: CatalogTable, **scan: Any) -> list[int]:
    return sorted(table.scan(selected_fields=("id",), **scan).to_arrow()["id"].to_pylist())


def deleted_positions(table: CatalogTable) -> dict[str, list[int]]:
    return {str(file.referenced_data_file): list(load_vector(table.io, file)) for file in tables.delete_files(table)}


# -- which rows -------------------------------------------------------------------------------

VALUES = [None, NAN, -math.inf, -1.0, 0.0, 7.0, math.inf]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(
    "row_filter",
    ["x is null", "x is nan", "x is not nan", "x = 7", "x > 0", "x <= 0", "x in (7, 0)"],
)
def test_nulls_and_nans_go_and_stay_as_in_pyiceberg(
    catalog: EncryptedSqlCatalog, tmp_path: Path, row_filter: str, mode: str
) -> None:
    """In one file with all of them, where PyIceberg has to look at the rows themselves."""
    rows = pa.table({"id": list(range(7)), "part": ["a"] * 7, "x": pa.array(VALUES, pa.float64())})
    ours = tables.make(catalog, SCHEMA, **{"write.delete.mode": mode})
    with tables.plain_catalog(tmp_path) as plain:
        theirs = tables.make_plain(plain, SCHEMA)
        for table in (ours, theirs):
            table.append(rows)
            table.delete(row_filter)
        assert tables.rows(ours) == tables.rows(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(
    ("row_filter", "gone"),
    [
        ("x > 0", [0]),
        ("not (x > 0)", [2]),
        ("x != 5", [1, 2]),
        ("x not in (5, 6)", [1, 2, 3]),
        ("x is not null", [0, 1, 2]),
        ("x is nan or id = 9", [1]),
    ],
)
def test_a_delete_takes_just_the_rows_that_a_scan_shows(
    catalog: EncryptedSqlCatalog, row_filter: str, gone: list[int], mode: str
) -> None:
    """Statistics (5 to 5) say nothing of the NaN beside it: PyIceberg drops the whole file for x > 0, and in other
    cases keeps NaN although its own scan shows it.
    """
    table = tables.make(catalog, SCHEMA, **{"write.delete.mode": mode})
    table.append(pa.table({"id": [0, 1, 3], "part": ["a"] * 3, "x": pa.array([5.0, NAN, None], pa.float64())}))
    table.append(pa.table({"id": [2], "part": ["a"], "x": [-1.0]}))
    assert ids(table, row_filter=row_filter) == gone
    table.delete(row_filter)
    assert ids(table) == sorted({0, 1, 2, 3} - set(gone))
    tables.check_lineage(table)


def test_a_delete_that_matches_nothing_warns_and_makes_no_snapshot(
    catalog: EncryptedSqlCatalog, tmp_path: Path
) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(some(0, 3))
    before = (tables.head(table), tables.stored(tmp_path))
    for row_filter in ("id = 99", "part = 'zz'"):
        with pytest.warns(UserWarning, match="Delete operation did not match any records"):
            table.delete(row_filter)
    assert (tables.head(table), tables.stored(tmp_path)) == before


def test_a_delete_is_not_sensitive_to_case_when_told_so(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(some(0, 3))
    table.delete("ID = 1", case_sensitive=False)
    assert ids(table) == [0, 2]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_file_of_which_every_row_goes_is_removed_whole(catalog: EncryptedSqlCatalog, mode: str) -> None:
    table = tables.make(catalog, SCHEMA, **{"write.delete.mode": mode})
    table.append(some(0, 5))
    table.append(some(5, 8))
    first = str(next(file.file_path for file in tables.data_files(table) if file.record_count == 5))
    table.delete("id < 5")
    assert ids(table) == [5, 6, 7]
    assert first not in {str(file.file_path) for file in tables.data_files(table)}
    assert not tables.delete_files(table)
    summary = tables.head(table).summary
    assert summary is not None
    assert summary.operation.value == "delete"
    assert (summary["deleted-data-files"], summary["deleted-records"], summary["total-records"]) == ("1", "5", "3")


def test_copy_on_write_moves_rows_with_their_ids_and_ages(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(some(0, 5))
    before = tables.lineage(table)
    table.delete("id = 2")
    table.delete("id = 4")  # rows that have moved once move again
    assert tables.lineage(table) == {key: value for key, value in before.items() if key not in (2, 4)}
    tables.check_lineage(table)


# -- deletion vectors -------------------------------------------------------------------------


def test_the_vectors_of_several_files_lie_in_one_puffin_file(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, BY_PART, **VECTORS)
    table.append(pa.concat_tables([some(0, 10, "a"), some(10, 20, "b"), some(20, 30, None)]))
    before = tables.lineage(table)
    table.delete("id in (1, 2, 15, 29)")
    assert tables.lineage(table) == {key: value for key, value in before.items() if key not in (1, 2, 15, 29)}
    vectors = tables.delete_files(table)
    assert len(vectors) == 3
    (path,) = {str(vector.file_path) for vector in vectors}
    stored = tables.local(path).stat().st_size
    by_path = {str(file.file_path): file for file in tables.data_files(table)}
    places = sorted((vector.content_offset or 0, vector.content_size_in_bytes or 0) for vector in vectors)
    assert places[0][0] == 4  # plain coordinates: right after the magic of the Puffin file
    assert all(at + size == after for (at, size), (after, _) in pairwise(places))
    for vector in vectors:
        data = by_path[str(vector.referenced_data_file)]
        assert vector.content == DataFileContent.POSITION_DELETES
        assert vector.file_format == FileFormat.PUFFIN
        assert vector.file_size_in_bytes == stored
        assert (vector.spec_id, vector.partition) == (data.spec_id, data.partition)
        assert vector.record_count == len(load_vector(table.io, vector))
    summary = tables.head(table).summary
    assert summary is not None
    assert (summary["added-dvs"], summary["added-position-deletes"]) == ("3", "4")
    assert summary["total-delete-files"] == "3"
    tables.check_lineage(table)


def test_a_later_vector_takes_the_place_of_the_earlier_one(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, **VECTORS)
    table.append(some(0, 10))
    table.delete("id = 1")
    (old,) = tables.delete_files(table)
    table.delete("id in (3, 1)")
    (new,) = tables.delete_files(table)
    assert deleted_positions(table) == {str(new.referenced_data_file): [1, 3]}
    told = [e for e in tables.entries(table, deleted=True) if e.status == ManifestEntryStatus.DELETED]
    assert [str(entry.data_file.file_path) for entry in told] == [str(old.file_path)]
    summary = tables.head(table).summary
    assert summary is not None
    assert (summary["removed-dvs"], summary["added-dvs"], summary["total-position-deletes"]) == ("1", "1", "2")
    assert ids(table) == [0, 2, 4, 5, 6, 7, 8, 9]
    tables.check_lineage(table)


def test_one_of_several_vectors_in_a_file_is_replaced_and_the_others_stay(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, BY_PART, **VECTORS)
    table.append(pa.concat_tables([some(0, 5, "a"), some(5, 10, "b")]))
    table.delete("id in (0, 5)")
    table.delete("id = 6")
    assert sorted(deleted_positions(table).values()) == [[0], [0, 1]]
    assert ids(table) == [1, 2, 3, 4, 7, 8, 9]
    tables.check_lineage(table)


def test_a_vector_that_would_cover_the_whole_file_removes_both(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, **VECTORS)
    table.append(some(0, 4))
    table.append(some(10, 12))
    table.delete("id in (0, 1)")
    table.delete("id in (2, 3)")
    assert not tables.delete_files(table)
    assert [file.record_count for file in tables.data_files(table)] == [2]
    assert ids(table) == [10, 11]
    tables.check_lineage(table)


def test_copy_on_write_on_top_of_vectors_leaves_none_dangling(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, **VECTORS)
    table.append(some(0, 10))
    before = tables.lineage(table)
    table.delete("id = 1")
    table.transaction().set_properties({"write.delete.mode": "copy-on-write"}).commit_transaction()
    table.delete("id = 2")
    assert not tables.delete_files(table)
    assert tables.lineage(table) == {key: value for key, value in before.items() if key not in (1, 2)}
    tables.check_lineage(table)


def test_overwrite_and_dynamic_overwrite_take_the_vectors_of_their_files_along(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, BY_PART, **VECTORS)
    table.append(pa.concat_tables([some(0, 5, "a"), some(5, 10, "b"), some(10, 15, "c")]))
    table.delete("id in (0, 5, 10)")
    table.dynamic_partition_overwrite(some(100, 101, "a"))
    assert len(tables.delete_files(table)) == 2
    table.overwrite(some(200, 201, "b"), "part = 'b'")
    assert len(tables.delete_files(table)) == 1
    table.overwrite(some(300, 301, "z"))
    assert ids(table) == [300]
    assert not tables.delete_files(table)
    tables.check_lineage(table)


def test_an_updated_row_keeps_its_id_when_vectors_mark_the_old_one(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, **VECTORS)
    table.append(some(0, 5))
    before = tables.lineage(table)
    table.upsert(some(3, 4, "a", 9.0), ["id"])
    table.upsert(some(3, 4, "a", 10.0), ["id"])
    after = tables.lineage(table)
    assert after[3] == (before[3][0], 3)
    assert {key: value for key, value in after.items() if key != 3} == {k: v for k, v in before.items() if k != 3}
    tables.check_lineage(table)


def test_position_delete_files_are_never_written(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, BY_PART, **VECTORS)
    table.append(some(0, 50))
    for number in range(0, 20, 4):
        table.delete(f"id = {number}")
        table.upsert(some(number + 1, number + 2, "a", 1.0), ["id"])
    found = [file for snapshot in table.metadata.snapshots for file in tables.delete_files(table, snapshot)]
    assert found
    assert all(file.is_deletion_vector for file in found)


def test_rows_of_older_snapshots_stay_as_they_were(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, **VECTORS)
    table.append(some(0, 5))
    for number in range(4):
        table.delete(f"id = {number}")
    found = [ids(table, snapshot_id=snapshot.snapshot_id) for snapshot in table.metadata.snapshots]
    assert found == [list(range(start, 5)) for start in range(5)]
