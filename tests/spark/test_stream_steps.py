"""Which files come next, from offset to offset; no Spark takes part in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import LongType, NestedField

from kit.tables.small_tables import SmallTable
from sealberg.errors import ConfigError, ConflictError, UnsupportedError
from sealberg.spark.streaming.streams import EMPTY, START, Offset, Stream, StreamOptions

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema(NestedField(1, "id", LongType()))


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path, SCHEMA)


def files(small: SmallTable, *counts: int) -> list[str]:
    """One snapshot with a file for each count of rows; their places."""
    made = [small.parquet([{"id": number} for number in range(count)]) for count in counts]
    small.snapshot(*made)
    return [str(one.file_path) for one in made]


def stream(small: SmallTable, **options: Any) -> Stream:
    return Stream.of(
        small.table(), 0, StreamOptions.of({name.replace("_", "-"): text for name, text in options.items()})
    )


def batches(small: SmallTable, at: Offset = START, last: int | None = None, **options: Any) -> list[list[str]]:
    """Batch after batch, until nothing is new; each planned twice, as after a restart."""
    found = []
    while (end := stream(small, **options).latest(at, last)) != at:
        tasks = stream(small, **options).planned(at, end)
        again = stream(small, **options).planned(at, Offset.parse(end.text()))
        assert [task.file for task in again] == [task.file for task in tasks]
        found.append([str(task.file.file_path) for task in tasks])
        at = end
    return found


def test_without_limits_a_batch_takes_all(small: SmallTable) -> None:
    one, two = files(small, 1, 1), files(small, 1)
    assert batches(small) == [[*one, *two]]


@pytest.mark.parametrize(
    ("option", "limit", "sizes"),
    [
        ("streaming_max_files_per_micro_batch", "2", [2, 2, 1]),
        ("streaming_max_rows_per_micro_batch", "5", [1, 2, 1, 1]),
        ("streaming_max_rows_per_micro_batch", "1", [1, 1, 1, 1, 1]),
        ("streaming_max_bytes_per_micro_batch", "2", [2, 2, 1]),
    ],
)
def test_limits_cut_inside_snapshots_and_across_them(
    small: SmallTable, option: str, limit: str, sizes: list[int]
) -> None:
    """Rows per file: 4, 3, 2, 9, 1. One file is always taken, however large; entries say a byte each."""
    every = [*files(small, 4, 3, 2), *files(small, 9), *files(small, 1)]
    found = batches(small, START, None, **{option: limit})
    assert [path for batch in found for path in batch] == every
    assert [len(batch) for batch in found] == sizes


def test_rewrites_bring_no_rows(small: SmallTable) -> None:
    one = files(small, 1)
    small.snapshot(small.parquet([{"id": 0}]), operation=Operation.REPLACE)
    two = files(small, 1)
    assert batches(small) == [[*one, *two]]
    assert batches(small, streaming_max_files_per_micro_batch="1") == [one, two]


@pytest.mark.parametrize(
    ("operation", "option"),
    [
        (Operation.DELETE, "streaming-skip-delete-snapshots"),
        (Operation.OVERWRITE, "streaming-skip-overwrite-snapshots"),
    ],
)
def test_what_takes_rows_away_is_refused_or_skipped(small: SmallTable, operation: Operation, option: str) -> None:
    one = files(small, 1)
    small.snapshot(small.parquet([{"id": 0}]), operation=operation)
    two = files(small, 1)
    with pytest.raises(UnsupportedError, match=f"snapshot 2000 .* set {option}=true"):
        batches(small)
    assert batches(small, START, None, **{option.replace("-", "_"): "true"}) == [[*one, *two]]
    assert batches(small, start_snapshot_id="2000") == [two]


def test_a_query_that_takes_what_is_there_now_takes_no_more(small: SmallTable) -> None:
    nothing = stream(small).last()
    one = files(small, 1)
    last = stream(small).last()
    two = files(small, 1)
    assert batches(small, last=nothing) == [[]], "the table was empty when the query began"
    assert batches(small, last=last) == [one]
    end = stream(small).latest(START, last)
    assert batches(small, end) == [two]
    empty = stream(small).latest(START, nothing)
    assert stream(small).latest(empty, nothing) == empty
    assert batches(small, empty) == [[*one, *two]]


def test_a_snapshot_that_is_not_in_the_history_is_told(small: SmallTable) -> None:
    files(small, 1)
    for at in (Offset(77, 0), Offset(77, 0, whole=True)):
        with pytest.raises(ConflictError, match="from snapshot 77: the history after it has expired"):
            stream(small).latest(at, None)
    with pytest.raises(ConflictError, match="has expired"):
        stream(small).planned(Offset(1000, 0), Offset(77, 1))
    with pytest.raises(ConfigError, match="does not say where the stream began"):
        stream(small).planned(START, Offset(1000, 1))


def test_an_empty_table_has_nothing_yet(small: SmallTable) -> None:
    at = stream(small).latest(START, None)
    assert at[:3] == EMPTY[:3]
    assert stream(small).latest(at, None) == at
    one = files(small, 1)
    assert batches(small, at) == [one]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stream_from_timestamp": "soon"}, "stream-from-timestamp must be a number, found 'soon'"),
        ({"start_snapshot_id": "x"}, "start-snapshot-id must be a number"),
        ({"stream_from_timestamp": "1", "start_snapshot_id": "1"}, "set one, not both"),
        ({"streaming_max_files_per_micro_batch": "0"}, "must be positive"),
        ({"streaming_max_rows_per_micro_batch": "-1"}, "must be positive"),
        ({"streaming_skip_delete_snapshots": "yes"}, "must be true or false, found 'yes'"),
    ],
)
def test_options_that_mean_nothing_are_refused(small: SmallTable, options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        stream(small, **options)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2, "snapshot_id": 1, "position": 0}', "null"])
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="offset"):
        Offset.parse(text)
