"""Every statement on an encrypted table gives what the same statement gives on a plain table of Spark's own."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.spark import KEYED
from kit.tables.tables import check_lineage
from sealberg.spark.metadata_tables.kinds import KINDS

if TYPE_CHECKING:
    from pathlib import Path

    from kit.programs.spark import SparkKit

COLUMNS = "id bigint, name string, day date, at timestamp, price decimal(9,2), tags array<string>, more map<string,int>"
ROWS = """SELECT id, if(id % 7 = 0, null, concat('n', id)), date'2020-01-01' + cast(id % 40 as int),
    timestamp'2021-03-01 00:00:00' + make_interval(0, 0, 0, 0, cast(id as int)), cast(id / 4 as decimal(9,2)),
    array(concat('t', id % 3)), map('k', cast(id as int)) FROM range(200)"""
PARTITIONS = [
    "",
    "PARTITIONED BY (bucket(4, id), days(at))",
    "PARTITIONED BY (truncate(2, name), months(day))",
    "PARTITIONED BY (name, hours(at))",
    "PARTITIONED BY (truncate(10, price), years(day))",
]
QUERIES = [
    "SELECT * FROM {}",
    "SELECT count(*), sum(id), min(day), max(at), sum(price) FROM {}",
    "SELECT id FROM {} WHERE id = 77",
    "SELECT name FROM {} WHERE name LIKE 'n1%'",
    "SELECT id FROM {} WHERE name IS NULL OR price > 40.5",
    "SELECT id, tags[0], more['k'] FROM {} WHERE day >= date'2020-02-01'",
    "SELECT id FROM {} WHERE at < timestamp'2021-03-02 00:00:00' AND NOT (id IN (1, 2, 3))",
    "SELECT tags[0], count(*) FROM {} GROUP BY 1",
]


def make(kit: SparkKit, partitions: str = "", properties: str = KEYED, rows: str = ROWS) -> tuple[str, str]:
    """An encrypted table and a Parquet table of Spark's own, by the same statements."""
    sealed, plain = kit.fresh(), plain_name(kit)
    kit.sql(f"CREATE TABLE {sealed} ({COLUMNS}) {partitions} {properties}")
    kit.sql(f"CREATE TABLE {plain} ({COLUMNS}) USING parquet")  # which knows no transforms
    both(kit, sealed, plain, f"INSERT INTO {{}} {rows}")
    return sealed, plain


def plain_name(kit: SparkKit) -> str:
    return f"spark_catalog.default.plain_{kit.fresh().rpartition('.')[2]}"


def both(kit: SparkKit, sealed: str, plain: str, *statements: str) -> None:
    for statement in statements:
        for name in (sealed, plain):
            kit.sql(statement.format(name))


def instead(kit: SparkKit, plain: str, query: str) -> str:
    """A new plain table, of what a statement that Parquet tables lack would have left of this one."""
    changed = plain_name(kit)
    kit.sql(f"CREATE TABLE {changed} USING parquet AS {query.format(plain)}")
    return changed


def same(kit: SparkKit, sealed: str, plain: str, *queries: str) -> None:
    for query in queries or ("SELECT * FROM {}",):
        found = kit.sql(query.format(sealed))
        assert found == kit.sql(query.format(plain)), query
        assert found, "nothing was compared"


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_what_was_inserted_is_selected(kit: SparkKit, partitions: str) -> None:
    sealed, plain = make(kit, partitions)
    same(kit, sealed, plain, *(QUERIES if partitions in PARTITIONS[:2] else QUERIES[:2]))
    assert {path.read_bytes()[:4] for path in kit.data_files(sealed)} == {b"PARE"}
    assert {path.read_bytes()[:4] for path in plain_files(kit, plain)} == {b"PAR1"}
    check_partitions(kit, sealed)
    check_lineage(kit.table(sealed))


def plain_files(kit: SparkKit, plain: str) -> list[Path]:
    return list((kit.folder / "plain" / plain.rpartition(".")[2]).rglob("*.parquet"))


def check_partitions(kit: SparkKit, name: str) -> None:
    """The partition of every file is what PyIceberg's own transforms make of each of its rows."""
    table = kit.table(name)
    spec, schema = table.spec(), table.schema()
    found = table.scan(selected_fields=("*", "_file")).to_arrow()
    partitions = {str(task.file.file_path): task.file.partition for task in table.scan().plan_files()}
    for row in found.to_pylist():
        for at, field in enumerate(spec.fields):
            source = schema.find_field(field.source_id)
            value = internal(row[source.name])
            expected = field.transform.transform(source.field_type)(value)
            assert partitions[row["_file"]][at] == expected, (field, value)


