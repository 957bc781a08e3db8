"""Puffin, the container of deletion vectors and of sketches: blobs, and a footer that describes them.

    PFA1 | blob | blob | ... | PFA1 | JSON | length of the JSON, i32 LE | flags, 4 bytes | PFA1
                               `---------------------- footer -----------------------------'

In an encrypted table a Puffin file is inside an AGS1 stream; all offsets here are offsets of the plaintext.
Manifests name a deletion vector by offset and length, so `read_deletion_vector` reads neither the footer nor other
blobs. Sketches are compressed with Zstandard, as Java compresses them; deletion vectors are never compressed.

Specification: https://iceberg.apache.org/puffin-spec/
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import zstandard

from sealberg.errors import BadMagicError, ConfigError, FormatError, TruncatedError, UnsupportedError
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.file_writer import FileWriter
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.files.ags1_reader import Ags1Reader
    from sealberg.files.puffin.theta_sketch import ThetaSketch
    from sealberg.format.key_metadata import KeyMetadata

MAGIC: Final = b"PFA1"
FOOTER_END: Final = 12  # length, flags, magic
SHORTEST: Final = len(MAGIC) + len(MAGIC) + FOOTER_END
COMPRESSED: Final = 1  # the lowest bit of the first flag byte
TAIL_READ: Final = 1 << 16

DELETION_VECTOR: Final = "deletion-vector-v1"
ROW_POSITION: Final = 2147483645  # the field id of `_pos`
REFERENCED_DATA_FILE: Final = "referenced-data-file"
CARDINALITY: Final = "cardinality"
CREATED_BY: Final = "created-by"
THETA_SKETCH: Final = "apache-datasketches-theta-v1"
NDV: Final = "ndv"  # the property with the number of distinct values
ZSTD: Final = "zstd"
LARGEST_BLOB: Final = 64 << 20  # of a compressed blob, when it is decompressed


@dataclass(frozen=True, slots=True)
class Blob:
    """The description of one blob in a footer."""

    type: str
    fields: tuple[int, ...]
    offset: int
    length: int
    snapshot_id: int = -1
    sequence_number: int = -1
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON object, in Java's order."""
        found: dict[str, Any] = {
            "type": self.type,
            "fields": list(self.fields),
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "offset": self.offset,
            "length": self.length,
        }
        if self.compression_codec is not None:
            found["compression-codec"] = self.compression_codec
        if self.properties:
            found["properties"] = dict(self.properties)
        return found

    @classmethod
    def from_json(cls, found: Any) -> Blob:
        if not isinstance(found, dict):
            raise FormatError(f"a blob in a Puffin footer is {type(found).__name__}, expected an object")
        codec = found.get("compression-codec")
        if codec is not None and not isinstance(codec, str):
            raise FormatError("the compression-codec of a Puffin blob is not a string")
        fields = found.get("fields")
        if not isinstance(fields, list) or not all(type(field_id) is int for field_id in fields):
            raise FormatError("the fields of a Puffin blob are not a list of integers")
        if not isinstance(found.get("type"), str):
            raise FormatError("the type of a Puffin blob is missing or not a string")
        return cls(
            found["type"],
            tuple(fields),
            _number(found, "offset"),
            _number(found, "length"),
            _number(found, "snapshot-id"),
            _number(found, "sequence-number"),
            codec,
            _properties(found),
        )


