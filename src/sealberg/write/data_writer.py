"""Writes rows to data files, each under a key of its own.

    Arrow rows ──by partition──> ──by target size──> one file each ──> DataFileV3 with key, length and metrics

PyIceberg's functions check the schema, pack rows by target size and compute most metrics. partition_split.py splits
rows by partition, stream_writer.py keeps memory bounded, file_stream.py writes the file, encrypted if the table is.
Rows that are rewritten from one file to another keep `_row_id` and `_last_updated_sequence_number` as columns of the
file.
"""

from __future__ import annotations

import math
import uuid
from collections import deque
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import bin_pack_arrow_table, pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StructType
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.errors import PlaintextFileError, UnsupportedError
from sealberg.files.file_io import EncryptingFileIO
from sealberg.files.parquet import writer as parquet_write
from sealberg.files.parquet.bloom_filters import BloomFilters
from sealberg.properties.table_names import value_of
from sealberg.pyiceberg_private import check_arrow_schema
from sealberg.scan.metadata_columns import LAST_UPDATED, ROW_ID
from sealberg.scan.ordered_streams import in_order
from sealberg.scan.projection import Projector
from sealberg.write.file_stream import DataFileStream, FileForm, PlainFileStream
from sealberg.write.partition_split import identity, slabs, slices_by_partition
from sealberg.write.staged_files import StagedFiles
from sealberg.write.stream_writer import UNDER_WAY, StreamWriter, most_open

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionKey

    from sealberg.keys.manager import EncryptionManager
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.write.context import WriteContext

LINEAGE: Final = (ROW_ID, LAST_UPDATED)
FILES_UNDER_WAY: Final = 4
SLAB_BYTES: Final = 20 << 20  # rows that are split by partition at a time
SLABS_AHEAD: Final = 2  # that threads split before their rows are taken
LANE_BYTES: Final = 256 << 20  # row groups of an unpartitioned stream that are written at a time
AVRO_ROWS: Final = 1 << 18  # rows of an Avro file that are written at a time


