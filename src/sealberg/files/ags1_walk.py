"""Authenticates every block of an AGS1 file once, in order, with one buffer: as fast as the cipher.

    for plain in walk_blocks(source, layout, key_metadata): ...   the plaintext of a block, valid until the next one

`Ags1Reader` serves reads at any position and reads ahead; a check of a whole file needs neither. Lengths and the
header are checked as the reader checks them: before the first block is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.errors import TruncatedError
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
    most = min(layout.stored_length, layout.stored_start(min(step, layout.block_count)))
    scratch, out = memoryview(bytearray(most)), memoryview(bytearray(min(BLOCK_SIZE, layout.plain_length)))
    for first in range(0, layout.block_count, step):
        stop = min(first + step, layout.block_count)
        start = layout.stored_start(first) if first else 0
        length = layout.stored_start(stop) - start
        sealed = memoryview(source.read_at(start, length, scratch[:length]))
        if len(sealed) < length:
            raise TruncatedError(
                f"the file is truncated: it ends at {start + len(sealed)} bytes, its trusted length is "
                f"{layout.stored_length}"
            )
        if not first:
            check_header(sealed[: len(HEADER)])
        for index in range(first, stop):
            block = sealed[layout.stored_start(index) - start : layout.stored_start(index + 1) - start]
            plain = out[: layout.plain_start(index + 1) - layout.plain_start(index)]
            cipher.open_into(index, block, plain)
            yield plain
