"""Clocks that differ: the times of a table rise all the same, or the commit is refused with both times."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kit.servers.postgres import empty_database
from sealberg.errors import ClockSkewError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MINUTE = 60_000
SCHEMA = pa.schema([("k", pa.int64())])


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys}, schema=SCHEMA)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the clock of this process ahead by so many milliseconds, as every clock of Python tells it."""
    real_ns, real = time.time_ns, time.time

    def ahead(by_ms: int) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + by_ms * 1_000_000)
        monkeypatch.setattr(time, "time", lambda: real() + by_ms / 1000)

        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Clock:
                return cls.fromtimestamp(time.time(), tz)

        monkeypatch.setattr("pyiceberg.table.update.datetime", Clock)

    return ahead


@pytest.fixture
def open_catalog(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    with empty_database("sqlite", tmp_path) as database:
        opened: list[Any] = []

        def catalog(**properties: str) -> Any:
            opened.append(database.catalog(**properties))
            return opened[-1]

        catalog().create_namespace("db")
        yield catalog
        for one in opened:
            one.close()


@pytest.fixture
def table(open_catalog: Callable[..., Any]) -> Any:
    return open_catalog().create_table("db.t", SCHEMA, properties={"encryption.key-id": "hr"})


def check_times_rise(table: Any) -> None:
    metadata = table.refresh().metadata
    logs = [[entry.timestamp_ms for entry in log] for log in (metadata.snapshot_log, metadata.metadata_log)]
    snapshots = [one.timestamp_ms for one in sorted(metadata.snapshots, key=lambda one: one.sequence_number)]
    for times in (*logs, snapshots):
        assert all(earlier < later for earlier, later in pairwise(times)), times
        assert times[-1] <= metadata.last_updated_ms
    parents = {one.snapshot_id: one.timestamp_ms for one in metadata.snapshots}
    for one in metadata.snapshots:
        assert one.timestamp_ms > parents.get(one.parent_snapshot_id, 0)


def test_times_rise_with_clocks_ten_minutes_apart(table: Any, clock: Callable[[int], None]) -> None:
    clock(10 * MINUTE)
    table.append(rows(1))
    first = table.current_snapshot().snapshot_id
    for ahead in (1000, 5 * MINUTE, 2000):
        clock(ahead)
        table.append(rows(ahead))
        with table.transaction() as change:
            change.set_properties({"said": str(ahead)})
            change.append(rows(ahead + 1))
            change.delete(f"k == {ahead}")
        table.manage_snapshots().create_tag(first, f"v{ahead}").commit()
        check_times_rise(table)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    check_times_rise(table)


def test_commits_within_a_millisecond_have_times_of_their_own(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: fixed)
    monkeypatch.setattr(time, "time", lambda: fixed / 10**9)
    for key in range(4):
        table.append(rows(key))
    check_times_rise(table)


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.append(rows(2)),
        lambda table: table.transaction().set_properties({"a": "b"}).commit_transaction(),
        lambda table: table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "v").commit(),
    ],
    ids=["append", "property", "tag"],
)
def test_a_clock_far_behind_is_refused_with_both_times(
    table: Any, clock: Callable[[int], None], tmp_path: Path, write: Callable[[Any], Any]
) -> None:
    clock(11 * MINUTE)
    table.append(rows(1))
    clock(0)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    last = datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC).isoformat(timespec="milliseconds")
    with pytest.raises(ClockSkewError, match=r"by 6[0-9]{5} ms, and commit.max-clock-skew-ms allows 600000") as e:
        write(table)
    assert last in str(e.value)
    assert datetime.now(UTC).isoformat()[:13] in str(e.value)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert table.refresh().scan().to_arrow()["k"].to_pylist() == [1]


def test_the_bound_is_a_property_of_the_table_and_of_the_catalog(
    table: Any, open_catalog: Callable[..., Any], clock: Callable[[int], None]
) -> None:
    with table.transaction() as change:
        change.set_properties({"commit.max-clock-skew-ms": "1000"})
    clock(2 * MINUTE)
    table.append(rows(1))
    clock(0)
    with pytest.raises(ClockSkewError, match="allows 1000"):
        table.append(rows(2))
    lenient = open_catalog(**{"commit.max-clock-skew-ms": str(5 * MINUTE)}).load_table("db.t")
    lenient.append(rows(3))
    check_times_rise(table)


@pytest.mark.parametrize("value", ["soon", "-1"])
def test_a_bound_that_is_no_number_is_refused(open_catalog: Callable[..., Any], value: str, table: Any) -> None:
    strange = open_catalog(**{"commit.max-clock-skew-ms": value}).load_table("db.t")
    with pytest.raises(ConfigError, match=r"commit.max-clock-skew-ms (is a number, not|must be 0 or more)"):
        strange.append(rows(1))
