"""MERGE WITH SCHEMA EVOLUTION, merge-schema, and tables that accept rows of any schema, as in Iceberg's connector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

KEYED = "TBLPROPERTIES ('encryption.key-id' = 'hr'{more})"
ANY = KEYED.format(more=", 'write.spark.accept-any-schema' = 'true'")
EVOLVING = (
    "MERGE WITH SCHEMA EVOLUTION INTO {0} t USING (SELECT 1L id, 5 x) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_merge_with_schema_evolution_adds_the_column_and_its_values(kit: SparkKit, mode: str) -> None:
    name = kit.fresh("me")
    kit.sql(f"CREATE TABLE {name} (id bigint) {KEYED.format(more=f', {chr(39)}write.merge.mode{chr(39)} = {mode!r}')}")
    kit.sql(f"INSERT INTO {name} VALUES (1), (2)")
    kit.sql(EVOLVING.format(name))
    assert kit.spark.table(name).columns == ["id", "x"]
    assert kit.sql(f"SELECT * FROM {name}") == [(1, 5), (2, None)]


def test_a_table_can_refuse_schema_evolution(kit: SparkKit) -> None:
    name = kit.fresh("me")
    off = ", 'write.spark.auto-schema-evolution.enabled' = 'false'"
    kit.sql(f"CREATE TABLE {name} (id bigint) {KEYED.format(more=off)}")
    kit.sql(EVOLVING.format(name))
    assert kit.spark.table(name).columns == ["id"]  # as Iceberg's connector, Spark leaves the column out


@pytest.fixture
def name(kit: SparkKit) -> str:
    name = kit.fresh("any")
    kit.sql(f"CREATE TABLE {name} (id bigint NOT NULL, a string, p int) PARTITIONED BY (p) {ANY}")
    return name


def append(frame: Any, name: str, **options: str) -> None:
    writer = frame.writeTo(name)
    for key, value in options.items():
        writer = writer.option(key.replace("_", "-"), value)
    writer.append()


def test_rows_of_any_schema_find_their_columns(kit: SparkKit, name: str) -> None:
    rows = kit.spark.range(1)
    append(rows.selectExpr("id", "'x' a", "7 p"), name)
    append(rows.selectExpr("cast(id + 1 as int) id", "cast(8 as smallint) P"), name, check_nullability="false")
    append(rows.selectExpr("9 p", "id + 2 id", "'z' a"), name, check_ordering="false")
    assert kit.sql(f"SELECT * FROM {name}") == [(0, "x", 7), (1, None, 8), (2, "z", 9)]
    append(rows.selectExpr("3L id", "1 p", "array(2.5D) more", "named_struct('k', 1) s"), name, mergeSchema="true")
    assert kit.spark.table(name).columns == ["id", "a", "p", "more", "s"]
    assert kit.sql(f"SELECT id, p, more[0], s.k FROM {name} WHERE id = 3") == [(3, 1, 2.5, 1)]
    kit.spark.conf.set("spark.sql.iceberg.merge-schema", "true")
    try:
        append(rows.selectExpr("4L id", "1 p", "true by_session"), name)
        append(rows.selectExpr("5L id", "1 p"), name)
    finally:
        kit.spark.conf.unset("spark.sql.iceberg.merge-schema")
    assert kit.sql(f"SELECT id, by_session FROM {name} WHERE id > 3") == [(4, True), (5, None)]
    assert kit.agrees(name, columns="*") == 6


def test_rows_that_do_not_fit_are_refused(kit: SparkKit, name: str) -> None:
    rows = kit.spark.range(1)
    cases = {
        "more not found in source schema.*merge-schema adds columns": "id, 1 p, 2 more",
        "p is out of order, before a.*check-ordering=false": "id, 1 p, 'x' a",
        "id is required, but is missing": "'x' a, 1 p",
        "id should be required, but is optional.*check-nullability=false": "if(id > 5; null; id) id, 1 p",
        "p is int, and the rows have string": "id, 'x' p",
    }
    for text, columns in cases.items():
        with pytest.raises(AnalysisException, match=text):
            append(rows.selectExpr(*[one.replace(";", ",") for one in columns.split(", ")]), name)
    with pytest.raises(Exception, match="column id of the table is required"):
        append(rows.selectExpr("nullif(id, 0) id", "1 p"), name, check_nullability="false")
    with pytest.raises(AnalysisException, match="mergeschema is true or false, not maybe"):
        append(rows.selectExpr("id", "1 p"), name, mergeSchema="maybe")
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(0,)]
    assert kit.data_files(name) == []