@dataclass(frozen=True, slots=True)
class Footer:
    """All blobs of a file, in the order of the footer."""

    blobs: tuple[Blob, ...]
    properties: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The footer from its first magic to the end of the file."""
        found: dict[str, Any] = {"blobs": [blob.to_json() for blob in self.blobs]}
        if self.properties:
            found["properties"] = dict(self.properties)
        text = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
        return b"".join((MAGIC, text, len(text).to_bytes(4, "little"), bytes(4), MAGIC))

    @classmethod
    def decode(cls, payload: bytes) -> Footer:
        """Parse the JSON of a footer."""
        try:
            found = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"the footer of a Puffin file does not parse: {error}") from None
        if not isinstance(found, dict) or not isinstance(found.get("blobs"), list):
            raise FormatError("the footer of a Puffin file has no blobs, expected an object with a list of blobs")
        return cls(tuple(map(Blob.from_json, found["blobs"])), _properties(found))


def _number(found: dict[str, Any], name: str) -> int:
    value = found.get(name)
    if type(value) is not int:  # isinstance would accept True
        raise FormatError(f"the {name} of a Puffin blob is missing or not an integer")
    return value


def _properties(found: dict[str, Any]) -> Mapping[str, str]:
    properties = found.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise FormatError("the properties in a Puffin footer are not an object of strings")
    return MappingProxyType(properties)


# -- writing ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WrittenPuffin:
    """A finished file: its length, the position of each blob, the length of its footer and its key metadata."""

    stored_length: int
    footer: Footer
    footer_length: int
    key_metadata: KeyMetadata = field(repr=False)


class PuffinWriter(FileWriter):
    """Writes deletion vectors of several data files, or sketches of several columns, into one encrypted Puffin file.

    Args:
        sink: the AGS1 stream; any other sink is refused, because a Puffin file of an encrypted table is encrypted.
        created_by: the name of the writer, for the footer.
    """

    def __init__(self, sink: Ags1Writer, *, created_by: str = f"sealberg {__version__}") -> None:
        if not isinstance(sink, Ags1Writer):
            raise ConfigError(f"the sink of a Puffin file is a {type(sink).__name__}, expected an Ags1Writer")
        if sink.tell() != 0:
            raise ConfigError(f"the sink is at position {sink.tell()}, a Puffin file starts at position 0")
        self._sink = sink
        self._created_by = created_by
        self._blobs: list[Blob] = []
        self._sink.write(MAGIC)

    def add(self, data_file: str, vector: DeletionVector) -> Blob:
        """Write the vector of one data file; the manifest entry needs the offset and length of the blob."""
        if any(blob.properties.get(REFERENCED_DATA_FILE) == data_file for blob in self._blobs):
            raise ConfigError(f"a second deletion vector for {data_file}, expected one for each data file")
        offset, payload = self._sink.tell(), vector.encode()
        self._sink.write(payload)
        properties = {REFERENCED_DATA_FILE: data_file, CARDINALITY: str(vector.cardinality)}
        blob = Blob(DELETION_VECTOR, (ROW_POSITION,), offset, len(payload), properties=MappingProxyType(properties))
        self._blobs.append(blob)
        return blob

    def add_sketch(self, field_id: int, sketch: ThetaSketch, *, snapshot_id: int, sequence_number: int) -> Blob:
        """Write the sketch of one column of a snapshot, with the number of distinct values."""
        offset, payload = self._sink.tell(), zstandard.ZstdCompressor().compress(sketch.encode())
        self._sink.write(payload)
        properties = MappingProxyType({NDV: str(sketch.estimate)})
        blob = Blob(
            THETA_SKETCH, (field_id,), offset, len(payload), snapshot_id, sequence_number, ZSTD, properties=properties
        )
        self._blobs.append(blob)
        return blob

    def close(self) -> WrittenPuffin:
        footer = Footer(tuple(self._blobs), MappingProxyType({CREATED_BY: self._created_by}))
        tail = footer.encode()
        if not self._sink.closed:
            self._sink.write(tail)
            self._sink.close()
        return WrittenPuffin(self._sink.stored_length, footer, len(tail), self._sink.key_metadata)

    def abort(self) -> None:
        self._sink.abort()


# -- reading ------------------------------------------------------------------------------------


def read_deletion_vector(
    stream: Ags1Reader, offset: int, length: int, cardinality: int | None = None
) -> DeletionVector:
    """The vector for `content_offset`, `content_size_in_bytes` and `record_count` of a manifest entry."""
    return DeletionVector.decode(_read(stream, offset, length, "a deletion vector"), cardinality)


def read_footer(stream: Ags1Reader) -> Footer:
    """The footer, after a check of every length in it."""
    size = stream.plain_length
    if size < SHORTEST:
        raise TruncatedError(f"the Puffin file is truncated: it has {size} bytes, expected at least {SHORTEST}")
    _check_magic(stream.read_at(0, len(MAGIC)), "the start of the file")
    tail = stream.read_at(max(0, size - TAIL_READ), TAIL_READ)
    _check_magic(tail[-4:], "the end of the file")
    flags = tail[-8:-4]
    if flags[0] & ~COMPRESSED or any(flags[1:]):
        raise UnsupportedError(
            f"a Puffin footer has the unknown flags {flags.hex()}, expected only the compression flag"
        )
    length = int.from_bytes(tail[-FOOTER_END:-8], "little", signed=True)
    if not 0 <= length <= size - SHORTEST:
        raise FormatError(f"a Puffin footer of {length} bytes does not fit into {size}")
    start = size - FOOTER_END - length
    _check_magic(stream.read_at(start - len(MAGIC), len(MAGIC)), "the start of the footer")
    if flags[0] & COMPRESSED:
        raise UnsupportedError("compressed Puffin footers are not supported; Java does not write them for vectors")
    footer = Footer.decode(stream.read_at(start, length))
    for blob in footer.blobs:
        if blob.length < 0 or not len(MAGIC) <= blob.offset <= start - len(MAGIC) - blob.length:
            raise FormatError(f"a Puffin blob of {blob.length} bytes at offset {blob.offset} is outside the file")
    return footer


def read_blob(stream: Ags1Reader, blob: Blob) -> bytes:
    """The bytes of one blob, decompressed."""
    if blob.compression_codec not in (None, ZSTD):
        raise UnsupportedError(f"Puffin blobs compressed with {blob.compression_codec} are not supported")
    stored = _read(stream, blob.offset, blob.length, f"a blob of type {blob.type}")
    return stored if blob.compression_codec is None else _decompressed(stored)


def _decompressed(stored: bytes) -> bytes:
    try:
        size = zstandard.frame_content_size(stored)
        if not 0 <= size <= LARGEST_BLOB:
            raise FormatError(f"a compressed Puffin blob claims {size} bytes, expected at most {LARGEST_BLOB}")
        return zstandard.ZstdDecompressor().decompress(stored, max_output_size=size)
    except zstandard.ZstdError as error:
        raise FormatError(f"a compressed Puffin blob does not decompress: {error}") from None


def _read(stream: Ags1Reader, offset: int, length: int, what: str) -> bytes:
    if length < 0 or not 0 <= offset <= stream.plain_length - length:
        raise FormatError(
            f"{what} of {length} bytes at offset {offset} is outside the file of {stream.plain_length} bytes"
        )
    return stream.read_at(offset, length)


def _check_magic(found: bytes, where: str) -> None:
    if found != MAGIC:
        raise BadMagicError(f"not a Puffin file: found magic {found.hex()} at {where}, expected {MAGIC.hex()}")
