"""Authenticates every block of an AGS1 file once, in order, with one buffer: as fast as the cipher.

    for plain in walk_blocks(source, layout, key_metadata): ...   the plaintext of a block, valid until the next one

`Ags1Reader` serves reads at any position and reads ahead; a check of a whole file needs neither. Lengths and the
header are checked as the reader checks them: before the first block is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.errors import TruncatedError
from sealberg.files.buffer_pool import own_buffers
from sealberg.format.aes_gcm import OVERHEAD
from sealberg.format.ags1 import BLOCK_SIZE, HEADER, BlockCipher, check_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.files.byte_sources import RangedSource
    from sealberg.format.ags1 import Layout
    from sealberg.format.key_metadata import KeyMetadata

REMOTE_BLOCKS: Final = 8  # of one request to a server; a local file is read block by block, which stays in the cache


def walk_blocks(
    source: RangedSource, layout: Layout, key_metadata: KeyMetadata, *, remote: bool = False
) -> Iterator[memoryview]:
    """The plaintext of each block.

    Args:
        source: the stored bytes; not closed.
        layout: of the trusted length, which the caller has compared with the size of the source.
        remote: whether each read is a request to a server.
    """
    step = REMOTE_BLOCKS if remote else 1
    cipher = BlockCipher(key_metadata.encryption_key, key_metadata.aad_prefix)
    stored, plain_left, count = layout.stored_length, layout.plain_length, layout.block_count
    most = min(stored, layout.stored_start(min(step, count)))
    buffers = own_buffers()
    scratch, out = buffers.take(most), buffers.take(min(BLOCK_SIZE, plain_left))
    end = 0
    for first in range(0, count, step):
        start, end = end, layout.stored_start(min(first + step, count))
        sealed = memoryview(source.read_at(start, end - start, scratch[: end - start]))
        if len(sealed) < end - start:
            raise TruncatedError(
                f"the file is truncated: it ends at {start + len(sealed)} bytes, its trusted length is {stored}"
            )
        if not first:
            check_header(sealed[: len(HEADER)])
            sealed = sealed[len(HEADER) :]
        for index in range(first, min(first + step, count)):
            plain = out[: min(BLOCK_SIZE, plain_left)]
            cipher.open_into(index, sealed[: len(plain) + OVERHEAD], plain)
            sealed = sealed[len(plain) + OVERHEAD :]
            plain_left -= len(plain)
            yield plain
    buffers.give(scratch)
    buffers.give(out)
