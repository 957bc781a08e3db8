"""The answers that Iceberg's own tests expect: which rows, which type, what is refused and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from sealberg.files.locations import normal
from spark.test_wap import conf

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

KEY = "TBLPROPERTIES ('encryption.key-id' = 'hr'{})"


def table(kit: SparkKit, columns: str = "id int", more: str = "", partitions: str = "") -> str:
    name = kit.fresh("ja")
    kit.sql(f"CREATE TABLE {name} ({columns}) {partitions} {KEY.format(more)}")
    return name


# -- points in time -------------------------------------------------------------------------------


def test_a_branch_that_a_query_names_outranks_the_branch_of_the_session(kit: SparkKit) -> None:
    name = table(kit, more=", 'write.wap.enabled' = 'true'")
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    kit.sql(f"ALTER TABLE {name} CREATE BRANCH other")
    kit.sql(f"ALTER TABLE {name} CREATE TAG one")
    with conf(kit, spark_wap_branch="audit"):
        kit.sql(f"INSERT INTO {name} VALUES (2)")
        kit.sql(f"INSERT INTO {name}.branch_other VALUES (4)")
        for query, rows in {
            f"{name} VERSION AS OF 'other'": [(1,), (4,)],
            f"{name} VERSION AS OF 'main'": [(1,)],
            f"{name} VERSION AS OF 'audit'": [(1,), (2,)],
            f"{name} VERSION AS OF 'one'": [(1,)],
            f"{name}.branch_other": [(1,), (4,)],
            name: [(1,), (2,)],
        }.items():
            assert kit.sql(f"SELECT * FROM {query}") == rows, query
            assert kit.sql(f"SELECT count(*) FROM {query}") == [(len(rows),)], query
        for version, rows in {"other": [(1,), (4,)], "main": [(1,)]}.items():
            frame = kit.spark.read.option("versionAsOf", version).table(name)
            assert sorted(tuple(row) for row in frame.collect()) == rows
    with pytest.raises(AnalysisException, match="already read at a branch, a tag or a point in time"):
        kit.sql(f"SELECT * FROM {name} VERSION AS OF 'other' WITH (`branch` = 'main')")


def test_a_number_is_a_snapshot_even_if_a_tag_has_that_name(kit: SparkKit) -> None:
    name = table(kit)
    for number in (1, 2):
        kit.sql(f"INSERT INTO {name} VALUES ({number})")
    first, second = (snapshot.snapshot_id for snapshot in kit.table(name).snapshots())
    huge = "99999999999999999999"  # is no long, so it can only be a name
    with kit.table(name).manage_snapshots() as refs:
        refs.create_tag(second, str(first)).create_branch(second, "77").create_tag(first, huge)
    for version in (first, f"'{first}'"):
        assert kit.sql(f"SELECT * FROM {name} VERSION AS OF {version}") == [(1,)]
        assert kit.sql(f"SELECT count(*) FROM {name}.files VERSION AS OF {version}") == [(1,)]
    assert kit.sql(f"SELECT * FROM {name} VERSION AS OF '00{first}'") == [(1,)]
    with pytest.raises(AnalysisException, match=rf"has no branch or tag \+{first}"):
        kit.sql(f"SELECT * FROM {name} VERSION AS OF '+{first}'")
    assert kit.sql(f"SELECT * FROM {name}.snapshot_id_{first}") == [(1,)]
    assert kit.sql(f"SELECT * FROM {name}.`tag_{first}`") == [(1,), (2,)]
    assert kit.sql(f"SELECT * FROM {name} VERSION AS OF '{huge}'") == [(1,)]
    with pytest.raises(AnalysisException, match=r"has no snapshot 77; .*\.branch_77 is the branch of that name"):
        kit.sql(f"SELECT * FROM {name} VERSION AS OF 77")


# -- caches ---------------------------------------------------------------------------------------


def made_anew(kit: SparkKit, name: str) -> None:
    """As another session does it: Spark's cache hears nothing."""
    schema = kit.table(name).schema()
    kit.catalog.drop_table(name.removeprefix("prod."))
    properties = {"encryption.key-id": "hr", "format-version": "3"}
    kit.catalog.create_table(name.removeprefix("prod."), schema, properties=properties)


