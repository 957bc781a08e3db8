"""Z-order: rows that are close in several columns come to lie close together.

    a = 0b0011, b = 0b0101   ──interleaved──>   0b00_01_10_11      from the highest bit on, one bit of each column

Each value becomes eight bytes whose order as an unsigned number is the order of the values; longer strings count with
their first eight bytes. Null comes first. Rows are sorted by the interleaved bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
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
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from pyiceberg.types import IcebergType

WIDTH: Final = 8
ROWS: Final = 1 << 18  # at a time: the bits of a row take 64 bytes per column
SIGN: Final = np.uint64(1 << 63)
TYPES: Final = (
    BooleanType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
    StringType,
    BinaryType,
    FixedType,
    UUIDType,
)


def check_zorder_type(name: str, kind: IcebergType) -> None:
    if not isinstance(kind, TYPES):
        raise ConfigError(f"zorder cannot use the column {name!r} of type {kind}")


def z_values(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """For each row, its interleaved bits as bytes, whose order is the z-order."""
    width = WIDTH * len(columns)
    count = len(columns[0])
    out = np.empty((count, width), np.uint8)
    for start in range(0, count, ROWS):
        parts = [ordered_bytes(column.slice(start, ROWS)) for column in columns]
        bits = np.stack([np.unpackbits(part, axis=1) for part in parts], axis=2)  # row, bit, column
        out[start : start + ROWS] = np.packbits(bits.reshape(len(parts[0]), -1), axis=1)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(out)])


def ordered_bytes(column: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    """Eight bytes per value whose order is the order of the values; zeros for null."""
    kind = column.type
    made = _of_text(column) if _is_bytes(kind) else _of_number(column)
    made[column.is_null().to_numpy()] = 0
    return made


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def _of_text(column: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    array = pc.fill_null(column.cast(pa.large_binary()), b"").combine_chunks()
    out = np.zeros((len(column), WIDTH), np.uint8)
    if array.nbytes == 0 or array.buffers()[2] is None:
        return out
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(array.buffers()[2], np.uint8)
    for at in range(WIDTH):
        long_enough = np.flatnonzero(offsets[1:] - offsets[:-1] > at)
        out[long_enough, at] = data[offsets[long_enough] + at]
    return out


def _of_number(column: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # The bits of a positive number are in its order; those of a negative number in the opposite order.
        bits = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy().view(np.uint64)
        ordered = np.where(bits & SIGN, ~bits, bits | SIGN)
    else:
        if pa.types.is_date32(kind):
            column = column.cast(pa.int32())
        values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
        ordered = values.view(np.uint64) ^ SIGN
    made: npt.NDArray[np.uint8] = ordered.astype(">u8").view(np.uint8).reshape(-1, WIDTH)
    return made
