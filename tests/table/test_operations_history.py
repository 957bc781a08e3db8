"""Snapshots: branches, tags, time travel, rollback, transactions, incremental scans, expiry, metadata tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables import tables
from sealberg.table.files_table import REDACTED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.table.catalog_table import CatalogTable

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))
MERGED = {"commit.manifest.min-count-to-merge": "2"}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def some(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"n{one}" for one in numbers]})


def ids(table: CatalogTable, **scan: Any) -> list[int]:
    return sorted(table.scan(selected_fields=("id",), **scan).to_arrow()["id"].to_pylist())


def ids_of(table: CatalogTable, ref: str) -> list[int]:
    return sorted(table.scan(selected_fields=("id",)).use_ref(ref).to_arrow()["id"].to_pylist())


# -- branches and tags ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("properties", [{}, MERGED, {"write.delete.mode": "merge-on-read"}], ids=["", "merged", "mor"])
def test_a_branch_goes_its_own_way(catalog: EncryptedSqlCatalog, properties: dict[str, str]) -> None:
    table = tables.make(catalog, SCHEMA, **properties)
    table.append(some(1, 2))
    start = tables.head(table).snapshot_id
    table.manage_snapshots().create_branch(start, "audit").create_tag(start, "first").commit()
    table.append(some(3), branch="audit")
    table.append(some(4))
    table.delete("id = 1", branch="audit")
    table.upsert(some(3, 5), ["id"], branch="audit")
    table.overwrite(some(6), "id = 2", branch="audit")
    assert ids(table) == [1, 2, 4]
    assert ids_of(table, "audit") == [3, 5, 6]
    assert ids_of(table, "first") == [1, 2]
    tables.check_lineage(table)
    table.manage_snapshots().remove_tag("first").remove_branch("audit").commit()
    assert set(table.metadata.refs) == {"main"}


def test_an_append_to_a_branch_that_is_not_there_makes_it(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(some(1))
    table.append(some(2), branch="fresh")
    assert ids(table) == [1]
    assert ids_of(table, "fresh") == [2]


def test_main_moves_back_and_onto_the_work_of_a_branch(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(some(1))
    first = tables.head(table).snapshot_id
    table.append(some(2))
    table.manage_snapshots().create_branch(tables.head(table).snapshot_id, "work").commit()
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert ids(table) == [1]
    table.append(some(3), branch="work")
    work = table.metadata.refs["work"].snapshot_id
    table.manage_snapshots().set_current_snapshot(snapshot_id=work).commit()
    assert ids(table) == [1, 2, 3]
    table.append(some(4))
    assert ids(table) == [1, 2, 3, 4]
    assert len({value[0] for value in tables.lineage(table).values()}) == 4
    tables.check_lineage(table)


def test_row_ids_stay_unique_after_a_rollback(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, **MERGED)
    table.append(some(1))
    first = tables.head(table).snapshot_id
    table.append(some(2))
    before = table.metadata.next_row_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert table.metadata.next_row_id == before
    table.append(some(3))
    assert tables.lineage(table)[3][0] >= before
    tables.check_lineage(table)


def test_every_snapshot_can_be_travelled_to_by_id_time_and_ref(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, **MERGED)
    for number in range(4):
        table.append(some(number))
    for number, snapshot in enumerate(table.metadata.snapshots):
        assert ids(table, snapshot_id=snapshot.snapshot_id) == list(range(number + 1))
        found = table.snapshot_as_of_timestamp(snapshot.timestamp_ms)
        assert found is not None
        assert found.snapshot_id >= 0
    again = catalog.load_table(table.name())
    assert [entry.snapshot_id for entry in again.history()] == [s.snapshot_id for s in table.metadata.snapshots]


# -- transactions -----------------------------------------------------------------------------


def test_a_transaction_commits_snapshots_and_a_schema_as_one(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(some(1, 2))
    before = table.metadata_location
    with table.transaction() as tx:
        tx.append(some(3, 4))
        tx.delete("id in (1, 3)")  # sees what was appended a line above
        with tx.update_schema() as change:
            change.add_column("extra", LongType())
        tx.append(pa.table({"id": pa.array([5], pa.int64()), "extra": pa.array([50], pa.int64())}))
        result = tx.upsert(some(4, 6), ["id"])
        tx.set_properties({"owner": "me"})
        assert catalog.load_table(table.name()).metadata_location == before
        assert ids(catalog.load_table(table.name())) == [1, 2]  # type: ignore[arg-type]
    assert (result.rows_updated, result.rows_inserted) == (0, 1)
    assert ids(table) == [2, 4, 5, 6]
    assert len(table.metadata.snapshots) == 5
    assert len(table.metadata.metadata_log) == 2
    assert table.properties["owner"] == "me"
    tables.check_lineage(table)
    assert ids(catalog.load_table(table.name())) == [2, 4, 5, 6]  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_transaction_that_fails_leaves_no_file_and_no_key_behind(
    catalog: EncryptedSqlCatalog, tmp_path: Path, mode: str
) -> None:
    table = tables.make(catalog, SCHEMA, **{"write.delete.mode": mode, "write.update.mode": mode})
    table.append(some(1, 2, 3))
    before = (tables.stored(tmp_path), table.metadata.encryption_keys, table.metadata_location)

    def work() -> None:
        with table.transaction() as tx:
            tx.append(some(4))
            tx.delete("id = 1")
            tx.upsert(pa.table({"id": pa.array([2, 9], pa.int64()), "name": ["two", "nine"]}), ["id"])
            tx.overwrite(some(7), "id = 3")
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        work()
    table.refresh()
    assert tables.stored(tmp_path) == before[0]
    assert (table.metadata.encryption_keys, table.metadata_location) == before[1:]
    table.append(some(5))
    assert ids(table) == [1, 2, 3, 5]


# -- what came between ------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [{}, MERGED], ids=["", "merged"])
def test_an_incremental_scan_gives_what_appends_brought(
    catalog: EncryptedSqlCatalog, properties: dict[str, str]
) -> None:
    table = tables.make(catalog, SCHEMA, **properties)
    seen = []
    for number in range(5):
        table.append(some(number))
        seen.append(tables.head(table).snapshot_id)
    before = tables.lineage(table)
    table.delete("id = 3")
    found = table.incremental_append_scan(
        from_snapshot_id_exclusive=seen[1], to_snapshot_id_inclusive=seen[3], selected_fields=("id", "_row_id")
    ).to_arrow()
    assert sorted(found["id"].to_pylist()) == [2, 3]
    assert {row["id"]: row["_row_id"] for row in found.to_pylist()} == {key: before[key][0] for key in (2, 3)}
    since = table.incremental_append_scan(from_snapshot_id_exclusive=seen[2], row_filter="id > 3")
    assert since.to_arrow()["id"].to_pylist() == [4]


# -- expiry -----------------------------------------------------------------------------------


def test_expiry_takes_the_keys_of_expired_snapshots_along(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    for number in range(6):
        table.append(some(number))
    gone = [snapshot.snapshot_id for snapshot in table.metadata.snapshots[:-2]]
    keks = len(table.metadata.encryption_keys) - 6
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    assert len(table.metadata.snapshots) == 2
    assert len(table.metadata.encryption_keys) == 2 + keks
    assert {snapshot.key_id for snapshot in table.metadata.snapshots} < {
        k.key_id for k in table.metadata.encryption_keys
    }
    assert ids(table) == list(range(6))
    again = catalog.load_table(table.name())
    assert ids(again) == list(range(6))  # type: ignore[arg-type]
    table.append(some(6))
    assert ids(table) == list(range(7))
    tables.check_lineage(table)
    oldest = catalog.load_table(table.name()).metadata.snapshots[0]
    assert oldest.parent_snapshot_id == gone[-1], "Java keeps the name of what has expired, PyIceberg forgets it"


# -- metadata tables --------------------------------------------------------------------------


def test_every_metadata_table_opens_and_shows_no_key(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, **{"write.delete.mode": "merge-on-read"})
    table.append(some(1, 2, 3))
    table.delete("id = 2")
    keys = [file.key_metadata for file in (*tables.data_files(table), *tables.delete_files(table))]
    keys += [manifest.key_metadata for manifest in tables.manifests(table)]
    inspect = table.inspect
    shown = {
        name: getattr(inspect, name)()
        for name in (
            "snapshots",
            "entries",
            "refs",
            "partitions",
            "manifests",
            "metadata_log_entries",
            "history",
            "files",
            "data_files",
            "delete_files",
            "all_manifests",
            "all_files",
            "all_data_files",
            "all_delete_files",
        )
    }
    assert shown["files"]["key_metadata"].to_pylist() == [REDACTED, REDACTED]
    assert len(shown["delete_files"]) == 1
    assert len(shown["snapshots"]) == 2
    for name, found in shown.items():
        text = repr(found.to_pylist())
        for key in keys:
            assert key is not None
            assert repr(key)[2:-1] not in text, name


# -- names ------------------------------------------------------------------------------------


def test_a_table_is_renamed_and_dropped(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    before = table.name()
    table.append(some(1))
    renamed = catalog.rename_table(before, "hr.after")
    renamed.append(some(2))
    assert ids(renamed) == [1, 2]  # type: ignore[arg-type]
    with pytest.raises(NoSuchTableError):
        catalog.load_table(before)
    catalog.drop_table("hr.after")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("hr.after")
