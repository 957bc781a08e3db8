"""The deleted rows of a data file: a set of positions, stored as a `deletion-vector-v1` blob.

    blob: length of magic and vector, u32 BE | magic d1 d3 39 64 | vector | CRC-32 of magic and vector, u32 BE

    vector: number of bitmaps, u64 LE | for each: the upper half of its positions, u32 LE | a 32-bit Roaring bitmap
    bitmap: cookie | containers' keys and cardinalities | offsets | containers: sorted array, bit set, or runs

Bitmaps are in ascending order of the upper half; containers are run-length encoded if that is shorter, as in Java.
CRoaring reads and writes the bitmaps. It trusts the cardinalities in a bitmap and writes beyond its memory if they
are wrong, so this module checks every count and order before it calls CRoaring.

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
MAX_POSITION: Final = (2**31 - 2) << 32 | 0x80000000  # as in Java
OVERHEAD: Final = 12  # length, magic, CRC

NO_RUNS: Final = 12346  # the 32-bit cookie of a bitmap without run containers
WITH_RUNS: Final = 12347  # the lower 16 bits of the cookie of a bitmap with run containers
ARRAY_MOST: Final = 4096  # the most values of a sorted array
BIT_SET_SIZE: Final = 8192
OFFSETS_FROM: Final = 4  # a bitmap with run containers has offsets from this number of containers on


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The positions of the deleted rows of one data file, immutable: `vector | more` is a new vector."""

    _bits: BitMap64 = field(default_factory=BitMap64, repr=False)

    @classmethod
    def of(cls, positions: Iterable[int] | pa.Array | pa.ChunkedArray) -> DeletionVector:
        """The vector of positions in any order, or of an Arrow array of integers without nulls."""
        try:
            bits = BitMap64(_numbers(positions))
        except (OverflowError, TypeError, pa.ArrowInvalid) as error:
            raise ConfigError(f"a row position must be an integer from 0 to {MAX_POSITION}: {error}") from None
        if bits and bits.max() > MAX_POSITION:
            raise ConfigError(f"a row position must be at most {MAX_POSITION}, found {bits.max()}")
        return cls(bits)

    @property
    def cardinality(self) -> int:
        return len(self._bits)

    @property
    def nbytes(self) -> int:
        """About the memory of the vector: its serialized size."""
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
        """A mask over the rows `start`..`stop` for `filter`: true for rows that are not deleted; None if none is."""
        if not self.deleted_in(start, stop):
            return None
        window = BitMap64()
        window.add_range(start, stop)
        # One byte per row, which Arrow casts to bits: twenty times as fast as a lookup of every row.
        flags = bytearray(b"\x01") * (stop - start)
        for position in self._bits & window:
            flags[position - start] = 0
        return pa.Array.from_buffers(pa.uint8(), stop - start, [None, pa.py_buffer(flags)]).cast(pa.bool_())

    def bitmap(self) -> bytes:
        """All positions as one 32-bit Roaring bitmap, for readers of files with fewer than 2**32 rows."""
        if not self._bits:
            return BitMap().serialize()
        if self._bits.max() >> 32:
            raise ConfigError(f"row position {self._bits.max()} is too large for a 32-bit bitmap")
        return self._bits.serialize()[12:]  # after the number of bitmaps and the upper half of the only bitmap

    # -- as a blob ----------------------------------------------------------------------------

    def encode(self) -> bytes:
        """The blob, as Java writes it, but without Java's empty bitmaps for gaps between upper halves."""
        bits = self._bits.copy()
        bits.run_optimize()
        body = MAGIC + bits.serialize()
        return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))

    @classmethod
    def decode(cls, blob: Bytes, cardinality: int | None = None) -> DeletionVector:
        """Parse a blob. `cardinality` is the record count in the manifest, which must be equal."""
        blob = bytes(blob)
        if len(blob) < OVERHEAD:
            raise TruncatedError(f"deletion vector is truncated: found {len(blob)} bytes, expected at least {OVERHEAD}")
        length, magic = struct.unpack_from(">I4s", blob)
        if magic != MAGIC:
            raise BadMagicError(f"not a deletion vector: found magic {magic.hex()}, expected {MAGIC.hex()}")
        if length > len(blob) - 8:
            raise TruncatedError(f"deletion vector is truncated: found {len(blob) - 8} of {length} bytes")
        if length < len(blob) - 8:
            raise TrailingBytesError(f"deletion vector is followed by {len(blob) - 8 - length} trailing bytes")
        if zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
            raise FormatError("deletion vector is damaged: its checksum (CRC-32) does not match")
        _check_vector(memoryview(blob)[8:-4])
        vector = cls(BitMap64.deserialize(blob[8:-4]))
        if cardinality is not None and vector.cardinality != cardinality:
            raise FormatError(
                f"deletion vector has {vector.cardinality} positions, the manifest has a record count of {cardinality}"
            )
        return vector


