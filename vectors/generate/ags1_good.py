"""AGS1 streams that open."""

from __future__ import annotations

from vectors.generate.stream import COUNTING, HEADER, JDK, SCRIPT, Cases, Stream, block, hello, nonce, seal, tail, whole
from vectors.recipe import BLOCK

case = Cases()


@case
def empty() -> Stream:
    """an empty stream is one empty block, 36 bytes in all"""
    answer = "4147533100001000000102030405060708090a0b6c9a081dbea0030cb8410d4bb5d2b422"
    return Stream(HEADER, seal(0, COUNTING, ""), plain="", source=JDK, known_answer=answer)


@case
def hello_() -> Stream:
    """five bytes under a 16-byte key"""
    answer = "4147533100001000000102030405060708090a0bc89170b454ba39b36106572874d290f365c3c2bb4a"
    return Stream(HEADER, hello(), plain=b"hello".hex(), source=JDK, known_answer=answer)


@case
def one_byte() -> Stream:
    """the shortest stream that is not empty"""
    return Stream(HEADER, seal(0, COUNTING, "61"), plain="61")


@case
def block_minus_one() -> Stream:
    """one byte less than a block"""
    return Stream(HEADER, tail(0, BLOCK - 1), plain=whole(0, BLOCK - 1))


@case
def block_() -> Stream:
    """exactly one block: no empty block follows it"""
    answer = "cecc1e132acf33d70a2a136d4154f4449f3abb34f0c47c949514e3272c39adbe"
    return Stream(HEADER, block(0), plain=whole(1), source=SCRIPT, known_answer=answer)


@case
def block_plus_one() -> Stream:
    """a block, and one byte in the next"""
    answer = "fd33f99d61eb5eaf7f795c2ebcb2fc33ac77fd050332fba2b616f08563055d38"
    return Stream(HEADER, block(0), tail(1, 1), plain=whole(1, 1), source=SCRIPT, known_answer=answer)


@case
def two_blocks() -> Stream:
    """two whole blocks: no empty block follows them"""
    return Stream(HEADER, block(0), block(1), plain=whole(2))


@case
def _257_blocks() -> Stream:
    """the index needs its second byte from block 256 on"""
    return Stream(HEADER, seal(0, nonce(1), whole(257)), plain=whole(257))


@case
def key_192() -> Stream:
    """a 24-byte key"""
    return Stream(HEADER, hello(), plain=b"hello".hex(), key=b"012345678901234567890123")


@case
def key_256() -> Stream:
    """a 32-byte key"""
    return Stream(HEADER, hello(), plain=b"hello".hex(), key=b"01234567890123456789012345678901")


@case
def aad_null() -> Stream:
    """no AAD prefix: the AAD of a block is its index alone"""
    answer = "4147533100001000000102030405060708090a0bc89170b454e5062d5fba814294c08928a0dbc94503"
    return Stream(HEADER, hello(), plain=b"hello".hex(), aad_prefix=None, source=SCRIPT, known_answer=answer)


@case
def aad_empty() -> Stream:
    """an empty AAD prefix gives the same stream as none"""
    return Stream(HEADER, hello(), plain=b"hello".hex(), aad_prefix=b"")


@case
def aad_long() -> Stream:
    """an AAD prefix of another length than the 16 bytes that Java writes"""
    return Stream(HEADER, hello(), plain=b"hello".hex(), aad_prefix=bytes(range(100)))
