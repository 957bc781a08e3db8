"""The messages for the files of a plan: made from columns, without an object for a file that Spark reads alone.

    FilePlan ──> columns of PlannedFile    location, length, rows, row ids, key ...       straight out of the manifest
                 files with deletes        and the positions of their deleted rows
                 files for the worker      and a payload, which holds the file as an object

Streams have tasks, and get one message for each.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.errors import PlaintextFileError, UnsupportedError
from sealberg.files.confined_io import check_store
from sealberg.files.file_io import EncryptingFileIO, KeyedLocation
from sealberg.files.key_columns import decode_keys
from sealberg.metadata.manifest import DataFileV3
from sealberg.metadata.manifest_columns import FORMATS
from sealberg.scan.data_file_reader import stored_length
from sealberg.scan.delete_loader import DeleteLoader
from sealberg.spark.protocol.codec import MessageColumns
from sealberg.spark.protocol.scans import PlannedFile
from sealberg.spark.worker.payload import FilePayload

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sealberg.metadata.manifest_columns import ManifestColumns
    from sealberg.metadata.packed_column import Rows
    from sealberg.scan.planner import EncryptedFileScanTask, FilePlan, PlannedRows
    from sealberg.spark.driver.partition_column import PartitionColumn
    from sealberg.spark.protocol.scans import WorkerVerb
    from sealberg.table.base import EncryptedTable

READ_FILE: Final = "read-file"
READ_PART: Final = "read-part"
FIND_DELETED: Final = "find-deleted"
READS_ROWS: Final = (READ_FILE, READ_PART)  # and Spark's reader, which needs the key, does not


@dataclass(frozen=True)
class FileMessages:
    """Makes the messages of a version 3 table; `hard` if Spark's Parquet reader would get the columns wrong."""

    table: EncryptedTable
    partition: PartitionColumn | None
    hard: bool
    deletes: DeleteLoader
    plain_allowed: bool

    @classmethod
    def of(cls, table: EncryptedTable, partition: PartitionColumn | None = None, *, hard: bool) -> FileMessages:
        deletes = DeleteLoader(table.io, table.metadata)
        plain_allowed = not isinstance(table.io, EncryptingFileIO) or table.io.allow_plaintext
        return cls(table, partition, hard, deletes, plain_allowed)

    def planned(self, plan: FilePlan) -> MessageColumns[PlannedFile]:
        """The messages of a plan, by columns."""
        columns: dict[str, list[Any]] = {field.name: [] for field in fields(PlannedFile)}
        for part in plan.parts:
            for name, values in self._columns(part).items():
                columns[name] += values
        return MessageColumns(PlannedFile, columns)

    def _columns(self, part: PlannedRows) -> dict[str, list[Any]]:
        columns, rows = part.columns, part.rows
        locations: list[str] = columns.file_path.texts(rows).to_pylist()
        self._check(columns, rows, locations)
        keys, aad_prefixes, lengths = decode_keys(columns.key_metadata.arrow(rows))
        sizes = columns.file_size_in_bytes.arrow(rows).to_pylist()
        numbers = part.sequence_numbers()
        nothing = [None] * len(rows)
        verbs = self._worker_verbs(columns, rows, locations)
        made: dict[str, list[Any]] = {
            "location": locations,
            "file_length": [size if length is None else length for length, size in zip(lengths, sizes, strict=True)],
            "record_count": columns.record_count.arrow(rows).to_pylist(),
            "first_row_id": columns.first_row_id.arrow(rows).to_pylist(),
            "sequence_number": numbers,
            "key": keys,
            "aad_prefix": [prefix or None for prefix in aad_prefixes],
            "deleted_positions": list(nothing),
            "worker_verb": verbs,
            "worker_payload": list(nothing),
            "spec_id": list(nothing),
            "partition": list(nothing),
        }
        deletes = part.deletes or [()] * len(rows)
        worked = [at for at in range(len(rows)) if verbs[at] is not None or has_equality(deletes[at])]
        files = dict(zip(worked, columns.files(rows[worked]), strict=True))
        pending = [(at, files.get(at), deletes[at]) for at in range(len(rows)) if at in files or deletes[at]]
        for at, verb, payload, deleted in self._special(pending, locations, numbers, verbs):
            made["worker_verb"][at], made["worker_payload"][at], made["deleted_positions"][at] = verb, payload, deleted
            if verb in READS_ROWS:
                made["key"][at] = made["aad_prefix"][at] = None
        return made

    def _check(self, columns: ManifestColumns, rows: Rows, locations: Sequence[str]) -> None:
        for location in locations:
            check_store(self.table.io, location)
        known = columns.key_metadata.validity.mask(len(columns), rows)
        if known is not None and not self.plain_allowed:
            location = locations[int(known.argmin())]
            raise PlaintextFileError(f"{location}: a file of an encrypted table without a key")

    def _worker_verbs(self, columns: ManifestColumns, rows: Rows, locations: Sequence[str]) -> list[WorkerVerb | None]:
        """What the Python worker does for a file without deletes, where Spark alone cannot read it."""
        if self.hard:
            return [READ_FILE] * len(rows)
        formats = columns.file_format
        if formats.above is None and FORMATS[formats.base] == FileFormat.PARQUET:
            return [None] * len(rows)
        made: list[WorkerVerb | None] = []
        for location, number in zip(locations, formats.numpy(rows).tolist(), strict=True):
            if FORMATS[number] == FileFormat.AVRO:
                made.append(READ_PART)
            else:
                check_format(location, FORMATS[number])
                made.append(None)
        return made

    def _special(
        self,
        pending: Sequence[tuple[int, DataFileV3 | None, Collection[DataFileV3]]],
        locations: Sequence[str],
        numbers: Sequence[int | None],
        verbs: Sequence[WorkerVerb | None],
    ) -> Iterable[tuple[int, WorkerVerb | None, bytes | None, bytes | None]]:
        """For files with deletes or for the worker: the verb, the payload, and the deleted positions."""

        def one(
            each: tuple[int, DataFileV3 | None, Collection[DataFileV3]],
        ) -> tuple[int, WorkerVerb | None, bytes | None, bytes | None]:
            at, file, deletes = each
            if file is not None:
                payload = FilePayload(file, list(deletes), numbers[at]).pickled()
                return at, verbs[at] or FIND_DELETED, payload, None
            deleted = self.deletes.positions(locations[at], deletes)
            return at, None, None, deleted.bitmap() if deleted else None

        if any(deletes for _, _, deletes in pending):
            return ExecutorFactory.get_or_create().map(one, pending)
        return map(one, pending)

    def files(self, tasks: Sequence[EncryptedFileScanTask]) -> tuple[PlannedFile, ...]:
        """The messages of tasks, which streams have, and queries that read _spec_id or _partition."""
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
        reads_here = verb not in READS_ROWS and keys is not None
        asked = self.partition if self.partition is not None and self.partition.asked else None
        return PlannedFile(
            str(location),
            stored_length(file),
            file.record_count,
            file.first_row_id,
            task.sequence_number,
            keys.encryption_key if reads_here and keys else None,
            (keys.aad_prefix or None) if reads_here and keys else None,
            deleted.bitmap() if deleted else None,
            verb,
            payload,
            file.spec_id if asked is not None else None,
            asked.values(file) if asked is not None else None,
        )

    def _worker_verb(self, file: DataFileV3, deletes: Sequence[DataFileV3]) -> WorkerVerb | None:
        """What the Python worker does for the file, where Spark alone cannot read it."""
        if self.hard:
            return READ_FILE
        if file.file_format == FileFormat.AVRO:
            return READ_PART
        check_format(str(file.file_path), file.file_format)
        return FIND_DELETED if has_equality(deletes) else None


def has_equality(deletes: Collection[DataFileV3]) -> bool:
    return any(delete.content == DataFileContent.EQUALITY_DELETES for delete in deletes)


def check_format(location: str, found: FileFormat) -> None:
    if found != FileFormat.PARQUET:
        raise UnsupportedError(f"{location}: Spark reads Parquet and Avro files, not {found.value}")