def internal(value: Any) -> Any:
    import datetime as dt

    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1, tzinfo=value.tzinfo)) // dt.timedelta(microseconds=1)
    return (value - dt.date(1970, 1, 1)).days if isinstance(value, dt.date) else value


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("partitions", ["", "PARTITIONED BY (bucket(4, id))"])
def test_rows_are_deleted_updated_and_merged(kit: SparkKit, mode: str, partitions: str) -> None:
    modes = ", ".join(f"'write.{one}.mode' = '{mode}'" for one in ("delete", "update", "merge"))
    sealed, plain = make(kit, partitions, f"TBLPROPERTIES ('encryption.key-id' = 'hr', {modes})")
    before = dict(kit.sql(f"SELECT id, _row_id FROM {sealed}"))
    kit.sql(f"DELETE FROM {sealed} WHERE id % 10 = 3")
    plain = instead(kit, plain, "SELECT * FROM {} WHERE id % 10 <> 3")
    same(kit, sealed, plain)
    kit.sql(f"UPDATE {sealed} SET name = concat('u', id), price = price + 1 WHERE id < 50")
    plain = instead(
        kit,
        plain,
        "SELECT id, if(id < 50, concat('u', id), name) AS name, day, at, "
        "if(id < 50, cast(price + 1 AS decimal(9,2)), price) AS price, tags, more FROM {}",
    )
    same(kit, sealed, plain)
    source = "(SELECT id, if(id = 7, 'gone', 'merged') AS what FROM range(5, 400, 131) UNION ALL SELECT 7, 'gone')"
    kit.sql(
        f"""MERGE INTO {sealed} t USING {source} s ON t.id = s.id WHEN MATCHED AND s.what = 'gone' THEN DELETE
        WHEN MATCHED THEN UPDATE SET name = s.what WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')"""
    )
    plain = instead(
        kit,
        plain,
        f"""SELECT coalesce(t.id, s.id) AS id, CASE WHEN s.id IS NULL THEN t.name WHEN t.id IS NULL THEN 'new'
        ELSE s.what END AS name, day, at, price, tags, more FROM {{}} t FULL JOIN {source} s ON t.id = s.id
        WHERE t.id IS NULL OR s.what IS NULL OR s.what <> 'gone'""",
    )
    same(kit, sealed, plain, *QUERIES[:2])
    found = {row[0]: row[1] for row in kit.sql(f"SELECT id, name FROM {sealed}")}
    assert (found[5], found[136], found[267], found[398]) == ("merged", "merged", "new", "new")
    assert 7 not in found
    after = dict(kit.sql(f"SELECT id, _row_id FROM {sealed}"))
    assert {one: after[one] for one in after if one in before} == {one: before[one] for one in after if one in before}
    check_lineage(kit.table(sealed))
    vectors = kit.sql(f"SELECT count(*) FROM {sealed}.files WHERE content = 1")[0][0]
    assert (vectors > 0) == (mode == "merge-on-read")
    python = kit.table(sealed).scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist()
    assert {row["id"]: row["_row_id"] for row in python} == after


