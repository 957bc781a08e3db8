"""Theta sketches of Apache DataSketches: numbers of distinct values from the smallest hashes of values.

    exact        theta is the whole range, every hash is kept         the number of hashes is the answer
    estimating   theta is the smallest hash that was left out         hashes / (theta / range) is the estimate

    1 preamble longs | 3 version | 3 family | 0 | 0 | flags | seed hash, u16 LE          8 bytes
    count, u32 LE | 1.0, f32 LE                                                          if there are 2 longs or more
    theta, u64 LE                                                                        if there are 3 longs
    hashes, u64 LE, ascending

This is the compact form of the blob `apache-datasketches-theta-v1`, byte for byte as Iceberg Java's compute_table_stats
writes it for columns with up to 4,096 distinct values. Above that number Java's result depends on how Spark split the
rows, and so do its bytes; both results are within 1.6 % of the truth two times out of three.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable

NOMINAL: Final = 4096  # the default of DataSketches, which Java uses: hashes that an estimating sketch keeps
MAX_THETA: Final = (1 << 63) - 1
SEED: Final = 9001
SEED_HASH: Final = 0x93CC  # of the default seed
VERSION: Final = 3
FAMILY: Final = 3  # compact
READ_ONLY, EMPTY, COMPACT, ORDERED, SINGLE = 2, 4, 8, 16, 32


@dataclass(frozen=True, eq=False)
class ThetaSketch:
    """Hashes of distinct values below theta.

    Args:
        hashes: a NumPy array of uint64, ascending, each once, all below theta.
        theta: the limit of the hashes; all hashes are kept if it is `MAX_THETA`.
    """

    hashes: Any = field(repr=False)
    theta: int = MAX_THETA

    @staticmethod
    def of(hashes: Any) -> ThetaSketch:
        """A sketch of the hashes of values, in any order and any number of times; 0 counts for nothing."""
        import numpy as np

        distinct = np.unique(hashes)
        return _reduced(distinct[1:] if len(distinct) and distinct[0] == 0 else distinct, MAX_THETA)

    @staticmethod
    def union(sketches: Iterable[ThetaSketch]) -> ThetaSketch:
        """The sketch of all values of these sketches."""
        import numpy as np

        given = list(sketches)
        theta = min((sketch.theta for sketch in given), default=MAX_THETA)
        hashes = np.unique(np.concatenate([np.empty(0, np.uint64), *(sketch.hashes for sketch in given)]))
        return _reduced(hashes[: np.searchsorted(hashes, np.uint64(theta))], theta)

    @property
    def estimate(self) -> int:
        """The number of distinct values, rounded down as in Java."""
        return len(self.hashes) if self.theta == MAX_THETA else int(len(self.hashes) / (self.theta / MAX_THETA))

    def encode(self) -> bytes:
        """The bytes of a blob."""
        count, flags = len(self.hashes), READ_ONLY | COMPACT | ORDERED
        if self.theta < MAX_THETA:
            head = struct.pack("<Ifq", count, 1.0, self.theta)
        elif count > 1:
            head = struct.pack("<If", count, 1.0)
        else:
            flags |= SINGLE if count else EMPTY
            head = b""
        longs = 1 + len(head) // 8
        fixed = struct.pack("<BBBBBBH", longs, VERSION, FAMILY, 0, 0, flags, SEED_HASH)
        return b"".join((fixed, head, self.hashes.astype("<u8").tobytes()))

    @classmethod
    def decode(cls, blob: bytes) -> ThetaSketch:
        """Parse a blob; only the uncompressed compact form that this class and Java 1.12 write."""
        import numpy as np

        if len(blob) < 8:
            raise FormatError(f"a theta sketch has {len(blob)} bytes, expected at least 8")
        longs, version, family, _, _, flags, seed = struct.unpack_from("<BBBBBBH", blob)
        longs &= 0x3F
        if (version, family, seed) != (VERSION, FAMILY, SEED_HASH) or not 1 <= longs <= 3 or not flags & COMPACT:
            raise FormatError(
                f"a theta sketch begins with {blob[:8].hex()}, expected version 3, the compact family and seed {SEED}"
            )
        if longs == 1:
            count = 0 if flags & EMPTY else 1
        else:
            count = struct.unpack_from("<I", blob, 8)[0] if len(blob) >= 8 * longs else -1
        if len(blob) != 8 * (longs + count):
            raise FormatError(f"a theta sketch of {count} hashes has {len(blob)} bytes, expected {8 * (longs + count)}")
        theta = struct.unpack_from("<q", blob, 16)[0] if longs == 3 else MAX_THETA
        hashes = np.unique(np.frombuffer(blob, "<u8", count, 8 * longs))
        if len(hashes) != count or (count and not 0 < int(hashes[-1]) < theta):
            raise FormatError("a theta sketch has equal hashes, or hashes that are not below theta")
        return cls(hashes, theta)


def _reduced(hashes: Any, theta: int) -> ThetaSketch:
    """A sketch of the smallest hashes only, if there are more hashes than a sketch may have."""
    if len(hashes) <= NOMINAL:
        return ThetaSketch(hashes, theta)
    return ThetaSketch(hashes[:NOMINAL].copy(), int(hashes[NOMINAL]))
