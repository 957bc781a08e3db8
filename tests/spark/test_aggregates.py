"""count, min and max: out of metadata where those are exact, out of the rows where they are not."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from kit.programs.spark import KEYED, SparkKit

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = "id bigint, i int, day date, at timestamp, dec decimal(9,2), data string, d double"
ROWS = (
    "SELECT id, CAST(IF(id % 3 = 0, NULL, id * 2) AS int), date_add(DATE '2020-01-01', CAST(id AS int)), "
    "timestampadd(HOUR, CAST(id AS int), TIMESTAMP '2020-01-01 00:00:00'), CAST(id / 4 AS decimal(9,2)), "
    "concat('a long string that is cut off in bounds ', id), IF(id = 2, double('NaN'), double(id)) FROM range({}, {})"
)


@pytest.fixture
def name(kit: SparkKit) -> str:
    made = kit.fresh("aggregates")
    kit.sql(f"CREATE TABLE {made} ({COLUMNS}) {KEYED}")
    kit.sql(f"INSERT INTO {made} {ROWS.format(0, 6)}")
    kit.sql(f"INSERT INTO {made} {ROWS.format(6, 10)}")
    return made


def scans(kit: SparkKit, statement: str) -> bool:
    """Whether rows are read for it."""
    return "BatchScan" in kit.spark.sql(statement)._jdf.queryExecution().executedPlan().toString()


def files_hidden(kit: SparkKit, name: str) -> list[tuple[Path, Path]]:
    moved = [(path, path.with_suffix(".away")) for path in kit.data_files(name)]
    for path, away in moved:
        path.rename(away)
    return moved


def test_counts_and_bounds_of_a_whole_table_need_no_file(kit: SparkKit, name: str) -> None:
    statement = (
        "SELECT count(*), count(i), count(data), min(id), max(id), min(i), max(i), max(day), min(at), max(dec) "
        f"FROM {name}"
    )
    hidden = files_hidden(kit, name)
    found = kit.sql(statement)
    for path, away in hidden:
        away.rename(path)
    at = dt.datetime(2020, 1, 1, tzinfo=dt.UTC).astimezone().replace(tzinfo=None)  # PySpark gives local times
    assert found == [(10, 6, 10, 0, 9, 2, 16, dt.date(2020, 1, 10), at, Decimal("2.25"))]
    assert not scans(kit, statement)


@pytest.mark.parametrize(
    "wanted",
    ["max(data)", "min(d)", "count(DISTINCT id)", "sum(id)", "max(id + 1)"],
)
def test_what_metadata_do_not_tell_exactly_is_read(kit: SparkKit, name: str, wanted: str) -> None:
    statement = f"SELECT {wanted} FROM {name}"
    assert scans(kit, statement)
    assert len(kit.sql(statement)) == 1


def test_filters_and_groups_are_read(kit: SparkKit, name: str) -> None:
    assert kit.sql(f"SELECT count(*) FROM {name} WHERE id < 3") == [(3,)]
    assert kit.sql(f"SELECT id % 2, count(*) FROM {name} GROUP BY id % 2") == [(0, 5), (1, 5)]
    assert kit.sql(f"SELECT count(*) FROM {name} WHERE id < -3") == [(0,)]


def test_deleted_rows_do_not_count(kit: SparkKit, name: str) -> None:
    kit.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    kit.sql(f"DELETE FROM {name} WHERE id IN (0, 9)")
    assert not scans(kit, f"SELECT count(*) FROM {name}")  # a vector counts its rows
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(8,)]
    assert kit.sql(f"SELECT min(id), max(id), count(i) FROM {name}") == [(1, 8, 6)]


def test_columns_that_changed_are_right(kit: SparkKit, name: str) -> None:
    kit.sql(f"ALTER TABLE {name} ALTER COLUMN i TYPE bigint")
    kit.sql(f"ALTER TABLE {name} ADD COLUMN late int")
    assert kit.sql(f"SELECT max(i), max(late), count(late), count(i) FROM {name}") == [(16, None, 0, 6)]
    kit.sql(f"INSERT INTO {name} VALUES (50, 5000000000, NULL, NULL, NULL, NULL, NULL, 7)")
    assert kit.sql(f"SELECT max(i), max(late), count(late), max(id) FROM {name}") == [(5000000000, 7, 1, 50)]


def test_an_empty_table_counts_nothing(kit: SparkKit) -> None:
    name = kit.fresh("aggregates")
    kit.sql(f"CREATE TABLE {name} ({COLUMNS}) {KEYED}")
    assert kit.sql(f"SELECT count(*), max(id) FROM {name}") == [(0, None)]
    kit.sql(f"INSERT INTO {name} {ROWS.format(0, 4)}")
    kit.sql(f"DELETE FROM {name}")
    assert kit.sql(f"SELECT count(*), max(id) FROM {name}") == [(0, None)]
