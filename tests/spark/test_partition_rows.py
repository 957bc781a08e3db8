"""The rows of `partitions`, without a session: the same values of several specs are one row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField

from kit.tables.small_tables import SmallTable
from sealberg.spark.metadata_tables.partition_rows import partition_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

SCHEMA = Schema(NestedField(1, "heat", DoubleType()), NestedField(2, "id", LongType()))
HEAT, ID = PartitionField(1, 1000, IdentityTransform(), "heat"), PartitionField(2, 1001, IdentityTransform(), "id")
BY_HEAT, BY_BOTH = PartitionSpec(HEAT, spec_id=1), PartitionSpec(HEAT, ID, spec_id=2)


def rows_of(table: Table) -> list[dict[str, Any]]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return partition_rows(table.metadata, table.io, snapshot.manifests(table.io))


def test_a_partition_of_two_specs_is_one_row_with_the_spec_of_its_newest_file(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA, specs=[BY_HEAT, BY_BOTH])
    old = [small.parquet([{"id": 1}], partition=(heat,), spec_id=1) for heat in (math.nan, 0.0, -0.0, None, math.nan)]
    small.snapshot(*old)
    small.snapshot(small.parquet([{"id": 1}], partition=(math.nan, None), spec_id=2), small.vector({old[1]: [0]}))
    rows = rows_of(small.table())
    assert [(repr(row["partition"]["heat"]), row["file_count"], row["spec_id"]) for row in rows] == [
        ("nan", 3, 2),
        ("0.0", 1, 1),
        ("-0.0", 1, 1),
        ("None", 1, 1),
    ]
    assert [row["position_delete_file_count"] for row in rows] == [0, 1, 0, 0]
    assert [row["last_updated_at"] % 1_000_000 for row in rows] == [2000, 2000, 1000, 1000]


@pytest.mark.parametrize("version", ["1", "2"])
def test_tables_of_older_versions_are_counted_as_by_pyiceberg(tmp_path: Path, version: str) -> None:
    with SqlCatalog("plain", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}") as catalog:
        catalog.create_namespace("hr")
        given: dict[str, Any] = {"partition_spec": BY_HEAT, "properties": {"format-version": version}}
        table = catalog.create_table("hr.t", SCHEMA, **given)
        for heats in ([1.0, 2.0, None], [2.0], [3.0, 2.0]):
            table.append(pa.table({"heat": heats, "id": range(len(heats))}, schema=SCHEMA.as_arrow()))
        table.delete("heat = 3.0")
        assert table.format_version == int(version)
        expected = table.inspect.partitions()
        at = expected.schema.get_field_index("last_updated_at")
        millis = expected["last_updated_at"].cast(pa.int64())
        found = [{**row, "last_updated_at": row["last_updated_at"] // 1000} for row in rows_of(table)]
        assert len(found) == 3
        assert found == expected.set_column(at, "last_updated_at", millis).to_pylist()