def test_overwrites_replace_what_they_name(kit: SparkKit) -> None:
    sealed, plain = kit.fresh(), plain_name(kit)
    kit.sql(f"CREATE TABLE {sealed} (id bigint, p string) PARTITIONED BY (p) {KEYED}")
    kit.sql(f"CREATE TABLE {plain} (id bigint, p string) USING parquet PARTITIONED BY (p)")
    both(kit, sealed, plain, "INSERT INTO {} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    same(kit, sealed, plain)
    both(kit, sealed, plain, "INSERT OVERWRITE {} PARTITION (p = 'a') SELECT 10L")
    same(kit, sealed, plain)
    assert kit.sql(f"SELECT * FROM {sealed}") == [(10, "a"), (2, "b"), (3, "c")]
    frame = kit.spark.createDataFrame([(20, "b"), (40, "d")], "id bigint, p string")
    kit.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        both(kit, sealed, plain, "INSERT OVERWRITE {} VALUES (21, 'b'), (22, 'b'), (50, 'e')")
        same(kit, sealed, plain)
        both(kit, sealed, plain, "INSERT OVERWRITE {} PARTITION (p) SELECT 51L, 'e'")
        frame.writeTo(sealed).overwritePartitions()
        frame.write.insertInto(plain, overwrite=True)
    finally:
        kit.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    same(kit, sealed, plain)
    assert kit.sql(f"SELECT * FROM {sealed}") == [(10, "a"), (20, "b"), (3, "c"), (40, "d"), (51, "e")]
    from pyspark.sql.functions import col

    frame.limit(1).writeTo(sealed).overwrite(col("id") < 15)
    left = instead(kit, plain, "SELECT * FROM {} WHERE NOT id < 15 UNION ALL SELECT 20L, 'b'")
    same(kit, sealed, left)
    both(kit, sealed, plain, "INSERT OVERWRITE {} SELECT 7L, 'z'")
    same(kit, sealed, plain)
    assert kit.sql(f"SELECT * FROM {sealed}") == [(7, "z")]
    both(kit, sealed, plain, "INSERT INTO {} (p) VALUES ('y')", "INSERT INTO {} BY NAME SELECT 'x' AS p, 8L AS id")
    same(kit, sealed, plain)
    check_lineage(kit.table(sealed))


def test_frames_are_written_in_every_way(kit: SparkKit) -> None:
    frame = kit.spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, p string")
    one = kit.fresh()
    frame.writeTo(one).tableProperty("encryption.key-id", "hr").create()
    frame.writeTo(one).append()
    frame.write.insertInto(one)
    frame.write.mode("append").saveAsTable(one)
    assert kit.spark.table(one).count() == 8
    frame.limit(1).writeTo(one).tableProperty("encryption.key-id", "hr").createOrReplace()
    assert kit.spark.read.table(one).collect() == [(1, "a")]
    assert len(kit.table(one).metadata.snapshots) == 5, "a replaced table keeps its history"


def test_tables_are_made_with_their_rows_or_not_at_all(kit: SparkKit) -> None:
    name = kit.fresh()
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        kit.sql(f"CREATE TABLE {name} {KEYED} AS SELECT id / (id - 2) AS x FROM range(5)")
    assert not kit.catalog.table_exists(name.removeprefix("prod."))
    assert not kit.data_files(name)
    kit.sql(f"CREATE TABLE {name} {KEYED} AS SELECT id AS x FROM range(5)")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        kit.sql(f"REPLACE TABLE {name} {KEYED} AS SELECT id / (id - 2) AS y FROM range(5)")
    assert kit.sql(f"SELECT x FROM {name}") == [(0,), (1,), (2,), (3,), (4,)]
    kit.sql(f"REPLACE TABLE {name} {KEYED} AS SELECT 'b' AS y")
    assert kit.sql(f"SELECT y FROM {name}") == [("b",)]
    kit.sql(f"CREATE OR REPLACE TABLE {name} (z int, y string) {KEYED}")
    assert kit.sql(f"SELECT * FROM {name}") == [], "other columns, and none of the old rows"
    first = kit.table(name).metadata.snapshots[0].snapshot_id
    assert len(kit.sql(f"SELECT x FROM {name} VERSION AS OF {first}")) == 5


def test_points_in_time_branches_and_tags(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint) {KEYED}")
    for value in (1, 2, 3):
        kit.sql(f"INSERT INTO {name} VALUES ({value})")
    table = kit.table(name)
    snapshots = [one.snapshot_id for one in table.metadata.snapshots]
    table.manage_snapshots().create_tag(snapshots[0], "first").commit()
    table.manage_snapshots().create_branch(snapshots[1], "two").commit()
    assert kit.sql(f"SELECT * FROM {name} VERSION AS OF {snapshots[1]}") == [(1,), (2,)]
    assert kit.sql(f"SELECT * FROM {name} VERSION AS OF 'first'") == [(1,)]
    assert kit.sql(f"SELECT * FROM {name} VERSION AS OF 'two'") == [(1,), (2,)]
    when = table.metadata.snapshots[1].timestamp_ms / 1000
    assert kit.sql(f"SELECT * FROM {name} TIMESTAMP AS OF timestamp_millis({int(when * 1000)})") == [(1,), (2,)]
    with pytest.raises(Exception, match="no branch or tag nothing"):
        kit.sql(f"SELECT * FROM {name} VERSION AS OF 'nothing'")


def test_plain_tables_of_the_catalog_are_read_too(kit: SparkKit) -> None:
    import pyarrow as pa

    for version in ("2", "3"):
        plain = kit.fresh("p")
        rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
        made = kit.catalog.create_table(plain[5:], rows.schema, properties={"format-version": version})
        made.append(rows)
        sealed = kit.fresh()
        kit.sql(f"CREATE TABLE {sealed} {KEYED} AS SELECT * FROM {plain} WHERE id > 1")
        assert kit.sql(f"SELECT * FROM {sealed}") == [(2, "b"), (3, None)]
    assert {path.read_bytes()[:4] for path in kit.data_files(plain)} == {b"PAR1"}
    kit.sql(f"INSERT INTO {plain} VALUES (4, 'd')")
    assert len(kit.sql(f"SELECT * FROM {plain}")) == 4


def test_metadata_tables_show_no_keys(kit: SparkKit) -> None:
    sealed, _ = make(kit)
    for kind in KINDS:
        rows = kit.sql(f"SELECT * FROM {sealed}.{kind}")
        assert rows or "delete" in kind, kind
        for file in kit.planned_files(sealed):
            assert file.key is not None
            assert base64.b64encode(file.key).decode() not in repr(rows)
            assert repr(file.key)[2:-1] not in repr(rows)
    assert kit.sql(f"SELECT master_key_id FROM {sealed}.keys") == [("hr",)]