def test_a_cached_table_does_not_answer_for_a_new_table_of_its_name(kit: SparkKit) -> None:
    name = table(kit)
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    kit.spark.table(name).cache().count()
    kit.spark.table(f"{name}.files").cache().count()
    try:
        made_anew(kit, name)
        assert kit.sql(f"SELECT * FROM {name}") == []
        assert kit.sql(f"SELECT count(*) FROM {name}") == [(0,)]
        assert kit.sql(f"SELECT count(*) FROM {name}.files") == [(0,)]
    finally:
        kit.spark.catalog.clearCache()


# -- functions ------------------------------------------------------------------------------------


def test_truncate_keeps_the_type(kit: SparkKit) -> None:
    numbers = {"12Y": ("tinyint", 10), "-13S": ("smallint", -20), "12": ("int", 10), "-1L": ("bigint", -10)}
    for number, (kind, value) in {**numbers, "1.25BD": ("decimal(3,2)", None)}.items():
        [(found, result)] = kit.sql(
            f"SELECT typeof(prod.system.truncate(10, {number})), prod.system.truncate(10, {number})"
        )
        assert found == kind
        assert value is None or result == value
    assert kit.sql("SELECT prod.system.truncate(200, -128Y)") == [(56,)], "wraps around, as in Java"
    assert kit.sql("SELECT prod.system.truncate(10, CAST(NULL AS tinyint))") == [(None,)]
    assert kit.sql("SELECT typeof(prod.system.bucket(10Y, 12Y)), prod.system.bucket(10S, 34S)") == [("int", 9)]


@pytest.mark.parametrize("width", ["'5'", "12.34", "12L", "CAST(12.34 AS DECIMAL(9,2))", "NULL", "5D"])
@pytest.mark.parametrize("function", ["bucket", "truncate"])
def test_a_width_is_a_small_whole_number(kit: SparkKit, function: str, width: str) -> None:
    what = {"bucket": "number of buckets", "truncate": "truncation width"}[function]
    with pytest.raises(AnalysisException, match=f"Expected {what} to be tinyint, shortint or int"):
        kit.sql(f"SELECT prod.system.{function}({width}, 10)")


# -- names and statements ---------------------------------------------------------------------------


def test_metadata_tables_are_found_in_any_case(kit: SparkKit) -> None:
    name = table(kit)
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    for kind in ("FILES", "Snapshots", "ALL_Data_Files", "Refs"):
        assert kit.sql(f"SELECT count(*) FROM {name}.{kind}") == [(1,)], kind
    first = kit.table(name).snapshots()[0].snapshot_id
    assert kit.sql(f"SELECT count(*) FROM {name}.FILES VERSION AS OF {first}") == [(1,)]


def test_transforms_are_understood_in_any_case(kit: SparkKit) -> None:
    transforms = "HOURS(at), BUCKET(4, id), Truncate(2, s), IDENTITY(p)"
    name = table(kit, "id int, at timestamp, s string, p int", partitions=f"PARTITIONED BY ({transforms})")
    assert [str(field.transform) for field in kit.table(name).spec().fields] == [
        "hour",
        "bucket[4]",
        "truncate[2]",
        "identity",
    ]
    kit.sql(f"INSERT INTO {name} VALUES (1, timestamp'2020-01-01 01:02:03', 'abc', 5)")
    assert kit.sql(f"SELECT partition.at_hour, partition.s_trunc FROM {name}.files") == [(438289, "ab")]
    with pytest.raises(AnalysisException, match="unknown partition transform WEEKS"):
        table(kit, "at timestamp", partitions="PARTITIONED BY (WEEKS(at))")


