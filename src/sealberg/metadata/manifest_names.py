"""Only the names in manifest lists and manifests, for jobs that look for files and not for rows.

    manifest list ──> the locations of manifests, which carry their keys
    manifest      ──> (live, location, size, content) for each data or delete file

Only these fields become Python objects, and files with the same Avro schema share one reader. PyIceberg's resolver
cannot leave out lists and maps, so the reader for the whole file is made, and then told what to skip.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

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
from sealberg.pyiceberg_private import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.io import FileIO

_STATUS, _FILE, _PATH, _SIZE, _CONTENT = 0, 2, 100, 104, 134
_MANIFEST_PATH, _MANIFEST_KEY = 500, 519
_LINE: Final = (_MANIFEST_PATH, _MANIFEST_KEY)
_ENTRY: Final = (_STATUS, _FILE, _PATH, _SIZE, _CONTENT)
_REMOVED: Final = int(ManifestEntryStatus.DELETED)


def read_list_names(io: FileIO, location: str) -> Iterator[str]:
    """The manifests that a manifest list names; `location` carries the key of the list."""
    for line in _records(io, location, _LINE):
        path, key = _values(line, 2)
        yield keyed(path, key)


def read_manifest_names(io: FileIO, location: str) -> Iterator[tuple[bool, str, int, DataFileContent]]:
    """Whether the entry is live, the location, size and content of each file; `location` carries the manifest's key."""
    for entry in _records(io, location, _ENTRY):
        status, file = _values(entry, 2)
        path, size, content = _values(file, 3)
        yield status != _REMOVED, path, size or 0, DataFileContent(content or 0)


def _records(io: FileIO, location: str, wanted: tuple[int, ...]) -> Iterator[Record]:
    with reading(location), _NamesFile(io.new_input(location), wanted) as records:
        yield from records


def _values(record: Any, count: int) -> list[Any]:
    """The values of a record: the first is always there, and a missing last value is None."""
    values = values_of(record) if isinstance(record, Record) else []
    if not values or values[0] is None:
        raise FormatError("an entry has no status, no file or no location")
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
    return _pruned(construct_reader(whole, {-1: Record, _FILE: Record}), wanted)


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
