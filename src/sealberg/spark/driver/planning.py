"""The files that a query reads, with their keys and the positions of their deleted rows.

    ScanRequest ──> Planner ──> tasks ──> ScanPlan, a PlannedFile for each task

The driver reads deletion vectors and position deletes, and sends positions. For two kinds of files, Java starts a
Python worker beside the task; the worker gets the file and its delete files with their keys:

    read-file      the worker reads the file: Avro, and columns that Spark's Parquet reader would get wrong
    find-deleted   the worker reads the columns of equality deletes, and sends the positions of deleted rows

A key goes only to the task that reads its file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
from sealberg.spark.protocol.scans import PlannedFile, ScanPlan
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
    from sealberg.spark.protocol.codec import Struct
    from sealberg.spark.protocol.handles import TableHandle
    from sealberg.spark.protocol.scans import ScanRequest, WorkerVerb

NAME_MAPPING: Final = TableProperties.DEFAULT_NAME_MAPPING
READ_FILE: Final = "read-file"
FIND_DELETED: Final = "find-deleted"


def plan(tables: Tables, request: ScanRequest) -> ScanPlan:
    """The files for these filters and columns, in the snapshot that the query has seen."""
    handle = request.handle
    table = tables.named(handle)
    if handle.snapshot_id is None:
        return ScanPlan(python_program(), ())
    schema = table.metadata.schema_by_id(handle.schema_id) or table.metadata.schema()
    row_filter = inclusive(request.filters, schema)
    if isinstance(table, EncryptedTable):
        return scan_plan(table, schema, request.columns, _tasks(table, handle, schema, row_filter))
    files = _plain(table, handle.snapshot_id, row_filter)
    return ScanPlan(python_program(), files, storage(table.io, data_folder(table.metadata)))


def scan_plan(
    table: EncryptedTable, schema: Schema, columns: Struct, tasks: Sequence[EncryptedFileScanTask]
) -> ScanPlan:
    """The plan of these tasks; `columns` are those that Spark asks for."""
    files = _EncryptedPlanner.of(table, hard=beyond_spark(schema, columns)).files(tasks)
    needs_worker = any(file.worker_verb is not None for file in files)
    payload = table_of(table, schema).pickled() if needs_worker else None
    return ScanPlan(python_program(), files, storage(table.io, data_folder(table.metadata)), payload)


def _tasks(
    table: EncryptedTable, handle: TableHandle, schema: Schema, row_filter: BooleanExpression
) -> list[EncryptedFileScanTask]:
    snapshot_id = handle.snapshot_id
    assert snapshot_id is not None, "a table without snapshots has no files"
    if handle.after_snapshot_id is not None:
        appends = table.incremental_append_scan(
            from_snapshot_id_exclusive=handle.after_snapshot_id,
            to_snapshot_id_inclusive=snapshot_id,
            row_filter=row_filter,
        )
        return appends.plan_files()
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise ConflictError(f"snapshot {snapshot_id} of {'.'.join(table.name())} has expired since this query named it")
    return Planner(table.metadata, table.io, schema, row_filter).plan(snapshot.manifests(table.io))


@dataclass(frozen=True)
class _EncryptedPlanner:
    """The plan of a version 3 table; `hard` if Spark's Parquet reader would get the columns wrong."""

    table: EncryptedTable
    hard: bool
    deletes: DeleteLoader
    plain_allowed: bool

    @classmethod
    def of(cls, table: EncryptedTable, *, hard: bool) -> _EncryptedPlanner:
        deletes = DeleteLoader(table.io, table.metadata)
        plain_allowed = not isinstance(table.io, EncryptingFileIO) or table.io.allow_plaintext
        return cls(table, hard, deletes, plain_allowed)

    def files(self, tasks: Sequence[EncryptedFileScanTask]) -> tuple[PlannedFile, ...]:
        if any(task.delete_files for task in tasks):
            return tuple(ExecutorFactory.get_or_create().map(self._file, tasks))
        return tuple(self._file(task) for task in tasks)

    def _file(self, task: EncryptedFileScanTask) -> PlannedFile:
        file = task.file
        location = file.file_path
        check_store(self.table.io, str(location))
        keys = location.keys if isinstance(location, KeyedLocation) else None
        if keys is None and not self.plain_allowed:
            raise PlaintextFileError(f"{location!s}: a file of an encrypted table without a key")
        deletes = [delete for delete in task.delete_files if isinstance(delete, DataFileV3)]
        verb = self._worker_verb(file, deletes)
        payload = FilePayload(file, deletes, task.sequence_number).pickled() if verb is not None else None
        deleted = self.deletes.positions(str(location), deletes) if verb is None else None
        reads_here = verb != READ_FILE and keys is not None
        return PlannedFile(
            str(location),
            keys.file_length if keys and keys.file_length is not None else file.file_size_in_bytes,
            file.record_count,
            file.first_row_id,
            task.sequence_number,
            keys.encryption_key if reads_here and keys else None,
            (keys.aad_prefix or None) if reads_here and keys else None,
            deleted.bitmap() if deleted else None,
            verb,
            payload,
        )

    def _worker_verb(self, file: DataFileV3, deletes: Sequence[DataFileV3]) -> WorkerVerb | None:
        """What the Python worker does for the file, where Spark alone cannot read it."""
        if file.file_format == FileFormat.AVRO or self.hard:
            return READ_FILE
        _check_format(str(file.file_path), file.file_format)
        return FIND_DELETED if any(delete.content == DataFileContent.EQUALITY_DELETES for delete in deletes) else None


def table_of(table: EncryptedTable, schema: Schema) -> TablePayload:
    """As little of the table as reading a file takes."""
    properties = {name: value for name, value in table.metadata.properties.items() if name == NAME_MAPPING}
    small = strip_metadata(table.metadata, **properties)
    io = table.io
    allow_plaintext = isinstance(io, EncryptingFileIO) and io.allow_plaintext
    return TablePayload(small, schema, encrypted=isinstance(io, EncryptingFileIO), allow_plaintext=allow_plaintext)


def _plain(table: Table, snapshot_id: int, row_filter: BooleanExpression) -> tuple[PlannedFile, ...]:
    """The files of a table of version 1 or 2, which PyIceberg plans."""
    found = []
    for task in table.scan(row_filter=row_filter, snapshot_id=snapshot_id).plan_files():
        location = str(task.file.file_path)
        check_store(table.io, location)
        _check_format(location, task.file.file_format)
        if task.delete_files:
            raise UnsupportedError(f"{location} has delete files, which are read in tables of version 3 only")
        found.append(PlannedFile(location, task.file.file_size_in_bytes, task.file.record_count))
    return tuple(found)


def _check_format(location: str, found: FileFormat) -> None:
    if found != FileFormat.PARQUET:
        raise UnsupportedError(f"{location}: Spark reads Parquet and Avro files, not {found.value}")
