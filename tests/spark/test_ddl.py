"""Iceberg's own DDL: ALTER TABLE with partition fields, write order, identifier fields, branches and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, ParseException

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def table(kit: SparkKit) -> str:
    name = kit.fresh("ddl")
    kit.sql(
        f"CREATE TABLE {name} (id bigint NOT NULL, name string, ts timestamp) "
        "TBLPROPERTIES ('encryption.key-id' = 'hr')"
    )
    kit.sql(f"INSERT INTO {name} VALUES (1, 'a', TIMESTAMP '2026-01-01 00:00:00')")
    return name


def spec(kit: SparkKit, name: str) -> list[tuple[str, str]]:
    return [(field.name, str(field.transform)) for field in kit.table(name).metadata.spec().fields]


def order(kit: SparkKit, name: str) -> list[str]:
    metadata = kit.table(name).metadata
    found = metadata.sort_order_by_id(metadata.default_sort_order_id)
    names = metadata.schema().find_column_name
    return [
        f"{field.transform} of {names(field.source_id)} {field.direction.value} {field.null_order.value}"
        for field in (found.fields if found is not None else ())
    ]


def test_partition_fields_are_added_replaced_and_dropped(kit: SparkKit, table: str) -> None:
    kit.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(16, id)")
    kit.sql(f"ALTER TABLE {table} ADD PARTITION FIELD days(ts) AS day")
    kit.sql(f"alter table {table} add partition field name -- a comment\n;")
    assert spec(kit, table) == [("id_bucket_16", "bucket[16]"), ("day", "day"), ("name", "identity")]
    kit.sql(f"INSERT INTO {table} VALUES (2, 'b', TIMESTAMP '2026-01-02 00:00:00')")
    kit.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD bucket(16, id) WITH truncate(10, id) AS tens")
    kit.sql(f"ALTER TABLE {table} DROP PARTITION FIELD day")
    kit.sql(f"ALTER TABLE {table} DROP PARTITION FIELD `name`")
    assert spec(kit, table) == [("tens", "truncate[10]")]
    kit.sql(f"INSERT INTO {table} VALUES (23, 'c', TIMESTAMP '2026-01-03 00:00:00')")
    assert sorted(kit.sql(f"SELECT id FROM {table}")) == [(1,), (2,), (23,)]


def test_the_write_order_is_set_as_in_iceberg(kit: SparkKit, table: str) -> None:
    def mode() -> str | None:
        return kit.table(table).metadata.properties.get("write.distribution-mode")

    kit.sql(f"ALTER TABLE {table} WRITE ORDERED BY name DESC, bucket(4, ID) ASC NULLS LAST")
    assert order(kit, table) == ["identity of name desc nulls-last", "bucket[4] of id asc nulls-last"]
    assert mode() == "range"
    kit.sql(f"ALTER TABLE {table} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY (id)")
    assert (order(kit, table), mode()) == (["identity of id asc nulls-first"], "hash")
    kit.sql(f"ALTER TABLE {table} WRITE LOCALLY ORDERED BY ts")
    assert (order(kit, table), mode()) == (["identity of ts asc nulls-first"], "hash")
    kit.sql(f"ALTER TABLE {table} WRITE UNORDERED")
    assert (order(kit, table), mode()) == ([], "none")
    kit.sql(f"ALTER TABLE {table} WRITE DISTRIBUTED BY PARTITION")
    assert mode() == "hash"


def test_identifier_fields_are_set_and_dropped(kit: SparkKit, table: str) -> None:
    kit.sql(f"ALTER TABLE {table} SET IDENTIFIER FIELDS id")
    assert kit.table(table).metadata.schema().identifier_field_names() == {"id"}
    with pytest.raises(AnalysisException, match="name is not an identifier field"):
        kit.sql(f"ALTER TABLE {table} DROP IDENTIFIER FIELDS name")
    kit.sql(f"ALTER TABLE {table} DROP IDENTIFIER FIELDS id")
    assert kit.table(table).metadata.schema().identifier_field_names() == set()


def test_branches_and_tags_come_and_go(kit: SparkKit, table: str) -> None:
    first = kit.table(table).metadata.snapshots[0].snapshot_id
    kit.sql(f"INSERT INTO {table} VALUES (2, 'b', NULL)")
    second = kit.table(table).metadata.snapshots[1].snapshot_id
    kit.sql(
        f"ALTER TABLE {table} CREATE BRANCH `audit-1` AS OF VERSION {first} RETAIN 7 DAYS "
        "WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS"
    )
    kit.sql(f"ALTER TABLE {table} CREATE TAG IF NOT EXISTS start AS OF VERSION {first} RETAIN 12 HOURS")
    kit.sql(f"ALTER TABLE {table} CREATE TAG IF NOT EXISTS start")
    refs = kit.table(table).metadata.refs
    branch, tag = refs["audit-1"], refs["start"]
    assert (branch.snapshot_id, branch.max_ref_age_ms) == (first, 7 * DAY_MS)
    assert (branch.min_snapshots_to_keep, branch.max_snapshot_age_ms) == (3, 2 * DAY_MS)
    assert (tag.snapshot_id, tag.max_ref_age_ms) == (first, DAY_MS // 2)
    kit.sql(f"ALTER TABLE {table} REPLACE TAG start RETAIN 1 DAYS")
    kit.sql(f"ALTER TABLE {table} CREATE OR REPLACE BRANCH `audit-1`")
    kit.sql(f"ALTER TABLE {table} CREATE OR REPLACE BRANCH other AS OF VERSION {first}")
    refs = kit.table(table).metadata.refs
    assert (refs["start"].snapshot_id, refs["start"].max_ref_age_ms) == (second, DAY_MS)
    assert (refs["audit-1"].snapshot_id, refs["audit-1"].max_ref_age_ms) == (second, 7 * DAY_MS)
    assert refs["other"].snapshot_id == first
    kit.sql(f"ALTER TABLE {table} DROP BRANCH other")
    kit.sql(f"ALTER TABLE {table} DROP TAG start")
    kit.sql(f"ALTER TABLE {table} DROP TAG IF EXISTS start")
    assert set(kit.table(table).metadata.refs) == {"main", "audit-1"}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TAG main", "Ref main already exists"),
        ("REPLACE BRANCH nowhere", "Branch does not exist: nowhere"),
        ("DROP TAG main", "Ref main is a branch not a tag"),
        ("DROP BRANCH main", "Cannot remove main branch"),
        ("CREATE TAG t RETAIN 0 DAYS", "argument max_ref_age_ms is 0, expected 1 or more"),
        ("CREATE TAG t AS OF VERSION 1", "Cannot set t to unknown snapshot: 1"),
        ("ADD PARTITION FIELD bucket(0, id)", r"Invalid number of buckets: 0 \(must be > 0\)"),
        ("ADD PARTITION FIELD bucket(id)", "bucket.id., expected a column, or a transform"),
        ("ADD PARTITION FIELD zigzag(id)", "unknown transform zigzag"),
        ("DROP PARTITION FIELD days(ts)", "Cannot find partition field to remove: days"),
        ("ADD PARTITION FIELD ID", "add_partition_field: no column ID; the columns are: id, name, ts"),
        ("ADD PARTITION FIELD hours(name)", "there is no hour of name, which is of type string"),
        ("ADD PARTITION FIELD void(id)", "unknown transform void"),
        ("DROP PARTITION FIELD nothing", "Cannot find partition field to remove: nothing"),
        ("REPLACE PARTITION FIELD nothing WITH id", "Cannot find partition field to remove: nothing"),
        ("WRITE ORDERED BY nothing", "set_write_order: no column nothing; the columns are: id, name, ts"),
        ("SET IDENTIFIER FIELDS nothing", "no column nothing; the columns are: id, name, ts"),
        ("SET IDENTIFIER FIELDS id, name", "name may be null; the column of an identifier field"),
    ],
)
def test_a_statement_that_cannot_be_done_says_why(kit: SparkKit, table: str, statement: str, message: str) -> None:
    with pytest.raises(Exception, match=rf"ConfigError: .*{message}"):
        kit.sql(f"ALTER TABLE {table} {statement}")


def test_a_column_is_not_partitioned_by_twice_nor_dropped_as_an_identifier(kit: SparkKit, table: str) -> None:
    kit.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id) AS shard")
    with pytest.raises(AnalysisException, match=r"by bucket\[4\] of id \(partition field shard\) already"):
        kit.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(id, 4) AS again")
    with pytest.raises(AnalysisException, match=r"add_partition_field: .*shard"):
        kit.sql(f"ALTER TABLE {table} ADD PARTITION FIELD ts AS shard")
    kit.sql(f"ALTER TABLE {table} SET IDENTIFIER FIELDS id")
    with pytest.raises(Exception, match="ConfigError: column id cannot be dropped, because id is an identifier field"):
        kit.sql(f"ALTER TABLE {table} DROP COLUMN id")


@pytest.mark.parametrize(
    ("statement", "word", "hint"),
    [
        ("ADD PARTITION FIELD", "end of input", "expected a name"),
        ("ADD PARTITION FIELD bucket(16, id", "end of input", "expected [)]"),
        ("REPLACE PARTITION FIELD id AS x", "'AS'", "expected WITH"),
        ("CREATE BRANCH b RETAIN 3 WEEKS", "'WEEKS'", "expected DAYS, HOURS or MINUTES"),
        ("CREATE TAG t AS OF VERSION x", "'x'", "expected a whole number"),
        ("WRITE SIDEWAYS", "'SIDEWAYS'", "expected ORDERED"),
        ("DROP TAG t u", "'u'", "expected the end of the statement"),
    ],
)
def test_a_mistake_is_pointed_at(kit: SparkKit, table: str, statement: str, word: str, hint: str) -> None:
    with pytest.raises(ParseException, match=rf"(?s)Syntax error at or near {word}: {hint}.*\^\^\^"):
        kit.sql(f"ALTER TABLE {table}\n  {statement}")


def test_other_statements_and_other_catalogs_go_to_the_next_parser(kit: SparkKit, table: str) -> None:
    kit.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('note' = 'WRITE a BRANCH')")
    assert kit.table(table).metadata.properties["note"] == "WRITE a BRANCH"
    with pytest.raises(ParseException, match="Syntax error at or near 'FIELD'"):
        kit.sql("ALTER TABLE spark_catalog.default.t ADD PARTITION FIELD id")
