"""Hashes of column values, as theta sketches of Iceberg tables need them.

    Arrow array ──> single-value bytes of Iceberg ──MurmurHash3, x64, 128 bits, seed 9001──> u64

The bytes of a value are those of Iceberg's single-value serialisation: integers, dates, times and floats little-endian,
strings UTF-8, decimals as the shortest big-endian two's complement, UUIDs as 16 bytes. Nulls and empty values count for
nothing, as in DataSketches. Spark reads UUIDs as strings, so Java hashes their 36 characters: the estimates agree, the
bytes of the sketch do not.

All values of an array are hashed at once with NumPy, which releases the GIL. The Python package `datasketches` hashes
one int, float or str at a time, and cannot hash the four bytes of an int or the bytes of a decimal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sealberg.errors import UnsupportedError
from sealberg.files.puffin.theta_sketch import NOMINAL, SEED, ThetaSketch

if TYPE_CHECKING:
    from collections.abc import Iterator

C1: Final = 0x87C37B91114253D5
C2: Final = 0x4CF5AD432745937F
MASKS: Final = [(1 << 8 * count) - 1 for count in range(9)]
SLICE: Final = 1 << 14  # values that are hashed at a time; all arrays of a step fit into the cache of a core


class SketchBuilder:
    """Makes the theta sketch of a column, array by array."""

    def __init__(self) -> None:
        self._hashes: list[Any] = []
        self._waiting = 0
        self._repeats = True  # whether values occur often enough that distinct values are found first
        self._sketch = ThetaSketch.of(np.empty(0, np.uint64))

    def add(self, values: pa.Array) -> None:
        """Add the values of a column."""
        if pa.types.is_nested(values.type):
            raise UnsupportedError(f"columns of the Arrow type {values.type} have no numbers of distinct values")
        if self._repeats and not isinstance(values, pa.DictionaryArray | pa.ExtensionArray):
            distinct = pc.unique(values)
            self._repeats = 2 * len(distinct) < len(values)
            values = distinct
        for hashes in hashes_of(values):
            # Most values of a large column end here: their hashes are above theta.
            below = hashes[hashes < self._sketch.theta]
            self._hashes.append(below)
            self._waiting += len(below)
            if self._waiting > 4 * NOMINAL:
                self._sketch = self.sketch()

    def sketch(self) -> ThetaSketch:
        """The sketch of all values so far."""
        if self._hashes:
            fresh = ThetaSketch.of(np.concatenate(self._hashes))
            self._sketch = ThetaSketch.union((self._sketch, fresh))
            self._hashes, self._waiting = [], 0
        return self._sketch


def hashes_of(values: pa.Array) -> Iterator[Any]:
    """The hashes of the values of a column, in any order; a value may occur several times."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary.take(pc.unique(values.indices).drop_null())
    values = values.drop_null()
    if not len(values):
        return
    kind = values.type
    if pa.types.is_primitive(kind) and not pa.types.is_decimal(kind) and kind.bit_width in (32, 64):
        yield from _hashes_of_words(values)
        return
    data, offsets, lengths = _bytes_of(values)
    padded = np.concatenate([data, np.zeros(16, np.uint8)])
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))  # the eight bytes from any byte on
    for begin in range(0, len(values), SLICE):
        part = slice(begin, begin + SLICE)
        if isinstance(lengths, int):
            yield murmur3(words, offsets[part], lengths) >> np.uint64(1)
        else:
            given = lengths[part]
            yield (murmur3(words, offsets[part], given) >> np.uint64(1))[given > 0]


def _hashes_of_words(values: pa.Array) -> Iterator[Any]:
    """The same for values of four or eight bytes: most columns, so each step works in place."""
    width = values.type.bit_width // 8
    stored = np.frombuffer(values.buffers()[1], f"<u{width}", len(values), values.offset * width)
    start = np.uint64(SEED ^ width)
    with np.errstate(over="ignore"):
        for begin in range(0, len(stored), SLICE):
            h1 = stored[begin : begin + SLICE].astype(np.uint64)
            h1 *= np.uint64(C1)
            h1 = _rotated(h1, 31)
            h1 *= np.uint64(C2)
            h1 ^= start
            h1 += start
            h2 = h1 + start
            h1 = _finished(h1)
            h1 += _finished(h2)
            h1 >>= np.uint64(1)
            yield h1


