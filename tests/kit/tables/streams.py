"""AGS1 files made without the code of the package, and sources that record requests or fail."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sealberg.format.key_metadata import KeyMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BLOCK = 1 << 20
STORED = BLOCK + 28
HEADER = b"AGS1\x00\x00\x10\x00"
EDGES = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 7 * BLOCK // 2)
THREADS = (1, 2, 3, 4)
KEY = KeyMetadata(bytes(range(100, 116)), bytes(range(200, 216)))


@cache
def plain(length: int) -> bytes:
    """Bytes with different content in every block, and a line end about every 256 bytes."""
    return random.Random(length).randbytes(length)


@cache
def sealed(length: int) -> bytes:
    """`plain(length)`, encrypted under KEY."""
    return b"".join((HEADER, *seal_blocks(plain(length))))


def seal_blocks(
    data: bytes, order: Literal["little", "big"] = "little", indexes: Iterable[int] | None = None
) -> list[bytes]:
    """Encrypt the blocks of a stream, each for its own index or for the given index."""
    pieces = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)] or [b""]
    places = range(len(pieces)) if indexes is None else indexes
    return [seal_block(piece, index, order) for index, piece in zip(places, pieces, strict=True)]


def seal_block(
    piece: bytes, index: int, order: Literal["little", "big"] = "little", aad_prefix: bytes | None = KEY.aad_prefix
) -> bytes:
    nonce = os.urandom(12)
    assert aad_prefix is not None
    return nonce + AESGCM(KEY.encryption_key).encrypt(nonce, piece, aad_prefix + index.to_bytes(4, order))


def split(stored: bytes) -> list[bytes]:
    """The encrypted blocks of a stream."""
    return [stored[at : at + STORED] for at in range(len(HEADER), len(stored), STORED)]


def open_by_hand(stored: bytes) -> bytes:
    """The plaintext of a stream under KEY."""
    assert stored[:8] == HEADER
    assert KEY.aad_prefix is not None
    gcm = AESGCM(KEY.encryption_key)
    return b"".join(
        gcm.decrypt(block[:12], block[12:], KEY.aad_prefix + index.to_bytes(4, "little"))
        for index, block in enumerate(split(stored))
    )


def trusted(stored: bytes | int) -> KeyMetadata:
    """KEY with the length of a stored file."""
    return replace(KEY, file_length=stored if isinstance(stored, int) else len(stored))


def flip(stored: bytes, at: int, mask: int = 1) -> bytes:
    """The same bytes with one of them changed."""
    changed = bytearray(stored)
    changed[at] ^= mask
    return bytes(changed)


class Watched:
    """A RangedSource that records every request; it may hide its size."""

    def __init__(self, stored: bytes, *, knows_size: bool = True) -> None:
        self.stored = stored
        self.size = len(stored) if knows_size else None
        self.requests: list[tuple[int, int]] = []
        self.closed = 0
        self.before: Callable[[int, int], None] = lambda *_: None
        self._lock = threading.Lock()

    def read_at(self, offset: int, length: int, scratch: memoryview) -> bytes:
        assert len(scratch) >= length
        self.before(offset, length)
        with self._lock:
            self.requests.append((offset, length))
        return self.stored[offset : offset + length]

    def close(self) -> None:
        self.closed += 1

    def blocks(self) -> list[int]:
        """The fetched blocks, one entry per fetch; requests must begin and end at block boundaries."""
        touched: list[int] = []
        for offset, length in self.requests:
            if (offset, length) == (0, len(HEADER)):
                continue
            start, stop = max(offset, len(HEADER)), offset + length
            assert offset == 0 or (offset - len(HEADER)) % STORED == 0
            assert stop >= len(self.stored) or (stop - len(HEADER)) % STORED == 0
            touched += range((start - len(HEADER)) // STORED, -(-(stop - len(HEADER)) // STORED))
        return touched
