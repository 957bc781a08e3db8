"""Writes rows to data files, each under a key of its own.

    Arrow rows ──by partition──> ──by target size──> one file each ──> DataFileV3 with key, length and metrics

PyIceberg's functions check the schema, pack rows by target size and compute most metrics; this module writes the file,
encrypted if the table is. Rows that are rewritten from one file to another keep `_row_id` and
`_last_updated_sequence_number` as columns of the file.
"""

from __future__ import annotations

import uuid
from collections import deque
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    bin_pack_arrow_table,
    bin_pack_record_batches,
    pyarrow_to_schema,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, partition_record_value
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StructType
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.errors import ConfigError, PlaintextFileError, UnsupportedError
from sealberg.files.file_io import EncryptingFileIO, naming
from sealberg.files.parquet import writer as parquet_write
from sealberg.files.parquet.bloom_filters import BloomFilters
from sealberg.files.parquet.dictionary_policy import worthwhile
from sealberg.metadata.manifest import DataFileV3
from sealberg.pyiceberg_private import check_arrow_schema
from sealberg.scan.metadata_columns import LAST_UPDATED, ROW_ID
from sealberg.scan.projection import Projector
from sealberg.write.file_stream import DataFileStream, FileForm
from sealberg.write.metrics import metrics_of
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table.sorting import SortField

    from sealberg.keys.manager import EncryptionManager
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.write.context import WriteContext

LINEAGE: Final = (ROW_ID, LAST_UPDATED)
FILES_UNDER_WAY: Final = 4