def _bytes_of(values: pa.Array) -> tuple[Any, Any, Any]:
    """The bytes of all values in one buffer, and where each value begins and how long it is."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values, kind = values.cast(pa.uint8()), pa.uint8()
    if pa.types.is_decimal(kind):
        return _decimals(values)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        values = values.cast(pa.large_binary())
        kind = values.type
    elif pa.types.is_large_string(kind):
        values = values.view(pa.large_binary())
        kind = values.type
    if pa.types.is_large_binary(kind):
        _, ends, data = values.buffers()
        offsets = np.frombuffer(ends, np.int64, len(values) + 1, 8 * values.offset)
        found = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return found, offsets[:-1], np.diff(offsets)
    width = kind.byte_width if pa.types.is_fixed_size_binary(kind) else _width(kind)
    found = np.frombuffer(values.buffers()[1], np.uint8)
    return found, np.arange(values.offset, values.offset + len(values), dtype=np.int64) * width, width


def _width(kind: pa.DataType) -> int:
    if pa.types.is_primitive(kind) and kind.bit_width % 8 == 0:
        return int(kind.bit_width // 8)
    raise UnsupportedError(f"columns of the Arrow type {kind} have no numbers of distinct values")


def _decimals(values: pa.Array) -> tuple[Any, Any, Any]:
    if not pa.types.is_decimal128(values.type):
        values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    raw = np.frombuffer(values.buffers()[1], "<u8").reshape(-1, 2)[values.offset : values.offset + len(values)]
    wide = np.ascontiguousarray(raw[:, ::-1]).astype(">u8").view(np.uint8).reshape(-1, 16)  # big-endian
    # Leading bytes that repeat the sign are left out, as long as the sign stays in the first bit that is left.
    sign = np.where(wide[:, :1] >= 128, 255, 0).astype(np.uint8)
    needless = (wide[:, :-1] == sign) & ((wide[:, 1:] >= 128) == (sign >= 128))
    dropped = np.minimum.accumulate(needless, axis=1).sum(axis=1, dtype=np.int64)
    return wide.ravel(), np.arange(len(values), dtype=np.int64) * 16 + dropped, 16 - dropped


def murmur3(words: Any, offsets: Any, lengths: Any) -> Any:
    """The first 64 bits of MurmurHash3 (x64, 128 bits) of many values.

    Args:
        words: uint64, the eight bytes that begin at each byte of the data, with zeros behind the data.
        offsets: int64, where each value begins.
        lengths: int64, the length of each value, or one length for all.
    """
    u64 = np.uint64
    same = isinstance(lengths, int)
    h1, h2 = np.full(len(offsets), SEED, u64), np.full(len(offsets), SEED, u64)
    longest = int(lengths if same else lengths.max(initial=0))
    with np.errstate(over="ignore"):
        for block in range(longest // 16):
            at = slice(None) if same else np.flatnonzero(lengths >= 16 * (block + 1))
            begin = offsets[at] + 16 * block
            h1[at], h2[at] = _mixed(h1[at], h2[at], words[begin], words[begin + 8])
        rest = lengths % 16
        begin = offsets + (lengths - rest)
        if longest > 8:
            second = _masked(words[begin + 8], np.maximum(rest - 8, 0))
            h2 ^= _rotated(second * u64(C2), 33) * u64(C1)
        first = _masked(words[begin], np.minimum(rest, 8))
        h1 ^= _rotated(first * u64(C1), 31) * u64(C2)
        size = np.asarray(lengths, u64)
        h1 ^= size
        h2 ^= size
        h1 += h2
        h2 += h1
        return _finished(h1) + _finished(h2)


def _mixed(h1: Any, h2: Any, first: Any, second: Any) -> tuple[Any, Any]:
    u64 = np.uint64
    h1 = h1 ^ (_rotated(first * u64(C1), 31) * u64(C2))
    h1 = (_rotated(h1, 27) + h2) * u64(5) + u64(0x52DCE729)
    h2 = h2 ^ (_rotated(second * u64(C2), 33) * u64(C1))
    h2 = (_rotated(h2, 31) + h1) * u64(5) + u64(0x38495AB5)
    return h1, h2


def _masked(words: Any, count: Any) -> Any:
    """The lowest `count` bytes of each word, 0 to 8."""
    return words & np.array(MASKS, "u8")[count]


def _rotated(words: Any, bits: int) -> Any:
    low = words >> np.uint64(64 - bits)
    low |= words << np.uint64(bits)
    return low


def _finished(h: Any) -> Any:
    """The last mixing step, in place."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h ^= h >> np.uint64(33)
        h *= np.uint64(factor)
    h ^= h >> np.uint64(33)
    return h
