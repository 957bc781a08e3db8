"""Rewrites some files of a group into new files, wherever the runner works on them.

    RewriteTask ──rewrite──> Rewritten: the new files with their keys

    input files, in parallel ──deleted rows dropped, row ids kept──> (sorted) ──by partition──> new files

A task holds the keys of its own input files, and how to reach the storage; it makes the keys of its new files itself.
It knows neither the KMS nor the catalog. Rows are streamed, so the memory of a task is bounded: a row group that is
collected, and with a sort the rows of `SORT_BYTES`. A larger input is sorted in several runs, each in files of its
own: nothing is ever spilled to a local disk.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.partitioning import PartitionKey
from pyiceberg.schema import Schema
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.errors import FormatError, SealbergError
from sealberg.files.file_io import EncryptingFileIO
from sealberg.jobs.compaction.sorting import UNSORTED, Layout
from sealberg.scan import metadata_columns
from sealberg.scan.data_file_reader import DecodeOptions, open_rows
from sealberg.scan.ordered_streams import in_order
from sealberg.scan.planner import EncryptedFileScanTask
from sealberg.scan.task_reader import TaskReader
from sealberg.write.context import WriteContext
from sealberg.write.data_writer import LINEAGE, RowWriter
from sealberg.write.partition_split import by_partition
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.typedef import Record

    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.jobs.compaction.selection import InputFile
    from sealberg.keys.manager import EncryptionManager
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.write.file_stream import DataFileStream

ROWS: Final = 1 << 17  # of a piece that is written at a time
LEAST_ROWS: Final = 1 << 13  # of a batch that is written as it is
PIECE_BYTES: Final = 32 << 20
SORT_BYTES: Final = 1 << 30  # of rows in memory that are sorted at a time
OFFSET_BYTES: Final = 1 << 29
OPEN_BYTES: Final = 256 << 20  # of rows that wait in open files of several partitions
WINDOW: Final = 4  # input files that are read at a time
CHUNK_BYTES: Final = 16 << 20  # of an input file that are read ahead


@dataclass(frozen=True)
class RewriteTask:
    """Some files of one group, which become new files.

    Attributes:
        group: the number of the group.
        metadata: schemas and specs of the table, without snapshots and keys.
        encryption: makes the keys of new files; it knows no KMS.
        output_files: how many files the rows should become.
        single: whether all rows belong to the partition of the first file.
        without: rows that match this filter are left out; None: no rows are.
        filter_schema: the columns of that filter, if it has others than those of the table.
        left_out: how many rows these are, if that is known.
    """

    table: str
    group: int
    files: tuple[InputFile, ...] = field(repr=False)
    io: FileIO = field(repr=False)
    metadata: V3TableMetadata = field(repr=False)
    locations: LocationProvider = field(repr=False)
    encryption: EncryptionManager = field(repr=False)
    output_files: int
    single: bool
    layout: Layout = UNSORTED
    sort_bytes: int = SORT_BYTES
    allow_plaintext: bool = False
    allow_missing_length: bool = False
    without: BooleanExpression | None = field(default=None, repr=False)
    filter_schema: Schema | None = field(default=None, repr=False)
    left_out: int | None = None

    @property
    def stored_bytes(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Rewritten:
    """New files, or the error that stopped the task."""

    group: int
    files: tuple[DataFileV3, ...] = ()
    rows: int = 0
    input_files: int = 0
    stored_bytes: int = 0
    error: str | None = None
    cause: Exception | None = field(default=None, repr=False)


def rewrite(task: RewriteTask) -> Rewritten:
    """Write the live rows of the files of a task into new files. An error is a part of the result, so that the other
    tasks go on; the files of a task that failed are deleted."""
    try:
        files = _Rewrite(task).run()
    except (SealbergError, OSError, ValueError, pa.ArrowException) as error:
        return Rewritten(task.group, error=f"{type(error).__name__}: {error}", cause=_portable(error))
    rows = sum(file.record_count for file in files)
    return Rewritten(task.group, tuple(files), rows, len(task.files), task.stored_bytes)


def _portable(error: Exception) -> Exception | None:
    """The error without its traceback, whose frames hold keys and rows; None if another process cannot have it."""
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))  # noqa: S301 (an object of this process)
    except Exception:  # noqa: BLE001 (errors of libraries fail in their own ways; the text of the error is kept)
        return None
    return copy


class _Rewrite:
    def __init__(self, task: RewriteTask) -> None:
        self.task = task
        allowed = {"allow_plaintext": task.allow_plaintext, "allow_missing_length": task.allow_missing_length}
        self.io = EncryptingFileIO(task.io, _no_list_key, **allowed)
        self.schema = task.metadata.schema()
        self.writer = RowWriter(WriteContext(task.metadata, self.io, task.encryption, task.locations))
        self.rows_read = 0

    def run(self) -> list[DataFileV3]:
        with StagedFiles(self.io) as staged, _Output(self, staged) as output:
            for rows in self._ordered():
                step = _rows_at_a_time(rows)
                for start in range(0, rows.num_rows, step):
                    output.write(rows.slice(start, step))
                if self.task.layout.is_sorted:
                    output.end_of_run()
            files = output.close()
            self._check(files)
            return files

    # -- rows -----------------------------------------------------------------------------------

    def _ordered(self) -> Iterator[pa.Table]:
        if not self.task.layout.is_sorted:
            yield from self._pieces(PIECE_BYTES, ROWS)
            return
        for run in self._pieces(self.task.sort_bytes, None):
            yield self.task.layout.sorted_rows(run, self.schema)

    def _pieces(self, most_bytes: int, most_rows: int | None) -> Iterator[pa.Table]:
        """Rows of several files together: small files would make small pieces, and each piece costs time."""
        batches: list[pa.RecordBatch] = []
        size = rows = 0
        for batch in self._batches():
            batches.append(batch)
            size, rows = size + batch.nbytes, rows + batch.num_rows
            if size >= most_bytes or (most_rows is not None and rows >= most_rows):
                yield self._piece(batches)
                batches, size, rows = [], 0, 0
        if batches:
            yield self._piece(batches)

    def _piece(self, batches: list[pa.RecordBatch]) -> pa.Table:
        """One piece; its batches are copied into one only if they are small, or are sorted next."""
        piece = pa.Table.from_batches(batches)
        is_small = piece.num_rows < len(batches) * LEAST_ROWS
        return piece.combine_chunks() if is_small or self.task.layout.is_sorted else piece

    def _batches(self) -> Iterator[pa.RecordBatch]:
        projection = Schema(*self.schema.fields, *LINEAGE, schema_id=self.schema.schema_id)
        few = len(self.task.files) < (os.cpu_count() or 1)
        options = DecodeOptions(threads=few)
        without = self.task.without
        reader = TaskReader(self.task.metadata, self.io, self.schema, projection, options=options)
        if without is not None:
            reader = replace(reader, schema=self._filter_schema, row_filter=without, drop_matching=True)
        for batch in in_order(
            ExecutorFactory.get_or_create(),
            (reader.batches(_scan_task(file)) for file in self.task.files),
            window=WINDOW,
            budget=CHUNK_BYTES,
            weigh=lambda batch: batch.nbytes,
        ):
            self.rows_read += batch.num_rows
            yield batch

    def _check(self, files: list[DataFileV3]) -> None:
        """Nothing is committed that was not checked: the count of rows, and that each new file opens with its key."""
        written = sum(file.record_count for file in files)
        expected = [self._expected_rows(file) for file in self.task.files]
        known = None if None in expected else sum(count or 0 for count in expected)
        if written != self.rows_read or (known is not None and known != written):
            raise FormatError(
                f"{self.task.table}: group {self.task.group} has {known if known is not None else '?'} rows by its "
                f"manifests, {self.rows_read} rows were read and {written} written"
            )
        for file in files:
            with open_rows(self.io, file):
                pass

    def _expected_rows(self, file: InputFile) -> int | None:
        """The rows of a file by its manifest entries, without the rows that are left out."""
        counted, without = _scan_task(file).counted_rows, self.task.without
        if counted is None or without is None:
            return counted
        if self.task.left_out is not None:
            return counted - self.task.left_out
        reader = TaskReader(self.task.metadata, self.io, self._filter_schema, Schema(metadata_columns.POS), without)
        matching = EncryptedFileScanTask(file.file, file.deletes, without, sequence_number=file.sequence_number)
        return counted - sum(int(batch.num_rows) for batch in reader.batches(matching))

    @property
    def _filter_schema(self) -> Schema:
        return self.task.filter_schema or self.schema

    # -- places ---------------------------------------------------------------------------------

    @cached_property
    def rows_per_file(self) -> int:
        expected = sum(max(0, _live_rows(file)) for file in self.task.files)
        return max(1, -(-expected // self.task.output_files))

    def by_partition(self, rows: pa.Table) -> Iterator[tuple[PartitionKey | None, pa.Table]]:
        spec = self.task.metadata.spec()
        if spec.is_unpartitioned():
            yield None, rows
        elif self.task.single:
            yield self._only_partition, rows
        else:
            yield from by_partition(spec, self.schema, rows)

    @cached_property
    def _only_partition(self) -> PartitionKey:
        """The partition of the input files as it stands in their entries: nothing is computed from rows again."""
        return _KnownPartition([], self.task.metadata.spec(), self.schema, self.task.files[0].file.partition)


class _Output:
    """The open files of a task, one for each partition, and the files that are finished."""

    def __init__(self, work: _Rewrite, staged: StagedFiles) -> None:
        self._work = work
        self._staged = staged
        self._open: dict[str, tuple[DataFileStream, PartitionKey | None]] = {}
        self._files: list[DataFileV3] = []

    def write(self, rows: pa.Table) -> None:
        shaped = self._work.writer.shaped(_with_small_offsets(rows).to_batches(), lineage=True)
        for partition, part in self._work.by_partition(shaped):
            self._put(partition, part)
        self._bound_memory()

    def _put(self, partition: PartitionKey | None, rows: pa.Table) -> None:
        name = "" if partition is None else partition.to_path()
        start = 0
        while start < rows.num_rows:
            stream = self._stream(name, partition)
            room = self._work.rows_per_file - stream.rows
            stream.write(rows.slice(start, room))
            start += room
            if stream.rows >= self._work.rows_per_file:
                self._finish(name)

    def _stream(self, name: str, partition: PartitionKey | None) -> DataFileStream:
        if name not in self._open:
            writer = self._work.writer
            location = writer.new_location(partition)
            self._staged.add(location)
            stream = writer.stream(location, lineage=True, sort_order_id=self._work.task.layout.order_id)
            self._open[name] = stream, partition
        return self._open[name][0]

    def _bound_memory(self) -> None:
        """With many partitions, the file that holds most rows in memory ends early."""
        while sum(stream.collected_bytes for stream, _ in self._open.values()) > OPEN_BYTES and len(self._open) > 1:
            self._finish(max(self._open, key=lambda name: self._open[name][0].collected_bytes))

    def _finish(self, name: str) -> None:
        stream, partition = self._open.pop(name)
        self._files.append(self._work.writer.placed(stream.close(), partition))

    def end_of_run(self) -> None:
        """A new run begins with smaller values, and the rows of a sorted file are in order."""
        for name in list(self._open):
            self._finish(name)

    def close(self) -> list[DataFileV3]:
        self.end_of_run()
        return self._files

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        for stream, _partition in self._open.values():
            stream.abort()


class _KnownPartition(PartitionKey):
    """A partition whose values are known."""

    def __init__(self, values: list[object], spec: object, schema: Schema, record: Record) -> None:
        super().__init__(values, spec, schema)  # type: ignore[arg-type]
        object.__setattr__(self, "_record", record)

    @cached_property
    def partition(self) -> Record:
        return self._record  # type: ignore[attr-defined,no-any-return]


def _rows_at_a_time(rows: pa.Table) -> int:
    """As many rows as 32-bit offsets can address, with room to spare."""
    row_bytes = max(1, int(rows.nbytes) // max(1, int(rows.num_rows)))
    return max(1, min(ROWS, OFFSET_BYTES // row_bytes))


def _scan_task(file: InputFile) -> EncryptedFileScanTask:
    return EncryptedFileScanTask(file.file, file.deletes, AlwaysTrue(), sequence_number=file.sequence_number)


def _live_rows(file: InputFile) -> int:
    deleted = sum(int(vector.record_count) for vector in file.vectors)
    return int(file.file.record_count) - deleted


def _with_small_offsets(rows: pa.Table) -> pa.Table:
    """Strings, binaries and lists with 32-bit offsets, as Spark's files and most of PyIceberg's have them: the type
    that the file stores is the type that to_arrow returns."""
    return rows.cast(pa.schema([field.with_type(_small(field.type)) for field in rows.schema]))


def _small(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_small(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_small(kind.key_type)), kind.item_field.with_type(_small(kind.item_type))
        )
    if pa.types.is_struct(kind):
        return pa.struct([inner.with_type(_small(inner.type)) for inner in kind])
    return kind


def _no_list_key(_: str) -> KeyMetadata:
    raise AssertionError("internal error: a task opened a manifest list")