def test_a_required_column_stays_required_and_an_optional_one_optional(kit: SparkKit) -> None:
    name = table(kit, "id int NOT NULL, s struct<x: int NOT NULL>, o int")
    before = kit.table(name).metadata.schemas
    for column in ("id", "s.x"):
        kit.sql(f"ALTER TABLE {name} ALTER COLUMN {column} SET NOT NULL")
    kit.sql(f"ALTER TABLE {name} ALTER COLUMN o DROP NOT NULL")
    assert kit.table(name).metadata.schemas == before
    with pytest.raises(AnalysisException, match="Cannot change nullable column to non-nullable: o"):
        kit.sql(f"ALTER TABLE {name} ALTER COLUMN o SET NOT NULL")
    kit.sql(f"ALTER TABLE {name} ALTER COLUMN id DROP NOT NULL")
    assert not kit.table(name).schema().find_field("id").required


def test_a_branch_of_an_empty_table_is_made_or_replaced(kit: SparkKit) -> None:
    name = table(kit)
    kit.sql(f"ALTER TABLE {name} CREATE OR REPLACE BRANCH b RETAIN 5 DAYS")
    assert kit.sql(f"SELECT name, type, max_reference_age_in_ms FROM {name}.refs") == [("b", "BRANCH", 432000000)]
    assert kit.sql(f"SELECT * FROM {name}.branch_b") == []
    for statement, text in {
        "CREATE OR REPLACE BRANCH b": "main has no snapshot",
        "REPLACE BRANCH c": "Branch does not exist: c",
        "CREATE OR REPLACE TAG t": "main has no snapshot",
    }.items():
        with pytest.raises(Exception, match=text):
            kit.sql(f"ALTER TABLE {name} {statement}")
    kit.sql(f"INSERT INTO {name}.branch_b VALUES (1)")
    assert kit.sql(f"SELECT * FROM {name}.branch_b") == [(1,)]
    assert kit.sql(f"SELECT * FROM {name}") == []


def test_an_order_is_of_columns_as_the_session_reads_names(kit: SparkKit) -> None:
    name = table(kit, "Id int")
    statements = (
        f"ALTER TABLE {name} WRITE ORDERED BY id",
        f"CALL prod.system.set_write_order(table => '{name}', `order` => array('id'))",
    )
    with conf(kit, spark_sql_caseSensitive="true"):
        for statement in statements:
            with pytest.raises(Exception, match="id"):
                kit.sql(statement)
        assert not kit.table(name).sort_order().fields
        kit.sql(f"ALTER TABLE {name} WRITE ORDERED BY Id")
    for statement in statements:
        kit.sql(statement)
        assert [field.source_id for field in kit.table(name).sort_order().fields] == [1]


# -- overwriting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize("how", ["overwrite", "overwritePartitions"])
def test_an_isolation_level_alone_looks_at_the_whole_history(kit: SparkKit, how: str, level: str) -> None:
    name = table(kit, "id int, s string", partitions="PARTITIONED BY (id)")
    frame = kit.spark.createDataFrame([(1, "a")], "id int, s string")
    frame.writeTo(name).append()
    last = kit.table(name).metadata.current_snapshot_id

    def write(**options: Any) -> None:
        writer = frame.withColumn("s", F.lit("b")).writeTo(name)
        for key, value in options.items():
            writer = writer.option(key.replace("_", "-"), str(value))
        writer.overwrite(F.col("id") == 1) if how == "overwrite" else writer.overwritePartitions()

    if level == "serializable":
        with pytest.raises(Exception, match=r"(?i)conflict"):
            write(isolation_level=level)
        assert kit.sql(f"SELECT * FROM {name}") == [(1, "a")]
    else:  # an append deletes nothing
        write(isolation_level=level)
        last = kit.table(name).metadata.current_snapshot_id
    write(isolation_level=level, validate_from_snapshot_id=last)
    assert kit.sql(f"SELECT * FROM {name}") == [(1, "b")]
    write()


