"""One data or equality delete file, copied under another key wherever the runner works on it.

    CopyTask ──copy_file──> CopiedFile: location, length, key metadata, split offsets, checksums

    Parquet   pages are copied as they are, re-wrapped (files/parquet/rewrap.py)
              else, where the pages cannot be re-wrapped, decoded and written again (decoded_copy.py)
    Avro      the whole file is sealed or opened as an AGS1 stream

Every copy is read again from storage and compared with what was read from the source before it is reported.
"""

from __future__ import annotations

import zlib
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import FormatError, UnsupportedError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.file_io import naming
from sealberg.files.locations import attempt_location
from sealberg.files.reseal import deleting_on_error
from sealberg.format.ags1 import BLOCK_SIZE
from sealberg.format.key_metadata import KeyMetadata
from sealberg.jobs.copying.decoded_copy import copy_rows
from sealberg.jobs.copying.rewrap_task import RewrapTask, rewrap_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO

PIECE: Final = 4 * BLOCK_SIZE


@dataclass(frozen=True, slots=True)
class CopyTask:
    """A file to copy; holds the keys of this one file, and the storage without the KMS and the catalog.

    Attributes:
        format: PARQUET or AVRO.
        record_count: what the manifest claims.
        source_key, target_key: encoded key metadata; None for plaintext. The target's key has no length yet.
        allow_missing_length: read an AGS1 file whose key metadata have no length.
    """

    source_io: FileIO = field(repr=False)
    target_io: FileIO = field(repr=False)
    source: str
    target: str
    format: str
    record_count: int
    stored_bytes: int
    source_key: bytes | None = field(repr=False)
    target_key: bytes | None = field(repr=False)
    allow_missing_length: bool = False

    @property
    def rewrap(self) -> RewrapTask:
        return RewrapTask(self.source_io, self.target_io, self.source, self.target, self.source_key, self.target_key)


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A finished copy.

    Attributes:
        source: the location of the source.
        column_sizes: the stored bytes by field id; None where the file does not tell.
        checksums: one number per column of a Parquet file; one number for all columns of an Avro file.
        decoded: whether the rows were decoded and written again.
    """

    source: str
    target: str
    stored_length: int
    record_count: int
    split_offsets: list[int] | None
    column_sizes: dict[int, int] | None
    key_metadata: bytes | None = field(repr=False)
    checksums: dict[str, int] = field(default_factory=dict)
    decoded: bool = False


def copy_file(task: CopyTask) -> CopiedFile:
    """Copy the file; an error leaves no target. The name of the target gets a random part: see `attempt_location`."""
    task = replace(task, target=attempt_location(task.target))
    if task.format == "AVRO":
        return _copy_stream(task)
    if task.format != "PARQUET":
        raise UnsupportedError(f"{task.source}: files of format {task.format} cannot be copied under another key")
    try:
        file = rewrap_file(task.rewrap)
    except UnsupportedError:
        return _decoded(task)
    except FormatError:
        if task.source_key is not None:  # an authentic file is not malformed, so somebody has changed this one
            raise
        return _decoded(task)
    if file.num_rows != task.record_count:
        with deleting_on_error(task.target_io, task.target):
            raise FormatError(
                f"{task.source}: the manifest claims {task.record_count} records, the file has {file.num_rows}"
            )
    return CopiedFile(
        task.source,
        task.target,
        file.stored_length,
        file.num_rows,
        file.split_offsets,
        file.column_sizes or None,
        None if file.key_metadata is None else file.key_metadata.encode(),
        dict(zip(file.columns, file.checksums, strict=True)),
    )


def _decoded(task: CopyTask) -> CopiedFile:
    written = copy_rows(task.rewrap, task.record_count)
    key = written.key_metadata
    return CopiedFile(
        task.source,
        task.target,
        written.stored_length,
        task.record_count,
        written.split_offsets,
        written.column_sizes or None,
        None if key is None else key.encode(),
        written.checksums,
        decoded=True,
    )


def _copy_stream(task: CopyTask) -> CopiedFile:
    with deleting_on_error(task.target_io, task.target):
        target_key = None if task.target_key is None else KeyMetadata.decode(task.target_key)
        with naming(task.target):
            sink: Any = task.target_io.new_output(task.target).create(overwrite=True)
            writer = sink if target_key is None else Ags1Writer(sink, target_key, threads=1)
        total = checksum = 0
        with naming(task.target), writer:
            for piece in _pieces(task.source_io, task.source, _key(task.source_key), task):
                writer.write(piece)
                total, checksum = total + len(piece), zlib.crc32(piece, checksum)
        stored, key = (total, None) if target_key is None else (writer.stored_length, writer.key_metadata)
        found_total = found = 0
        for piece in _pieces(task.target_io, task.target, key, task):
            found_total, found = found_total + len(piece), zlib.crc32(piece, found)
        if (found_total, found) != (total, checksum):
            raise FormatError(f"{task.target}: the copy of the Avro file differs from its source")
    encoded = None if key is None else key.encode()
    sums = {"Avro rows": total << 32 | checksum}
    return CopiedFile(task.source, task.target, stored, task.record_count, None, None, encoded, sums)


def _pieces(io: FileIO, location: str, key: KeyMetadata | None, task: CopyTask) -> Iterator[Any]:
    with naming(location):
        source = io.new_input(location).open()
        if key is None:
            with closing(source):
                while piece := source.read(PIECE):
                    yield piece
            return
        with Ags1Reader(source, key, threads=1, allow_missing_length=task.allow_missing_length) as reader:
            yield from reader.windows()


def _key(encoded: bytes | None) -> KeyMetadata | None:
    return None if encoded is None else KeyMetadata.decode(encoded)
