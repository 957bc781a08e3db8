"""Names, definitions and properties: what SQL says is what the catalog has, and errors are in our words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.spark import KEYED
from kit.tables.catalogs import path_of
from sealberg.metadata import decode_cache as cache

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit


def test_namespaces(kit: SparkKit) -> None:
    kit.sql("CREATE NAMESPACE prod.sales COMMENT 'what we sell'")
    assert ("sales",) in kit.sql("SHOW NAMESPACES IN prod")
    assert ("Comment", "what we sell") in kit.sql("DESCRIBE NAMESPACE prod.sales")
    kit.sql("ALTER NAMESPACE prod.sales SET PROPERTIES ('a' = 'b')")
    assert kit.catalog.load_namespace_properties("sales")["a"] == "b"
    with pytest.raises(Exception, match="SCHEMA_ALREADY_EXISTS"):
        kit.sql("CREATE NAMESPACE prod.sales")
    kit.sql(f"CREATE TABLE prod.sales.t (id bigint) {KEYED}")
    with pytest.raises(Exception, match="SCHEMA_NOT_EMPTY"):
        kit.sql("DROP NAMESPACE prod.sales")
    kit.sql("DROP NAMESPACE prod.sales CASCADE")
    assert ("sales",) not in kit.sql("SHOW NAMESPACES IN prod")


def test_a_table_is_described_as_it_was_defined(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(
        f"""CREATE TABLE {name} (id bigint NOT NULL COMMENT 'who', s struct<a: int, b: string>, at timestamp_ntz)
        PARTITIONED BY (bucket(8, id), days(at)) COMMENT 'people'
        TBLPROPERTIES ('encryption.key-id' = 'hr', 'encryption.data-key-length' = '32', 'x' = 'y')"""
    )
    table = kit.table(name)
    assert (table.format_version, table.properties["comment"], table.properties["x"]) == (3, "people", "y")
    assert [str(one.transform) for one in table.spec().fields] == ["bucket[8]", "day"]
    assert [one.required for one in table.schema().fields] == [True, False, False]
    assert ("id", "bigint", "who") in kit.sql(f"DESCRIBE EXTENDED {name}")
    statement = kit.sql(f"SHOW CREATE TABLE {name}")[0][0]
    assert "PARTITIONED BY (bucket(8, id), days(at))" in statement
    assert ("encryption.data-key-length", "32") in kit.sql(f"SHOW TBLPROPERTIES {name}")
    short = name.split(".")[-1]
    assert ("hr", short, False) in kit.sql("SHOW TABLES IN prod.hr")
    kit.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 1, 'b', 'x'), timestamp_ntz'2020-01-01 00:00:00')")
    assert len(kit.planned_files(name)[0].key or b"") == 32
    kit.sql(f"ALTER TABLE {name} RENAME TO prod.hr.{short}_new")
    assert len(kit.sql(f"SELECT * FROM {name}_new")) == 1
    kit.sql(f"DROP TABLE {name}_new")
    assert not kit.catalog.table_exists(f"hr.{short}_new")
    assert kit.data_files(name), "DROP leaves the files"


def test_purge_takes_the_files_along(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} {KEYED} AS SELECT 1 AS a")
    assert kit.data_files(name)
    kit.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('gc.enabled' = 'false')")
    with pytest.raises(Exception, match="Cannot purge table: GC is disabled"):
        kit.sql(f"DROP TABLE {name} PURGE")
    assert kit.sql(f"SELECT a FROM {name}") == [(1,)]
    kit.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('gc.enabled')")
    kit.sql(f"DROP TABLE {name} PURGE")
    assert not kit.data_files(name)


def test_a_purge_that_cannot_find_every_file_leaves_the_table(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} {KEYED} AS SELECT 1 AS a")
    files = kit.data_files(name)
    (snapshot,) = kit.table(name).metadata.snapshots
    manifests = path_of(snapshot.manifest_list)
    content = manifests.read_bytes()
    manifests.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    cache.clear()
    with pytest.raises(Exception, match="cannot be purged, and nothing was dropped"):
        kit.sql(f"DROP TABLE {name} PURGE")
    manifests.write_bytes(content)
    assert kit.data_files(name) == files
    assert kit.sql(f"SELECT a FROM {name}") == [(1,)]


def test_the_key_id_stays(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint) {KEYED}")
    kit.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('a' = 'b')")
    kit.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('a')")
    assert "a" not in kit.table(name).properties
    for statement, text in {
        f"ALTER TABLE {name} SET TBLPROPERTIES ('encryption.key-id' = 'other')": "Cannot modify key ID",
        f"ALTER TABLE {name} UNSET TBLPROPERTIES ('encryption.key-id')": "Cannot remove key ID",
        f"CREATE OR REPLACE TABLE {name} TBLPROPERTIES ('encryption.key-id' = 'x') AS SELECT 1": "Cannot modify key ID",
        f"CREATE TABLE {name}x (a int) TBLPROPERTIES ('encryption.key-id' = 'hr', 'format-version' = '2')": "v2",
        f"CREATE TABLE {name}x (a int) USING orc": "parquet or avro files; leave USING out",
        f"CREATE TABLE {name} (a int) {KEYED}": "TABLE_OR_VIEW_ALREADY_EXISTS",
        f"CREATE TABLE prod.nowhere.t (a int) {KEYED}": "SCHEMA_NOT_FOUND",
        f"CREATE TABLE {name}x (a interval day) {KEYED}": "Iceberg has no type for",
        f"SELECT * FROM {name}y": "TABLE_OR_VIEW_NOT_FOUND",
    }.items():
        with pytest.raises(Exception, match=text) as caught:
            kit.sql(statement)
        assert type(caught.value).__name__ in ("AnalysisException", "ParseException"), statement
        assert "py4j" not in str(caught.value).lower()


def test_columns_evolve_and_old_files_are_read_by_field_id(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id int, a string, b string, s struct<x: int, y: string>, f float) {KEYED}")
    kit.sql(f"INSERT INTO {name} VALUES (1, 'a1', 'b1', named_struct('x', 1, 'y', 'y1'), 1.5)")
    steps = [
        "RENAME COLUMN a TO c",
        "ADD COLUMN a string COMMENT 'not the old one'",
        "DROP COLUMN b",
        "ADD COLUMN b string FIRST",
        "ALTER COLUMN id TYPE bigint",
        "ALTER COLUMN f TYPE double",
        "ALTER COLUMN c AFTER s",
        "ADD COLUMN s.z int AFTER x",
        "RENAME COLUMN s.y TO w",
        "ALTER COLUMN id COMMENT 'wide'",
    ]
    for number, step in enumerate(steps, 2):
        kit.sql(f"ALTER TABLE {name} {step}")
        columns = [row[0] for row in kit.spark.sql(f"DESCRIBE {name}").collect()]
        values = {"id": str(number), "f": "2.5", "c": f"'c{number}'", "a": f"'a{number}'", "b": f"'b{number}'"}
        parts = [part for part in columns if part in values]
        kit.sql(f"INSERT INTO {name} ({', '.join(parts)}) VALUES ({', '.join(values[one] for one in parts)})")
        everything = kit.spark.sql(f"SELECT * FROM {name}").collect()
        python = kit.table(name).scan().to_arrow().to_pylist()
        assert sorted((row.asDict(recursive=True) for row in everything), key=repr) == sorted(python, key=repr), step
    for where in ("a IS NULL", "a = 'a1'", "a = 'a3'", "c = 'a1'", "c > 'c3'", "b = 'b1'", "id >= 4", "f > 2"):
        expected = [(row.id, row.f) for row in everything if holds(where, row.asDict())]
        assert kit.sql(f"SELECT id, f FROM {name} WHERE {where}") == sorted(expected, key=repr), where
    assert kit.sql(f"SELECT s.x, s.z, s.w FROM {name} WHERE id = 1") == [(1, None, "y1")]


def holds(where: str, row: dict[str, object]) -> bool:
    if where == "a IS NULL":
        return row["a"] is None
    column, op, value = where.split()
    found: Any = row[column]
    wanted: Any = eval(value)
    return found is not None and bool({"=": found == wanted, ">": found > wanted, ">=": found >= wanted}[op])


def test_an_initial_default_fills_older_files(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint) {KEYED}")
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    from pyiceberg.types import LongType, StringType

    with kit.table(name).update_schema() as update:
        update.add_column("n", LongType(), default_value=7)
        update.add_column("t", StringType(), default_value="it's")
    kit.sql(f"INSERT INTO {name} VALUES (2, 8, 'x')")
    assert kit.sql(f"SELECT * FROM {name}") == [(1, 7, "it's"), (2, 8, "x")]
    assert kit.sql(f"SELECT id FROM {name} WHERE n = 7") == [(1,)]
