"""Which files a query reads, with which keys, and without which of their rows.

    filters ──> Planner ──> tasks ──> {"location", "length", "key", "deleted", ...} for each file

Deletion vectors and position deletes become the positions of deleted rows. Equality deletes do too: the file's
columns are compared here, on the driver, which is slow and right. Keys go to the tasks of their own files only.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.utils.concurrent import ExecutorFactory
from pyroaring import BitMap

from sealberg.errors import ConflictError, PlaintextFileError, UnsupportedError
from sealberg.files.deletion_vectors import DeletionVector
from sealberg.files.file_io import KeyedLocation, SealedFileIO
from sealberg.spark.filters import inclusive
from sealberg.table import lineage
from sealberg.table.manifests import DataFileV3
from sealberg.table.plan import Planner, SealedFileScanTask
from sealberg.table.read import TaskReader
from sealberg.table.sealed_table import SealedTable

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from sealberg.spark.tables import Tables


def plan(tables: Tables, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """The files for these filters, in the snapshot that the query has seen."""
    handle = arguments["handle"]
    table = tables.found(handle)
    if str(table.metadata.table_uuid) != handle["uuid"]:
        raise ConflictError(f"table {'.'.join(handle['table'])} was dropped and made anew since this query named it")
    if handle["snapshot"] is None:
        return []
    schema = table.metadata.schema_by_id(handle["schema"]) or table.metadata.schema()
    row_filter = inclusive(arguments["filters"], schema)
    if isinstance(table, SealedTable):
        return _sealed(table, handle["snapshot"], schema, row_filter)
    return _plain(table, handle["snapshot"], row_filter)


def _sealed(
    table: SealedTable, snapshot_id: int, schema: Schema, row_filter: BooleanExpression
) -> list[dict[str, Any]]:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise ConflictError(f"snapshot {snapshot_id} of {'.'.join(table.name())} has expired since this query named it")
    tasks = Planner(table.metadata, table.io, schema, row_filter).plan(snapshot.manifests(table.io))
    reader = TaskReader(table.metadata, table.io, schema, lineage.project(schema, ("_pos",)))
    plain_allowed = not isinstance(table.io, SealedFileIO) or table.io.allow_plaintext

    def described(task: SealedFileScanTask) -> dict[str, Any]:
        return _file(task, reader, plain_allowed=plain_allowed)

    if any(task.delete_files for task in tasks):
        return list(ExecutorFactory.get_or_create().map(described, tasks))
    return [described(task) for task in tasks]


def _file(task: SealedFileScanTask, reader: TaskReader, *, plain_allowed: bool) -> dict[str, Any]:
    file = task.file
    location = file.file_path
    _check_format(str(location), file.file_format)
    keys = location.keys if isinstance(location, KeyedLocation) else None
    if keys is None and not plain_allowed:
        raise PlaintextFileError(f"{location!s}: a file of an encrypted table without a key")
    deleted = _deleted(task, reader)
    return {
        "location": str(location),
        "length": keys.file_length if keys and keys.file_length is not None else file.file_size_in_bytes,
        "key": _text(keys.encryption_key) if keys else None,
        "aad": _text(keys.aad_prefix) if keys and keys.aad_prefix is not None else None,
        "deleted": _text(BitMap(deleted).serialize()) if deleted else None,
        "first-row-id": file.first_row_id,
        "sequence-number": task.sequence_number,
    }


def _deleted(task: SealedFileScanTask, reader: TaskReader) -> DeletionVector | None:
    deletes = [one for one in task.delete_files if isinstance(one, DataFileV3)]
    if not any(one.content == DataFileContent.EQUALITY_DELETES for one in deletes):
        return reader.deletes.positions(str(task.file.file_path), deletes)
    whole = SealedFileScanTask(task.file, task.delete_files, AlwaysTrue(), sequence_number=task.sequence_number)
    live = {position for batch in reader.batches(whole) for position in batch.column(0).to_pylist()}
    return DeletionVector.of(sorted(set(range(task.file.record_count)) - live))


def _plain(table: Table, snapshot_id: int, row_filter: BooleanExpression) -> list[dict[str, Any]]:
    """A table of version 1 or 2, which PyIceberg plans."""
    found = []
    for task in table.scan(row_filter=row_filter, snapshot_id=snapshot_id).plan_files():
        location = str(task.file.file_path)
        _check_format(location, task.file.file_format)
        if task.delete_files:
            raise UnsupportedError(f"{location} has delete files, which are read in tables of version 3 only")
        found.append({"location": location, "length": task.file.file_size_in_bytes})
    return found


def _check_format(location: str, found: FileFormat) -> None:
    if found != FileFormat.PARQUET:
        raise UnsupportedError(f"{location}: Spark reads Parquet files here, not {found.value}; Python reads both")


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")
