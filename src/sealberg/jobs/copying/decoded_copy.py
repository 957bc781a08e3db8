"""Copies the rows of a Parquet file whose pages cannot be re-wrapped: decoded, and written again by pyarrow.

    source ──pyarrow──> row group by row group, all columns with their field ids ──pyarrow──> target
                                  └── compared with the rows of the target, read again ──┘

An encrypted source is opened into memory first, page by page: pyarrow cannot read the pages of version 2 that
parquet-java encrypts. So the memory that a copy needs is the size of the file and one decoded row group.

All columns of the file are copied, also those that no schema names, so `_row_id` and
`_last_updated_sequence_number` stay where a file has them. The target has the row groups of the source.
"""

from __future__ import annotations

import zlib
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sealberg.errors import FormatError
from sealberg.files.file_io import naming
from sealberg.files.parquet.reader import EncryptedParquetReader, translating
from sealberg.files.parquet.rewrap import open_walk, rewrap
from sealberg.files.parquet.writer import encryption_properties
from sealberg.files.reseal import deleting_on_error
from sealberg.format.key_metadata import KeyMetadata
from sealberg.jobs.copying.rewrap_task import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO

    from sealberg.jobs.copying.rewrap_task import RewrapTask


@dataclass(frozen=True, slots=True)
class DecodedCopy:
    """A finished file."""

    stored_length: int
    split_offsets: list[int]
    column_sizes: dict[int, int]
    checksums: dict[str, int]
    key_metadata: KeyMetadata | None = field(repr=False)


def copy_rows(task: RewrapTask, record_count: int) -> DecodedCopy:
    """Write the rows of the source into the target, and compare them."""
    key = None if task.target_key is None else KeyMetadata.decode(task.target_key)
    source_key = None if task.source_key is None else KeyMetadata.decode(task.source_key)
    with deleting_on_error(task.target_io, task.target):
        sums: dict[str, int] = {}
        with _opened(task.source_io, task.source, source_key, in_memory=True) as file:
            rows = file.metadata.num_rows
            if rows != record_count:
                raise FormatError(f"{task.source}: the manifest claims {record_count} records, the file has {rows}")
            _write(task, file, key)
            before = dict(_checksums(file))
        length = len(task.target_io.new_input(task.target))
        finished = None if key is None else key.with_length(length)
        with _opened(task.target_io, task.target, finished) as copy:
            sums = dict(_checksums(copy))
            offsets = [_start(copy.metadata.row_group(at)) for at in range(copy.metadata.num_row_groups)]
        if sums != before:
            raise FormatError(f"{task.target}: the copy of the Parquet file differs from its source")
        sizes = _column_sizes(task.target_io, task.target, finished)
    return DecodedCopy(length, offsets, sizes, sums, finished)


def _column_sizes(io: FileIO, location: str, key: KeyMetadata | None) -> dict[int, int]:
    """The stored bytes by field id, for the manifest entry."""
    sizes: dict[int, int] = {}
    with naming(location), open_walk(open_source(io, location), key, where=location) as walk:
        for _, chunk in walk.footer.chunks():
            if (field_id := chunk.leaf.field_id) is not None:
                sizes[field_id] = sizes.get(field_id, 0) + chunk.pages.length
    return sizes


def _write(task: RewrapTask, file: pq.ParquetFile, key: KeyMetadata | None) -> None:
    schema = file.schema_arrow
    codec = file.metadata.row_group(0).column(0).compression if file.metadata.num_row_groups else "ZSTD"
    options: dict[str, Any] = {
        "compression": {"UNCOMPRESSED": "none"}.get(codec, codec),
        "write_page_index": True,
        "store_decimal_as_integer": True,
        "encryption_properties": None if key is None else encryption_properties(key),
    }
    with (
        naming(task.target),
        task.target_io.new_output(task.target).create(overwrite=True) as sink,
        pq.ParquetWriter(_native(sink), schema, **options) as writer,
    ):
        for group in _row_groups(file):
            writer.write_table(group, row_group_size=max(1, group.num_rows))


def _native(sink: Any) -> Any:
    return sink if isinstance(sink, pa.NativeFile) else pa.PythonFile(sink, mode="w")


def _row_groups(file: pq.ParquetFile) -> Iterator[pa.Table]:
    for at in range(file.metadata.num_row_groups):
        yield file.read_row_group(at)


def _start(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    return int(first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset)


def _checksums(file: pq.ParquetFile) -> Iterator[tuple[str, int]]:
    """One number per column: the sum over the row groups, of the values in Arrow's form."""
    sums: dict[str, int] = {}
    for group in _row_groups(file):
        if not group.num_rows:
            continue
        for name, column in zip(group.column_names, group.columns, strict=True):
            batch = pa.record_batch([_compacted(column)], names=["values"])
            sums[name] = sums.get(name, 0) + (group.num_rows << 32 | zlib.crc32(batch.serialize()))
    yield from sums.items()


def _compacted(column: pa.ChunkedArray) -> pa.Array:
    """One array without an offset into its buffers."""
    made = column.combine_chunks()
    made = made if isinstance(made, pa.Array) else pa.concat_arrays(made.chunks)
    return made.take(pa.array(range(len(made)), pa.int64())) if made.offset else made


class _opened:  # noqa: N801 (used as `with _opened(...)`)
    """The file, whose errors name it."""

    def __init__(self, io: FileIO, location: str, key: KeyMetadata | None, *, in_memory: bool = False) -> None:
        self._location = location
        self._translating = translating(location)
        if key is not None and in_memory:
            self._stream: pa.NativeFile = pa.BufferReader(_opened_in_memory(io, location, key))
            self._file = pq.ParquetFile(self._stream)
            return
        with naming(location):
            stream = _native_input(io.new_input(location).open())
            with translating(location):
                self._reader = None if key is None else EncryptedParquetReader(stream, key, where=location)
                self._file = pq.ParquetFile(stream) if self._reader is None else self._reader.file
        self._stream = stream

    def __enter__(self) -> pq.ParquetFile:
        self._translating.__enter__()
        return self._file

    def __exit__(self, *error: Any) -> None:
        with closing(self._stream):
            self._translating.__exit__(*error)


def _opened_in_memory(io: FileIO, location: str, key: KeyMetadata) -> pa.Buffer:
    """The file in the clear; every module was authenticated."""
    sink = pa.BufferOutputStream()
    with naming(location):
        rewrap(open_source(io, location), key, sink, None, where=location)
    return sink.getvalue()


def _native_input(stream: Any) -> pa.NativeFile:
    return stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")
