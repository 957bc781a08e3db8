"""Statements at the edges: each does what Spark's user expects, or is refused in words before a row is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, IntegerType, StringType, UUIDType
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pathlib import Path

    from kit.programs.spark import SparkKit

KEY = "TBLPROPERTIES ('encryption.key-id' = 'hr')"


# -- REPLACE TABLE ------------------------------------------------------------------------------


def test_a_partitioned_table_with_rows_is_replaced_by_one_with_the_same_names(kit: SparkKit) -> None:
    name = kit.fresh("rt")
    kit.sql(f"CREATE TABLE {name} PARTITIONED BY (p) {KEY} AS SELECT id, id % 2 AS p FROM range(4)")
    kit.sql(f"REPLACE TABLE {name} PARTITIONED BY (p) AS SELECT id, id % 2 AS p FROM range(6)")
    assert kit.sql(f"SELECT count(*), max(id) FROM {name}") == [(6, 5)]
    kit.sql(f"CREATE OR REPLACE TABLE {name} PARTITIONED BY (bucket(2, p)) AS SELECT id, id % 2 AS p FROM range(3)")
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(3,)]
    kit.sql(f"DELETE FROM {name} WHERE p = 1")
    kit.sql(f"INSERT INTO {name} VALUES (9, 9)")
    assert kit.sql(f"SELECT id FROM {name}") == [(0,), (2,), (9,)]
    for snapshot in kit.table(name).snapshots():
        kit.table(name).scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def test_a_sorted_table_is_replaced_by_one_that_is_not_sorted(kit: SparkKit) -> None:
    name = kit.fresh("rs")
    kit.sql(f"CREATE TABLE {name} {KEY} AS SELECT id FROM range(4)")
    kit.table(name).update_sort_order().asc("id", IdentityTransform()).commit()
    kit.sql(f"CREATE OR REPLACE TABLE {name} {KEY} AS SELECT id, 1 x FROM range(6)")
    assert kit.sql(f"SELECT count(*), sum(x) FROM {name}") == [(6, 6)]
    assert kit.table(name).sort_order().is_unsorted


# -- values -------------------------------------------------------------------------------------


def test_dates_and_timestamps_beyond_the_years_of_python(kit: SparkKit) -> None:
    name = kit.fresh("dt")
    kit.sql(f"CREATE TABLE {name} (d date, t timestamp) {KEY}")
    kit.sql(
        f"""INSERT INTO {name} VALUES (date'-0044-03-15', timestamp_micros(-8000000000000000000L)),
            (date'+10000-01-01', timestamp_micros(8000000000000000000L)), (date'2020-01-01', timestamp'2020-01-01')"""
    )
    assert kit.sql(f"SELECT cast(d AS string) FROM {name} WHERE d > date'9999-12-31'") == [("+10000-01-01",)]
    assert kit.sql(f"SELECT cast(d AS string) FROM {name} WHERE d < date'0001-01-01'") == [("-0044-03-15",)]
    assert kit.sql(f"SELECT unix_micros(t) FROM {name} WHERE t > timestamp'9999-12-31'") == [(8000000000000000000,)]
    assert kit.sql(f"SELECT count(*) FROM {name} WHERE t < timestamp'1500-01-01'") == [(1,)]
    kit.sql(f"DELETE FROM {name} WHERE d > date'9999-12-31'")
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(2,)]


@pytest.mark.parametrize("in_sql", ["INSERT INTO {} (id) VALUES (2)", "INSERT INTO {} (id, x) VALUES (2, DEFAULT)"])
def test_a_column_without_a_value_gets_its_write_default(kit: SparkKit, in_sql: str) -> None:
    name = kit.fresh("wd")
    kit.sql(f"CREATE TABLE {name} (id bigint) {KEY}")
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    defaults: list[tuple[str, Any, Any]] = [
        ("x", IntegerType(), 7),
        ("s", StringType(), "it's \\ 'so'"),
        ("d", DateType(), "2020-02-29"),
        ("u", UUIDType(), "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ]
    with kit.table(name).update_schema() as update:
        for column, kind, value in defaults:
            update.add_column(column, kind, default_value=value)
    kit.sql(in_sql.format(name))
    rows = kit.sql(f"SELECT id, x, s, cast(d AS string), u FROM {name}")
    assert rows == [(number, *(value for _, _, value in defaults)) for number in (1, 2)]
    assert {row["x"] for row in kit.table(name).scan().to_arrow().to_pylist()} == {7}


# -- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "partitions", "values"),
    [
        ("`c d` string", "`c d`", "'x'"),
        ("`a.b` int", "`a.b`", "1"),
        ("`x-y` int", "bucket(2, `x-y`)", "1"),
        ("`order` int, `ü` int", "`order`, truncate(4, `ü`)", "1, 2"),
        ("s struct<`a.b`: int, `c``d`: int>", "s.`a.b`, bucket(3, s.`c``d`)", "named_struct('a.b', 1, 'c`d', 2)"),
    ],
)
def test_partitions_by_columns_whose_names_need_quotes(
    kit: SparkKit, columns: str, partitions: str, values: str
) -> None:
    name = kit.fresh("qn")
    kit.sql(f"CREATE TABLE {name} ({columns}) PARTITIONED BY ({partitions}) {KEY}")
    kit.sql(f"INSERT INTO {name} SELECT {values}")
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(1,)]
    assert len(kit.table(name).scan().to_arrow()) == 1


@pytest.mark.parametrize("column", ["_file", "_pos", "_row_id", "_last_updated_sequence_number", "_FILE"])
def test_a_column_with_the_name_of_a_metadata_column_is_refused(kit: SparkKit, column: str) -> None:
    name = kit.fresh("mc")
    with pytest.raises(AnalysisException, match=f"column {column} has the name of a metadata column"):
        kit.sql(f"CREATE TABLE {name} ({column} int) {KEY}")
    kit.sql(f"CREATE TABLE {name} (id int) {KEY}")
    with pytest.raises(AnalysisException, match=f"column {column} has the name of a metadata column"):
        kit.sql(f"ALTER TABLE {name} ADD COLUMN {column} int")


def test_a_collation_is_refused(kit: SparkKit) -> None:
    name = kit.fresh("co")
    for columns in ("s string COLLATE UTF8_LCASE", "a array<string COLLATE UNICODE_CI>"):
        with pytest.raises(AnalysisException, match="Iceberg has no collations, found COLLATE"):
            kit.sql(f"CREATE TABLE {name} ({columns}) {KEY}")


def test_unset_of_a_property_that_is_not_set_does_nothing(kit: SparkKit) -> None:
    name = kit.fresh("up")
    kit.sql(f"CREATE TABLE {name} (id int) TBLPROPERTIES ('encryption.key-id' = 'hr', 'x' = 'y')")
    kit.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ('nope', 'x')")
    assert "x" not in kit.table(name).properties


# -- DataFrames that make tables ------------------------------------------------------------------


@pytest.mark.parametrize("form", [None, "iceberg", "sealberg", "parquet"])
def test_save_as_table_makes_a_table(kit: SparkKit, form: str | None) -> None:
    name = kit.fresh("sa")
    writer = kit.spark.range(2).write
    (writer if form is None else writer.format(form)).saveAsTable(name)
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(2,)]
    kit.spark.range(3).write.mode("append").saveAsTable(name)
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(5,)]
    used = kit.table(name).properties.get("write.format.default")
    assert used == {None: "parquet", "parquet": "parquet"}.get(form)
    kit.spark.range(4).write.mode("overwrite").saveAsTable(name)
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(4,)]


def test_a_stream_makes_its_table(kit: SparkKit, tmp_path: Path) -> None:
    name = kit.fresh("st")
    rate = kit.spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    query = rate.writeStream.option("checkpointLocation", str(tmp_path)).toTable(name)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert kit.table(name).schema().column_names == ["timestamp", "value"]


def test_a_path_of_format_iceberg_is_refused_in_words(kit: SparkKit, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="by the name of their catalog"):
        kit.spark.read.format("iceberg").load(str(tmp_path))
