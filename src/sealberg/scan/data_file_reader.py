"""The rows of one data or delete file, opened with the key metadata of its manifest entry.

    Parquet   Parquet modular encryption, read by pyarrow; row groups whose statistics rule the filter out are skipped
    Avro      inside AGS1
    Puffin    inside AGS1; one deletion vector is read

`open_rows(io, file)` gives a `Rows`: the schema of the file, and its batches, each with the position of its first row.
A file without key metadata is opened only if the table is not encrypted, or if its FileIO allows plaintext files.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema

from sealberg.errors import FormatError, PlaintextFileError, UnsupportedError
from sealberg.files.avro.container import Span, read_header
from sealberg.files.avro.data_file import read_avro
from sealberg.files.byte_sources import is_arrow_file
from sealberg.files.confined_io import store
from sealberg.files.file_io import NO_KEYS, EncryptingFileIO, KeyedLocation, naming
from sealberg.files.file_writer import closing_on_error
from sealberg.files.parquet.reader import EncryptedParquetReader
from sealberg.files.puffin.container import read_deletion_vector
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.metadata.decode_cache import Cache
from sealberg.scan.projection import schema_of_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyiceberg.io import FileIO, InputStream
    from pyiceberg.table.name_mapping import NameMapping
    from pyiceberg.types import NestedField

    from sealberg.metadata.manifest import DataFileV3

    Pruning = Callable[[Schema], ds.Expression | None]

_VECTORS: Final = Cache[DeletionVector](64 << 20, lambda vector: vector.nbytes)
AVRO_ROWS: Final = 1 << 16  # rows of a batch of an Avro file, at least those of one block
RUN_BYTES: Final = 64 << 20  # row groups are fetched together up to this size; at least one row group


@dataclass(frozen=True)
class DecodeOptions:
    """How a file is decoded.

    Args:
        rows: rows per batch. Larger batches take less time and more memory.
        threads: decode columns in parallel; useful when few files are read in parallel.
        by_row_group: end a batch where a row group of a Parquet file ends.
    """

    rows: int = 1 << 17
    threads: bool = True
    by_row_group: bool = False


STEADY: Final = DecodeOptions()


@dataclass(frozen=True)
class Part:
    """A range of the stored bytes of a file. Parts that cover a file cover its rows.

    Avro      the blocks before which a sync marker begins in the range: each row is in one part, as in Java
    Parquet   the row groups that reach into the range: a row can be in two parts
    """

    start: int
    stop: int


class Rows(Protocol):
    """An open data or delete file."""

    def schema(self, wanted: Sequence[NestedField]) -> tuple[Schema, pa.Schema]:
        """The columns of the file, with field ids; at least those of `wanted` that the file has."""

    def batches(
        self,
        columns: Sequence[str],
        pruning: Pruning | None,
        options: DecodeOptions = ...,
        part: Part | None = None,
        *,
        numbered: bool = True,
    ) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        """Pairs (position of the first row, batch), in file order, without the row groups that `pruning` excludes.

        Args:
            part: of the file; None: the whole file.
            numbered: whether the positions are needed: to count the rows before a part of an Avro file, the blocks
                before it are read, too.
        """

    def close(self) -> None:
        """Close the file."""


def stored_length(file: DataFileV3) -> int:
    """The length of a file in its store, which its key knows best."""
    location = file.file_path
    trusted = location.keys.file_length if isinstance(location, KeyedLocation) else None
    return file.file_size_in_bytes if trusted is None else trusted


@contextlib.contextmanager
def open_rows(
    io: FileIO, file: DataFileV3, name_mapping: NameMapping | None = None, *, streamed: bool = False
) -> Iterator[Rows]:
    """Open a data or delete file; every error raised in the block names the file.

    Args:
        streamed: read an encrypted Parquet file page by page, in little memory.
    """
    location = file.file_path
    with naming_file(location):
        _check_openable(io, location)
        opened: Rows
        match file.file_format:
            case FileFormat.PARQUET:
                opened = _ParquetRows(io, location, name_mapping, streamed=streamed)
            case FileFormat.AVRO:
                opened = _AvroRows(io, location)
            case other:
                raise UnsupportedError(
                    f"{location!s}: cannot read a file of format {other.value}, expected PARQUET or AVRO"
                )
        with contextlib.closing(opened):
            yield opened


@contextlib.contextmanager
def naming_file(location: str) -> Iterator[None]:
    """Adds the name of the file to every error raised in the block."""
    try:
        with naming(location):
            yield
    except GeneratorExit:
        raise
    except Exception as error:
        if str(location) not in str(error):
            error.add_note(f"while reading {location!s}")
        raise


def load_vector(io: FileIO, file: DataFileV3) -> DeletionVector:
    """The deletion vector that a manifest entry points to."""
    location, offset, size = file.file_path, file.content_offset, file.content_size_in_bytes
    if offset is None or size is None:
        raise FormatError(
            f"{location!s}: the manifest entry of the deletion vector must have content_offset and "
            f"content_size_in_bytes, found {offset} and {size}"
        )

    def read() -> DeletionVector:
        with naming_file(location), io.new_input(location).open() as stream:
            return read_deletion_vector(_ranged(stream), offset, size, file.record_count)

    _check_openable(io, location)
    keys = location.keys if isinstance(location, KeyedLocation) else None
    if keys is None or keys.file_length is None:
        return read()
    return _VECTORS.get((str(location), keys.encode(), offset, size, file.record_count), read)


def _check_openable(io: FileIO, location: str) -> None:
    if isinstance(location, KeyedLocation) and not isinstance(io, EncryptingFileIO):
        raise PlaintextFileError(f"Cannot decrypt file: {location!s}: {NO_KEYS}")


# -- Parquet ----------------------------------------------------------------------------------


class _ParquetRows:
    def __init__(self, io: FileIO, location: str, name_mapping: NameMapping | None, *, streamed: bool) -> None:
        self._reader = _open_parquet(io, location, streamed=streamed)
        self._schema = schema_of_file(self._reader.schema, name_mapping)

    def schema(self, wanted: Sequence[NestedField]) -> tuple[Schema, pa.Schema]:  # noqa: ARG002 (all columns)
        return self._schema, self._reader.schema

    def batches(
        self,
        columns: Sequence[str],
        pruning: Pruning | None,
        options: DecodeOptions = STEADY,
        part: Part | None = None,
        *,
        numbered: bool = True,  # noqa: ARG002 (the footer knows)
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        expression = None if pruning is None else pruning(self._schema)
        groups = self._reader.row_groups(expression)
        if part is not None:
            groups = [group for group in groups if _reaches_into(self._reader.metadata.row_group(group), part)]
        for start, run in _runs(self._reader.metadata, groups):
            at = start
            for batch in self._reader.batches(
                columns, row_groups=run, batch_size=options.rows, threads=options.threads
            ):
                yield from self._cut(at, batch) if options.by_row_group else ((at, batch),)
                at += batch.num_rows

    def _cut(self, at: int, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        begin, end = at, at + batch.num_rows
        for boundary in (*(inner for inner in self._boundaries if begin < inner < end), end):
            yield begin, batch.slice(begin - at, boundary - begin)
            begin = boundary

    @cached_property
    def _boundaries(self) -> list[int]:
        """The positions at which row groups end."""
        metadata = self._reader.metadata
        return list(accumulate(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)))

    def close(self) -> None:
        self._reader.close()


def _open_parquet(io: FileIO, location: str, *, streamed: bool) -> EncryptedParquetReader | _PlainParquetReader:
    if isinstance(location, KeyedLocation) and isinstance(io, EncryptingFileIO):
        stream, remote = io.raw_input(location).open(), store(location) != "file"
        return EncryptedParquetReader(stream, location.keys, where=str(location), remote=remote, streamed=streamed)
    return _PlainParquetReader(io.new_input(location).open())


class _PlainParquetReader:
    """A Parquet file of a table that is not encrypted, with the methods of `EncryptedParquetReader`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._file = pq.ParquetFile(stream, pre_buffer=True)
        self.metadata = self._file.metadata
        self.schema = self._file.schema_arrow

    def row_groups(self, row_filter: ds.Expression | None = None) -> list[int]:
        if row_filter is None:
            return list(range(self.metadata.num_row_groups))
        fragment = ds.ParquetFileFormat().make_fragment(self._stream)
        return [group.id for group in fragment.subset(row_filter).row_groups]

    def batches(
        self, columns: Sequence[str], *, row_groups: Sequence[int], batch_size: int, threads: bool
    ) -> Iterator[pa.RecordBatch]:
        yield from self._file.iter_batches(
            batch_size=batch_size, row_groups=list(row_groups), columns=list(columns), use_threads=threads
        )

    def close(self) -> None:
        self._stream.close()


