"""AGS1, the AES-GCM stream that Iceberg wraps around manifests, lists, Avro and Puffin files.

    "AGS1" | block size, u32 LE | block 0 | block 1 | ... | block n-1

    a block: nonce (12) | ciphertext | tag (16)
    its AAD: the file's AAD prefix | block index, u32 LE

Every block holds 1 MiB of plaintext; the last block may hold less, but at least one byte. An empty
stream is one empty block (36 bytes). The stream does not record how many blocks it has: a stream
that lost whole blocks from its end still authenticates. So the length comes from the trusted key
metadata, and a `Layout` is built from that length before any key is used.

Specification: https://iceberg.apache.org/gcm-stream-spec/ ; this module does no I/O.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sealberg.errors import (
    AuthenticationError,
    BadMagicError,
    BlockSizeError,
    ConfigError,
    CutBlockError,
    EmptyBlockError,
    HeaderOnlyError,
    TooManyBlocksError,
)
from sealberg.format.aes_gcm import NONCE_LENGTH, OVERHEAD, check_key_length

if TYPE_CHECKING:
    from sealberg.format.aes_gcm import Bytes

MAGIC: Final = b"AGS1"
BLOCK_SIZE: Final = 1 << 20
STORED_BLOCK_SIZE: Final = BLOCK_SIZE + OVERHEAD
HEADER: Final = MAGIC + BLOCK_SIZE.to_bytes(4, "little")
MIN_STORED_LENGTH: Final = len(HEADER) + OVERHEAD
MAX_BLOCKS: Final = 2**31 - 1


def check_header(header: Bytes) -> None:
    """Refuse anything but AGS1 with 1 MiB blocks, as Java does."""
    found = bytes(header[: len(HEADER)])
    if found[:4] != MAGIC:
        raise BadMagicError(f"not an AGS1 stream: found magic {found[:4].hex()}, expected {MAGIC.hex()}")
    if len(found) < len(HEADER):
        raise HeaderOnlyError(f"AGS1 header is truncated: found {len(found)} bytes, expected {len(HEADER)}")
    if found != HEADER:
        size = int.from_bytes(found[4:], "little", signed=True)
        raise BlockSizeError(f"AGS1 block size {size} is not supported, expected {BLOCK_SIZE}")


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of blocks in a stream of a given stored length; the constructor refuses impossible lengths.

    Plain offsets and lengths count the bytes that a reader sees, stored offsets and lengths the bytes of the file.
    """

    stored_length: int

    def __post_init__(self) -> None:
        if self.stored_length < MIN_STORED_LENGTH:
            raise HeaderOnlyError(
                f"AGS1 stream is too short: found {self.stored_length} bytes, "
                f"expected at least {MIN_STORED_LENGTH} (a header and one block)"
            )
        full, rest = divmod(self.stored_length - len(HEADER), STORED_BLOCK_SIZE)
        if 0 < rest < OVERHEAD:
            raise CutBlockError(
                f"AGS1 stream of {self.stored_length} bytes is truncated: its last block {full} has {rest} bytes, "
                f"expected more than {OVERHEAD} (a nonce and a tag)"
            )
        if rest == OVERHEAD and full:
            raise EmptyBlockError(
                f"AGS1 stream of {self.stored_length} bytes ends in an empty block {full}, "
                "expected an empty block only in an empty stream"
            )
        if self.block_count > MAX_BLOCKS:
            raise TooManyBlocksError(f"AGS1 stream has {self.block_count} blocks, expected at most {MAX_BLOCKS}")

    @classmethod
    def of_plain(cls, plain_length: int) -> Layout:
        """The layout that a plaintext of this length gets."""
        if plain_length < 0:
            raise ConfigError(f"plaintext length is negative: {plain_length}")
        blocks = max(1, -(-plain_length // BLOCK_SIZE))
        return cls(len(HEADER) + blocks * OVERHEAD + plain_length)

    @property
    def block_count(self) -> int:
        return -((len(HEADER) - self.stored_length) // STORED_BLOCK_SIZE)

    @property
    def plain_length(self) -> int:
        return self.stored_length - len(HEADER) - self.block_count * OVERHEAD

    def block_at(self, plain_offset: int) -> int:
        """The index of the block that holds this plain offset."""
        if not 0 <= plain_offset < self.plain_length:
            raise ConfigError(f"offset {plain_offset} is outside a plaintext of {self.plain_length} bytes")
        return plain_offset // BLOCK_SIZE

    def stored_start(self, index: int) -> int:
        """Where block `index` begins in the file; `block_count` itself gives the end of the file."""
        return min(len(HEADER) + index * STORED_BLOCK_SIZE, self.stored_length)

    def plain_start(self, index: int) -> int:
        """The plain offset of the first byte of block `index`; `block_count` gives the plain length."""
        return min(index * BLOCK_SIZE, self.plain_length)

    def to_stored(self, plain_offset: int) -> int:
        """The stored offset of a split at this plain offset; `to_plain` is the exact inverse."""
        if not 0 <= plain_offset <= self.plain_length:
            raise ConfigError(f"offset {plain_offset} is outside a plaintext of {self.plain_length} bytes")
        if plain_offset == self.plain_length:
            return self.stored_length
        index, within = divmod(plain_offset, BLOCK_SIZE)
        return self.stored_start(index) + within

    def to_plain(self, stored_offset: int) -> int:
        """The plain offset of a split at this stored offset.

        Planners split a file by its stored size. The order of splits is kept, so ranges that do
        not overlap in the file do not overlap in the plaintext, and ranges that cover the file
        cover the plaintext. The overhead of a block belongs to the range that ends in the block.
        """
        if not 0 <= stored_offset <= self.stored_length:
            raise ConfigError(f"offset {stored_offset} is outside a file of {self.stored_length} bytes")
        if stored_offset <= len(HEADER):
            return 0
        index, within = divmod(stored_offset - len(HEADER), STORED_BLOCK_SIZE)
        return min(index * BLOCK_SIZE + min(within, BLOCK_SIZE), self.plain_length)


class BlockCipher:
    """Seals and opens the blocks of one stream; safe to share among threads.

    Both methods write into buffers of the caller: only then does `cryptography` release the GIL,
    so that a pool of threads works in parallel.
    """

    __slots__ = ("_aad_prefix", "_gcm")

    def __init__(self, key: Bytes, aad_prefix: Bytes | None = None) -> None:
        check_key_length(len(key))
        self._gcm = AESGCM(key)
        self._aad_prefix = bytes(aad_prefix or b"")

    def seal_into(self, index: int, plain: Bytes, out: memoryview) -> None:
        """Fill `out` (28 bytes longer than `plain`) with the sealed block under a fresh nonce."""
        self._seal_into(index, plain, out, os.urandom(NONCE_LENGTH))

    def open_into(self, index: int, sealed: memoryview, out: memoryview) -> None:
        """Fill `out` (28 bytes shorter than `sealed`) with the plaintext, or raise and leave zeros."""
        try:
            self._gcm.decrypt_into(sealed[:NONCE_LENGTH], sealed[NONCE_LENGTH:], self._aad(index), out)
        except InvalidTag:
            # The cipher has already written unauthenticated plaintext.
            out[:] = bytes(len(out))
            raise AuthenticationError(
                f"block {index} failed authentication: the bytes were altered, the key or the AAD prefix is wrong, "
                "or the block is from another position or file"
            ) from None

    def _aad(self, index: int) -> bytes:
        return self._aad_prefix + index.to_bytes(4, "little")

    def _seal_into(self, index: int, plain: Bytes, out: memoryview, nonce: bytes) -> None:
        # Only known-answer tests may choose the nonce.
        if index >= MAX_BLOCKS:
            raise TooManyBlocksError(
                f"AGS1 stream is full: cannot add block {index}, expected at most {MAX_BLOCKS} blocks"
            )
        out[:NONCE_LENGTH] = nonce
        self._gcm.encrypt_into(nonce, plain, self._aad(index), out[NONCE_LENGTH:])
