"""Columns of a manifest in few bytes: numbers as differences, texts without their common beginning.

    snapshot ids     7, 7, 7, 7                ->  7                                       one value for all rows
    row counts       1000, 1004, 998           ->  998 + (2, 6, 0)                         one byte a row
    lower bounds     eight bytes of a long     ->  as numbers
    paths            s3://b/t/data/0000...     ->  the common beginning once, then the rest of each path

Manifests repeat themselves, so most columns take no bytes or one byte a row. Unpacking is one addition for the rows
that are asked for, without a Python object for a row. A packed column never changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

OBJECT_BYTES: Final = 150  # about the memory of a packed column beside its arrays
ARRAY_BYTES: Final = 112
LONG: Final = 8  # bytes that are packed as a number
_WIDTHS: Final = ((0xFF, np.uint8), (0xFFFF, np.uint16), (0xFFFFFFFF, np.uint32))


@dataclass(frozen=True, slots=True)
class Validity:
    """Which rows have a value; None for `bits` means all of them, or none if `any_valid` is False."""

    bits: NDArray[np.uint8] | None = None
    any_valid: bool = True

    @classmethod
    def of(cls, array: pa.Array) -> Validity:
        if array.null_count == 0:
            return ALL_VALID
        if array.null_count == len(array):
            return NONE_VALID
        return cls(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)))

    def mask(self, count: int, rows: Rows | None) -> NDArray[np.bool_] | None:
        """True where the row has a value; None where all rows have one."""
        if self.bits is None:
            return None if self.any_valid else np.zeros(count if rows is None else len(rows), np.bool_)
        whole = np.unpackbits(self.bits, count=count).view(np.bool_)
        return whole if rows is None else whole[rows]

    def part(self, count: int, start: int, stop: int) -> Validity:
        """Of the rows from `start` to `stop`, of `count` rows."""
        if self.bits is None:
            return self
        found = np.unpackbits(self.bits, count=count)[start:stop]
        if found.all():
            return ALL_VALID
        return Validity(np.packbits(found)) if found.any() else NONE_VALID

    @property
    def nbytes(self) -> int:
        return 0 if self.bits is None else ARRAY_BYTES + self.bits.nbytes


ALL_VALID: Final = Validity()
NONE_VALID: Final = Validity(any_valid=False)


@dataclass(frozen=True, slots=True)
class PackedNumbers:
    """A column of 64-bit integers, some of which may be null."""

    count: int
    base: int
    above: NDArray[Any] | None  # None: all values are `base`
    validity: Validity

    @classmethod
    def of(cls, array: pa.Array) -> PackedNumbers:
        validity = Validity.of(array)
        if not validity.any_valid:
            return cls(len(array), 0, None, validity)
        values = array.to_numpy(zero_copy_only=False) if array.null_count == 0 else _filled(array)
        return cls.of_numpy(values, validity)

    @classmethod
    def of_numpy(cls, values: NDArray[np.int64], validity: Validity = ALL_VALID) -> PackedNumbers:
        if len(values) == 0:
            return cls(0, 0, None, validity)
        return cls.between(values, int(values.min()), int(values.max()), validity)

    @classmethod
    def between(cls, values: NDArray[np.int64], base: int, most: int, validity: Validity = ALL_VALID) -> PackedNumbers:
        """Of values whose smallest and largest are known."""
        width = _narrowest(most - base)
        if width is None:
            return cls(len(values), base, None, validity)
        # Unsigned, because the difference of two longs need not be a long.
        above = (values.view(np.uint64) - np.uint64(base % (1 << 64))).astype(width)
        return cls(len(values), base, above, validity)

    def numpy(self, rows: Rows | None = None) -> NDArray[np.int64]:
        """The values; what stands in place of a null is any number."""
        if self.above is None:
            return np.full(self.count if rows is None else len(rows), self.base, np.int64)
        above = self.above if rows is None else self.above[rows]
        values: NDArray[np.int64] = (above.astype(np.uint64) + np.uint64(self.base % (1 << 64))).view(np.int64)
        return values

    def part(self, start: int, stop: int) -> PackedNumbers:
        """The rows from `start` to `stop`, packed in memory of their own."""
        if stop - start == self.count:
            return self
        validity = self.validity.part(self.count, start, stop)
        if self.above is None or stop == start:
            return PackedNumbers(stop - start, self.base, None, validity)
        above = self.above[start:stop]
        if above.itemsize == 1:
            return PackedNumbers(stop - start, self.base, above.copy(), validity)
        least = int(above.min())
        kind = _narrowest(int(above.max()) - least)
        narrow = None if kind is None else (above - above.dtype.type(least)).astype(kind)
        return PackedNumbers(stop - start, self.base + least, narrow, validity)

    def mask(self, rows: Rows | None = None) -> NDArray[np.bool_] | None:
        """True where there is a value; None if there is one everywhere."""
        return self.validity.mask(self.count, rows)

    def arrow(self, rows: Rows | None = None) -> pa.Int64Array:
        return _arrow(self.numpy(rows), self.mask(rows))

    @property
    def nbytes(self) -> int:
        held = 0 if self.above is None else ARRAY_BYTES + self.above.nbytes
        return OBJECT_BYTES + held + self.validity.nbytes


@dataclass(frozen=True, slots=True)
class PackedBytes:
    """A column of byte strings, some of which may be null.

    Args:
        numbers: the values, if all have the length `width` of at most 8 bytes; read as little-endian integers.
        prefix: how all values begin; `data` holds the rest of each.
        width: the length of the rest, if all values have one length; else `ends` says where each ends.
    """

    count: int
    validity: Validity
    width: int | None
    numbers: PackedNumbers | None = field(repr=False, default=None)
    prefix: bytes = field(repr=False, default=b"")
    data: NDArray[np.uint8] | None = field(repr=False, default=None)
    ends: NDArray[Any] | None = field(repr=False, default=None)

    @classmethod
    def of(cls, array: pa.Array) -> PackedBytes:
        """Of an array of Arrow's type binary."""
        validity, count = Validity.of(array), len(array)
        if not validity.any_valid or count == 0:
            return cls(count, validity, 0)
        if array.null_count:
            array = array.fill_null(array.drop_null()[0])
        lengths = pc.binary_length(array).to_numpy(zero_copy_only=False)
        width = int(lengths[0]) if lengths.min() == lengths.max() else None
        data = _data(array)
        if width is not None and width <= LONG:
            return cls(count, validity, width, numbers=PackedNumbers.of_numpy(_numbers(data, count, width)))
        if width is not None and (data[:-width] == data[width:]).all():
            return cls(count, validity, 0, prefix=bytes(data[:width]))
        prefix = _common_beginning(array)
        cut = len(prefix)
        rest = lengths - cut
        if cut:
            data = _without_beginning(data, lengths, cut, width)
        if width is not None:
            return cls(count, validity, width - cut, prefix=prefix, data=data.copy())
        ends = np.cumsum(rest, dtype=np.int64)
        return cls(
            count,
            validity,
            None,
            prefix=prefix,
            data=data.copy(),
            ends=ends.astype(np.uint32) if int(ends[-1]) < 1 << 32 else ends,
        )

    @classmethod
    def of_matrix(cls, rows: NDArray[np.uint8]) -> PackedBytes:
        """Of values of one length, at most 8 bytes, one in each row of a matrix."""
        count, width = rows.shape
        wide = np.zeros((count, LONG), np.uint8)
        wide[:, :width] = rows
        return cls(count, ALL_VALID, width, numbers=PackedNumbers.of_numpy(wide.reshape(-1).view(np.int64)))

    def arrow(self, rows: Rows | None = None) -> pa.BinaryArray:
        """The values as Arrow's type binary."""
        mask = self.validity.mask(self.count, rows)
        count = self.count if rows is None else len(rows)
        if not self.validity.any_valid:
            return pa.nulls(count, pa.binary())
        if self.numbers is not None:
            assert self.width is not None
            wide = self.numbers.numpy(rows).view(np.uint8).reshape(count, LONG)
            return _binary(np.ascontiguousarray(wide[:, : self.width]).reshape(-1), _steps(count, self.width), mask)
        if self.width == 0:
            made = pa.repeat(pa.scalar(self.prefix, pa.binary()), count)
            return made if mask is None else pc.if_else(pa.array(mask), made, pa.scalar(None, pa.binary()))
        return self._long(count, mask, rows)

    def _long(self, count: int, mask: NDArray[np.bool_] | None, rows: Rows | None) -> pa.BinaryArray:
        assert self.data is not None
        if self.width is not None:
            matrix = self.data.reshape(self.count, self.width)
            rest = matrix if rows is None else matrix[rows]
            if self.prefix:
                head = np.broadcast_to(np.frombuffer(self.prefix, np.uint8), (count, len(self.prefix)))
                rest = np.concatenate([head, rest], axis=1)
            return _binary(rest.reshape(-1), _steps(count, len(self.prefix) + self.width), mask)
        assert self.ends is not None
        offsets = np.zeros(self.count + 1, np.int32)
        offsets[1:] = self.ends
        found = _binary(self.data, offsets, None)
        if rows is not None:
            found = found.take(pa.array(rows))
        if self.prefix:
            found = pc.binary_join_element_wise(pa.scalar(self.prefix, pa.binary()), found, b"")
        return found if mask is None else pc.if_else(pa.array(mask), found, pa.scalar(None, pa.binary()))

    def part(self, start: int, stop: int) -> PackedBytes:
        """The rows from `start` to `stop`, in memory of their own."""
        if stop - start == self.count:
            return self
        count, validity = stop - start, self.validity.part(self.count, start, stop)
        if self.numbers is not None:
            return PackedBytes(count, validity, self.width, numbers=self.numbers.part(start, stop))
        if self.data is None:
            return PackedBytes(count, validity, self.width, prefix=self.prefix)
        if self.ends is None:
            assert self.width is not None
            data = self.data[start * self.width : stop * self.width].copy()
            return PackedBytes(count, validity, self.width, prefix=self.prefix, data=data)
        first, ends = int(self.ends[start - 1]) if start else 0, self.ends[start:stop]
        last = int(ends[-1]) if count else first
        made = ends - ends.dtype.type(first)
        return PackedBytes(count, validity, None, prefix=self.prefix, data=self.data[first:last].copy(), ends=made)

    def texts(self, rows: Rows | None = None) -> pa.StringArray:
        """The values as Arrow's type string; they were one when they were packed."""
        return self.arrow(rows).view(pa.string())

    @property
    def nbytes(self) -> int:
        held = sum(ARRAY_BYTES + each.nbytes for each in (self.data, self.ends) if each is not None)
        inner = 0 if self.numbers is None else self.numbers.nbytes
        return OBJECT_BYTES + len(self.prefix) + held + inner + self.validity.nbytes


