"""REPLACE TABLE writes what Java writes: one sort order 0, one of equal specs, and columns that keep names keep ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import IdentityTransform

from sealberg.files.locations import normal

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

KEY = "TBLPROPERTIES ('encryption.key-id' = 'hr')"


def metadata(kit: SparkKit, name: str) -> dict[str, Any]:
    path = normal(kit.table(name).metadata_location).removeprefix("file://")
    document: dict[str, Any] = json.loads(Path(path).read_text())
    for of, by in (("sort-orders", "order-id"), ("partition-specs", "spec-id"), ("schemas", "schema-id")):
        numbers = [each[by] for each in document[of]]
        assert len(numbers) == len(set(numbers)), f"{of}: Java does not load a table with two of one id"
        forms = [json.dumps({key: value for key, value in each.items() if key != by}) for each in document[of]]
        assert len(forms) == len(set(forms)), f"{of}: no two are equal"
    return document


def ids(kit: SparkKit, name: str) -> dict[str, int]:
    schema = kit.table(name).schema()
    return {str(schema.find_column_name(field_id)): field_id for field_id in schema.field_ids}


def test_every_way_to_replace_keeps_one_order_one_spec_and_the_ids(kit: SparkKit) -> None:
    name = kit.fresh("rp")
    kit.sql(f"CREATE TABLE {name} (id int, s string) PARTITIONED BY (bucket(4, id)) {KEY}")
    before = ids(kit, name)
    kit.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    for statement in (
        f"CREATE OR REPLACE TABLE {name} (id int, s string) PARTITIONED BY (bucket(4, id)) {KEY}",
        f"REPLACE TABLE {name} (id int, s string) PARTITIONED BY (bucket(4, id)) {KEY}",
        f"REPLACE TABLE {name} PARTITIONED BY (bucket(4, id)) {KEY} AS SELECT 2 AS id, 'b' AS s",
    ):
        kit.sql(statement)
        assert ids(kit, name) == before
        written = metadata(kit, name)
        assert (len(written["sort-orders"]), len(written["partition-specs"]), len(written["schemas"])) == (1, 1, 1)
    kit.spark.table(name).writeTo(name).using("iceberg").tableProperty("encryption.key-id", "hr").replace()
    assert ids(kit, name) == before
    written = metadata(kit, name)
    assert [spec["fields"] != [] for spec in written["partition-specs"]] == [True, False]
    assert kit.sql(f"SELECT * FROM {name}") == [(2, "b")]


def test_new_columns_get_new_ids_and_nested_ones_keep_theirs(kit: SparkKit) -> None:
    name = kit.fresh("rn")
    kit.sql(
        f"CREATE TABLE {name} (id int, s struct<a: int, b: int>, l array<struct<x: int>>, m map<string, int>) {KEY}"
    )
    before = ids(kit, name)
    kit.sql(
        f"REPLACE TABLE {name} (new int, m map<string, bigint>, s struct<c: int, b: int>, "
        f"l array<struct<x: int, y: int>>) {KEY}"
    )
    after = ids(kit, name)
    assert {each: after[each] for each in after if each in before} == {
        each: before[each] for each in before if each in after
    }
    fresh = {after[each] for each in after if each not in before}
    assert set(after) - set(before) == {"new", "s.c", "l.element.y"}
    assert fresh.isdisjoint(before.values())
    assert metadata(kit, name)["last-column-id"] == max(after.values())


def test_a_column_that_keeps_its_name_and_changes_its_type_is_read_at_every_snapshot(kit: SparkKit) -> None:
    name = kit.fresh("rt")
    kit.sql(f"CREATE TABLE {name} PARTITIONED BY (p) {KEY} AS SELECT 1 AS x, 'a' AS p")
    first, before = kit.table(name).snapshots()[-1].snapshot_id, ids(kit, name)
    kit.sql(f"REPLACE TABLE {name} PARTITIONED BY (p) {KEY} AS SELECT 'text' AS x, 7L AS p")
    assert kit.sql(f"SELECT * FROM {name}") == [("text", 7)]
    assert kit.sql(f"SELECT * FROM {name} WHERE p = 7") == [("text", 7)]
    assert kit.sql(f"SELECT * FROM {name} VERSION AS OF {first}") == [(1, "a")]
    assert set(ids(kit, name).values()).isdisjoint(before.values()), "no old bound is read as another type"
    kit.sql(f"INSERT INTO {name} VALUES ('more', 8)")
    kit.sql(f"DELETE FROM {name} WHERE p = 7")
    assert kit.sql(f"SELECT * FROM {name}") == [("more", 8)]
    metadata(kit, name)


def test_a_sort_order_comes_and_goes(kit: SparkKit) -> None:
    name = kit.fresh("ro")
    kit.sql(f"CREATE TABLE {name} {KEY} AS SELECT 1 AS id")
    kit.table(name).update_sort_order().asc("id", IdentityTransform()).commit()
    for _ in range(2):
        kit.sql(f"REPLACE TABLE {name} {KEY} AS SELECT 2 AS id")
        assert [order["order-id"] for order in metadata(kit, name)["sort-orders"]] == [0, 1]
        assert kit.table(name).sort_order().is_unsorted
    kit.sql(f"ALTER TABLE {name} WRITE ORDERED BY id")
    kit.sql(f"ALTER TABLE {name} WRITE UNORDERED")
    assert kit.table(name).sort_order().is_unsorted
    metadata(kit, name)
