"""The argument `where`: Spark resolves it, files are chosen by it, and what cannot be converted is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, ParseException

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

COLUMNS = "id bigint, `odd name` string, d date, ts timestamp, x double, flag boolean, n struct<k int>, m decimal(9,2)"
FILES = 4  # file k has the ids 10k, 10k + 1 and the k-th day of 2026


@pytest.fixture(scope="module")
def table(kit: SparkKit) -> str:
    name = kit.fresh("wheres")
    kit.sql(f"CREATE TABLE {name} ({COLUMNS}) TBLPROPERTIES ('encryption.key-id' = 'hr')")
    for k in range(FILES):
        kit.sql(
            f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ {10 * k} + id, concat('n{k}', id), "
            f"date_add(DATE '2026-01-01', {k}), timestamp'2026-01-01 12:00:00' + make_dt_interval({k}), "
            f"{k} + 0.5D, {k % 2 == 0}, named_struct('k', {k}), cast({k} as decimal(9,2)) FROM range(2)"
        )
    return name


def rewritten(kit: SparkKit, table: str, where: str) -> int:
    """How many files the filter picks; each becomes a file of its own kind again, so nothing changes for the next."""
    text = where.replace("'", "\\'")
    (row,) = kit.spark.sql(
        f"CALL prod.system.rewrite_data_files(table => '{table}', where => '{text}', "
        "options => map('rewrite-all', 'true', 'max-file-group-input-files', '1'))"
    ).collect()
    return int(row["rewritten_data_files_count"])


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("id BETWEEN 10 AND 21", 2),
        ("ID >= 10 AND NOT id > 11", 1),
        ("id IN (0, 31, 99)", 2),
        ("id = 1 + 10 * 2", 1),
        ("`odd name` LIKE 'n2%'", 1),
        ("startswith(`odd name`, 'n3')", 1),
        ("d = DATE '2026-01-02'", 1),
        ("d > cast('2026-01-02' AS date)", 2),
        ("d < '2026-01-02'", 1),
        ("d BETWEEN date_sub(DATE '2026-01-03', 1) AND to_date('2026-01-03')", 2),
        ("ts >= TIMESTAMP '2026-01-03 00:00:00'", 2),
        ("ts < current_timestamp() AND id < 10", 1),
        ("cast(ts AS date) = DATE '2026-01-01' OR id = 10", 2),
        ("x <= 1.5", 2),
        ("x > 2.5", 4),  # for Spark, NaN is greater than every number, and bounds leave NaN out
        ("x IS NOT NULL AND n.k = 3 AND id = 30", 1),
        ("m = 2", 1),
        ("flag", 2),
        ("flag = false", 2),
        ("id <=> 30", 1),
        ("id IS NULL", 0),
        ("1 = 1", 4),
        ("1 = 2", 0),
    ],
)
def test_files_are_chosen_by_any_filter_that_spark_can_push_down(
    kit: SparkKit, table: str, where: str, files: int
) -> None:
    assert rewritten(kit, table, where) == files


@pytest.mark.parametrize(
    ("where", "part"),
    [
        ("length(`odd name`) = 3", "length"),
        ("id > 0 AND year(ts) = 2026", "year"),
        ("`odd name` LIKE '%0'", "EndsWith|LIKE|%0"),
        ("id % 2 = 0", "%"),
        ("id = n.k", "n.k|id"),
        ("rand() < 0.5", "rand"),
        ("id IN (SELECT id FROM range(3))", "SELECT id FROM range"),
    ],
)
def test_what_cannot_be_converted_is_refused_by_its_part(kit: SparkKit, table: str, where: str, part: str) -> None:
    with pytest.raises(AnalysisException, match=f"cannot convert the part .*({part})"):
        rewritten(kit, table, where)


def test_a_mistake_in_the_filter_is_an_error_of_spark(kit: SparkKit, table: str) -> None:
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        rewritten(kit, table, "nothing = 1")
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        rewritten(kit, table, "id = = 1")
    with pytest.raises(AnalysisException, match=r"FILTER_NOT_BOOLEAN|not a boolean"):
        rewritten(kit, table, "id + 1")
    assert rewritten(kit, table, "id = 1") == 1, "and the next call works"


def test_transforms_are_looked_up_in_the_partitions(kit: SparkKit) -> None:
    name = kit.fresh("wheres")
    kit.sql(
        f"CREATE TABLE {name} (id bigint, ts timestamp) PARTITIONED BY (bucket(4, id), days(ts)) "
        "TBLPROPERTIES ('encryption.key-id' = 'hr')"
    )
    kit.sql(f"INSERT INTO {name} SELECT id, timestamp'2026-01-01' + make_dt_interval(id % 2) FROM range(40)")
    files = kit.sql(f"SELECT partition.id_bucket, count(*) FROM {name}.files GROUP BY 1")
    bucket, count = files[0]
    total = sum(each for _, each in files)
    assert rewritten(kit, name, f"prod.system.bucket(4, id) = {bucket}") == count
    assert rewritten(kit, name, f"NOT prod.system.bucket(4, id) = {bucket}") == total - count
    assert rewritten(kit, name, f"prod.system.bucket(4, id) IN ({bucket}, 9)") == count
    assert rewritten(kit, name, "prod.system.days(ts) = DATE '2026-01-02'") == total // 2
    assert rewritten(kit, name, f"prod.system.bucket(4, id) = {bucket} AND ts < '2026-01-02'") == count // 2
    assert rewritten(kit, name, "prod.system.bucket(8, id) = 0") == total, "no file knows: all may hold such rows"
    with pytest.raises(AnalysisException, match="is a transform, expected the column itself"):
        kit.sql(
            f"CALL prod.system.erase(table => '{name}', where => 'prod.system.bucket(4, id) = 1', "
            f"confirm => '{name.removeprefix('prod.')}')"
        )


def test_bounds_decide_a_transform_that_no_partition_has(kit: SparkKit) -> None:
    name = kit.fresh("wheres")
    kit.sql(f"CREATE TABLE {name} (id int, ts timestamp, s string) TBLPROPERTIES ('encryption.key-id' = 'hr')")
    for k in range(4):
        kit.sql(f"INSERT INTO {name} VALUES ({10 * k}, timestamp'2026-01-0{k + 1} 12:00:00', '{'abcd'[k]}{k}x')")
    kit.sql(f"ALTER TABLE {name} ALTER COLUMN id TYPE bigint")
    for where, expected in [
        ("prod.system.truncate(10, id) = 20", 1),  # bounds of an int
        ("prod.system.days(ts) = DATE '2026-01-02'", 1),
        ("prod.system.days(ts) > DATE '2026-01-02'", 2),
        ("prod.system.days(ts) >= DATE '2026-01-02'", 3),
        ("prod.system.days(ts) < DATE '2026-01-02'", 1),
        ("prod.system.days(ts) <= DATE '2026-01-02'", 2),
        ("prod.system.days(ts) IN (DATE '2026-01-01', DATE '2026-01-04', DATE '2026-02-01')", 2),
        ("NOT prod.system.days(ts) = DATE '2026-01-02'", 4),
        ("prod.system.months(ts) = 1", 0),
        ("prod.system.truncate(2, s) = 'c2'", 1),
        ("prod.system.bucket(4, id) = 3", 4),
        ("prod.system.days(ts) >= DATE '2026-01-02' AND s < 'c'", 1),
    ]:
        assert rewritten(kit, name, where) == expected, where


def test_rows_are_erased_by_a_resolved_filter(kit: SparkKit) -> None:
    name = kit.fresh("wheres")
    kit.sql(f"CREATE TABLE {name} (id bigint, ts timestamp) TBLPROPERTIES ('encryption.key-id' = 'hr')")
    kit.sql(f"INSERT INTO {name} SELECT id, timestamp'2026-01-01' + make_dt_interval(id) FROM range(9)")
    kit.sql(
        f"CALL prod.system.erase(table => '{name}', where => \"ts BETWEEN '2026-01-02' AND '2026-01-03'\", "
        f"confirm => '{name.removeprefix('prod.')}')"
    )
    assert sorted(kit.sql(f"SELECT id FROM {name}")) == [(0,), (3,), (4,), (5,), (6,), (7,), (8,)]


def test_position_deletes_are_rewritten_by_partition(kit: SparkKit) -> None:
    name = kit.fresh("wheres")
    kit.sql(
        f"CREATE TABLE {name} (id bigint, p string) PARTITIONED BY (p) "
        "TBLPROPERTIES ('encryption.key-id' = 'hr', 'write.delete.mode' = 'merge-on-read')"
    )
    kit.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, if(id % 2 = 0, 'a', 'b') FROM range(20)")
    kit.sql(f"DELETE FROM {name} WHERE id = 2")
    kit.sql(f"DELETE FROM {name} WHERE id = 3")
    call = f"CALL prod.system.rewrite_position_delete_files(table => '{name}', options => map('rewrite-all', 'true'), "
    assert kit.sql(f"{call} where => \"p = 'c'\")")[0][0] == 0
    assert kit.sql(f"{call} where => \"p = 'a'\")")[0][0] == 1
    assert len(kit.sql(f"SELECT id FROM {name}")) == 18