def _narrowest(most: int) -> type[np.unsignedinteger[Any]] | None:
    """The type for differences up to this one; None if there are none."""
    if most == 0:
        return None
    return next((kind for largest, kind in _WIDTHS if most <= largest), np.uint64)


def _filled(array: pa.Array) -> NDArray[np.int64]:
    """The values, with one of them in place of each null, so that nulls do not widen the range."""
    filled: NDArray[np.int64] = array.fill_null(array.drop_null()[0]).to_numpy(zero_copy_only=False)
    return filled


def _arrow(values: NDArray[np.int64], mask: NDArray[np.bool_] | None) -> pa.Int64Array:
    return pa.array(values, mask=None if mask is None else ~mask)


def _data(array: pa.BinaryArray) -> NDArray[np.uint8]:
    """The bytes of all values one after another."""
    _, offsets, data = array.buffers()
    if data is None:
        return np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]


def _numbers(data: NDArray[np.uint8], count: int, width: int) -> NDArray[np.int64]:
    wide = np.zeros((count, LONG), np.uint8)
    wide[:, :width] = data.reshape(count, width)
    return wide.reshape(-1).view(np.int64)


def _common_beginning(array: pa.BinaryArray) -> bytes:
    ends = pc.min_max(array)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    same = next((at for at, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), min(len(least), len(most)))
    return bytes(least[:same])


def _without_beginning(
    data: NDArray[np.uint8], lengths: NDArray[np.int32], cut: int, width: int | None
) -> NDArray[np.uint8]:
    if width is not None:
        return np.ascontiguousarray(data.reshape(-1, width)[:, cut:]).reshape(-1)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    keep = np.ones(len(data), np.bool_)
    keep[(starts[:, None] + np.arange(cut)).reshape(-1)] = False
    return data[keep]


def _steps(count: int, width: int) -> NDArray[np.int32]:
    return np.arange(0, (count + 1) * width, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)


def _binary(data: NDArray[np.uint8], offsets: NDArray[np.int32], mask: NDArray[np.bool_] | None) -> pa.BinaryArray:
    bits = None if mask is None else pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, [bits, pa.py_buffer(offsets), pa.py_buffer(data)])
