"""Files that several tasks read: Avro files, and Parquet files with equality deletes. Each row comes once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables.small_tables import SmallTable

if TYPE_CHECKING:
    from pathlib import Path

    from kit.programs.spark import SparkKit

ID = NestedField(1, "id", LongType())
SCHEMA = Schema(ID, NestedField(2, "name", StringType()))
COUNT = 20_000


@pytest.mark.parametrize("kind", ["none", "vector", "equality", "all"])
@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_each_row_is_in_one_task(kit: SparkKit, tmp_path: Path, form: str, kind: str) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    rows = [{"id": one, "name": f"the name of row {one}"} for one in range(COUNT)]
    file = small.avro(rows) if form == "avro" else small.parquet(rows, row_group_rows=1500)
    small.snapshot(file)
    gone = set()
    if kind in ("equality", "all"):
        small.snapshot(small.equality_deletes([{"id": one} for one in range(0, COUNT, 7)], Schema(ID), 1))
        gone |= set(range(0, COUNT, 7))
    if kind in ("vector", "all"):
        small.snapshot(small.vector({file: [0, 1499, 1500, 10_001, COUNT - 1]}))
        gone |= {0, 1499, 1500, 10_001, COUNT - 1}
    name = kit.fresh("s")
    kit.catalog.register_table(name.removeprefix("prod."), small.write_metadata())
    frame = kit.spark.read.option("split-size", "10000").option("file-open-cost", "1").table(name)
    assert frame.rdd.getNumPartitions() > 3
    left = [one for one in range(COUNT) if one not in gone]
    assert sorted(row[0] for row in frame.select("id").collect()) == left
    found = sorted(tuple(row) for row in frame.select("id", "_pos", "_row_id").collect())
    assert found == [(one, one, one) for one in left]
    assert frame.where("id >= 19990").count() == sum(one >= 19990 for one in left)
    deleted = frame.where("_deleted").select("id").collect()
    assert sorted(row[0] for row in deleted) == sorted(gone)
