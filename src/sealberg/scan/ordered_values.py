"""Columns of bounds and of partition values, decoded so that whole columns can be compared with a literal.

    Numbers   int, long, float, double, boolean, date, time, timestamps   a NumPy array
    Bytes     string, binary, fixed, uuid, decimal                        an Arrow array, compared byte by byte

A decimal becomes 16 bytes, most significant first, its sign bit inverted: such bytes have the order of the numbers.
What cannot be decoded is not known (`known`), and no comparison with it is true.

Bounds outlive changes of a column's type: a long may have bounds of 4 bytes (it was an int), a double too (a float),
and a timestamp (a date: the bounds count days). Bounds of NaN say nothing; some writers of ORC have made them.

Java compares UUIDs as two signed longs, and Parquet as unsigned bytes. Java's bounds of a file are Parquet's for each
row group, joined in the signed order. A lower bound with its first bit set may hide row groups below it, an upper
bound with its first bit clear may hide row groups above it, and the last 8 bytes may be those of the wrong row group.
Bounds of a file that is known to have one row group are exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

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
    IcebergType,
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
from pyiceberg.utils.decimal import decimal_to_unscaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

_MICROS_OF_DAY: Final = 86_400_000_000
_DECIMAL_BYTES: Final = 16
_HALF: Final = 1 << 127
_HALF_UUID: Final = 8
_LONGS: Final = np.iinfo(np.int64)

# How many bytes a stored bound has, as what they are read, and the factor to the unit of the type.
_Widths = dict[int, tuple[str, int]]
_WIDTHS: Final[Mapping[type[IcebergType], _Widths]] = {
    BooleanType: {1: ("<i1", 1)},
    IntegerType: {4: ("<i4", 1)},
    LongType: {4: ("<i4", 1), 8: ("<i8", 1)},
    DateType: {4: ("<i4", 1)},
    TimeType: {8: ("<i8", 1)},
    TimestampType: {4: ("<i4", _MICROS_OF_DAY), 8: ("<i8", 1)},
    TimestamptzType: {4: ("<i4", _MICROS_OF_DAY), 8: ("<i8", 1)},
    TimestampNanoType: {4: ("<i4", _MICROS_OF_DAY * 1000), 8: ("<i8", 1)},
    TimestamptzNanoType: {4: ("<i4", _MICROS_OF_DAY * 1000), 8: ("<i8", 1)},
    FloatType: {4: ("<f4", 1)},
    DoubleType: {4: ("<f4", 1), 8: ("<f8", 1)},
}
_FLOATS: Final = (FloatType, DoubleType)
_BYTES: Final = (StringType, BinaryType, FixedType, UUIDType, DecimalType)
_UNITS: Final[Mapping[type[IcebergType], str]] = {
    TimestampType: "us",
    TimestamptzType: "us",
    TimestampNanoType: "ns",
    TimestamptzNanoType: "ns",
}


class SortedValues(list[Any]):
    """The values of IN in order. The files of each manifest are compared with them, so their array is made once."""

    def __init__(self, values: Iterable[Any]) -> None:
        super().__init__(values)
        self._arrays: dict[Any, NDArray[Any]] = {}

    def array(self, kind: np.dtype[Any], make: Callable[[Sequence[Any]], NDArray[Any]]) -> NDArray[Any]:
        found = self._arrays.get(kind)
        return self._arrays.setdefault(kind, make(self)) if found is None else found


@dataclass(frozen=True)
class Numbers:
    """A column of integers or floats. Comparisons are those of IEEE 754: NaN is unequal, -0.0 equals 0.0."""

    values: NDArray[Any]
    known: Mask

    def below(self, value: float) -> Mask:
        return self.known & (self.values < value)

    def at_most(self, value: float) -> Mask:
        return self.known & (self.values <= value)

    def above(self, value: float) -> Mask:
        return self.known & (self.values > value)

    def at_least(self, value: float) -> Mask:
        return self.known & (self.values >= value)

    def equal(self, value: float) -> Mask:
        return np.asarray(self.known & (self.values == value))

    def one_of(self, values: Sequence[float]) -> Mask:
        return self.known & np.isin(self.values, self._array(values))

    def gaps(self, upper: Numbers, values: Sequence[float]) -> Mask:
        """Where none of the sorted values lies between this column and the upper one; unknown bounds are open."""
        if not isinstance(values, SortedValues):
            values = SortedValues(values)
        ordered = values.array(self.values.dtype, self._array)
        first = np.where(self.known, np.searchsorted(ordered, self.values, "left"), 0)
        last = np.where(upper.known, np.searchsorted(ordered, upper.values, "right"), len(ordered))
        return np.asarray(first >= last)

    def same_as(self, other: Numbers) -> Mask:
        return np.asarray(self.known & other.known & (self.values == other.values))

    def starts_with(self, prefix: Any) -> Mask:
        raise TypeError(f"numbers do not start with {prefix!r}")

    def _array(self, values: Sequence[float]) -> NDArray[Any]:
        if self.values.dtype.kind == "i":  # a literal of a timestamp can be larger than any timestamp
            values = [value for value in values if _LONGS.min <= value <= _LONGS.max]
        return np.array(values, dtype=self.values.dtype)


@dataclass(frozen=True)
class Bytes:
    """A column of bytes, in the order of unsigned bytes."""

    values: pa.Array
    known: Mask

    def below(self, value: bytes) -> Mask:
        return self._mask(pc.less(self.values, self._scalar(value)))

    def at_most(self, value: bytes) -> Mask:
        return self._mask(pc.less_equal(self.values, self._scalar(value)))

    def above(self, value: bytes) -> Mask:
        return self._mask(pc.greater(self.values, self._scalar(value)))

    def at_least(self, value: bytes) -> Mask:
        return self._mask(pc.greater_equal(self.values, self._scalar(value)))

    def equal(self, value: bytes) -> Mask:
        return self._mask(pc.equal(self.values, self._scalar(value)))

    def one_of(self, values: Sequence[bytes]) -> Mask:
        return self._mask(pc.is_in(self.values, pa.array(values, self.values.type)))

    def gaps(self, upper: Bytes, values: Sequence[bytes]) -> Mask:
        """Where none of the sorted values lies between this column and the upper one; unknown bounds are open."""
        outside = self.above(values[-1]) | upper.below(values[0])
        open_rows = np.flatnonzero(~outside)
        lowers, uppers = (column.values.take(pa.array(open_rows)).to_pylist() for column in (self, upper))
        for row, least, most in zip(open_rows.tolist(), lowers, uppers, strict=True):
            first = bisect_left(values, least) if least is not None else 0
            last = bisect_right(values, most) if most is not None else len(values)
            outside[row] = first >= last
        return outside

    def same_as(self, other: Bytes) -> Mask:
        return self._mask(pc.equal(self.values, other.values)) & other.known

    def starts_with(self, prefix: bytes) -> Mask:
        return self._mask(pc.starts_with(self.values, prefix))

    def _scalar(self, value: bytes) -> pa.Scalar[Any]:
        return pa.scalar(value, self.values.type)

    def _mask(self, found: pa.Array) -> Mask:
        return np.asarray(self.known & found.fill_null(False).to_numpy(zero_copy_only=False))


Column = Numbers | Bytes


def has_order(kind: IcebergType) -> bool:
    """Whether bounds of this type can be compared."""
    return type(kind) in _WIDTHS or isinstance(kind, _BYTES)


def is_float(kind: IcebergType) -> bool:
    return isinstance(kind, _FLOATS)


def comparable(kind: IcebergType, value: Any) -> Any:  # noqa: PLR0911 (one for each form)
    """The value of a literal in the form that columns of this type are compared with."""
    match kind:
        case FloatType():
            return float(np.float32(value))  # as the reader of the rows compares
        case DecimalType():
            unscaled = decimal_to_unscaled(value) if isinstance(value, Decimal) else int(value)
            if -_HALF <= unscaled < _HALF:
                return (unscaled + _HALF).to_bytes(_DECIMAL_BYTES, "big")
            return b"" if unscaled < 0 else b"\xff" * (_DECIMAL_BYTES + 1)
        case StringType():
            return value.encode() if isinstance(value, str) else bytes(value)
        case BinaryType() | FixedType() | UUIDType():
            return bytes(value)
        case BooleanType():
            return int(value)
        case _:
            return value


# -- bounds -----------------------------------------------------------------------------------------


def bound_column(
    kind: IcebergType, stored: pa.Array | None, count: int, *, upper: bool, one_row_group: Mask | None = None
) -> Column:
    """The lower or upper bounds of many files, from their stored form.

    Args:
        stored: null where a file has no bound; None: no file has one.
        one_row_group: which files are known to have one row group; their UUID bounds are as Parquet made them.
    """
    if isinstance(kind, _BYTES):
        values = pa.nulls(count, pa.binary()) if stored is None else _binary(stored)
        if isinstance(kind, DecimalType):
            return _decimals(values)
        if isinstance(kind, UUIDType):
            return _uuid_bounds(values, upper=upper, exact=one_row_group)
        return Bytes(values, _valid(values))
    dtype = np.float64 if is_float(kind) else np.int64
    if stored is None:
        return Numbers(np.zeros(count, dtype), np.zeros(count, np.bool_))
    return _numbers(_binary(stored), _WIDTHS[type(kind)], dtype)


def _numbers(stored: pa.Array, widths: _Widths, dtype: type) -> Numbers:
    offsets, data = _raw(stored)
    lengths, valid = np.diff(offsets), _valid(stored)
    values: NDArray[Any] = np.zeros(len(stored), dtype)
    known = np.zeros(len(stored), np.bool_)
    for width, (form, factor) in widths.items():
        here = valid & (lengths == width)
        rows = np.flatnonzero(here)
        if not len(rows):
            continue
        found = _gathered(offsets, data, rows, width).view(form).reshape(-1)
        if factor != 1:
            days = found.astype(np.int64)
            fits = np.abs(days) <= _LONGS.max // factor
            here[rows[~fits]] = False
            found = np.where(fits, days, 0) * factor
        values[rows] = found
        known |= here
    if values.dtype.kind == "f":
        known &= ~np.isnan(values)
    return Numbers(values, known)


def _decimals(stored: pa.Array) -> Bytes:
    offsets, data = _raw(stored)
    lengths, valid = np.diff(offsets), _valid(stored)
    wide = np.zeros((len(stored), _DECIMAL_BYTES), np.uint8)
    known = np.zeros(len(stored), np.bool_)
    for width in np.unique(lengths[valid]).tolist():
        rows = np.flatnonzero(valid & (lengths == width))
        if not width:
            continue
        found = _gathered(offsets, data, rows, width)
        sign = np.where(found[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
        if width > _DECIMAL_BYTES:  # longer than it has to be: the bytes in front only repeat the sign
            head, found = found[:, :-_DECIMAL_BYTES], found[:, -_DECIMAL_BYTES:]
            fits = (head == sign).all(axis=1) & ((found[:, 0] ^ sign[:, 0]) < 0x80)
            rows, found, sign = rows[fits], found[fits], sign[fits]
        wide[rows, : _DECIMAL_BYTES - found.shape[1]] = sign
        wide[rows, _DECIMAL_BYTES - found.shape[1] :] = found
        known[rows] = True
    wide[:, 0] ^= 0x80
    return _fixed(wide, known)


def _uuid_bounds(stored: pa.Array, *, upper: bool, exact: Mask | None) -> Bytes:
    offsets, data = _raw(stored)
    whole = _valid(stored) & (np.diff(offsets) == 2 * _HALF_UUID)
    rows = np.flatnonzero(whole)
    wide = np.zeros((len(stored), 2 * _HALF_UUID), np.uint8)
    if not len(rows):
        return _fixed(wide, whole)
    wide[rows] = _gathered(offsets, data, rows, 2 * _HALF_UUID)
    exact = np.zeros(len(stored), np.bool_) if exact is None else exact
    wide[~exact, _HALF_UUID:] = 0xFF if upper else 0
    return _fixed(wide, whole & (exact | (wide[:, 0] >> 7 == upper)))


# -- partition values -------------------------------------------------------------------------------


def partition_column(kind: IcebergType, values: pa.Array) -> Column:
    """The values of a partition field whose result has this type; null where the partition is null."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if isinstance(kind, _BYTES):
        if isinstance(kind, DecimalType) and pa.types.is_decimal(values.type):
            return _decimal_values(kind, values)
        made = _binary(values if not pa.types.is_null(values.type) else values.cast(pa.binary()))
        return _decimals(made) if isinstance(kind, DecimalType) else Bytes(made, _valid(made))
    return Numbers(_plain(kind, values), _valid(values))


