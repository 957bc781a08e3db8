"""Streaming reads: offsets, and the files between two offsets.

StreamStart         the offset before the first batch
StreamHead          the snapshot at which a query with Trigger.AvailableNow ends
LatestOffset        start ──> end of the next batch; offsets cross to Java as their text
StreamScanRequest   start, end ──> files with their keys, as for any other read
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from sealberg.errors import ConfigError
from sealberg.spark.driver.planning import scan_plan
from sealberg.spark.streaming.streams import START, Offset, Stream, StreamOptions

if TYPE_CHECKING:
    from sealberg.spark.driver.tables import Tables
    from sealberg.spark.protocol.handles import TableHandle
    from sealberg.spark.protocol.scans import ScanPlan
    from sealberg.spark.protocol.streams import LatestOffset, StreamHead, StreamScanRequest


def start() -> str:
    return START.text()


def head(tables: Tables, request: StreamHead) -> int:
    return _stream(tables, request.handle, StreamOptions()).last()


def latest(tables: Tables, request: LatestOffset) -> str:
    options = StreamOptions.of(request.options)
    stream = _stream(tables, request.handle, options.unlimited if request.read_all else options)
    return stream.latest(Offset.parse(request.start), request.head).text()


def planned(tables: Tables, request: StreamScanRequest) -> ScanPlan:
    stream = _stream(tables, request.handle, StreamOptions.of(request.options))
    tasks = stream.planned(Offset.parse(request.start), Offset.parse(request.end))
    return scan_plan(stream.table, stream.schema(), request.columns, tasks)


def _stream(tables: Tables, handle: TableHandle, options: StreamOptions) -> Stream:
    if handle.past:
        raise ConfigError(f"{handle.name}: a stream reads a table or a branch, not a snapshot, a tag or a past time")
    return Stream.of(tables.found(handle), handle.schema_id, options, handle.branch or MAIN_BRANCH)
