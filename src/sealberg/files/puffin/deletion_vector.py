"""Which rows of a data file are deleted: a set of positions, and the `deletion-vector-v1` blob that holds it.

    blob: length of magic and vector, u32 BE | magic d1 d3 39 64 | vector | CRC-32 of magic and vector, u32 BE

    vector: number of bitmaps, u64 LE | for each: the upper half of its positions, u32 LE | a 32-bit Roaring bitmap
    bitmap: cookie | containers' keys and cardinalities | offsets | containers: sorted array, bit set, or runs

Bitmaps come by ascending upper half; containers are run-length encoded where that is shorter, as Java does it.
Reading and writing is CRoaring's, which takes a bitmap's word for its own cardinalities and writes beyond its
memory when that is a lie. So every count and order is checked here before CRoaring sees a byte.

Specifications: https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type and
https://github.com/RoaringBitmap/RoaringFormatSpec ; this module does no I/O.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap, BitMap64

from sealberg.errors import BadMagicError, ConfigError, FormatError, TrailingBytesError, TruncatedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sealberg.format.aes_gcm import Bytes

MAGIC: Final = bytes.fromhex("d1d33964")
MAX_POSITION: Final = (2**31 - 2) << 32 | 0x80000000  # Java's
OVERHEAD: Final = 12  # length, magic, CRC

NO_RUNS: Final = 12346  # the cookie of a bitmap without run containers, all of its 32 bits
WITH_RUNS: Final = 12347  # and of one with some, its lower 16 bits
ARRAY_MOST: Final = 4096  # of values in a sorted array
BIT_SET_SIZE: Final = 8192
OFFSETS_FROM: Final = 4  # containers, if some of them are runs


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The positions of the deleted rows of one data file. An update makes a new one: `vector | more`."""

    _bits: BitMap64 = field(default_factory=BitMap64, repr=False)

    @classmethod
    def of(cls, positions: Iterable[int] | pa.Array | pa.ChunkedArray) -> DeletionVector:
        """From numbers in any order, or an Arrow array of integers without nulls."""
        try:
            bits = BitMap64(_numbers(positions))
        except (OverflowError, TypeError, pa.ArrowInvalid) as error:
            raise ConfigError(f"a position must be a number from 0 to {MAX_POSITION}: {error}") from None
        if bits and bits.max() > MAX_POSITION:
            raise ConfigError(f"a position must be at most {MAX_POSITION}, not {bits.max()}")
        return cls(bits)

    @property
    def cardinality(self) -> int:
        return len(self._bits)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes, which is what it takes when stored."""
        return len(self._bits.serialize())

    def __len__(self) -> int:
        return len(self._bits)

    def __iter__(self) -> Iterator[int]:
        return iter(self._bits)

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and 0 <= position <= MAX_POSITION and position in self._bits

    def __or__(self, other: DeletionVector) -> DeletionVector:
        return DeletionVector(self._bits | other._bits)

    def __repr__(self) -> str:
        return f"DeletionVector(cardinality={len(self._bits)})"

    def positions(self) -> pa.UInt64Array:
        """All positions, ascending."""
        return _array(self._bits)

    def deleted_in(self, start: int, stop: int) -> int:
        """How many of the rows `start`..`stop` are deleted."""
        return int(self._bits.range_cardinality(start, stop)) if start < stop else 0

    def kept(self, start: int, stop: int) -> pa.BooleanArray | None:
        """A mask over the rows `start`..`stop` for `filter`: true for those that stay; None if all do."""
        if not self.deleted_in(start, stop):
            return None
        window = BitMap64()
        window.add_range(start, stop)
        # A byte a row, then Arrow makes bits of them: twenty times as fast as a lookup of every row.
        flags = bytearray(b"\x01") * (stop - start)
        for position in self._bits & window:
            flags[position - start] = 0
        return pa.Array.from_buffers(pa.uint8(), stop - start, [None, pa.py_buffer(flags)]).cast(pa.bool_())

    def bitmap(self) -> bytes:
        """All positions as one 32-bit Roaring bitmap: what readers take whose files have fewer rows than that."""
        if not self._bits:
            return BitMap().serialize()
        if self._bits.max() >> 32:
            raise ConfigError(f"position {self._bits.max()} does not fit into 32 bits")
        return self._bits.serialize()[12:]  # behind the number of bitmaps, and the upper half of the only one

    # -- as a blob ----------------------------------------------------------------------------

    def encode(self) -> bytes:
        """The blob, as Java writes it (which fills gaps between the upper halves of positions with empty bitmaps)."""
        bits = self._bits.copy()
        bits.run_optimize()
        body = MAGIC + bits.serialize()
        return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))

    @classmethod
    def decode(cls, blob: Bytes, cardinality: int | None = None) -> DeletionVector:
        """Parse a blob. `cardinality` is what the manifest promises (its record count), to be compared."""
        blob = bytes(blob)
        if len(blob) < OVERHEAD:
            raise TruncatedError(f"a deletion vector has at least {OVERHEAD} bytes, found {len(blob)}")
        length, magic = struct.unpack_from(">I4s", blob)
        if magic != MAGIC:
            raise BadMagicError(f"not a deletion vector: {magic.hex()}, expected {MAGIC.hex()}")
        if length > len(blob) - 8:
            raise TruncatedError(f"a deletion vector of {length} bytes does not fit into {len(blob)}")
        if length < len(blob) - 8:
            raise TrailingBytesError(f"{len(blob) - 8 - length} bytes after a deletion vector")
        if zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
            raise FormatError("the checksum of a deletion vector is wrong")
        _check_vector(memoryview(blob)[8:-4])
        vector = cls(BitMap64.deserialize(blob[8:-4]))
        if cardinality is not None and vector.cardinality != cardinality:
            raise FormatError(f"a deletion vector of {cardinality} positions was promised, it has {vector.cardinality}")
        return vector


def _numbers(positions: Iterable[int] | pa.Array | pa.ChunkedArray) -> array[int]:
    if not isinstance(positions, pa.Array | pa.ChunkedArray):
        return array("Q", positions)  # no fractions, no negative numbers
    if positions.null_count:
        raise ConfigError("a position cannot be null")
    numbers = array("Q")
    for chunk in positions.chunks if isinstance(positions, pa.ChunkedArray) else [positions]:
        wide = chunk.cast(pa.uint64())
        numbers.frombytes(wide.buffers()[1].slice(8 * wide.offset, 8 * len(wide)))
    return numbers


def _array(bits: BitMap64) -> pa.UInt64Array:
    return pa.Array.from_buffers(pa.uint64(), len(bits), [None, pa.py_buffer(bits.to_array())])


# -- checks -------------------------------------------------------------------------------------


def _check_vector(vector: memoryview) -> None:
    cut = _Cursor(vector)
    count, last = cut.take("<Q")[0], -1
    for _ in range(count):
        (key,) = cut.take("<I")
        if key > MAX_POSITION >> 32:
            raise FormatError(f"a deletion vector has positions from {key << 32} on, beyond {MAX_POSITION}")
        if key <= last:
            raise FormatError(f"the bitmaps of a deletion vector are out of order: {key} after {last}")
        last = key
        _check_bitmap(cut)
    if cut.left:
        raise TrailingBytesError(f"{cut.left} bytes after the last bitmap of a deletion vector")


def _check_bitmap(cut: _Cursor) -> None:
    """One 32-bit bitmap; every key, cardinality, offset and value that it states."""
    start = cut.at
    (cookie,) = cut.take("<I")
    if cookie == NO_RUNS:
        (count,) = cut.take("<I")
        runs = b""
    elif cookie & 0xFFFF == WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = bytes(cut.bytes((count + 7) // 8))
    else:
        raise FormatError(f"a bitmap of a deletion vector begins with {cookie:#x}")
    if count > 1 << 16:
        raise FormatError(f"a bitmap of a deletion vector has {count} containers")
    heads = [cut.take("<HH") for _ in range(count)]
    keys = [key for key, _ in heads]
    if any(one >= other for one, other in pairwise(keys)):
        raise FormatError("the containers of a deletion vector are out of order")
    offsets = cut.take(f"<{count}I") if not runs or count >= OFFSETS_FROM else None
    for i, (_, less_one) in enumerate(heads):
        if offsets is not None and offsets[i] != cut.at - start:
            raise FormatError(f"container {i} of a deletion vector is not where it should be")
        if runs and runs[i // 8] >> i % 8 & 1:
            _check_runs(cut, less_one + 1)
        elif less_one < ARRAY_MOST:
            _check_sorted(cut.bytes(2 * (less_one + 1)))
        elif int.from_bytes(cut.bytes(BIT_SET_SIZE), "little").bit_count() != less_one + 1:
            raise FormatError(f"container {i} of a deletion vector does not hold as many positions as it says")


def _check_runs(cut: _Cursor, cardinality: int) -> None:
    (count,) = cut.take("<H")
    numbers = cut.take(f"<{2 * count}H")
    after, total = -1, 0
    for first, more in zip(numbers[::2], numbers[1::2], strict=True):
        if first <= after or first + more > 0xFFFF:
            raise FormatError("the runs of a deletion vector are out of order")
        after, total = first + more, total + more + 1
    if total != cardinality:
        raise FormatError(f"the runs of a deletion vector hold {total} positions, {cardinality} were promised")


def _check_sorted(values: memoryview) -> None:
    numbers = pa.Array.from_buffers(pa.uint16(), len(values) // 2, [None, pa.py_buffer(bytes(values))])
    if not pc.all(pc.less(numbers[:-1], numbers[1:]), min_count=0).as_py():
        raise FormatError("the positions of a deletion vector are out of order")


class _Cursor:
    """Takes numbers and bytes from a vector, in order."""

    __slots__ = ("at", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.view) - self.at

    def bytes(self, length: int) -> memoryview:
        if length > self.left:
            raise TruncatedError(f"a deletion vector is cut: {length} bytes expected at {self.at}, {self.left} left")
        self.at += length
        return self.view[self.at - length : self.at]

    def take(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.bytes(struct.calcsize(layout)))