def _plain(kind: IcebergType, values: pa.Array) -> NDArray[Any]:
    if is_float(kind):
        return np.asarray(values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
    if (unit := _UNITS.get(type(kind))) and (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)):
        values = values.cast(pa.timestamp(unit, getattr(values.type, "tz", None)))
    elif isinstance(kind, DateType) and pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    elif isinstance(kind, TimeType) and pa.types.is_time(values.type):
        values = values.cast(pa.time64("us"))
    return np.asarray(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))


def _decimal_values(kind: DecimalType, values: pa.Array) -> Bytes:
    values = values.cast(pa.decimal128(38, kind.scale))
    whole = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * 16 :][: len(values) * 16]
    wide = whole.reshape(-1, _DECIMAL_BYTES)[:, ::-1].copy()
    wide[:, 0] ^= 0x80
    return _fixed(wide, _valid(values))


# -- Arrow's buffers --------------------------------------------------------------------------------


def _binary(values: pa.Array) -> pa.Array:
    """The array as binary or large binary."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return values
    if pa.types.is_large_string(kind) or kind in (pa.string_view(), pa.binary_view()):
        return values.cast(pa.large_binary())
    return values.cast(pa.binary())


def _raw(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each value begins and ends in the bytes of all, and these bytes."""
    if not len(values):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    _, offsets, data = values.buffers()
    form = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    bounds = np.frombuffer(offsets, form)[values.offset : values.offset + len(values) + 1]
    return bounds.astype(np.int64), np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def _gathered(
    offsets: NDArray[np.int64], data: NDArray[np.uint8], rows: NDArray[np.int64], width: int
) -> NDArray[np.uint8]:
    """The bytes of these rows, each of which has this width, as a matrix."""
    first, last = int(offsets[rows[0]]), int(offsets[rows[-1] + 1])
    if last - first == len(rows) * width:  # nothing lies between them
        return data[first:last].reshape(-1, width)
    return np.asarray(data[offsets[rows][:, None] + np.arange(width)])


def _fixed(rows: NDArray[np.uint8], known: Mask) -> Bytes:
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    parts = [np.packbits(known, bitorder="little"), offsets, np.ascontiguousarray(rows)]
    return Bytes(pa.Array.from_buffers(pa.binary(), count, [pa.py_buffer(part) for part in parts]), known)


def _valid(values: pa.Array) -> Mask:
    if not values.null_count:
        return np.ones(len(values), np.bool_)
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
