"""`format("sealberg")`: tables without a Spark catalog and without a jar, also under Spark Connect.

    spark.read.format("sealberg").load("prod.hr.salaries")                 option columns = "name, salary"
    frame.write.format("sealberg").mode("append").save("prod.hr.salaries")
    spark.readStream.format("sealberg").load(...)                          options as in `streams`
    frame.writeStream.format("sealberg").option("checkpointLocation", ...).start("prod.hr.salaries")

Rows pass through Python workers, which takes several times as long as Spark's own reader and writer. Use the SQL
catalog where it is available. Spark creates the source, plans, writes and commits in different processes, none of them
the driver. Each process loads the catalog, from its own PyIceberg configuration or from the JSON file that the option
`properties-file` names. An option must not hold a secret, because Spark Connect writes options to its event log; so
unknown options are refused.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from sealberg.catalogs.load import load_catalog
from sealberg.errors import ConfigError, ConflictError, UnsupportedError
from sealberg.files.confined_io import check_store
from sealberg.metadata.manifest import DataFileV3
from sealberg.properties.table_names import value_of
from sealberg.scan.planner import Planner
from sealberg.spark.datasource.tasks import FileRows, Files, NewFiles, Written, storage_of
from sealberg.spark.driver.planning import table_of
from sealberg.spark.driver.session_settings import WAP_ENABLED
from sealberg.spark.filters import inclusive
from sealberg.spark.protocol import filters as messages
from sealberg.spark.streaming.epochs import Epoch, EpochCommittedError
from sealberg.spark.streaming.streams import AFTER_SNAPSHOT, START, STREAM_OPTIONS, Offset, Stream, StreamOptions
from sealberg.spark.types import spark_schema, written_schema
from sealberg.spark.worker.payload import FilePayload
from sealberg.table.catalog_table import CatalogTable
from sealberg.write import row_changes
from sealberg.write.data_writer import RowWriter
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import StagedFiles, discard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyspark.sql.datasource import Filter, InputPartition, WriterCommitMessage

    from sealberg.scan.planner import EncryptedFileScanTask

PROPERTIES: Final = "properties-file"
COLUMNS: Final = "columns"
OPTIONS: Final = ("path", "table", "catalog", PROPERTIES)  # of all readers and writers
STREAM_READ: Final = (COLUMNS, AFTER_SNAPSHOT, *STREAM_OPTIONS)
STREAM_WRITE: Final = ("query-id", "checkpointLocation")
PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
TASK_BYTES: Final = 128 << 20
_OPS: Final[dict[str, messages.Comparison]] = {
    "EqualTo": "eq",
    "EqualNullSafe": "eq-null-safe",
    "LessThan": "lt",
    "LessThanOrEqual": "lteq",
    "GreaterThan": "gt",
    "GreaterThanOrEqual": "gteq",
    "StringStartsWith": "starts-with",
}
# Before 4.1, Spark gives the rows of a stream one by one and pushes no filters.
_STREAM_SINK: Final[Any] = getattr(datasource, "DataSourceStreamArrowWriter", None)


@dataclass(frozen=True)
class Target:
    """The name of a table, and how any process can load it."""

    catalog: str
    table: tuple[str, ...]
    properties_file: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str], *more: str) -> Target:
        """The table that the options name; `more` are further options that are allowed."""
        name = options.get("table") or options.get("path")
        if not name:
            raise ConfigError(
                'no table is named: use load("catalog.namespace.table") or save(...), or the options catalog and table'
            )
        catalog, parts = options.get("catalog"), tuple(name.split("."))
        if catalog is None:
            catalog, *rest = parts
            parts = tuple(rest)
        if len(parts) < 2:
            raise ConfigError(f"{name} is not the name of a table, expected catalog.namespace.table")
        known = {option.lower(): option for option in (*OPTIONS, *more)}
        if unknown := sorted(option for option in options if option.lower() not in known):
            raise ConfigError(
                f"unknown option {', '.join(unknown)}: known here are {', '.join(known.values())}. "
                "Catalog properties cannot be options, because Spark Connect writes options to its event log; "
                f"use PyIceberg's configuration on the server, or the option {PROPERTIES}"
            )
        return cls(catalog, parts, options.get(PROPERTIES))

    def load(self) -> CatalogTable:
        properties: dict[str, str] = {}
        if self.properties_file is not None:
            try:
                properties = json.loads(Path(self.properties_file).read_text())
            except (OSError, ValueError) as error:
                # The file may hold secrets, so neither its text nor the message of the parser is shown.
                raise ConfigError(
                    f"the {PROPERTIES} {self.properties_file} cannot be read as a JSON object of catalog properties: "
                    f"{type(error).__name__}"
                ) from None
        table = load_catalog(self.catalog, **properties).load_table(self.table)
        if not isinstance(table, CatalogTable):
            raise UnsupportedError(
                f"table {'.'.join(table.name())} has format version {table.format_version}, and "
                'format("sealberg") needs version 3'
            )
        return table


class SealbergSource(DataSource):
    """The data source of `format("sealberg")`."""

    options: dict[str, str]

    @classmethod
    def name(cls) -> str:
        return "sealberg"

    def schema(self) -> StructType:
        return StructType.fromJson(
            _selected(Target.of(self.options, *STREAM_READ, *STREAM_WRITE).load(), self.options.get(COLUMNS))
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        # Spark refuses a reader with pushFilters outside of the process in which it pushes filters.
        kind = FilteringReader if PUSHING in sys.modules else Reader
        return kind(Target.of(self.options, COLUMNS), schema.jsonValue())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return StreamReader(Target.of(self.options, *STREAM_READ), schema.jsonValue(), StreamOptions.of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        return Writer(Target.of(self.options), schema.jsonValue(), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        if _STREAM_SINK is None:
            raise UnsupportedError(
                f'Spark {pyspark.__version__} cannot write streams with format("sealberg"), Spark 4.1 can: write with '
                "writeStream.toTable(...) through the Spark catalog"
            )
        return StreamWriter(Target.of(self.options, *STREAM_WRITE), schema.jsonValue(), overwrite, dict(self.options))


def _selected(table: CatalogTable, names: str | None) -> dict[str, Any]:
    whole = spark_schema(table.schema())
    if names is None:
        return whole
    known = {column["name"]: column for column in whole["fields"]}
    wanted = [name.strip() for name in names.split(",")]
    if missing := [name for name in wanted if name not in known]:
        raise ConfigError(
            f"table {'.'.join(table.name())} has no column {', '.join(missing)}; its columns are {', '.join(known)}"
        )
    return {"type": "struct", "fields": [known[name] for name in wanted]}


# -- read -----------------------------------------------------------------------------------------


class Reader(DataSourceReader):
    """Reads the newest snapshot. Spark plans it in one process; a task gets only its files with their keys."""

    def __init__(self, target: Target, columns: dict[str, Any]) -> None:
        self._table = table = target.load()
        self._rows = FileRows(table_of(table, table.schema()), columns, storage_of(table.inner.properties))
        self._filter: BooleanExpression = AlwaysTrue()

    def partitions(self) -> Sequence[InputPartition]:
        table = self._table
        snapshot = table.metadata.snapshot_by_name(MAIN_BRANCH)
        if snapshot is None:
            return [Files(())]
        planner = Planner(table.metadata, table.io, table.schema(), self._filter)
        return _packed(planner.plan(snapshot.manifests(table.io)), table.io)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._rows.read(partition.value)

    def __getstate__(self) -> dict[str, Any]:
        return {"_rows": self._rows}


class FilteringReader(Reader):
    """Reads the newest snapshot without the files that a filter excludes."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Prune files by the filters; all filters are returned, so Spark applies them to the rows."""
        understood = [node for node in map(_filter, filters) if node is not None]
        self._filter = inclusive(understood, self._table.schema())
        return filters


