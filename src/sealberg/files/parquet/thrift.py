"""Reads Thrift's compact protocol, in which Parquet writes its footer, page headers and indexes.

    field header   id delta (4 bits) | wire type (4 bits), or the wire type and the id as a zigzag varint
    integers       zigzag varints       doubles  8 bytes LE      binary  length, bytes
    lists, sets    size (4 bits) | wire type, or a varint size     structs  fields, then 00

A `Struct` keeps the wire type of every field, also of fields that this package does not know, so that a writer can
write a changed struct back without loss. Nothing here trusts a length: every read ends inside the buffer.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sealberg.errors import FormatError

if TYPE_CHECKING:
    from sealberg.format.aes_gcm import Bytes

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(14)
MAX_DEPTH: Final = 32
MAX_VARINT_BITS: Final = 70


class ThriftList(NamedTuple):
    """A list or set: the wire type of its items, and the items."""

    kind: int
    items: list[Any]


class ThriftMap(NamedTuple):
    """A map: the wire types of its keys and values, and its pairs."""

    key_kind: int
    value_kind: int
    pairs: list[tuple[Any, Any]]


class Struct:
    """The fields of a struct: id -> (wire type, value)."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[int, tuple[int, Any]]) -> None:
        self.fields = fields

    def __contains__(self, field_id: object) -> bool:
        return field_id in self.fields

    def integer(self, field_id: int) -> int:
        """A required integer."""
        found = self.optional_integer(field_id)
        if found is None:
            raise FormatError(f"Thrift: field {field_id} is missing, expected an integer")
        return found

    def optional_integer(self, field_id: int) -> int | None:
        value = self._get(field_id, (BYTE, I16, I32, I64))
        assert value is None or isinstance(value, int)
        return value

    def binary(self, field_id: int) -> bytes | None:
        value = self._get(field_id, (BINARY,))
        assert value is None or isinstance(value, bytes)
        return value

    def struct(self, field_id: int) -> Struct | None:
        value = self._get(field_id, (STRUCT,))
        assert value is None or isinstance(value, Struct)
        return value

    def structs(self, field_id: int) -> list[Struct]:
        """A list of structs; empty if the field is missing."""
        value = self._get(field_id, (LIST,))
        if value is None:
            return []
        if value.kind != STRUCT and value.items:
            raise FormatError(f"Thrift: field {field_id} is a list of wire type {value.kind}, expected structs")
        return list(value.items)

    def binaries(self, field_id: int) -> list[bytes]:
        """A list of byte strings; empty if the field is missing."""
        value = self._get(field_id, (LIST,))
        if value is None:
            return []
        if value.kind != BINARY and value.items:
            raise FormatError(f"Thrift: field {field_id} is a list of wire type {value.kind}, expected binary")
        return list(value.items)

    def _get(self, field_id: int, kinds: tuple[int, ...]) -> Any:
        found = self.fields.get(field_id)
        if found is None:
            return None
        if found[0] not in kinds:
            raise FormatError(f"Thrift: field {field_id} has the wire type {found[0]}, expected {kinds[0]}")
        return found[1]


def decode_struct(buffer: Bytes, at: int = 0) -> tuple[Struct, int]:
    """The struct at an offset, and the offset after it; FormatError if it does not end inside the buffer."""
    decoder = _Decoder(bytes(buffer), at)
    try:
        return decoder.struct(0), decoder.at
    except (IndexError, struct.error):
        raise FormatError(f"Thrift: the struct at offset {at} does not end in its {len(buffer)} bytes") from None


class _Decoder:
    """A cursor over a buffer. An IndexError means that the buffer ended too soon."""

    __slots__ = ("at", "buffer")

    def __init__(self, buffer: bytes, at: int) -> None:
        self.buffer = buffer
        self.at = at

    def struct(self, depth: int) -> Struct:
        if depth > MAX_DEPTH:
            raise FormatError(f"Thrift: structs are nested more than {MAX_DEPTH} deep")
        fields: dict[int, tuple[int, Any]] = {}
        last = 0
        while True:
            head = self.buffer[self.at]
            self.at += 1
            if head == STOP:
                return Struct(fields)
            kind = head & 0x0F
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            if last in fields:
                raise FormatError(f"Thrift: field {last} occurs twice in a struct")
            # In a struct, the wire type of a boolean is its value.
            fields[last] = (kind, kind == TRUE) if kind in (TRUE, FALSE) else (kind, self.value(kind, depth))

    def value(self, kind: int, depth: int) -> Any:  # noqa: PLR0911 (one per wire type)
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind == BINARY:
            return self.take(self.varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self.list(depth)
        if kind == BYTE:
            return int.from_bytes(self.take(1), "little", signed=True)
        if kind == DOUBLE:
            return struct.unpack("<d", self.take(8))[0]
        if kind in (TRUE, FALSE):  # an item of a list, which has a byte of its own
            return self.take(1)[0] == TRUE
        if kind == MAP:
            return self.map(depth)
        if kind == UUID:
            return self.take(16)
        raise FormatError(f"Thrift: unknown wire type {kind}")

    def list(self, depth: int) -> ThriftList:
        head = self.buffer[self.at]
        self.at += 1
        size, kind = head >> 4, head & 0x0F
        if size == 15:
            size = self.varint()
        if size > len(self.buffer) - self.at:  # an item takes at least one byte
            raise FormatError(f"Thrift: a list of {size} items does not fit into its buffer")
        return ThriftList(kind, [self.value(kind, depth + 1) for _ in range(size)])

    def map(self, depth: int) -> ThriftMap:
        size = self.varint()
        if not size:
            return ThriftMap(STOP, STOP, [])
        kinds = self.take(1)[0]
        if size > len(self.buffer) - self.at:
            raise FormatError(f"Thrift: a map of {size} pairs does not fit into its buffer")
        key, value = kinds >> 4, kinds & 0x0F
        return ThriftMap(key, value, [(self.value(key, depth + 1), self.value(value, depth + 1)) for _ in range(size)])

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.buffer):
            raise IndexError(end)
        taken = self.buffer[self.at : end]
        self.at = end
        return taken

    def varint(self) -> int:
        byte = self.buffer[self.at]
        self.at += 1
        if byte < 0x80:
            return byte
        value, shift = byte & 0x7F, 7
        while shift < MAX_VARINT_BITS:
            byte = self.buffer[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise FormatError("Thrift: a varint has more than 10 bytes")

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)