# -- tables by the name of format("iceberg") --------------------------------------------------------


def test_load_and_save_take_the_name_of_a_table(kit: SparkKit, tmp_path: Path) -> None:
    name = table(kit)
    spark = kit.spark

    def loaded(of: str, **options: Any) -> list[tuple[Any, ...]]:
        reader = spark.read.format("iceberg").options(**{key.replace("_", "-"): str(options[key]) for key in options})
        return sorted(tuple(row) for row in reader.load(of).collect())

    def saved(of: str, mode: str, *numbers: int) -> None:
        frame = spark.createDataFrame([(number,) for number in numbers], "id int")
        frame.write.format("iceberg").mode(mode).save(of)

    saved(name, "append", 1)
    saved(name, "append", 2)
    assert loaded(name) == [(1,), (2,)]
    first = kit.table(name).snapshots()[0].snapshot_id
    kit.sql(f"ALTER TABLE {name} CREATE TAG one AS OF VERSION {first}")
    kit.sql(f"ALTER TABLE {name} CREATE BRANCH b AS OF VERSION {first}")
    for of in (f"{name}.snapshot_id_{first}", f"{name}.tag_one", f"{name}.branch_b"):
        assert loaded(of) == [(1,)], of
    assert loaded(name, snapshot_id=first) == loaded(name, versionAsOf=first) == [(1,)]
    assert len(loaded(f"{name}.files")) == len(loaded(f"{name}.FILES")) == 2
    saved(f"{name}.branch_b", "append", 3)
    assert loaded(f"{name}.branch_b") == [(1,), (3,)]
    query = spark.readStream.format("iceberg").load(name).writeStream.format("memory").queryName("by_name")
    query.option("checkpointLocation", f"file://{tmp_path}/c").trigger(availableNow=True).start().awaitTermination(60)
    assert kit.sql("SELECT * FROM by_name") == [(1,), (2,)]
    saved(name, "overwrite", 4)
    assert loaded(name) == [(4,)]
    with pytest.raises(AnalysisException, match="already exists"):
        saved(name, "errorifexists", 5)
    saved(name, "ignore", 5)
    assert loaded(name) == [(4,)]
    new = kit.fresh("ja")
    saved(new, "errorifexists", 6)
    assert loaded(new) == [(6,)]
    assert kit.table(new).location().startswith(f"file://{kit.warehouse}/")


def test_a_path_that_is_not_the_name_of_the_table_is_refused(kit: SparkKit) -> None:
    name, other = table(kit), table(kit)
    for path in (other, f"{name}.files", f"{name}.branch_b", "file:/tmp/x", "a b", name.removeprefix("prod.") + "x"):
        with pytest.raises(AnalysisException, match="the read option path is not supported"):
            kit.spark.read.option("path", path).table(name).collect()
        with pytest.raises(AnalysisException, match="the write option path says"):
            kit.spark.range(1).selectExpr("cast(id as int) AS id").writeTo(name).option("path", path).append()
    for path in ("/tmp/x", "file:///tmp/x", "no_catalog.t", "a b", ""):
        with pytest.raises(Exception, match="by the name of their catalog"):
            kit.spark.read.format("iceberg").load(path)
    with pytest.raises(Exception, match="by the name of their catalog"):
        kit.spark.read.format("iceberg").load()
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        kit.spark.read.format("iceberg").load("prod.hr.nothing")


# -- tables that accept any schema ------------------------------------------------------------------