def _filter(pushed: Filter) -> messages.Filter | None:
    """A filter of pyspark as a filter of the protocol; None where Python does not understand the filter."""
    match pushed:
        case datasource.Not():
            inner = _filter(pushed.child)
            return None if inner is None else messages.NotFilter(inner)
        case datasource.In():
            return messages.InFilter(".".join(pushed.attribute), tuple(pushed.value))
        case datasource.IsNull():
            return messages.IsNullFilter(".".join(pushed.attribute))
        case datasource.IsNotNull():
            return messages.NotNullFilter(".".join(pushed.attribute))
    op = _OPS.get(type(pushed).__name__)
    if op is None:
        return None
    return messages.CompareFilter(op, ".".join(pushed.attribute), pushed.value)  # type: ignore[attr-defined]


def _packed(tasks: Sequence[EncryptedFileScanTask], io: FileIO) -> list[InputPartition]:
    """Files in order, up to TASK_BYTES per task; at least one task, because Spark fails without partitions."""
    packs: list[list[FilePayload]] = [[]]
    size = 0
    for task in tasks:
        for file in (task.file, *task.delete_files):
            check_store(io, str(file.file_path))
        if packs[-1] and size + task.file.file_size_in_bytes > TASK_BYTES:
            packs.append([])
            size = 0
        deletes = [file for file in task.delete_files if isinstance(file, DataFileV3)]
        packs[-1].append(FilePayload(task.file, deletes, task.sequence_number))
        size += task.file.file_size_in_bytes
    return [Files(pack) for pack in packs]