@dataclass(frozen=True)
class RowWriter:
    """Writes rows of one table; every call of `write` makes new files with new names."""

    context: WriteContext
    write_id: uuid.UUID = field(default_factory=uuid.uuid4)
    numbers: count[int] = field(default_factory=count)
    _forms: dict[tuple[bool, int], FileForm] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.encryption is None) == isinstance(self.io, EncryptingFileIO):
            raise PlaintextFileError(
                "internal error: an encrypted table must be written with its keys and an EncryptingFileIO, and any "
                "other table with neither"
            )
        if self.format not in (FileFormat.PARQUET, FileFormat.AVRO):
            raise UnsupportedError(f"data files are Parquet or Avro; {self.format.value} cannot be written")
        if self.format == FileFormat.AVRO and self.encryption is None:
            raise UnsupportedError("Avro data files are written for encrypted tables only")

    @property
    def metadata(self) -> V3TableMetadata:
        return self.context.metadata

    @property
    def io(self) -> FileIO:
        return self.context.io

    @property
    def encryption(self) -> EncryptionManager | None:
        return self.context.encryption

    @property
    def format(self) -> FileFormat:
        return FileFormat(value_of(self.metadata.properties, TableProperties.WRITE_FILE_FORMAT, "parquet").upper())

    @cached_property
    def parquet_options(self) -> dict[str, Any]:
        properties, schema = self.metadata.properties, self.metadata.schema()
        return {**parquet_write.write_options(properties), **BloomFilters.of(properties, schema).for_pyarrow()}

    def new_location(self, partition: PartitionKey | None) -> str:
        name = f"00000-{next(self.numbers)}-{self.write_id}.{self.format.value.lower()}"
        return self.context.locations.new_data_location(name, partition)

    def check(self, schema: pa.Schema) -> None:
        """Refuse rows that do not fit the schema of the table, with PyIceberg's errors."""
        # A required column may be missing if it has a write default.
        wanted = [
            field
            if field.write_default is None or field.name in schema.names
            else field.model_copy(update={"required": False})
            for field in self.metadata.schema().fields
        ]
        check_arrow_schema(Schema(*wanted), schema, format_version=3)
        _refuse_other_ids(schema, self.metadata.schema())

    def write(self, rows: pa.Table | pa.RecordBatchReader, *, lineage: bool = False) -> list[DataFileV3]:
        """Write all rows; on failure, the files written so far are deleted."""
        if self.format == FileFormat.PARQUET:
            self.parquet_options  # noqa: B018 (computed before the threads start, so that it warns once)
        with StagedFiles(self.io) as staged:
            if not self.metadata.spec().is_unpartitioned():
                return self._write_partitions(rows, lineage, staged)
            if isinstance(rows, pa.Table):
                return self._write_table(rows, lineage, staged)
            return self._write_stream(rows, lineage, staged)

    def _write_table(self, rows: pa.Table, lineage: bool, staged: StagedFiles) -> list[DataFileV3]:
        """Rows that are in memory: each file has consecutive rows, and several files are written at a time."""
        if rows.num_rows == 0:
            return []
        pool, files = ExecutorFactory.get_or_create(), []
        under_way: deque[Future[DataFileV3]] = deque()
        try:
            for batches in bin_pack_arrow_table(rows, self._target):
                if len(under_way) >= FILES_UNDER_WAY:
                    files.append(under_way.popleft().result())
                under_way.append(pool.submit(self._write_file, batches, lineage, staged))
            return files + [future.result() for future in under_way]
        finally:
            wait(under_way)  # StagedFiles cannot delete a file that a thread still writes

    def _write_file(self, batches: list[pa.RecordBatch], lineage: bool, staged: StagedFiles) -> DataFileV3:
        rows = self.shaped(batches, lineage)
        file = self._open_file(None, lineage, staged)
        file.write(rows, end_group=False)
        return file.close()

    def _write_stream(self, rows: pa.RecordBatchReader, lineage: bool, staged: StagedFiles) -> list[DataFileV3]:
        """Rows that arrive: a second file is begun when the rows fill the first, a third when they fill two ..."""
        group_rows, group_bytes = self._row_group
        seen = 0
        with self._streaming() as writer:
            for batches in slabs(rows, group_bytes, group_rows):
                shaped = self.shaped(batches, lineage)
                lanes = range(max(1, min(UNDER_WAY, 1 + seen // self._target, LANE_BYTES // shaped.nbytes)))
                lane = next(filter(writer.idle, lanes), 0)
                writer.add(lane, partial(self._open_file, None, lineage, staged), shaped.to_batches())
                seen += shaped.nbytes
            return writer.finish()

    def _write_partitions(
        self, rows: pa.Table | pa.RecordBatchReader, lineage: bool, staged: StagedFiles
    ) -> list[DataFileV3]:
        batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
        split = (self._split(slab, lineage) for slab in slabs(batches, SLAB_BYTES))
        pool = ExecutorFactory.get_or_create()
        with self._streaming() as writer:
            # Threads split the next rows meanwhile: there are no rows to write before some are split.
            for key, part in in_order(pool, split, window=SLABS_AHEAD, budget=math.inf, weigh=lambda _: 0):
                writer.add(identity(key), partial(self._open_file, key, lineage, staged), part)
            return writer.finish()

    def _split(self, slab: list[pa.RecordBatch], lineage: bool) -> Generator[tuple[PartitionKey, list[pa.RecordBatch]]]:
        shaped = self.shaped(slab, lineage)
        small = shaped.nbytes <= self._target  # then no partition needs a second file for these rows
        for key, part in slices_by_partition(self.metadata.spec(), self.metadata.schema(), shaped):
            most = None if small else max(1, self._target * part.num_rows // max(1, part.nbytes))
            yield key, part.to_batches(most)

    @contextmanager
    def _streaming(self) -> Iterator[StreamWriter]:
        place = self.metadata.properties.get(TableProperties.WRITE_DATA_PATH, self.metadata.location)
        most = most_open(place)
        writer = StreamWriter(ExecutorFactory.get_or_create(), self._target, *self._row_group, most=most)
        try:
            yield writer
        except BaseException:
            writer.abort()
            raise

    @property
    def _target(self) -> int:
        name = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES
        size: int = value_of(self.metadata.properties, name, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT)
        return size

    @property
    def _row_group(self) -> tuple[int, int]:
        """Rows and bytes that are written at a time."""
        if self.format == FileFormat.AVRO:
            return AVRO_ROWS, SLAB_BYTES
        return self.parquet_options["row_group_rows"], self.parquet_options["row_group_bytes"]

    def _open_file(self, partition: PartitionKey | None, lineage: bool, staged: StagedFiles) -> _PlacedFile:
        location = self.new_location(partition)
        staged.add(location)
        stream: DataFileStream | PlainFileStream
        if self.encryption is None:  # `__post_init__` has checked that the table is not encrypted
            stream = PlainFileStream(self.io, location, self._form(lineage, 0))
        else:
            stream = self.stream(location, lineage=lineage)
        return _PlacedFile(stream, partial(self.placed, partition=partition))

    def stream(self, location: str, *, lineage: bool, sort_order_id: int = 0) -> DataFileStream:
        """A new data file of an encrypted table, which is written batch by batch."""
        assert self.encryption is not None
        assert isinstance(self.io, EncryptingFileIO)
        return DataFileStream(self.io, location, self.encryption.new_file_key(), self._form(lineage, sort_order_id))

    def _form(self, lineage: bool, sort_order_id: int) -> FileForm:
        """The form of all files of one kind, made once: a write into partitions has many files."""
        form = self._forms.get((lineage, sort_order_id))
        if form is None:
            options = self.parquet_options if self.format == FileFormat.PARQUET else {}
            schema = file_schema(self.metadata, lineage)
            form = FileForm(self.format, schema, self.metadata.properties, options, sort_order_id)
            self._forms[lineage, sort_order_id] = form
        return form

    def placed(self, file: DataFileV3, partition: PartitionKey | None) -> DataFileV3:
        """The file as a file of this partition of the current spec."""
        file[3] = partition.partition if partition else Record()
        file.spec_id = self.metadata.default_spec_id
        return file

    def shaped(self, batches: list[pa.RecordBatch], lineage: bool) -> pa.Table:
        """The rows with all columns of the table, in its types; write defaults fill missing columns.

        A `string` column is not turned into `large_string`: PyIceberg's to_arrow returns the type that was written.
        """
        schema = file_schema(self.metadata, lineage)
        given = pyarrow_to_schema(batches[0].schema, name_mapping=schema.name_mapping, format_version=3)
        # PyIceberg's own conversion turns a null list of structs into an empty list.
        projector = Projector(given, batches[0].schema, {}, file_sizes=True)
        columns = [projector.column(_with_write_default(field)) for field in schema.fields]
        names = [field.name for field in schema.fields]
        shaped = [pa.RecordBatch.from_arrays([column(batch) for column in columns], names) for batch in batches]
        pairs = zip(schema.fields, schema_to_pyarrow(schema), strict=True)
        return pa.Table.from_batches(shaped).cast(pa.schema([projector.arrow_field(*pair) for pair in pairs]))


@dataclass(frozen=True)
class _PlacedFile:
    """A file that is being written for one partition."""

    stream: DataFileStream | PlainFileStream
    place: Callable[[DataFileV3], DataFileV3]

    def write(self, rows: pa.Table, *, end_group: bool) -> None:
        self.stream.write(rows, end_group=end_group)

    def close(self) -> DataFileV3:
        return self.place(self.stream.close())

    def abort(self) -> None:
        self.stream.abort()


def file_schema(metadata: V3TableMetadata, lineage: bool) -> Schema:
    """The columns of a new data file; `lineage` adds those that rewritten rows bring along."""
    schema = metadata.schema()
    return Schema(*schema.fields, *LINEAGE, schema_id=schema.schema_id) if lineage else schema


def _refuse_other_ids(given: pa.Schema, schema: Schema) -> None:
    """Refuse columns with the names of the table's and the field ids of another table's.

    Columns with ids are matched by their ids: those of another table would be taken for others, or for none, and
    their rows would be NULL.
    """
    if all(parquet_write.FIELD_ID not in (column.metadata or {}) for column in given):
        return
    found = pyarrow_to_schema(given, name_mapping=schema.name_mapping, format_version=3)
    for name in found.column_names:
        theirs, ours = found.find_field(name).field_id, schema.find_field(name).field_id
        if theirs != ours:
            raise ValueError(
                f"the Arrow column {name} has the field id {theirs}, and that of the table has {ours}: the rows have "
                "the ids of another table (PARQUET:field_id). Take the metadata of the fields away, so that columns "
                "are matched by their names: "
                "pa.table(rows.columns, pa.schema([field.remove_metadata() for field in rows.schema]))"
            )


def _with_write_default(field: NestedField) -> NestedField:
    """The field with its write default as initial default, at any depth: `Projector` fills missing columns with it."""
    kind = field.field_type
    if isinstance(kind, StructType):
        kind = StructType(*(_with_write_default(inner) for inner in kind.fields))
    return field.model_copy(update={"initial_default": field.write_default, "field_type": kind})
