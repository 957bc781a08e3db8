"""A staged snapshot is published as Iceberg Java's CherryPickOperation publishes it, or refused in Java's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables import tables
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "p", StringType(), required=False))
BY_P = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def some(*numbers: int, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": [p] * len(numbers)})


def ids(table: CatalogTable) -> list[int]:
    return sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def staged(table: CatalogTable, rows: pa.Table, wap_id: str | None = None, act: str = "append") -> int:
    """The id of a snapshot that is in the table and on no branch."""
    known = {one.snapshot_id for one in table.metadata.snapshots}
    getattr(table, act)(rows, branch=None, snapshot_properties={"wap.id": wap_id} if wap_id else {})
    return next(one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id not in known)


def summary(table: CatalogTable) -> dict[str, Any]:
    found = tables.head(table).summary
    assert found is not None
    return {"operation": found.operation.value, **found.additional_properties}


def test_main_is_moved_to_a_snapshot_whose_parent_is_current(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    first = staged(table, some(1), "first")
    assert table.current_snapshot() is None
    table.manage_snapshots().publish_changes("first").commit()
    assert (tables.head(table).snapshot_id, ids(table)) == (first, [1])
    second = staged(table, some(2), "second")
    with table.manage_snapshots() as manage:
        manage.cherrypick(second)
    assert (tables.head(table).snapshot_id, ids(table)) == (second, [1, 2])
    assert len(table.metadata.snapshots) == 2
    assert "published-wap-id" not in summary(table)
    with pytest.raises(ValidationException, match="wap id that was published already: second"):
        table.manage_snapshots().cherrypick(second)


def test_an_append_is_replayed_on_what_came_meanwhile(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(some(1))
    picked = staged(table, some(2, 3), "w")
    table.append(some(4))
    table.manage_snapshots().publish_changes("w").commit()
    assert ids(table) == [1, 2, 3, 4]
    told = summary(table)
    assert (told["operation"], told["published-wap-id"], told["source-snapshot-id"]) == ("append", "w", str(picked))
    assert (told["added-records"], told["total-records"]) == ("2", "4")
    rows = table.scan(selected_fields=("id", "_row_id")).to_arrow()
    assert len(set(rows["_row_id"].to_pylist())) == 4  # new ids: those of the staged snapshot are behind others' now
    with pytest.raises(ValidationException, match="wap id that was published already: w"):
        table.manage_snapshots().publish_changes("w")
    table.maintenance.expire_snapshots().by_id(picked).commit()
    assert ids(table) == [1, 2, 3, 4]


def test_a_snapshot_is_picked_once(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(some(1))
    picked = staged(table, some(2))
    table.append(some(3))
    table.manage_snapshots().cherrypick(picked).commit()
    made = tables.head(table).snapshot_id
    with pytest.raises(ValidationException, match=f"snapshot {picked}: already picked to create ancestor {made}"):
        table.manage_snapshots().cherrypick(picked)
    with pytest.raises(ValidationException, match=f"snapshot {made}: already an ancestor"):
        table.manage_snapshots().cherrypick(made)
    with pytest.raises(ValidationException, match="Cannot cherry-pick unknown snapshot ID: 17"):
        table.manage_snapshots().cherrypick(17)
    assert ids(table) == [1, 2, 3]


def test_a_wap_id_names_one_snapshot(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    staged(table, some(1), "w")
    staged(table, some(2), "w")
    with pytest.raises(ValidationException, match="Found multiple snapshots with WAP ID 'w'"):
        table.manage_snapshots().publish_changes("w")
    with pytest.raises(ValidationException, match="Cannot apply unknown WAP ID 'v'"):
        table.manage_snapshots().publish_changes("v")


def test_replaced_partitions_are_replayed_unless_they_changed(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, BY_P, **{"write.delete.mode": "merge-on-read"})
    table.append(some(1, 2))
    table.append(some(3, p="b"))
    table.delete("id = 2")  # a deletion vector on a file that goes
    picked = staged(table, some(9), "w", "dynamic_partition_overwrite")
    found = table.metadata.snapshot_by_id(picked)
    assert found is not None
    assert found.summary is not None
    assert found.summary["replace-partitions"] == "true"
    table.append(some(4, p="b"))
    table.manage_snapshots().cherrypick(picked).commit()
    assert ids(table) == [3, 4, 9]
    told = summary(table)
    assert (told["operation"], told["published-wap-id"]) == ("overwrite", "w")
    assert told["total-delete-files"] == "0"
    late = staged(table, some(10), None, "dynamic_partition_overwrite")
    table.append(some(11))
    with pytest.raises(ValidationException, match="Cannot cherry-pick replace partitions with changed partition"):
        table.manage_snapshots().cherrypick(late)
    assert ids(table) == [3, 4, 9, 11]


def test_other_operations_are_fast_forwards_or_refused(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(some(1, 2))
    table.overwrite(some(5), "id = 1", branch=None)
    picked = table.metadata.snapshots[-1].snapshot_id
    table.append(some(3))
    with pytest.raises(ValidationException, match="not append, dynamic overwrite, or fast-forward"):
        table.manage_snapshots().cherrypick(picked)
    assert ids(table) == [1, 2, 3]


def test_a_commit_of_somebody_else_turns_a_fast_forward_into_a_replay(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(some(1))
    picked = staged(table, some(2))
    manage = table.manage_snapshots().cherrypick(picked)
    catalog.load_table(table.name()).append(some(3))
    manage.commit()
    assert ids(table) == [1, 2, 3]
    assert summary(table)["source-snapshot-id"] == str(picked)
    third = staged(table, some(4))
    late = table.manage_snapshots().cherrypick(third)
    other = catalog.load_table(table.name())
    assert isinstance(other, CatalogTable)
    other.manage_snapshots().cherrypick(third).commit()
    late.commit()  # it is published, as was asked for
    assert ids(table) == [1, 2, 3, 4]
