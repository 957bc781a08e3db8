"""One data file, written batch by batch: Parquet, or Avro inside AGS1.

    stream = DataFileStream(io, location, new key, form)
    stream.write(rows)      any number of times; rows have the columns of the file
    stream.close()          ──> DataFileV3 with key, length and metrics

`PlainFileStream` is the same for a table that is not encrypted, without a key and only for Parquet.

The file is created with its first rows. A stream that is aborted leaves nothing that looks like a whole file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, FileFormat

from sealberg.errors import PlaintextFileError
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.avro import data_file as avro
from sealberg.files.file_io import EncryptingFileIO, naming
from sealberg.files.file_writer import FileWriter
from sealberg.files.parquet.dictionary_policy import worthwhile
from sealberg.files.parquet.writer import EncryptedParquetWriter
from sealberg.metadata.manifest import DataFileV3
from sealberg.pyiceberg_private import with_small_buffer
from sealberg.write.metrics import MetricsPlan, planned_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyiceberg.io import FileIO, OutputStream
    from pyiceberg.schema import Schema

    from sealberg.format.key_metadata import KeyMetadata


@dataclass(frozen=True)
class FileForm:
    """What all files of one write have in common.

    Args:
        format: PARQUET or AVRO.
        schema: the columns of the file.
        properties: the properties of the table, for metrics and for Avro's options.
        parquet_options: the options of `EncryptedParquetWriter`.
        sort_order_id: the order of the table in which the rows are; 0: none.
    """

    format: FileFormat
    schema: Schema
    properties: Mapping[str, str]
    parquet_options: Mapping[str, Any] = field(default_factory=dict)
    sort_order_id: int = 0

    @cached_property
    def metrics(self) -> MetricsPlan:
        return MetricsPlan.of(self.schema, self.properties)


class DataFileStream(FileWriter):
    """Writes one data file under a new key.

    Args:
        io: the FileIO of an encrypted table.
        location: a name that no file has yet, so that no request checks whether there is one.
        key: a new key, used for this file only.
    """

    def __init__(self, io: EncryptingFileIO, location: str, key: KeyMetadata, form: FileForm) -> None:
        self.location = location
        self.rows = 0
        self._io, self._key, self._form = io, key, form
        self._writer: EncryptedParquetWriter | avro.EncryptedAvroWriter | None = None
        self._file: DataFileV3 | None = None

    @property
    def collected_bytes(self) -> int:
        """The memory of the rows that are not written yet."""
        return self._writer.collected_bytes if isinstance(self._writer, EncryptedParquetWriter) else 0

    def write(self, rows: pa.Table, *, end_group: bool = False) -> None:
        """Add rows; `end_group` ends the row group of a Parquet file, so that no rows stay in memory."""
        with self.aborting(), naming(self.location):
            if self._writer is None:
                self._writer = self._open(rows.schema)
            self._writer.write(rows)
            if end_group and isinstance(self._writer, EncryptedParquetWriter):
                self._writer.end_row_group()
        self.rows += rows.num_rows

    def close(self) -> DataFileV3:
        if self._file is None:
            with self.aborting(), naming(self.location):
                self._file = self._finish()
        return self._file

    def _finish(self) -> DataFileV3:
        assert self._writer is not None, "a data file has at least one row"
        if isinstance(self._writer, EncryptedParquetWriter):
            parquet = self._writer.close()
            metrics = planned_metrics(parquet.metadata, self._form.metrics)
            return self._entry(parquet.stored_length, parquet.key_metadata, **metrics)
        written = self._writer.close()
        return self._entry(written.stored_length, written.key_metadata, record_count=written.record_count)

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()

    def _open(self, schema: pa.Schema) -> EncryptedParquetWriter | avro.EncryptedAvroWriter:
        sink = with_small_buffer(self._io.raw_output(self.location)).create(overwrite=True)
        if self._form.format == FileFormat.PARQUET:
            return EncryptedParquetWriter(sink, schema, self._key, options=self._form.parquet_options)
        options = avro.write_options(self._form.properties)
        return avro.EncryptedAvroWriter(Ags1Writer(sink, self._key), self._form.schema, **options)

    def _entry(self, length: int, key: KeyMetadata, **metrics: Any) -> DataFileV3:
        return _entry(self.location, self._form, length, key.encode(), metrics)


class PlainFileStream(FileWriter):
    """Writes one Parquet file of a table that is not encrypted."""

    def __init__(self, io: FileIO, location: str, form: FileForm) -> None:
        if isinstance(io, EncryptingFileIO):
            raise PlaintextFileError(f"internal error: {location}: a plaintext file for an encrypted table")
        self.location = location
        self._form = form
        self._output = with_small_buffer(io.new_output(location))
        self._sink: OutputStream | None = None
        self._writer: pq.ParquetWriter | None = None
        self._collected: list[pq.FileMetaData] = []

    def write(self, rows: pa.Table, *, end_group: bool = False) -> None:  # noqa: ARG002 (every write ends its row group)
        with self.aborting(), naming(self.location):
            self._writer = self._writer or self._open(rows)
            options, row_bytes = self._form.parquet_options, max(1, rows.nbytes // rows.num_rows)
            most = min(options["row_group_rows"], max(1, options["row_group_bytes"] // row_bytes))
            self._writer.write_table(rows, row_group_size=most)

    def close(self) -> DataFileV3:
        assert self._writer is not None, "a data file has at least one row"
        assert self._sink is not None
        with self.aborting(), naming(self.location):
            self._writer.close()
            self._sink.close()
            metrics = planned_metrics(self._collected[0], self._form.metrics)
            return _entry(self.location, self._form, len(self._output), None, metrics)

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False  # pyarrow's finalizer would write a footer
        if self._sink is not None:
            self._sink.close()

    def _open(self, rows: pa.Table) -> pq.ParquetWriter:
        """The writer, created with the first rows because they decide the encodings."""
        options = self._form.parquet_options
        kwargs = {name: value for name, value in options.items() if not name.startswith("row_group")}
        self._sink = self._output.create(overwrite=True)
        return pq.ParquetWriter(
            self._sink,
            rows.schema,
            store_decimal_as_integer=True,
            metadata_collector=self._collected,
            use_dictionary=worthwhile(rows),
            **kwargs,
        )


def _entry(
    location: str, form: FileForm, length: int, key_metadata: bytes | None, metrics: Mapping[str, Any]
) -> DataFileV3:
    return DataFileV3.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=form.format,
        file_size_in_bytes=length,
        sort_order_id=form.sort_order_id,
        key_metadata=key_metadata,
        **metrics,
    )
