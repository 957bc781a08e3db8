"""What Java asks about a stream: where it may go, and which files that means.

stream-head     the snapshot that a query with Trigger.AvailableNow ends at
stream-latest   start ──> end of the next batch, offsets as their text
stream-plan     start, end ──> files with their keys, as for any other read
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH

from sealberg.errors import ConfigError
from sealberg.spark.driver.planning import described
from sealberg.spark.driver.storage import data_folder, storage
from sealberg.spark.streaming.streams import Offset, Stream, StreamOptions
from sealberg.spark.worker.payload import python_program

if TYPE_CHECKING:
    from sealberg.spark.driver.tables import Tables


def last(tables: Tables, arguments: dict[str, Any]) -> int:
    return _stream(tables, arguments, StreamOptions()).last()


def latest(tables: Tables, arguments: dict[str, Any]) -> str:
    options = StreamOptions.of(arguments["options"])
    stream = _stream(tables, arguments, options.unlimited if arguments["all"] else options)
    return stream.latest(Offset.parse(arguments["start"]), arguments.get("last")).text()


def planned(tables: Tables, arguments: dict[str, Any]) -> dict[str, Any]:
    stream = _stream(tables, arguments, StreamOptions.of(arguments["options"]))
    tasks = stream.planned(Offset.parse(arguments["start"]), Offset.parse(arguments["end"]))
    return {
        "python": python_program(),
        "storage": storage(stream.table.io, data_folder(stream.table.metadata)),
        **described(stream.table, stream.schema(), arguments["columns"], tasks),
    }


def _stream(tables: Tables, arguments: dict[str, Any], options: StreamOptions) -> Stream:
    handle = arguments["handle"]
    if handle["past"]:
        raise ConfigError(f"{'.'.join(handle['table'])}: a stream is of a table or a branch, not of the past")
    return Stream.of(tables.found(handle), handle["schema"], options, handle.get("branch", MAIN_BRANCH))