def _reaches_into(group: pq.RowGroupMetaData, part: Part) -> bool:
    columns = [group.column(number) for number in range(group.num_columns)]
    starts = [column.dictionary_page_offset or column.data_page_offset for column in columns]
    ends = [start + column.total_compressed_size for start, column in zip(starts, columns, strict=True)]
    return min(starts, default=0) < part.stop and part.start < max(ends, default=0)


def _runs(metadata: pq.FileMetaData, groups: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Runs of adjacent row groups up to RUN_BYTES, each with the position of its first row."""
    sizes = [
        (metadata.row_group(i).num_rows, metadata.row_group(i).total_byte_size)
        for i in range(max(groups, default=-1) + 1)
    ]
    start, run, size = 0, list[int](), 0
    position = 0
    wanted = set(groups)
    for i, (rows, stored) in enumerate(sizes):
        if run and (i not in wanted or size + stored > RUN_BYTES):
            yield start, run
            run, size = [], 0
        if i in wanted:
            start = start if run else position
            run.append(i)
            size += stored
        position += rows
    if run:
        yield start, run


# -- Avro -------------------------------------------------------------------------------------


class _AvroRows:
    def __init__(self, io: FileIO, location: str) -> None:
        self._stream = io.new_input(location).open()
        with closing_on_error(self):
            self._ranged = _ranged(self._stream)
            self._ids = {field.get("field-id") for field in read_header(Span(self._ranged)).schema.get("fields", ())}
        self._fields: dict[str, NestedField] = {}

    def schema(self, wanted: Sequence[NestedField]) -> tuple[Schema, pa.Schema]:
        # Named by field id: a new column may have the name of a dropped one.
        present = {
            f"c{field.field_id}": field.model_copy(update={"name": f"c{field.field_id}"})
            for field in wanted
            if field.field_id in self._ids
        }
        self._fields = present
        own = Schema(*present.values())
        return own, schema_to_pyarrow(own)

    def batches(
        self,
        columns: Sequence[str],
        pruning: Pruning | None,  # noqa: ARG002 (Avro has no statistics)
        options: DecodeOptions = STEADY,
        part: Part | None = None,
        *,
        numbered: bool = True,
    ) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        chosen = Schema(*(self._fields[name] for name in columns))
        start, stop = (0, None) if part is None else map(self._ranged.layout.to_plain, (part.start, part.stop))
        rows = min(options.rows, AVRO_ROWS)
        yield from read_avro(self._ranged, chosen, start=start, stop=stop, positions=numbered, batch_rows=rows)

    def close(self) -> None:
        self._stream.close()


def _ranged(stream: InputStream) -> Any:
    return stream if hasattr(stream, "read_at") and hasattr(stream, "plain_length") else _PlainStream(stream)


class _PlainStream:
    """A file of a table that is not encrypted, with the methods of `Ags1Reader`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.plain_length = stream.size() if is_arrow_file(stream) else stream.seek(0, 2)
        self.layout = self

    def to_plain(self, stored_offset: int) -> int:
        return stored_offset

    def read_at(self, offset: int, size: int) -> bytes:
        self._stream.seek(offset)
        return bytes(self._stream.read(size))