ANY = "write.spark.accept-any-schema"
UPDATE = "UPDATE {} SET s = 'c' WHERE id = 1"
MERGE = "MERGE INTO {} AS t USING (SELECT 1 AS id) AS u ON t.id = u.id WHEN MATCHED THEN UPDATE SET s = 'c'"


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_table_that_accepts_any_schema_says_what_it_does_not_take(kit: SparkKit, mode: str) -> None:
    name = table(kit, "id int, s string", f", '{ANY}' = 'true', 'write.update.mode' = '{mode}'")
    with pytest.raises(AnalysisException, match=r"Field col1, col2 not found .*columns go by name: name them"):
        kit.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    with pytest.raises(AnalysisException, match=r"Field other not found .*merge-schema adds columns"):
        kit.sql(f"INSERT INTO {name} SELECT 1 AS id, 'a' AS other")
    kit.sql(f"INSERT INTO {name} (id, s) VALUES (1, 'a')")
    for statement in (UPDATE, MERGE):
        with pytest.raises(Exception, match=f"(UPDATE|MERGE) is not supported for {name}, because {ANY} is true"):
            kit.sql(statement.format(name))
    kit.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('{ANY}')")
    for statement in (UPDATE, MERGE):
        kit.sql(statement.format(name))
    kit.sql(f"INSERT INTO {name} VALUES (2, 'b')")
    assert kit.sql(f"SELECT * FROM {name}") == [(1, "c"), (2, "b")]


def test_a_table_whose_metadata_were_altered_is_dropped_without_its_files(kit: SparkKit) -> None:
    name = table(kit)
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    path = Path(normal(kit.table(name).metadata_location))
    path.write_text(path.read_text().replace('"current-schema-id":0', '"current-schema-id" : 0'))
    with pytest.raises(Exception, match="might have been modified"):
        kit.sql(f"SELECT * FROM {name}")
    with pytest.raises(Exception, match="might have been modified"):
        kit.sql(f"DROP TABLE {name} PURGE")
    kit.sql(f"DROP TABLE {name}")
    assert name.rpartition(".")[2] not in {row[1] for row in kit.sql(f"SHOW TABLES IN {name.rpartition('.')[0]}")}
    assert path.exists()
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        kit.sql(f"DROP TABLE {name}")


# -- errors have names ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CALL prod.system.rollback_to_snapshot('{name}', 1)", "Cannot roll back to unknown snapshot id: 1"),
        ("CALL prod.system.rollback_to_timestamp('{name}', TIMESTAMP '2000-01-01')", "no valid snapshot older than"),
        ("CALL prod.system.set_current_snapshot('{name}', 1)", "Cannot set current snapshot to unknown snapshot id: 1"),
        ("CALL prod.system.set_current_snapshot(table => '{name}', ref => 'r')", "Cannot find matching snapshot ID"),
        ("ALTER TABLE prod.{name} ADD COLUMN c int NOT NULL", "cannot add required column: c"),
        ("ALTER TABLE prod.{name} ADD COLUMN m.key.c int", "Cannot add fields to map keys"),
    ],
)
def test_what_pyiceberg_refuses_is_an_error_of_sealberg(kit: SparkKit, statement: str, message: str) -> None:
    name = kit.fresh("ja")
    kit.sql(f"CREATE TABLE {name} (id int, m map<struct<a: int>, int>)")
    with pytest.raises(AnalysisException, match=f"ConfigError: {name.removeprefix('prod.')}: .*{message}"):
        kit.sql(statement.format(name=name.removeprefix("prod.")))


def test_a_name_of_digits_stands_in_backticks(kit: SparkKit) -> None:
    name = table(kit)
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    for kind in ("TAG", "BRANCH"):
        with pytest.raises(AnalysisException, match="expected a name"):
            kit.sql(f"ALTER TABLE {name} CREATE {kind} 123")
        kit.sql(f"ALTER TABLE {name} CREATE {kind} `{kind}123`")
    kit.sql(f"ALTER TABLE {name} CREATE TAG `123`")
    assert set(kit.table(name).metadata.refs) == {"main", "TAG123", "BRANCH123", "123"}


def test_a_namespace_that_is_not_there_has_no_functions_to_show(kit: SparkKit) -> None:
    kit.sql("SHOW FUNCTIONS IN prod.hr")
    assert ("prod.system.bucket",) in kit.sql("SHOW USER FUNCTIONS IN prod.system")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        kit.sql("SHOW FUNCTIONS IN prod.nothing")
