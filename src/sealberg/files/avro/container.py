"""The container of an Avro file, inside AGS1: a header, and blocks of rows that can be found from any offset.

    Obj 01 | metadata: schema, codec | sync marker (16)
    count, varint | size, varint | that many bytes of records, perhaps compressed | sync marker      a block
    ...

All offsets are offsets of the plaintext. The sync marker is random for each file. A block belongs to the range in
which the marker *before* the block begins, as in Java: ranges that cover the file hold each block once, wherever the
file is split, and whether a reader finds its first block by its marker or by reading all blocks before it. A reader
fetches the AGS1 blocks of the header and of its range, and those up to the end of its last Avro block.

This module does not decode records. Specification:
https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from sealberg.errors import BadMagicError, FormatError, TruncatedError, UnsupportedError
from sealberg.format.ags1 import BLOCK_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealberg.files.ags1_reader import Ags1Reader
    from sealberg.format.aes_gcm import Bytes

MAGIC: Final = b"Obj\x01"
SYNC_SIZE: Final = 16
FETCH: Final = 4 * BLOCK_SIZE
MAX_VARINT: Final = 10
MAX_BLOCK: Final = 256 << 20  # bytes of one decompressed block; Java and sealberg write blocks of about 64 KiB
READ_SIZE: Final = 1 << 20
CODECS: Final = ("null", "deflate", "snappy", "zstandard")
# Java's default is 9: 4 % smaller than 4, and five times as slow.
LEVELS: Final = {"deflate": 4, "zstandard": 1}


@dataclass(frozen=True, slots=True)
class Header:
    """The header of an Avro file."""

    schema: dict[str, Any] = field(repr=False)
    codec: str
    sync: bytes = field(repr=False)
    length: int
    metadata: Mapping[str, bytes] = field(repr=False)


class Block(NamedTuple):
    """One block with its lengths and its marker; `first` is the position of its first row, if known."""

    first: int | None
    rows: int
    raw: bytes


def read_header(span: Span) -> Header:
    if span.get(0, 4) != MAGIC:
        raise BadMagicError(f"not an Avro file: found magic {span.get(0, 4).hex()}, expected {MAGIC.hex()}")
    at, metadata = 4, {}
    while True:
        count, at = span.number(at)
        if count == 0:
            break
        if count < 0:  # then the size of this part of the map follows, for readers that skip it
            count, (_, at) = -count, span.number(at)
        for _ in range(count):
            key, at = span.text(at)
            metadata[key.decode(errors="replace")], at = span.text(at)
    sync = span.get(at, SYNC_SIZE)
    try:
        schema = json.loads(metadata["avro.schema"])
    except (KeyError, ValueError, RecursionError) as error:
        raise FormatError(f"the schema of an Avro file does not parse: {error}") from None
    if not isinstance(schema, dict):
        raise FormatError("the schema of an Avro file is not a record")
    codec = metadata.get("avro.codec", b"null").decode(errors="replace")
    if codec not in CODECS:
        raise UnsupportedError(f"Avro codec {codec} is not supported, expected one of {', '.join(CODECS)}")
    return Header(schema, codec, sync, at + SYNC_SIZE, metadata)


def blocks(span: Span, header: Header, start: int, stop: int, *, positions: bool) -> Iterator[Block]:
    """The blocks whose markers begin in the range."""
    span.ahead = stop
    first_marker = header.length - SYNC_SIZE
    at: int | None = header.length
    seen: int | None = 0
    if start > first_marker and not positions:
        at, seen = span.find(header.sync, start, stop), None
    while at is not None and at < span.end and at - SYNC_SIZE < stop:
        count, after = span.number(at)
        size, after = span.number(after)
        if count < 0 or size < 0 or after + size + SYNC_SIZE > span.end:
            raise FormatError(
                f"the Avro block at offset {at} is malformed: it claims {count} rows in {size} bytes, "
                f"the file has {span.end} bytes"
            )
        raw = span.get(at, after + size + SYNC_SIZE - at)
        if raw[-SYNC_SIZE:] != header.sync:
            raise FormatError(f"the Avro block at offset {at} does not end in the file's sync marker")
        if at - SYNC_SIZE >= start:
            yield Block(seen, count, raw)
        at += len(raw)
        seen = None if seen is None else seen + count


class Span:
    """A window of the plaintext that moves forward by whole AGS1 blocks, and reads ahead up to `ahead` only.

    Args:
        held: the first bytes of the plaintext, if the caller has them already.
    """

    def __init__(self, stream: Ags1Reader, held: bytes = b"") -> None:
        self._stream = stream
        self.ahead = 0
        self._start = 0
        self._bytes = held
        self.end = stream.plain_length

    def get(self, at: int, length: int) -> bytes:
        if at + length > self.end:
            raise TruncatedError(
                f"the Avro file is truncated: it ends at offset {self.end}, expected {length} bytes at offset {at}"
            )
        self._reach(at, at + length)
        return self._bytes[at - self._start : at - self._start + length]

    def number(self, at: int) -> tuple[int, int]:
        """A zigzag varint, and the offset of its end."""
        return varint(self.get(at, min(MAX_VARINT, self.end - at)), 0, at)

    def text(self, at: int) -> tuple[bytes, int]:
        length, at = self.number(at)
        if length < 0:
            raise FormatError(f"the Avro file has a string of the negative length {length} at offset {at}")
        return self.get(at, length), at + length

    def find(self, marker: bytes, start: int, stop: int) -> int | None:
        """The offset of the end of the first marker that begins in the range."""
        last = min(stop + len(marker) - 1, self.end)
        at = start
        while at + len(marker) <= last:
            size = min(BLOCK_SIZE, last - at)
            found = self.get(at, size).find(marker)
            if found >= 0:
                return at + found + len(marker)
            at += size - len(marker) + 1
        return None

    def _reach(self, at: int, stop: int) -> None:
        held = self._start + len(self._bytes)
        if self._start <= at and stop <= held:
            return
        if not self._start <= at <= held:
            self._start, self._bytes, held = at, b"", at
        needed = -(-stop // BLOCK_SIZE) * BLOCK_SIZE
        wanted = -(-min(at + FETCH, self.ahead) // BLOCK_SIZE) * BLOCK_SIZE
        more = self._stream.read_at(held, max(needed, wanted) - held)
        self._bytes, self._start = self._bytes[at - self._start :] + more, at


# -- pieces ------------------------------------------------------------------------------------


def compress(codec: str, level: int | None, plain: bytes) -> bytes:
    """Compress one block; `codec` is Avro's name. fastavro's codecs are not used: each needs a package."""
    if codec == "deflate":
        packer = zlib.compressobj(LEVELS[codec] if level is None else level, wbits=-15)
        return packer.compress(plain) + packer.flush()
    if codec == "zstandard":
        packed: bytes = pa.Codec("zstd", LEVELS[codec] if level is None else level).compress(plain, asbytes=True)
        return packed
    if codec == "snappy":  # and a CRC-32 of the plain bytes
        snapped: bytes = pa.Codec("snappy").compress(plain, asbytes=True)
        return snapped + zlib.crc32(plain).to_bytes(4, "big")
    return plain


def decompress(codec: str, packed: bytes, limit: int = MAX_BLOCK) -> bytes:
    """Decompress one block; FormatError if the result exceeds the limit, before it takes up memory."""
    try:
        if codec == "deflate":
            unpacker = zlib.decompressobj(wbits=-15)
            inflated = _within(unpacker.decompress(packed, limit + 1), limit)
            if not unpacker.eof:
                raise FormatError("a block of an Avro file does not decompress: it is truncated")
            return inflated
        if codec == "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
                pieces, length = [], 0
                while length <= limit and (piece := stream.read(min(READ_SIZE, limit + 1 - length))):
                    pieces.append(piece)
                    length += len(piece)
            return _within(b"".join(pieces), limit)
        if codec == "snappy":
            size = _snappy_size(packed)
            if size > limit:
                raise FormatError(_too_large(limit))
            plain: bytes = pa.decompress(packed[:-4], size, codec="snappy", asbytes=True)
            if zlib.crc32(plain) != int.from_bytes(packed[-4:], "big"):
                raise FormatError("a block of an Avro file does not decompress: its CRC-32 does not match")
            return plain
    except (OSError, zlib.error, pa.ArrowInvalid) as error:
        raise FormatError(f"a block of an Avro file does not decompress: {error}") from error
    return packed


def _within(plain: bytes, limit: int) -> bytes:
    if len(plain) > limit:
        raise FormatError(_too_large(limit))
    return plain


def _too_large(limit: int) -> str:
    return f"a block of an Avro file decompresses to more than {limit} bytes"


def _snappy_size(packed: bytes) -> int:
    size = 0
    for i, byte in enumerate(packed[:5]):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return size
    raise FormatError("a block of an Avro file does not decompress: its snappy size is malformed")


def framed(rows: int, payload: bytes, sync: bytes) -> bytes:
    return b"".join((zigzag(rows), zigzag(len(payload)), payload, sync))


def header_bytes(schema: Any, codec: str, metadata: Mapping[str, bytes], sync: bytes) -> bytes:
    entries = {"avro.schema": compact(schema), "avro.codec": codec.encode(), **metadata}
    packed = b"".join(_text(key.encode()) + _text(value) for key, value in entries.items())
    return b"".join((MAGIC, zigzag(len(entries)), packed, zigzag(0), sync))


def varint(raw: Bytes, at: int, where: int = 0) -> tuple[int, int]:
    """A zigzag varint, and the offset of its end."""
    if len(raw) - at > 2:  # nearly all numbers are of up to three bytes, and need no loop
        value = raw[at]
        if value < 0x80:
            return (value >> 1) ^ -(value & 1), where + at + 1
        second = raw[at + 1]
        value = value & 0x7F | (second & 0x7F) << 7
        if second < 0x80:
            return (value >> 1) ^ -(value & 1), where + at + 2
        third = raw[at + 2]
        if third < 0x80:
            value |= third << 14
            return (value >> 1) ^ -(value & 1), where + at + 3
    value = 0
    for i, byte in enumerate(raw[at : at + MAX_VARINT]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), where + at + i + 1
    raise FormatError(f"the Avro file has a malformed or truncated varint at offset {where + at}")


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _text(value: bytes) -> bytes:
    return zigzag(len(value)) + value


def zigzag(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
