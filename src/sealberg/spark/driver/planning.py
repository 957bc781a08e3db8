"""The files that a query reads, with their keys and the positions of their deleted rows.

    ScanRequest ──> Planner ──> FilePlan, columns ──> ScanPlan, columns of PlannedFile
                    └─ very large: tasks of Spark read the manifests (`planning_modes`)

The driver reads deletion vectors and position deletes, and sends positions. For two kinds of files, Java starts a
Python worker beside the task; the worker gets the file and its delete files with their keys:

    read-part      the worker reads a part of the file: Avro
    read-file      the worker reads the file, for columns that Spark's Parquet reader would get wrong
    find-deleted   the worker reads the columns of equality deletes, and sends the positions of deleted rows of a part

A key goes only to the task that reads its file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table import TableProperties

from sealberg.errors import ConflictError, UnsupportedError
from sealberg.files.confined_io import check_store
from sealberg.files.file_io import EncryptingFileIO
from sealberg.scan.planner import FilePlan, Planner
from sealberg.spark.driver.partition_column import PartitionColumn
from sealberg.spark.driver.planned_files import FileMessages, check_format
from sealberg.spark.driver.planning_modes import DistributedReading, PlanningModes
from sealberg.spark.driver.storage import data_folder, storage
from sealberg.spark.filters import inclusive
from sealberg.spark.protocol.scans import PlannedFile, PlanTasks, ScanPlan
from sealberg.spark.types import beyond_spark
from sealberg.spark.worker.payload import TablePayload, python_program, strip_metadata
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.spark.driver.calls import Call, Calls
    from sealberg.spark.driver.tables import Tables
    from sealberg.spark.protocol.codec import Struct
    from sealberg.spark.protocol.handles import TableHandle
    from sealberg.spark.protocol.scans import PlanStep, ScanRequest

FILES_OF_MESSAGE: Final = 50_000
NAME_MAPPING: Final = TableProperties.DEFAULT_NAME_MAPPING


def plan(tables: Tables, calls: Calls, request: ScanRequest) -> PlanStep:
    """The files for these filters and columns, in the snapshot that the query has seen; or tasks that find them."""
    handle = request.handle
    table = tables.named(handle)
    if handle.snapshot_id is None:
        return ScanPlan(python_program(), ())
    schema = table.metadata.schema_by_id(handle.schema_id) or table.metadata.schema()
    row_filter = inclusive(request.filters, schema)
    if isinstance(table, EncryptedTable) and handle.after_snapshot_id is not None:
        return scan_plan(table, schema, request.columns, _appended(table, handle, row_filter))
    if isinstance(table, EncryptedTable):
        snapshot = _snapshot(table, handle.snapshot_id)
        manifests = snapshot.manifests(table.io)
        planner = Planner(table.metadata, table.io, schema, row_filter)
        modes = PlanningModes.of(request.planning, snapshot)
        found = None if modes.may_distribute(manifests) else planner.file_plan(manifests)
        if found is not None and len(found) <= FILES_OF_MESSAGE:
            return scan_plan(table, schema, request.columns, found)

        def answer(call: Call) -> ScanPlan:
            read = DistributedReading(handle.name, table.io, modes, call)
            files = found
            if files is None:
                files = planner.file_plan(manifests, read_data=read.data, read_deletes=read.deletes)
            made = _in_messages(call, files, lambda some: scan_plan(table, schema, request.columns, some))
            return replace(made, planning_tasks=read.tasks or None)

        step: PlanStep = calls.begin(f"plan {handle.name}", answer, PlanTasks, request.planning.call)
        return step
    files = _plain(table, handle.snapshot_id, row_filter, PartitionColumn.of(table.metadata, request.columns))
    return ScanPlan(python_program(), files, storage(table.io, data_folder(table.metadata)))


def scan_plan(
    table: EncryptedTable, schema: Schema, columns: Struct, found: FilePlan | Sequence[EncryptedFileScanTask]
) -> ScanPlan:
    """The plan of these files; `columns` are those that Spark asks for."""
    partition = PartitionColumn.of(table.metadata, columns)
    planner = FileMessages.of(table, partition, hard=beyond_spark(schema, columns))
    if partition.asked and isinstance(found, FilePlan):
        found = found.tasks()  # a plan by columns has no partition values
    if isinstance(found, FilePlan):
        files: Any = planner.planned(found)
        needs_worker = any(verb is not None for verb in files.columns["worker_verb"])
    else:
        files = planner.files(found)
        needs_worker = any(file.worker_verb is not None for file in files)
    payload = table_of(table, schema).pickled() if needs_worker else None
    return ScanPlan(python_program(), files, storage(table.io, data_folder(table.metadata)), payload)


def _in_messages(call: Call, found: FilePlan, made_of: Callable[[FilePlan], ScanPlan]) -> ScanPlan:
    """A plan in several messages: beside the columns, Python holds the files of one message."""
    *before, last = found.groups(FILES_OF_MESSAGE)
    payload = None
    for some in before:
        made = made_of(some)
        payload = made.table_payload or payload
        call.tell(made.files)
    made = made_of(last)
    return replace(made, table_payload=made.table_payload or payload)


def _appended(table: EncryptedTable, handle: TableHandle, row_filter: BooleanExpression) -> FilePlan:
    """Always by the driver, as in Iceberg Java."""
    appends = table.incremental_append_scan(
        from_snapshot_id_exclusive=handle.after_snapshot_id,
        to_snapshot_id_inclusive=handle.snapshot_id,
        row_filter=row_filter,
    )
    return appends.file_plan()


def _snapshot(table: EncryptedTable, snapshot_id: int) -> Snapshot:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise ConflictError(f"snapshot {snapshot_id} of {'.'.join(table.name())} has expired since this query named it")
    return snapshot


def table_of(table: EncryptedTable, schema: Schema) -> TablePayload:
    """As little of the table as reading a file takes."""
    properties = {name: value for name, value in table.metadata.properties.items() if name == NAME_MAPPING}
    small = strip_metadata(table.metadata, **properties)
    io = table.io
    allow_plaintext = isinstance(io, EncryptingFileIO) and io.allow_plaintext
    return TablePayload(small, schema, encrypted=isinstance(io, EncryptingFileIO), allow_plaintext=allow_plaintext)


def _plain(
    table: Table, snapshot_id: int, row_filter: BooleanExpression, partition: PartitionColumn
) -> tuple[PlannedFile, ...]:
    """The files of a table of version 1 or 2, which PyIceberg plans."""
    found = []
    for task in table.scan(row_filter=row_filter, snapshot_id=snapshot_id).plan_files():
        location = str(task.file.file_path)
        check_store(table.io, location)
        check_format(location, task.file.file_format)
        if task.delete_files:
            raise UnsupportedError(f"{location} has delete files, which are read in tables of version 3 only")
        file = task.file
        values = partition.values(file)
        found.append(
            PlannedFile(location, file.file_size_in_bytes, file.record_count, spec_id=file.spec_id, partition=values)
        )
    return tuple(found)
