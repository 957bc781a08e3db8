"""Wide and deep rows that we write on Spark, under every partition transform: Java finds every column and every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kit.tables.three import Three

COLUMNS = """id bigint, name string, day date, at timestamp, local timestamp_ntz, price decimal(9,2), raw binary,
    ratio double, small float, flag boolean, n int,
    tags array<string>, more map<string,int>, s struct<a: int, b: struct<c: string, d: array<struct<e: bigint>>>>,
    deep map<string, array<struct<x: int, y: map<string, double>>>>"""
ROWS = """SELECT id, if(id % 7 = 0, null, concat('n', id)), date'1969-12-20' + cast(id % 40 as int),
    timestamp'1969-12-30 00:00:00' + make_interval(0, 0, 0, 0, cast(id as int)),
    timestamp_ntz'1969-12-30 00:00:00' + make_interval(0, 0, 0, 0, cast(id as int)), cast(id / 4 - 5 as decimal(9,2)),
    unhex(sha2(cast(id as string), 256)), id / 3, cast(id as float), id % 2 = 0, cast(id as int),
    if(id % 5 = 0, null, array(concat('t', id % 3), null)), map('k', cast(id as int)),
    named_struct('a', cast(id as int), 'b', named_struct('c', 'x', 'd', array(named_struct('e', id)))),
    map('m', array(named_struct('x', 1, 'y', map('z', id / 2)))) FROM range(40)"""
PARTITIONS = {
    "nothing": "",
    "id_and_day": "PARTITIONED BY (bucket(4, id), days(at))",
    "name_and_month": "PARTITIONED BY (truncate(2, name), months(day))",
    "flag_hour_and_price": "PARTITIONED BY (flag, hours(local), truncate(10, price))",
    "year_number_and_name": "PARTITIONED BY (years(day), truncate(3, n), bucket(3, name))",
}
STEPS = (
    "DELETE FROM {t} WHERE id % 10 = 3",
    "UPDATE {t} SET name = concat('u', id), tags = array('new') WHERE id < 12",
    """MERGE INTO {t} t USING (SELECT id, id % 2 AS odd FROM range(35, 45)) s ON t.id = s.id
    WHEN MATCHED AND odd = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET price = 0.5
    WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'merged')""",
)
FILTERS = ("id = 14", "name = 'u11'", "day < date'1969-12-25'", "price = 0.5", "s.a = 20", "n BETWEEN 20 AND 22")


@pytest.mark.parametrize("by", PARTITIONS)
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_java_finds_every_row_and_column(three: Three, by: str, mode: str) -> None:
    name = f"wide_by_{by}_{mode[:4]}"
    modes = ", ".join(f"'write.{one}.mode' = '{mode}'" for one in ("delete", "update", "merge"))
    told = f"TBLPROPERTIES ('encryption.key-id' = 'keyA', {modes})"
    three.sql("spark", f"CREATE TABLE {{t}} ({COLUMNS}) {PARTITIONS[by]} {told}", name)
    for step in (f"INSERT INTO {{t}} {ROWS}", *STEPS):
        three.sql("spark", step, name)
    three.agreed(name)
    rows = {row["id"]: row for row in three.sql("java", "SELECT * FROM {t}", name)}
    assert set(rows) == {one for one in range(45) if (one >= 40 or one % 10 != 3) and one not in (35, 37, 39)}
    assert {row["name"] for row in rows.values() if row["id"] >= 40} == {"merged"}
    assert rows[14]["deep"] == {"m": [{"x": 1, "y": {"z": 7.0}}]}
    # What Java filters by, it finds by our bounds and partitions.
    for where in FILTERS:
        found = [three.sql(who, f"SELECT id FROM {{t}} WHERE {where} ORDER BY id", name) for who in ("spark", "java")]
        assert found[0] == found[1], where
        assert found[0], where
