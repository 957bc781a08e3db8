"""AGS1 streams whose length cannot be right, or is not the one that was promised.

Every case has its twin: an attacker may cut a file while the trusted length stays, or a writer
may have recorded the length of a file that was already cut.
"""

from __future__ import annotations

from vectors.generate.stream import COUNTING, HEADER, Cases, Stream, block, hello, seal, tail, whole
from vectors.recipe import BLOCK

case = Cases()

HELLO = 8 + 12 + 5 + 16  # the stored length of hello
BLOCK_AND_TAIL = 8 + 28 + BLOCK + 28 + 5


@case
def magic_short() -> Stream:
    """three bytes, all of them right"""
    return Stream("hex 414753", expect="HeaderOnlyError")


@case
def header_only() -> Stream:
    """a header without a block, which iceberg-rust takes for an empty stream and Java does not"""
    return Stream(HEADER, expect="HeaderOnlyError")


@case
def length_35() -> Stream:
    """one byte less than the shortest stream there can be"""
    return Stream(HEADER, seal(0, COUNTING, "") + " | keep 27", expect="HeaderOnlyError")


@case
def length_zero() -> Stream:
    """a trusted length of nothing, for a stream that is fine"""
    return Stream(HEADER, hello(), length=0, expect="HeaderOnlyError")


@case
def tag_missing() -> Stream:
    """the only block lost its tag"""
    return Stream(HEADER, hello() + " | keep 17", length=HELLO, expect="TruncatedError")


@case
def tag_missing_length_agrees() -> Stream:
    """the second block lost its tag, and the trusted length is that of the cut stream"""
    return Stream(HEADER, block(0), tail(1) + " | keep 17", expect="CutBlockError")


@case
def block_cut_to_one_byte() -> Stream:
    """one byte of a second block, and the trusted length counts it"""
    return Stream(HEADER, block(0), tail(1) + " | keep 1", expect="CutBlockError")


@case
def block_cut_mid() -> Stream:
    """a block cut in its ciphertext"""
    cut = seal(0, COUNTING, "count[0:100]") + " | keep 60"
    return Stream(HEADER, cut, length=8 + 128, expect="TruncatedError")


@case
def block_cut_mid_length_agrees() -> Stream:
    """a block cut in its ciphertext, and the trusted length is that of the cut stream"""
    return Stream(HEADER, seal(0, COUNTING, "count[0:100]") + " | keep 60", expect="AuthenticationError")


@case
def last_block_dropped() -> Stream:
    """the last block is gone: every block left authenticates, only the length tells"""
    return Stream(HEADER, block(0), length=BLOCK_AND_TAIL, expect="TruncatedError", released=whole(1))


@case
def last_block_dropped_length_missing() -> Stream:
    """the last block is gone, and no trusted length could tell"""
    return Stream(HEADER, block(0), length=None, expect="MissingLengthError")


@case
def last_block_dropped_length_missing_allowed() -> Stream:
    """the risk of reading without a trusted length: of a block and five bytes, the five are lost unseen"""
    return Stream(HEADER, block(0), length=None, allow_missing_length=True, plain=whole(1))


@case
def last_block_empty() -> Stream:
    """an empty block after a full one"""
    return Stream(HEADER, block(0), tail(1, 0), expect="EmptyBlockError")


@case
def shorter_by_one() -> Stream:
    """one byte less than the trusted length"""
    return Stream(HEADER, hello() + " | keep 32", length=HELLO, expect="TruncatedError")


@case
def longer_length_trusted() -> Stream:
    """a stream that is fine, and a trusted length of one byte more"""
    return Stream(HEADER, hello(), length=HELLO + 1, expect="TruncatedError")


@case
def shorter_length_trusted() -> Stream:
    """a stream that is fine, and a trusted length of one byte less"""
    return Stream(HEADER, hello(), length=HELLO - 1, expect="TrailingBytesError")


@case
def trailing_byte() -> Stream:
    """one byte more than the trusted length; Java never looks at it"""
    return Stream(HEADER, hello(), "hex 00", length=HELLO, expect="TrailingBytesError")


@case
def trailing_byte_length_agrees() -> Stream:
    """one byte after the last tag, and the trusted length counts it"""
    return Stream(HEADER, hello(), "hex 00", expect="AuthenticationError")


@case
def trailing_block() -> Stream:
    """a good block more than the trusted length"""
    length = 8 + 28 + BLOCK
    return Stream(HEADER, block(0), tail(1), length=length, expect="TrailingBytesError", released=whole(1))


@case
def length_missing() -> Stream:
    """a stream that is fine, and no trusted length"""
    return Stream(HEADER, hello(), length=None, expect="MissingLengthError")


@case
def length_missing_allowed() -> Stream:
    """a stream that is fine, read without a trusted length by a reader that was told to"""
    return Stream(HEADER, hello(), length=None, allow_missing_length=True, plain=b"hello".hex())


@case
def length_missing_allowed_cut_block() -> Stream:
    """without a trusted length, the file's own must still be one that a stream can have"""
    cut = tail(1) + " | keep 27"
    return Stream(HEADER, block(0), cut, length=None, allow_missing_length=True, expect="CutBlockError")