@dataclass(frozen=True)
class RowWriter:
    """Writes rows of one table; every call of `write` makes new files with new names."""

    context: WriteContext
    write_id: uuid.UUID = field(default_factory=uuid.uuid4)
    numbers: count[int] = field(default_factory=count)

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
        name = self.metadata.properties.get(TableProperties.WRITE_FILE_FORMAT, "parquet")
        try:
            return FileFormat(name.upper())
        except ValueError:
            raise ConfigError(
                f"the table property {TableProperties.WRITE_FILE_FORMAT} must be parquet or avro, found {name!r}"
            ) from None

    @cached_property
    def parquet_options(self) -> dict[str, Any]:
        properties, schema = self.metadata.properties, self.metadata.schema()
        options, blooms = parquet_write.write_options(properties), BloomFilters.of(properties, schema)
        if self.encryption is None:
            return {**options, **blooms.for_pyarrow()}
        blooms.warn_encrypted()
        return options

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

    def write(self, rows: pa.Table | pa.RecordBatchReader, *, lineage: bool = False) -> list[DataFileV3]:
        """Write all rows; on failure, the files written so far are deleted."""
        if self.format == FileFormat.PARQUET:
            self.parquet_options  # noqa: B018 (computed before the threads start, so that it warns once)
        under_way: deque[Future[DataFileV3]] = deque()
        files: list[DataFileV3] = []
        pool = ExecutorFactory.get_or_create()
        with StagedFiles(self.io) as staged:
            try:
                for batches, partition in self._tasks(rows, lineage):
                    # A few files at a time, so that a stream is not read into memory faster than it is written.
                    if len(under_way) >= FILES_UNDER_WAY:
                        files.append(under_way.popleft().result())
                    under_way.append(pool.submit(self._write_file, batches, partition, lineage, staged))
                return files + [future.result() for future in under_way]
            finally:
                wait(under_way)  # StagedFiles cannot delete a file that a thread still writes

    def _tasks(
        self, rows: pa.Table | pa.RecordBatchReader, lineage: bool
    ) -> Iterator[tuple[list[pa.RecordBatch], PartitionKey | None]]:
        target = int(
            self.metadata.properties.get(
                TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
            )
        )
        spec = self.metadata.spec()
        for table in _tables(rows, target):
            if table.num_rows == 0:
                continue
            if spec.is_unpartitioned():
                yield from ((batches, None) for batches in bin_pack_arrow_table(table, target))
                continue
            for key, part in by_partition(spec, self.metadata.schema(), self.shaped(table.to_batches(), lineage)):
                for batches in bin_pack_arrow_table(part, target):
                    yield batches, key

    def _write_file(
        self, batches: list[pa.RecordBatch], partition: PartitionKey | None, lineage: bool, staged: StagedFiles
    ) -> DataFileV3:
        rows = self.shaped(batches, lineage)
        location = self.new_location(partition)
        staged.add(location)
        if self.encryption is None:
            with naming(location):
                return self.placed(self._write_plain(location, file_schema(self.metadata, lineage), rows), partition)
        with self.stream(location, lineage=lineage) as stream:
            stream.write(rows)
            return self.placed(stream.close(), partition)

    def stream(self, location: str, *, lineage: bool, sort_order_id: int = 0) -> DataFileStream:
        """A new data file of an encrypted table, which is written batch by batch."""
        assert self.encryption is not None
        assert isinstance(self.io, EncryptingFileIO)
        options = self.parquet_options if self.format == FileFormat.PARQUET else {}
        schema = file_schema(self.metadata, lineage)
        form = FileForm(self.format, schema, self.metadata.properties, options, sort_order_id)
        return DataFileStream(self.io, location, self.encryption.new_file_key(), form)

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

    def _write_plain(self, location: str, schema: Schema, rows: pa.Table) -> DataFileV3:
        """Write a file of a table that is not encrypted; `__post_init__` has checked that."""
        options = self.parquet_options
        output = self.io.new_output(location)
        kwargs = {name: value for name, value in options.items() if not name.startswith("row_group")}
        kwargs["use_dictionary"] = worthwhile(rows)
        collected: list[pq.FileMetaData] = []
        with (
            output.create(overwrite=True) as sink,
            pq.ParquetWriter(
                sink, rows.schema, store_decimal_as_integer=True, metadata_collector=collected, **kwargs
            ) as writer,
        ):
            row_bytes = max(1, rows.nbytes // rows.num_rows)
            most = min(options["row_group_rows"], max(1, options["row_group_bytes"] // row_bytes))
            writer.write_table(rows, row_group_size=most)
        return DataFileV3.from_args(
            content=DataFileContent.DATA,
            file_path=location,
            file_format=FileFormat.PARQUET,
            file_size_in_bytes=len(output),
            sort_order_id=0,
            key_metadata=None,
            **metrics_of(collected[0], schema, self.metadata.properties),
        )


class _Key(PartitionKey):
    """A partition key with several fields of one column, which PyIceberg's class refuses and version 3 allows."""

    @cached_property
    def partition(self) -> Record:
        return Record(*(partition_record_value(value.field, value.value, self.schema) for value in self.field_values))


def by_partition(spec: PartitionSpec, schema: Schema, rows: pa.Table) -> Iterator[tuple[PartitionKey, pa.Table]]:
    """The rows of each partition, in order. PyIceberg's own function loses NaN, which is not equal to itself."""
    names = [f"_{number}" for number in range(len(spec.fields))]
    columns = [transformed_column(field, schema, rows) for field in spec.fields]
    index = pa.table([*columns, pa.arange(0, rows.num_rows)], [*names, "row"])
    groups = index.group_by(names, use_threads=False).aggregate([("row", "list")])
    taken = groups.column("row_list").combine_chunks()
    for number, values in enumerate(groups.select(names).to_pylist()):
        fields = [PartitionFieldValue(field, values[name]) for field, name in zip(spec.fields, names, strict=True)]
        yield _Key(fields, spec, schema), rows.take(taken[number].values)


def transformed_column(field: PartitionField | SortField, schema: Schema, rows: pa.Table) -> pa.ChunkedArray:
    """The values of a partition or sort field, in a type that can be grouped and sorted."""
    name = schema.find_column_name(field.source_id)
    assert name is not None, "the schema has the source column of every partition field"
    if name in rows.column_names:
        column = rows[name]
    else:
        first, *inner = name.split(".")
        column = pc.struct_field(rows[first], inner)
    made = field.transform.pyarrow_transform(schema.find_type(field.source_id))(column)
    if isinstance(made.type, pa.BaseExtensionType):
        return made.cast(made.type.storage_type)
    # Partition values are integers; Python's datetime would cut nanoseconds.
    return made.cast(pa.int64()) if pa.types.is_timestamp(made.type) else made


def _tables(rows: pa.Table | pa.RecordBatchReader, target: int) -> Iterable[pa.Table]:
    if isinstance(rows, pa.Table):
        return (rows,)
    # A stream is read one file's worth at a time, so that memory stays bounded.
    return (pa.Table.from_batches(batches) for batches in bin_pack_record_batches(rows, target))


def file_schema(metadata: V3TableMetadata, lineage: bool) -> Schema:
    """The columns of a new data file; `lineage` adds those that rewritten rows bring along."""
    schema = metadata.schema()
    return Schema(*schema.fields, *LINEAGE, schema_id=schema.schema_id) if lineage else schema


def _with_write_default(field: NestedField) -> NestedField:
    """The field with its write default as initial default, at any depth: `Projector` fills missing columns with it."""
    kind = field.field_type
    if isinstance(kind, StructType):
        kind = StructType(*(_with_write_default(inner) for inner in kind.fields))
    return field.model_copy(update={"initial_default": field.write_default, "field_type": kind})
