"""Writes the structs that thrift.py reads, field by field, also the fields that this package does not know.

    encode_struct(Struct) -> bytes        Struct.fields: id -> (wire type, value), written in the order of their ids

`changed` makes a copy of a struct with some fields replaced, added or (None) removed.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from sealberg.files.parquet.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STOP,
    STRUCT,
    TRUE,
    UUID,
    Struct,
    ThriftList,
)

LONGEST_SHORT_LIST: Final = 14
MAX_DELTA: Final = 15


def changed(base: Struct, fields: dict[int, tuple[int, Any] | None]) -> Struct:
    """The struct with other values for some fields; a field whose value is None is left out."""
    merged = {**base.fields, **fields}
    return Struct({field_id: value for field_id, value in merged.items() if value is not None})


def structs(items: list[Struct]) -> tuple[int, ThriftList]:
    """A field that is a list of structs."""
    return LIST, ThriftList(STRUCT, items)


def i64(value: int) -> tuple[int, int]:
    return I64, value


def i32(value: int) -> tuple[int, int]:
    return I32, value


def encode_struct(value: Struct) -> bytes:
    out = bytearray()
    _struct(out, value)
    return bytes(out)


def _struct(out: bytearray, value: Struct) -> None:
    last = 0
    for field_id in sorted(value.fields):
        kind, content = value.fields[field_id]
        if kind in (TRUE, FALSE):  # the wire type of a boolean field is its value
            kind = TRUE if content else FALSE
        delta = field_id - last
        if 0 < delta <= MAX_DELTA:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _zigzag(out, field_id)
        last = field_id
        if kind not in (TRUE, FALSE):
            _value(out, kind, content)
    out.append(STOP)


def _value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _zigzag(out, value)
    elif kind == BINARY:
        _varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _struct(out, value)
    elif kind in (LIST, SET):
        _list(out, value)
    elif kind == BYTE:
        out += int(value).to_bytes(1, "little", signed=True)
    elif kind == DOUBLE:
        out += struct.pack("<d", value)
    elif kind in (TRUE, FALSE):  # an item of a list, which has a byte of its own
        out.append(TRUE if value else FALSE)
    elif kind == MAP:
        _varint(out, len(value.pairs))
        if value.pairs:
            out.append(value.key_kind << 4 | value.value_kind)
        for key, item in value.pairs:
            _value(out, value.key_kind, key)
            _value(out, value.value_kind, item)
    else:
        assert kind == UUID, f"thrift.py reads no wire type {kind}"
        out += value


def _list(out: bytearray, value: ThriftList) -> None:
    if len(value.items) <= LONGEST_SHORT_LIST:
        out.append(len(value.items) << 4 | value.kind)
    else:
        out.append(0xF0 | value.kind)
        _varint(out, len(value.items))
    for item in value.items:
        _value(out, value.kind, item)


def _varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _zigzag(out: bytearray, value: int) -> None:
    _varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