def _since_4_2() -> Any:
    """PySpark's module with read limits and Trigger.AvailableNow for Python sources; None before Spark 4.2."""
    try:
        return importlib.import_module("pyspark.sql.streaming.datasource")
    except ImportError:
        return None


_LIMITS: Final = _since_4_2()
_AvailableNow: Any = object if _LIMITS is None else _LIMITS.SupportsTriggerAvailableNow


class StreamReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """The appends of a table. Before 4.2, Spark does not pass the current offset until the first batch is planned, so
    the first batch has no limits."""

    def __init__(self, target: Target, columns: dict[str, Any], options: StreamOptions) -> None:
        self._target = target
        self._options = options
        self._at: Offset | None = None
        self._asked = False
        self._last: int | None = None
        table = target.load()
        self._schema_id = table.metadata.current_schema_id
        self._rows = FileRows(table_of(table, table.schema()), columns, storage_of(table.inner.properties))

    def _stream(self, options: StreamOptions | None = None) -> Stream:
        return Stream.of(self._target.load(), self._schema_id, options or self._options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return _json(START)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        if start is not None:  # since 4.2
            everything = isinstance(limit, _LIMITS.ReadAllAvailable)
            stream = self._stream(self._options.unlimited if everything else self._options)
            return _json(stream.latest(_offset(start), self._last))
        # Before 4.2, Spark asks once in a run with Trigger.AvailableNow, and reads what it is told then: all there is.
        first, self._asked = not self._asked, True
        stream = self._stream()
        return _json(stream.everything() if first or self._at is None else stream.latest(self._at, None))

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Tells Spark whether there is a limit; the options hold the limit itself."""
        return _LIMITS.ReadMaxFiles(1) if self._options.limited else _LIMITS.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._stream().last()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._at = _offset(end)
        stream = self._stream()
        return _packed(stream.planned(_offset(start), self._at), stream.table.io)

    def commit(self, end: dict[str, Any]) -> None:
        self._at = _offset(end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._rows.read(partition.value)

    def __getstate__(self) -> dict[str, Any]:
        return {"_rows": self._rows}


def _offset(raw: dict[str, Any]) -> Offset:
    return Offset.parse(json.dumps(raw))


def _json(offset: Offset) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(offset.text())
    return found


# -- write ----------------------------------------------------------------------------------------


class _Write:
    """Commits the files of all tasks at once."""

    def __init__(self, target: Target, schema: dict[str, Any], overwrite: bool) -> None:
        self._target = target
        self._overwrite = overwrite
        table = target.load()
        if value_of(table.properties, WAP_ENABLED, False):
            raise UnsupportedError(
                f'table {".".join(table.name())} has {WAP_ENABLED}=true, and format("sealberg") cannot see '
                "spark.wap.id and spark.wap.branch, so the rows could be published without an audit. Write through the "
                "Spark catalog"
            )
        rows = RowWriter(table.transaction().context)
        # By name: the ids of the table are others as soon as a column was dropped, or stands in a struct.
        rows.check(schema_to_pyarrow(written_schema(schema, table.schema()), include_field_ids=False))
        self._files = NewFiles.of(table)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._files.write(iterator)

    def committed(self, messages: Sequence[WriterCommitMessage | None], epoch: Epoch | None) -> None:
        files = [file for message in messages if isinstance(message, Written) for file in message.files]
        change = self._target.load().transaction()
        metadata, meant = change.table_metadata, self._files.metadata
        try:
            with StagedFiles(change.io, (str(file.file_path) for file in files)):
                if (metadata.current_schema_id, metadata.default_spec_id) != (
                    meant.current_schema_id,
                    meant.default_spec_id,
                ):
                    raise ConflictError(
                        f"the columns or partitions of {'.'.join(self._target.table)} were changed while rows were "
                        "written. Nothing was committed; run the write again"
                    )
                if epoch is not None:
                    epoch.check(metadata, MAIN_BRANCH)
                changes = FileChanges(added=tuple(files), operation=Operation.APPEND)
                if self._overwrite:
                    gone = row_changes.deletion(change.context, AlwaysTrue(), branch=MAIN_BRANCH, in_place=False)
                    changes = replace(
                        gone,
                        added=tuple(files),
                        operation=Operation.OVERWRITE,
                        # As in INSERT OVERWRITE: without the check, rows added between plan and commit would stay.
                        conflict_filter=row_changes.conflict_filter(metadata, AlwaysTrue(), "overwrite"),
                    )
        except EpochCommittedError:
            return
        if not (changes.added or changes.removed):
            return
        change.commit_changes(changes if epoch is None else epoch.marked(changes))
        try:
            change.commit_transaction()
        except EpochCommittedError:
            return

    def forgotten(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files of tasks, if a task failed. Otherwise a commit was tried, and has cleaned up if allowed."""
        if any(message is None for message in messages):
            files = [
                str(file.file_path) for message in messages if isinstance(message, Written) for file in message.files
            ]
            discard(self._target.load().io, files)


class Writer(_Write, DataSourceArrowWriter):
    """Append, or replace all rows."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.committed(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.forgotten(messages)


class StreamWriter(_Write, _STREAM_SINK or DataSourceStreamWriter):  # type: ignore[misc]
    """Appends each batch of a stream once, or replaces all rows with it."""

    def __init__(self, target: Target, schema: dict[str, Any], overwrite: bool, options: Mapping[str, str]) -> None:
        super().__init__(target, schema, overwrite)
        self._query = _query_id(options, self._files.storage)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.committed(messages, Epoch(self._query, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        self.forgotten(messages)

    def __getstate__(self) -> dict[str, Any]:
        """The state for tasks, which only write; Spark makes another writer to commit."""
        return {"_files": self._files}


def _query_id(options: Mapping[str, str], storage: dict[str, str]) -> str:
    """The query id from the checkpoint: Spark tells a Python sink the number of a batch, but not the query."""
    given = {name.lower(): value for name, value in options.items()}
    if "query-id" in given:
        return given["query-id"]
    place = given.get("checkpointlocation")
    if not place:
        raise ConfigError(
            "writing a stream to a table needs the option checkpointLocation, or batches could be committed twice"
        )
    try:
        with load_file_io(storage, place).new_input(f"{place.rstrip('/')}/metadata").open() as stream:
            return str(json.loads(bytes(stream.read()))["id"])
    except (OSError, KeyError, ValueError) as error:
        raise ConfigError(
            f"cannot read the query id from the checkpoint {place} ({error}): set the option query-id, with a new "
            "value for every new checkpoint"
        ) from error
