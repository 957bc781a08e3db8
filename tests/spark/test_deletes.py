"""Deletes that other writers leave behind, and files that Spark's reader cannot open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables.small_tables import SmallTable

if TYPE_CHECKING:
    from pathlib import Path

    from kit.programs.spark import SparkKit

ID = NestedField(1, "id", LongType())
SCHEMA = Schema(ID, NestedField(2, "name", StringType()))
ROWS: list[dict[str, Any]] = [{"id": one, "name": f"n{one}"} for one in range(10)]


def entered(kit: SparkKit, small: SmallTable) -> str:
    name = kit.fresh("s")
    kit.catalog.register_table(name.removeprefix("prod."), small.write_metadata())
    return name


@pytest.mark.parametrize("kind", ["none", "vector", "positions", "equality", "all"])
@pytest.mark.parametrize("form", ["parquet", "avro", "both"])
def test_deleted_rows_are_not_selected(kit: SparkKit, tmp_path: Path, kind: str, form: str) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    one = small.avro(ROWS) if form == "avro" else small.parquet(ROWS, row_group_rows=3)
    last = [{"id": 100, "name": None}]
    other = small.parquet(last) if form == "parquet" else small.avro(last)
    small.snapshot(one, other)
    gone = set()
    if kind in ("positions",):
        small.snapshot(small.position_deletes((one, 1), (one, 4)))
        gone |= {1, 4}
    if kind in ("equality", "all"):
        small.snapshot(small.equality_deletes([{"id": 2}, {"id": 100}], Schema(ID), 1))
        gone |= {2, 100}
    if kind in ("vector", "all"):
        small.snapshot(small.vector({one: [0, 3, 9]}))
        gone |= {0, 3, 9}
    name = entered(kit, small)
    left = sorted((each for each in (*range(10), 100) if each not in gone), key=repr)
    assert kit.sql(f"SELECT id FROM {name}") == [(each,) for each in left]
    assert kit.sql(f"SELECT count(*) FROM {name} WHERE id >= 3") == [(sum(each >= 3 for each in left),)]
    python = small.table().scan(selected_fields=("id", "_pos", "_row_id")).to_arrow().to_pylist()
    assert kit.sql(f"SELECT id, _pos, _row_id FROM {name}") == sorted((tuple(row.values()) for row in python), key=repr)
    kit.spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        assert kit.sql(f"SELECT id FROM {name}") == [(each,) for each in left], "row by row"
        found = kit.sql(f"SELECT id, _pos, _row_id FROM {name}")
        assert found == sorted((tuple(row.values()) for row in python), key=repr)
    finally:
        kit.spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_rows_are_found_by_number_in_files_that_tasks_share(kit: SparkKit, tmp_path: Path, vectorized: str) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    one, other = small.parquet(ROWS, row_group_rows=3), small.parquet(ROWS, row_group_rows=4)
    small.snapshot(one, other)
    small.snapshot(small.vector({one: [0, 4, 5, 9]}))
    name = entered(kit, small)
    settings = {
        "spark.sql.files.maxPartitionBytes": "150b",
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.parquet.enableVectorizedReader": vectorized,
    }
    for setting, value in settings.items():
        kit.spark.conf.set(setting, value)
    try:
        assert kit.spark.table(name).rdd.getNumPartitions() > 10
        for condition in ("true", "id >= 3", "name = 'n6'"):
            python = small.table().scan(selected_fields=("id", "name", "_file", "_pos", "_row_id")).to_arrow()
            wanted = [tuple(row.values()) for row in python.to_pylist()]
            if condition != "true":
                wanted = [row for row in wanted if (row[0] >= 3 if "id" in condition else row[1] == "n6")]
            found = kit.sql(f"SELECT id, name, _file, _pos, _row_id FROM {name} WHERE {condition}")
            assert found == sorted(wanted, key=repr), condition
            assert kit.sql(f"SELECT sum(id) FROM {name} WHERE {condition}") == [(sum(row[0] for row in wanted),)]
    finally:
        for setting in settings:
            kit.spark.conf.unset(setting)


def test_a_count_of_rows_that_is_not_true_is_refused(kit: SparkKit, tmp_path: Path) -> None:
    """Else a vector would delete other rows than those that were meant."""
    small = SmallTable(tmp_path, SCHEMA)
    one = small.parquet(ROWS, record_count=9)
    small.snapshot(one)
    small.snapshot(small.vector({one: [0]}))
    with pytest.raises(Exception, match="read up to row 10, expected row 9"):
        kit.sql(f"SELECT id FROM {entered(kit, small)}")


def test_a_file_without_a_key_is_refused(kit: SparkKit, tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(small.parquet(ROWS, sealed=False))
    with pytest.raises(Exception, match=r"PlaintextFileError.*without a key"):
        kit.sql(f"SELECT * FROM {entered(kit, small)}")
