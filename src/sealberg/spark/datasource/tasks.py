"""Reading and writing in a Python worker for `format("sealberg")`.

    FileRows    files with their keys ──> Arrow batches in Spark's types
    NewFiles    Arrow batches         ──> encrypted files, each with a new key ──> a commit message with files and keys

Tasks get the properties of the storage, and none of the catalog or the KMS. They stay in the stores of the table and
of the operator, as every other reader and writer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyspark.sql.datasource import InputPartition, WriterCommitMessage

from sealberg.files.confined_io import ALLOWED, ConfinedFileIO, stores
from sealberg.files.file_io import EncryptingFileIO
from sealberg.keys.manager import EncryptionManager, EncryptionSettings
from sealberg.metadata.storage_properties import PROVIDER, location_provider
from sealberg.scan import metadata_columns
from sealberg.scan.task_reader import TaskReader
from sealberg.spark.arrow import declared, from_spark, to_spark
from sealberg.spark.worker.payload import strip_metadata
from sealberg.write.context import WriteContext
from sealberg.write.data_writer import RowWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.spark.worker.payload import FilePayload, TablePayload
    from sealberg.table.catalog_table import CatalogTable

STORAGE: Final = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "client.", "py-io-impl", ALLOWED, "warehouse")
MOST_BYTES: Final = 1 << 30


def storage_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The catalog properties that configure the storage."""
    return {name: str(value) for name, value in properties.items() if name.startswith(STORAGE)}


def _file_io(storage: dict[str, str], metadata: TableMetadata) -> FileIO:
    """For the files of a table, which may name any location."""
    return ConfinedFileIO(load_file_io(storage, metadata.location), stores(storage, metadata.location))


class Files(InputPartition):
    """The files of one task with their keys; the repr shows no key."""

    def __init__(self, files: Sequence[FilePayload]) -> None:
        super().__init__(files)

    def __repr__(self) -> str:
        return f"Files({', '.join(str(payload.file.file_path) for payload in self.value)})"


class Written(WriterCommitMessage):
    """The files that one task wrote, with their keys; the repr shows no key."""

    def __init__(self, files: Sequence[DataFileV3]) -> None:
        self.files = files

    def __repr__(self) -> str:
        return f"Written({len(self.files)} files)"


@dataclass(frozen=True)
class FileRows:
    """Reads the files of tasks."""

    table: TablePayload
    columns: dict[str, Any]  # Spark's
    storage: dict[str, str]

    def read(self, files: Sequence[FilePayload]) -> Iterator[pa.RecordBatch]:
        for payload in files:
            io = _file_io(self.storage, self.table.metadata)
            if self.table.encrypted:
                io = EncryptingFileIO(io, _no_list_key, allow_plaintext=self.table.allow_plaintext)
            names = [field["name"] for field in self.columns["fields"]]
            projection = metadata_columns.project(self.table.schema, names)
            reader = TaskReader(self.table.metadata, io, self.table.schema, projection)
            for batch in reader.batches(payload.task()):
                for part in _parts(batch) if batch.num_rows else ():
                    yield declared(to_spark(part, self.columns), self.columns)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows in order, less than 2 GB of them at a time: Spark's columns of strings hold no more."""
    if batch.num_rows == 1 or batch.nbytes < MOST_BYTES:
        yield batch
    else:
        half = batch.num_rows // 2
        yield from _parts(batch.slice(0, half))
        yield from _parts(batch.slice(half))


@dataclass(frozen=True)
class NewFiles:
    """Writes the rows of tasks."""

    metadata: V3TableMetadata
    encryption: EncryptionSettings | None
    storage: dict[str, str]
    provider: str | None = None  # the class of the operator's location provider

    @classmethod
    def of(cls, table: CatalogTable) -> NewFiles:
        manager = table.encryption
        settings = None if manager is None else replace(manager.settings, kms_properties={})
        provider = table.catalog.properties.get(PROVIDER)
        storage = storage_of(table.inner.properties)
        return cls(strip_metadata(table.metadata, **table.metadata.properties), settings, storage, provider)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        metadata = self.metadata
        io = _file_io(self.storage, metadata)
        manager = None
        if self.encryption is not None:
            io = EncryptingFileIO(io, _no_list_key)
            manager = EncryptionManager(self.encryption)
        own = {} if self.provider is None else {PROVIDER: self.provider}
        locations = location_provider(metadata.location, metadata.properties, own)
        schema = metadata.schema()
        shaped = (_shaped(batch, schema) for batch in batches if batch.num_rows)
        first = next(shaped, None)
        if first is None:
            return Written(())

        def rows() -> Iterator[pa.RecordBatch]:
            yield first
            yield from shaped

        writer = RowWriter(WriteContext(metadata, io, manager, locations))
        return Written(writer.write(pa.RecordBatchReader.from_batches(first.schema, rows())))


def _shaped(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The columns in the types of the table: Spark's timestamps have the session's zone, and its uuids are strings."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        field = schema.find_field(name)
        kind = schema_to_pyarrow(field.field_type)
        made = from_spark(column, field.field_type, name)
        columns.append(made if made.type == kind else made.cast(kind))
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _no_list_key(_: str) -> KeyMetadata:
    raise AssertionError("internal error: a task tried to open a manifest list")
