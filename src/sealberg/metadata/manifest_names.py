"""Only the names in manifest lists and manifests, for jobs that look for files and not for rows.

    manifest list ──> the locations of manifests, which carry their keys
    manifest      ──> FileNames: the columns live, location, size and content of its data or delete files

Columns hold no keys, and are pickled in little time: a task sends them to the process that asked. In a manifest list,
only locations and keys become Python objects, and lists with the same Avro schema share one reader. PyIceberg's
resolver cannot leave out lists and maps, so the reader for the whole file is made, and then told what to skip.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pyarrow as pa
from pyiceberg.avro.reader import ListReader, MapReader, OptionReader, Reader, StructReader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
from pyiceberg.typedef import Record
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from sealberg.errors import FormatError
from sealberg.files.file_io import keyed
from sealberg.metadata.bounded_decoder import BoundedDecoder
from sealberg.metadata.manifest import reading
from sealberg.metadata.manifest_avro import ExactAvroFile
from sealberg.metadata.manifest_decoder import decode_manifest, decoding
from sealberg.metadata.manifest_fields import CONTENT, PATH, SIZE, STATUS
from sealberg.pyiceberg_private import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.io import FileIO

_MANIFEST_PATH, _MANIFEST_KEY = 500, 519
_LINE: Final = (_MANIFEST_PATH, _MANIFEST_KEY)
_ENTRY: Final = frozenset({STATUS, PATH, SIZE, CONTENT})
_REMOVED: Final = int(ManifestEntryStatus.DELETED)


class NamedFile(NamedTuple):
    """A data or delete file, as a manifest names it."""

    location: str
    size: int
    content: DataFileContent


@dataclass(frozen=True, slots=True, eq=False)
class FileNames:
    """The files that a manifest names, as columns: those that are live in it, and those that it says were removed."""

    live: pa.BooleanArray = field(repr=False)
    locations: pa.LargeStringArray = field(repr=False)
    sizes: pa.Int64Array = field(repr=False)
    contents: pa.Int64Array = field(repr=False)

    def __len__(self) -> int:
        return len(self.live)

    def __iter__(self) -> Iterator[NamedFile]:
        """All files, removed ones too."""
        kinds = [_CONTENTS[each] for each in self.contents.to_pylist()]
        return map(NamedFile, self.locations.to_pylist(), self.sizes.to_pylist(), kinds)

    def __reduce__(self) -> tuple[Any, ...]:
        """Compressed: locations of one table have most of their letters in common."""
        batch = pa.record_batch([getattr(self, name) for name in self.__slots__], names=self.__slots__)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_batch(batch)
        return _unpacked, (sink.getvalue().to_pybytes(),)

    def live_locations(self) -> list[str]:
        found: list[str] = self.locations.filter(self.live).to_pylist()
        return found


def _unpacked(packed: bytes) -> FileNames:
    table = pa.ipc.open_stream(packed).read_all().combine_chunks()
    return FileNames(*(column.chunk(0) for column in table.columns))


_CONTENTS: Final = {int(content): content for content in DataFileContent}


def read_list_names(io: FileIO, location: str) -> Iterator[str]:
    """The manifests that a manifest list names; `location` carries the key of the list."""
    for line in _records(io, location, _LINE):
        path, key = _values(line, 2)
        yield keyed(path, key)


def read_manifest_names(io: FileIO, location: str) -> FileNames:
    """The files that a manifest names; `location` carries the manifest's key."""
    with decoding(location):
        found = decode_manifest(io, location, _ENTRY)
        live = pa.compute.not_equal(found.statuses(), _REMOVED)
        locations = found.texts(PATH, required=True).cast(pa.large_string())
        return FileNames(live, locations, found.numbers(SIZE), found.contents())


def _records(io: FileIO, location: str, wanted: tuple[int, ...]) -> Iterator[Record]:
    with reading(location), _NamesFile(io.new_input(location), wanted) as records:
        yield from records


def _values(record: Any, count: int) -> list[Any]:
    """The values of a record: the first is always there, and a missing last value is None."""
    values = values_of(record) if isinstance(record, Record) else []
    if not values or values[0] is None:
        raise FormatError("a line of a manifest list has no location")
    return [*values, *[None] * (count - len(values))]


class _NamesFile(ExactAvroFile[Record]):
    """An Avro file of which only the fields with these ids are read."""

    def __init__(self, file: Any, wanted: tuple[int, ...]) -> None:
        super().__init__(file)
        self._wanted = wanted

    def __enter__(self) -> Self:
        with self.input_file.open() as stream:
            self.decoder = BoundedDecoder(stream.read())
        self.header = self._read_header()
        self.reader = _reader(self.header.meta.get("avro.schema", ""), self._wanted)
        return self


@lru_cache(maxsize=64)
def _reader(schema: str, wanted: tuple[int, ...]) -> Reader:
    whole = AvroSchemaConversion().avro_to_iceberg(json.loads(schema))
    return _pruned(construct_reader(whole, {-1: Record}), wanted)


def _pruned(reader: Reader, wanted: tuple[int, ...]) -> Reader:
    """The same reader, which skips fields with other ids; wanted fields come in the order of their ids."""
    if not isinstance(reader, StructReader):
        return reader
    ids = [field.field_id for field in reader.struct.fields]
    order = [number for number in wanted if number in ids]
    readers = tuple(
        (order.index(number), _pruned(inner, wanted)) if number in order else (None, _Skipping(inner))
        for number, (_, inner) in zip(ids, reader.field_readers, strict=True)
    )
    return StructReader(readers, Record, reader.struct)


class _Skipping(Reader):
    """Passes over a field. Reading a map at once is faster than PyIceberg's skipping it entry by entry."""

    def __init__(self, reader: Reader) -> None:
        inner = reader.option if isinstance(reader, OptionReader) else reader
        self._pass: Any = reader.read if isinstance(inner, MapReader | ListReader) else reader.skip

    def read(self, decoder: BinaryDecoder) -> None:
        self._pass(decoder)

    def skip(self, decoder: BinaryDecoder) -> None:
        self._pass(decoder)
