"""Encodes Arrow columns to Avro records, a whole column at a time, with NumPy.

    each column ──> the bytes of each of its values, as one binary array (no Python object for a value)
    a record    ──> the binary arrays of its fields joined, value by value

    long        zigzag varint            list     count, the items, 0; an empty list is 0
    string      length, the bytes        map      like a list of (key, value)
    optional    0, or 1 and the value    struct   its fields

The encoders return binary arrays without nulls: an optional value without bytes is the byte 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    UnknownType,
    UUIDType,
)

from sealberg.errors import ConfigError
from sealberg.files.avro.values import TIMES, decimal_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.types import IcebergType


def encode(columns: Sequence[pa.Array], struct: StructType, count: int) -> pa.Array:
    """The records of these columns, which are in the order of `struct`, as a binary array of `count` values."""
    fields = zip(columns, struct.fields, strict=True)
    found = [_value(column, field.field_type, field.name, required=field.required) for column, field in fields]
    parts = [part for part in found if part is not None]
    return _joined(*parts) if parts else _repeated(b"", count)


def _value(array: pa.Array, kind: IcebergType, name: str, *, required: bool) -> pa.Array | None:
    """The bytes of each value; None if the type has no bytes."""
    if isinstance(kind, UnknownType):
        return None
    if required:
        if array.null_count:
            raise ConfigError(f"column {name} is required and has a null")
        return _present(array, kind, name)
    if not array.null_count:
        return _joined(_repeated(b"\x02", len(array)), _present(array, kind, name))
    there = array.is_valid()
    # Arrow cannot drop all values of a uuid column, nor of a column with uuids inside: it has no builder for them.
    present = array.drop_null() if there.true_count else array.slice(0, 0)
    values = _joined(_repeated(b"\x02", there.true_count), _present(present, kind, name))
    return _spread(values, there, b"\x00")


def _present(array: pa.Array, kind: IcebergType, name: str) -> pa.Array:  # noqa: PLR0911 (one a type)
    """The bytes of each value of an array without nulls."""
    match kind:
        case StructType():
            return encode(array.flatten(), kind, len(array))
        case ListType():
            items = _value(
                _inside(array, array.values), kind.element_type, f"{name}.element", required=kind.element_required
            )
            return _collection(array, items)
        case MapType():
            keys = _value(_inside(array, array.keys), kind.key_type, f"{name}.key", required=True)
            values = _value(_inside(array, array.items), kind.value_type, f"{name}.value", required=kind.value_required)
            assert keys is not None, "a key has a type"
            return _collection(array, keys if values is None else _joined(keys, values))
        case DecimalType():
            return pa.array(decimal_bytes(array, kind), pa.large_binary())
        case UUIDType():
            return (array.storage if isinstance(array, pa.ExtensionArray) else array).cast(pa.large_binary())
        case FixedType():
            return array.cast(pa.large_binary())
        case StringType() | BinaryType():
            stored = array.cast(pa.large_binary())
            return _joined(_varints(pc.binary_length(stored)), stored)
        case FloatType() | DoubleType():
            return _fixed_width(array)
        case BooleanType():
            return _fixed_width(array.cast(pa.uint8()))
        case IntegerType() | LongType():
            return _varints(array)
        case DateType():
            return _varints(array.view(pa.int32()))
        case _ if type(kind) in TIMES:
            return _varints(array.view(pa.int64()))
    raise ConfigError(f"internal error: column {name} of type {kind} has no Avro encoding")


def _inside(array: pa.Array, children: pa.Array) -> pa.Array:
    """The children of this array only, if the array is a slice."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return children.slice(first, last - first)


def _collection(array: pa.Array, items: pa.Array | None) -> pa.Array:
    """Lists and maps: the number of items, the items, and 0. The number 0 is an end already."""
    import numpy as np

    starts = array.offsets.to_numpy().astype(np.int64)
    counts = np.diff(starts)
    prefix = _varints(pa.array(counts))
    ends = _binary(np.zeros(int((counts > 0).sum()), np.uint8), (counts > 0).astype(np.int64))
    if items is None:
        return _joined(prefix, ends)
    offsets = np.ascontiguousarray(_offsets(items)[starts - starts[0]])
    buffers = [None, pa.py_buffer(offsets), items.buffers()[2]]
    return _joined(prefix, pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(array), buffers), ends)


def _varints(array: pa.Array) -> pa.Array:
    import numpy as np

    numbers = array.to_numpy(zero_copy_only=False).astype(np.int64)
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    width = max(1, -(-int(zigzag.max()).bit_length() // 7)) if len(zigzag) else 1
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    groups = zigzag[:, None] >> shifts
    # A group belongs to the number if it is the first, or if bits are left; it continues if bits are left after it.
    used = groups != 0
    used[:, 0] = True
    made = (groups & np.uint64(0x7F)).astype(np.uint8)
    made[:, :-1] |= used[:, 1:].astype(np.uint8) << 7
    return _binary(made[used], used.sum(axis=1))


def _fixed_width(array: pa.Array) -> pa.Array:
    import numpy as np

    values = np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
    return _binary(values.view(np.uint8), np.full(len(values), values.itemsize))


def _binary(data: Any, lengths: Any) -> pa.Array:
    import numpy as np

    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lengths), buffers)


def _spread(values: pa.Array, there: pa.Array, absent: bytes) -> pa.Array:
    """The values at the places where `there` is true, and `absent` elsewhere."""
    nothing = pa.scalar(absent, pa.large_binary())
    return pc.replace_with_mask(pa.repeat(nothing, len(there)), there, values)


def _repeated(value: bytes, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.large_binary()), count)


def _joined(*parts: pa.Array) -> pa.Array:
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _offsets(array: pa.Array) -> Any:
    import numpy as np

    return np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]


def blocks(encoded: pa.Array, size: int) -> list[tuple[int, memoryview]]:
    """Cut records into blocks (rows, bytes): a block ends with the record that reaches `size`."""
    import numpy as np

    offsets, data = _offsets(encoded), memoryview(encoded.buffers()[2] or b"")
    made, first = list[tuple[int, memoryview]](), 0
    while first < len(encoded):
        stop = min(int(np.searchsorted(offsets, offsets[first] + size, side="left")), len(encoded))
        stop = max(stop, first + 1)
        made.append((stop - first, data[int(offsets[first]) : int(offsets[stop])]))
        first = stop
    return made
