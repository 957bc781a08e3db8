"""The walk opens every block once, and finds the same damage as the reader."""

from __future__ import annotations

import os

import pytest

from sealberg.errors import AuthenticationError, BlockSizeError, TruncatedError
from sealberg.files.ags1_walk import walk_blocks
from sealberg.files.byte_sources import BufferSource
from sealberg.files.seal import seal_bytes
from sealberg.format.ags1 import BLOCK_SIZE, HEADER, STORED_BLOCK_SIZE, Layout

PLAIN = os.urandom(1000) * 2500  # two full blocks and a part of a third


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("length", [0, 1, BLOCK_SIZE, BLOCK_SIZE + 1, len(PLAIN)])
def test_all_bytes_come_in_order(length: int, remote: bool) -> None:
    sealed, key = seal_bytes(PLAIN[:length])
    blocks = [bytes(each) for each in walk_blocks(BufferSource(sealed), Layout(len(sealed)), key, remote=remote)]
    assert b"".join(blocks) == PLAIN[:length]
    assert len(blocks) == Layout(len(sealed)).block_count


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("block", [0, 1, 2])
def test_an_altered_block_is_found_where_it_is(block: int, remote: bool) -> None:
    sealed, key = seal_bytes(PLAIN)
    altered = bytearray(sealed)
    altered[len(HEADER) + block * STORED_BLOCK_SIZE + 50] ^= 1
    with pytest.raises(AuthenticationError, match=f"block {block} failed authentication"):
        list(walk_blocks(BufferSource(altered), Layout(len(sealed)), key, remote=remote))


def test_swapped_blocks_another_header_and_a_short_source_are_found() -> None:
    sealed, key = seal_bytes(PLAIN)
    head, one, two = len(HEADER), len(HEADER) + STORED_BLOCK_SIZE, len(HEADER) + 2 * STORED_BLOCK_SIZE
    swapped = sealed[:head] + sealed[one:two] + sealed[head:one] + sealed[two:]
    with pytest.raises(AuthenticationError, match="block 0"):
        list(walk_blocks(BufferSource(swapped), Layout(len(sealed)), key))
    with pytest.raises(BlockSizeError):
        list(walk_blocks(BufferSource(sealed[:4] + b"\x01" + sealed[5:]), Layout(len(sealed)), key))
    with pytest.raises(TruncatedError, match="it ends at"):
        list(walk_blocks(BufferSource(sealed[:-1]), Layout(len(sealed)), key))
