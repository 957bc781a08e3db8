"""Files that Spark's tasks wrote, as files of the table.

    WrittenFile ──open with the key, read the footer──> DataFileV3 with metrics

A file that cannot be opened with its key, or has another number of rows than its task said, is never committed. A task
that writes to an object store sends the footer along: fetching the footer would cost two requests a file.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, DecimalType, DoubleType, FixedType, FloatType, UUIDType

from sealberg.errors import ConflictError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.avro.container import Span, read_header
from sealberg.files.file_io import EncryptingFileIO, naming
from sealberg.files.parquet.reader import MAGIC, PLAIN_MAGIC, EncryptedParquetReader
from sealberg.format.key_metadata import KeyMetadata
from sealberg.metadata.manifest import DataFileV3
from sealberg.write.metrics import metrics_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.spark.protocol.writes import WrittenFile


def data_file(written: WrittenFile, metadata: V3TableMetadata, io: Any, order_id: int) -> DataFileV3:
    schema = metadata.schema()
    location, length = written.location, written.file_length
    key: KeyMetadata | None = None
    if written.key is not None:
        assert isinstance(io, EncryptingFileIO)
        key = KeyMetadata(written.key, written.aad_prefix, length)
        if location.endswith(".avro"):
            return _avro_file(written, metadata, io, key, order_id)
        footer = _footer(written, io, key)
    else:
        footer = _plain_footer(written, io)
    if footer.num_rows != written.record_count:
        raise ConflictError(
            f"{location}: the task wrote {written.record_count} rows, and the footer of the file says {footer.num_rows}"
        )
    schema = _file_schema(schema, footer)
    file = DataFileV3.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=_partition(written.partition, metadata),
        file_size_in_bytes=length,
        sort_order_id=order_id,
        key_metadata=key.encode() if key is not None else None,
        **metrics_of(footer, schema, metadata.properties),
    )
    file.spec_id = metadata.default_spec_id
    return file


def _avro_file(
    written: WrittenFile, metadata: V3TableMetadata, io: EncryptingFileIO, key: KeyMetadata, order_id: int
) -> DataFileV3:
    """An Avro file, without statistics, as Python writes it; its last block is read to see that the file is whole."""
    location = written.location
    with naming(location), Ags1Reader(io.raw_input(location).open(), key) as stream:
        read_header(Span(stream))
        stream.read_at(max(0, stream.plain_length - 1), 1)
    file = DataFileV3.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.AVRO,
        partition=_partition(written.partition, metadata),
        record_count=written.record_count,
        file_size_in_bytes=written.file_length,
        sort_order_id=order_id,
        key_metadata=key.encode(),
    )
    file.spec_id = metadata.default_spec_id
    return file


def _footer(written: WrittenFile, io: EncryptingFileIO, key: KeyMetadata) -> pq.FileMetaData:
    location = written.location
    if written.footer is not None:  # a footer alone is a Parquet file without rows
        alone = MAGIC + written.footer
        with EncryptedParquetReader(alone, replace(key, file_length=len(alone)), where=location) as reader:
            return reader.metadata
    with EncryptedParquetReader(io.raw_input(location).open(), key, where=location) as reader:
        return reader.metadata


def _plain_footer(written: WrittenFile, io: Any) -> pq.FileMetaData:
    import pyarrow.parquet as pq

    if written.footer is not None:
        return pq.read_metadata(BytesIO(PLAIN_MAGIC + written.footer))
    with io.new_input(written.location).open() as stream:
        return pq.ParquetFile(stream).metadata


def _file_schema(schema: Schema, footer: pq.FileMetaData) -> Schema:
    from sealberg.write.data_writer import LINEAGE

    names = {footer.schema.column(at).path.split(".")[0] for at in range(footer.num_columns)}
    extra = [field for field in LINEAGE if field.name in names and field.name not in schema.column_names]
    return Schema(*schema.fields, *extra, schema_id=schema.schema_id)


def _partition(values: Sequence[Any], metadata: V3TableMetadata) -> Record:
    kinds = [field.field_type for field in metadata.spec().partition_type(metadata.schema()).fields]
    return Record(*(_partition_value(value, kind) for value, kind in zip(values, kinds, strict=True)))


def _partition_value(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, DecimalType):
        return Decimal(value)
    if isinstance(kind, DoubleType):
        return float(value)  # JSON has no NaN and no infinity: Java writes them as strings
    if isinstance(kind, FloatType):
        # Java writes the shortest decimal of a float, 0.9; the value is the float nearest to it, as in a manifest.
        return struct.unpack("<f", struct.pack("<f", float(value)))[0]
    return base64.b64decode(value) if isinstance(kind, BinaryType | FixedType | UUIDType) else value