def _numbers(positions: Iterable[int] | pa.Array | pa.ChunkedArray) -> array[int]:
    if not isinstance(positions, pa.Array | pa.ChunkedArray):
        return array("Q", positions)  # no fractions, no negative numbers
    if positions.null_count:
        raise ConfigError(f"{positions.null_count} row positions are null, expected integers")
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
            raise FormatError(f"deletion vector has positions above {key << 32}, expected at most {MAX_POSITION}")
        if key <= last:
            raise FormatError(f"deletion vector is malformed: its bitmaps are out of order: {key} after {last}")
        last = key
        _check_bitmap(cut)
    if cut.left:
        raise TrailingBytesError(f"deletion vector has {cut.left} trailing bytes after its last bitmap")


def _check_bitmap(cut: _Cursor) -> None:
    """Check every key, cardinality, offset and value of one 32-bit bitmap."""
    start = cut.at
    (cookie,) = cut.take("<I")
    if cookie == NO_RUNS:
        (count,) = cut.take("<I")
        runs = b""
    elif cookie & 0xFFFF == WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = bytes(cut.bytes((count + 7) // 8))
    else:
        raise FormatError(
            f"deletion vector is malformed: a bitmap has the cookie {cookie:#x}, expected {NO_RUNS} or {WITH_RUNS}"
        )
    if count > 1 << 16:
        raise FormatError(f"deletion vector is malformed: a bitmap has {count} containers, expected at most 65536")
    heads = [cut.take("<HH") for _ in range(count)]
    keys = [key for key, _ in heads]
    if any(key >= following for key, following in pairwise(keys)):
        raise FormatError("deletion vector is malformed: its containers are out of order")
    offsets = cut.take(f"<{count}I") if not runs or count >= OFFSETS_FROM else None
    for i, (_, less_one) in enumerate(heads):
        if offsets is not None and offsets[i] != cut.at - start:
            raise FormatError(
                f"deletion vector is malformed: container {i} is at {cut.at - start}, its offset says {offsets[i]}"
            )
        if runs and runs[i // 8] >> i % 8 & 1:
            _check_runs(cut, less_one + 1)
        elif less_one < ARRAY_MOST:
            _check_sorted(cut.bytes(2 * (less_one + 1)))
        elif int.from_bytes(cut.bytes(BIT_SET_SIZE), "little").bit_count() != less_one + 1:
            raise FormatError(
                f"deletion vector is malformed: container {i} does not hold the {less_one + 1} positions that it claims"
            )


def _check_runs(cut: _Cursor, cardinality: int) -> None:
    (count,) = cut.take("<H")
    numbers = cut.take(f"<{2 * count}H")
    after, total = -1, 0
    for first, more in zip(numbers[::2], numbers[1::2], strict=True):
        if first <= after or first + more > 0xFFFF:
            raise FormatError("deletion vector is malformed: its runs are out of order")
        after, total = first + more, total + more + 1
    if total != cardinality:
        raise FormatError(f"deletion vector is malformed: its runs hold {total} positions, expected {cardinality}")


def _check_sorted(values: memoryview) -> None:
    numbers = pa.Array.from_buffers(pa.uint16(), len(values) // 2, [None, pa.py_buffer(bytes(values))])
    if not pc.all(pc.less(numbers[:-1], numbers[1:]), min_count=0).as_py():
        raise FormatError("deletion vector is malformed: its positions are out of order")


class _Cursor:
    """Reads integers and bytes from a vector, in order."""

    __slots__ = ("at", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.view) - self.at

    def bytes(self, length: int) -> memoryview:
        if length > self.left:
            raise TruncatedError(
                f"deletion vector is truncated: expected {length} bytes at offset {self.at}, found {self.left}"
            )
        self.at += length
        return self.view[self.at - length : self.at]

    def take(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.bytes(struct.calcsize(layout)))
