"""AGS1 streams of a right length that somebody altered, or opens with the wrong key."""

from __future__ import annotations

from vectors.generate.stream import (
    AAD_PREFIX,
    COUNTING,
    HEADER,
    KEY,
    Cases,
    Stream,
    block,
    hello,
    nonce,
    seal,
    tail,
    whole,
)
from vectors.recipe import BLOCK

case = Cases()


@case
def magic_bad() -> Stream:
    """version 2 of the magic"""
    return Stream("hex 4147533200001000", hello(), expect="BadMagicError")


@case
def magic_bad_empty() -> Stream:
    """a bad magic before an empty block: nothing to read is still something to check"""
    return Stream("hex 4147533200001000", seal(0, COUNTING, ""), expect="BadMagicError")


@case
def magic_of_avro() -> Stream:
    """a plaintext Avro file in the place of a sealed one"""
    return Stream("hex 4f626a01", "hex " + b"avro.schema and so on, in the clear".hex(), expect="BadMagicError")


@case
def block_length_zero() -> Stream:
    """a header with blocks of no bytes"""
    return Stream("hex 4147533100000000", hello(), expect="BlockSizeError")


@case
def block_length_other() -> Stream:
    """a header with blocks of 64 KiB: the specification has room for them, Java and we have not"""
    return Stream("hex 4147533100000100", hello(), expect="BlockSizeError")


@case
def block_length_big_endian() -> Stream:
    """1 MiB with its bytes the other way round"""
    return Stream("hex 4147533100100000", hello(), expect="BlockSizeError")


@case
def block_length_negative() -> Stream:
    """the length is a signed integer in Java"""
    return Stream("hex 41475331000000ff", hello(), expect="BlockSizeError")


@case
def blocks_swapped() -> Stream:
    """two blocks in each other's place"""
    return Stream(HEADER, block(1), block(0), tail(2), expect="AuthenticationError")


@case
def blocks_swapped_later() -> Stream:
    """the second and third block in each other's place: the first may be out by then"""
    return Stream(HEADER, block(0), block(2), block(1), expect="AuthenticationError", released=whole(1))


@case
def block_repeated() -> Stream:
    """the first block again in the place of the second"""
    return Stream(HEADER, block(0), block(0), tail(2), expect="AuthenticationError", released=whole(1))


@case
def block_dropped() -> Stream:
    """a block in the middle is gone, and the trusted length is that of what is left"""
    return Stream(HEADER, block(0), block(2), tail(3), expect="AuthenticationError", released=whole(1))


@case
def last_block_altered() -> Stream:
    """one bit of the last block: all blocks before it are good"""
    last = tail(2) + " | flip 14"
    return Stream(HEADER, block(0), block(1), last, expect="AuthenticationError", released=whole(2))


@case
def nonce_flipped() -> Stream:
    """one bit of a nonce"""
    return Stream(HEADER, hello() + " | flip 0", expect="AuthenticationError")


@case
def ciphertext_flipped() -> Stream:
    """one bit of a ciphertext"""
    return Stream(HEADER, hello() + " | flip 12", expect="AuthenticationError")


@case
def tag_flipped() -> Stream:
    """one bit of a tag"""
    return Stream(HEADER, hello() + " | flip -1", expect="AuthenticationError")


@case
def tag_flipped_empty() -> Stream:
    """one bit of the tag of an empty block: nothing to read is still something to check"""
    return Stream(HEADER, seal(0, COUNTING, "") + " | flip -1", expect="AuthenticationError")


@case
def key_wrong() -> Stream:
    """another key"""
    return Stream(HEADER, hello(), sealed_with=(KEY[::-1], AAD_PREFIX), expect="AuthenticationError")


@case
def aad_wrong() -> Stream:
    """another file's AAD prefix under the same key: a file in the place of another"""
    return Stream(HEADER, hello(), sealed_with=(KEY, AAD_PREFIX[::-1]), expect="AuthenticationError")


@case
def aad_forgotten() -> Stream:
    """sealed without the AAD prefix that the key metadata have"""
    return Stream(HEADER, hello(), sealed_with=(KEY, b""), expect="AuthenticationError")


@case
def aad_without_index() -> Stream:
    """sealed with the AAD prefix alone, as a small secret would be, and no index"""
    # AAD "...3456" without an index is AAD "...12" with the index "3456".
    index = int.from_bytes(AAD_PREFIX[-4:], "little")
    sealed_with = (KEY, AAD_PREFIX[:-4])
    return Stream(HEADER, seal(index, COUNTING, "61"), sealed_with=sealed_with, expect="AuthenticationError")


@case
def index_big_endian() -> Stream:
    """the index of the second block with its bytes the other way round"""
    second = seal(1 << 24, nonce(2), f"count[{BLOCK}:{BLOCK + 5}]")
    return Stream(HEADER, block(0), second, expect="AuthenticationError", released=whole(1))


@case
def index_from_one() -> Stream:
    """indexes that count from one"""
    return Stream(HEADER, seal(1, COUNTING, b"hello".hex()), expect="AuthenticationError")


@case
def index_of_last_256() -> Stream:
    """the second block sealed with an index that has the same lowest byte"""
    second = seal(257, nonce(2), f"count[{BLOCK}:{BLOCK + 5}]")
    return Stream(HEADER, block(0), second, expect="AuthenticationError", released=whole(1))
