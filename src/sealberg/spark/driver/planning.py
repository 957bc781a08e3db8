"""Which files a query reads, with which keys, and without which of their rows.

    filters ──> Planner ──> tasks ──> {"location", "length", "key", "deleted", ...} for each file, in one answer

Deletion vectors and position deletes become the positions of deleted rows here. What Spark's own reader cannot do is
left to a Python process beside the task, which gets the file and its deletes with their keys:

    rows        it reads the file: Avro, and columns that Spark's Parquet reader would get wrong
    positions   it compares the columns of equality deletes, and tells which rows are gone

Keys go to the tasks of their own files only.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import TableProperties
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.errors import ConflictError, PlaintextFileError, UnsupportedError
from sealberg.files.confined_io import check_store
from sealberg.files.file_io import EncryptingFileIO, KeyedLocation
from sealberg.metadata.manifest import DataFileV3
from sealberg.scan.delete_loader import DeleteLoader
from sealberg.scan.planner import Planner
from sealberg.spark.driver.storage import data_folder, storage
from sealberg.spark.filters import inclusive
from sealberg.spark.types import beyond_spark
from sealberg.spark.worker.payload import FilePayload, TablePayload, python_program, strip_metadata
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.spark.driver.tables import Tables

NAME_MAPPING: Final = TableProperties.DEFAULT_NAME_MAPPING


def plan(tables: Tables, arguments: dict[str, Any]) -> dict[str, Any]:
    """The files for these filters and columns, in the snapshot that the query has seen."""
    handle = arguments["handle"]
    table = tables.named(handle)
    planned: dict[str, Any] = {"python": python_program(), "table": None, "files": [], "storage": None}
    if handle["snapshot"] is None:
        return planned
    planned["storage"] = storage(table.io, data_folder(table.metadata))
    schema = table.metadata.schema_by_id(handle["schema"]) or table.metadata.schema()
    row_filter = inclusive(arguments["filters"], schema)
    if isinstance(table, EncryptedTable):
        tasks = _tasks(table, handle, schema, row_filter)
        return planned | described(table, schema, arguments["columns"], tasks)
    return {**planned, "files": _plain(table, handle["snapshot"], row_filter)}


def described(
    table: EncryptedTable, schema: Schema, columns: dict[str, Any], tasks: Sequence[EncryptedFileScanTask]
) -> dict[str, Any]:
    """The files of these tasks, and what they have in common, for the Java side."""
    files = _Sealed.of(table, hard=beyond_spark(schema, columns)).files(tasks)
    hands_over = any("work" in file for file in files)
    return {"table": table_of(table, schema).text() if hands_over else None, "files": files}


def _tasks(
    table: EncryptedTable, handle: dict[str, Any], schema: Schema, row_filter: BooleanExpression
) -> list[EncryptedFileScanTask]:
    snapshot_id = handle["snapshot"]
    if "after" in handle:
        appends = table.incremental_append_scan(
            from_snapshot_id_exclusive=handle["after"], to_snapshot_id_inclusive=snapshot_id, row_filter=row_filter
        )
        return appends.plan_files()
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise ConflictError(f"snapshot {snapshot_id} of {'.'.join(table.name())} has expired since this query named it")
    return Planner(table.metadata, table.io, schema, row_filter).plan(snapshot.manifests(table.io))


@dataclass(frozen=True)
class _Sealed:
    """The plan of a version 3 table; `hard` if Spark's Parquet reader would get the columns wrong."""

    table: EncryptedTable
    hard: bool
    deletes: DeleteLoader
    plain_allowed: bool

    @classmethod
    def of(cls, table: EncryptedTable, *, hard: bool) -> _Sealed:
        deletes = DeleteLoader(table.io, table.metadata)
        plain_allowed = not isinstance(table.io, EncryptingFileIO) or table.io.allow_plaintext
        return cls(table, hard, deletes, plain_allowed)

    def files(self, tasks: Sequence[EncryptedFileScanTask]) -> list[dict[str, Any]]:
        if any(task.delete_files for task in tasks):
            return list(ExecutorFactory.get_or_create().map(self._file, tasks))
        return [self._file(task) for task in tasks]

    def _file(self, task: EncryptedFileScanTask) -> dict[str, Any]:
        file = task.file
        location = file.file_path
        check_store(self.table.io, str(location))
        keys = location.keys if isinstance(location, KeyedLocation) else None
        if keys is None and not self.plain_allowed:
            raise PlaintextFileError(f"{location!s}: a file of an encrypted table without a key")
        found = {
            "location": str(location),
            "length": keys.file_length if keys and keys.file_length is not None else file.file_size_in_bytes,
            "rows": file.record_count,
            "first-row-id": file.first_row_id,
            "sequence-number": task.sequence_number,
        }
        deletes = [one for one in task.delete_files if isinstance(one, DataFileV3)]
        verb = self._verb(file, deletes)
        if verb is not None:
            found |= {"verb": verb, "work": FilePayload(file, deletes, task.sequence_number).text()}
        if verb != "rows" and keys is not None:
            found |= {"key": _text(keys.encryption_key), "aad": _text(keys.aad_prefix) if keys.aad_prefix else None}
        if verb is None:
            deleted = self.deletes.positions(str(location), deletes)
            found["deleted"] = _text(deleted.bitmap()) if deleted else None
        return found

    def _verb(self, file: DataFileV3, deletes: Sequence[DataFileV3]) -> str | None:
        """What Python does for the file, where Spark alone cannot."""
        if file.file_format == FileFormat.AVRO or self.hard:
            return "rows"
        _check_format(str(file.file_path), file.file_format)
        return "positions" if any(one.content == DataFileContent.EQUALITY_DELETES for one in deletes) else None


def table_of(table: EncryptedTable, schema: Schema) -> TablePayload:
    """As little of the table as reading a file takes."""
    properties = {name: value for name, value in table.metadata.properties.items() if name == NAME_MAPPING}
    small = strip_metadata(table.metadata, **properties)
    io = table.io
    allow_plaintext = isinstance(io, EncryptingFileIO) and io.allow_plaintext
    return TablePayload(small, schema, encrypted=isinstance(io, EncryptingFileIO), allow_plaintext=allow_plaintext)


def _plain(table: Table, snapshot_id: int, row_filter: BooleanExpression) -> list[dict[str, Any]]:
    """A table of version 1 or 2, which PyIceberg plans."""
    found = []
    for task in table.scan(row_filter=row_filter, snapshot_id=snapshot_id).plan_files():
        location = str(task.file.file_path)
        check_store(table.io, location)
        _check_format(location, task.file.file_format)
        if task.delete_files:
            raise UnsupportedError(f"{location} has delete files, which are read in tables of version 3 only")
        size, rows = task.file.file_size_in_bytes, task.file.record_count
        found.append({"location": location, "length": size, "rows": rows})
    return found


def _check_format(location: str, found: FileFormat) -> None:
    if found != FileFormat.PARQUET:
        raise UnsupportedError(f"{location}: Spark reads Parquet and Avro files, not {found.value}")


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")
