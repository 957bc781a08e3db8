"""Ags1Reader gives out nothing that it has not authenticated; every refusal has its own type."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kit.tables.streams import (
    BLOCK,
    HEADER,
    KEY,
    STORED,
    THREADS,
    Watched,
    flip,
    plain,
    seal_block,
    seal_blocks,
    sealed,
    split,
    trusted,
)
from sealberg.errors import (
    AuthenticationError,
    BadMagicError,
    BlockSizeError,
    CutBlockError,
    EmptyBlockError,
    HeaderOnlyError,
    IntegrityError,
    MissingLengthError,
    SealbergError,
    TooManyBlocksError,
    TrailingBytesError,
    TruncatedError,
)
from sealberg.files.ags1_reader import Ags1Reader

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 8 * BLOCK + 12345  # nine blocks


# -- every refusal has its own type -----------------------------------------------------------


def joined(*blocks: bytes) -> bytes:
    return HEADER + b"".join(blocks)


def _tampered() -> dict[str, tuple[bytes, type[SealbergError]]]:
    """Files of the very length that is trusted, so that only what they hold gives them away."""
    good = sealed(3 * BLOCK)
    a, b, c = split(good)
    data = plain(3 * BLOCK)
    second = len(HEADER) + STORED
    other = seal_block(data[BLOCK : 2 * BLOCK], 1, aad_prefix=bytes(16))
    return {
        "wrong magic": (flip(good, 0), BadMagicError),
        "plaintext": (b"PAR1" + bytes(len(good) - 4), BadMagicError),
        "other block size": (flip(good, 6), BlockSizeError),
        "big-endian block size": (b"AGS1\x00\x10\x00\x00" + good[8:], BlockSizeError),
        "flipped nonce": (flip(good, second), AuthenticationError),
        "flipped ciphertext": (flip(good, second + 12 + BLOCK // 2), AuthenticationError),
        "flipped tag": (flip(good, second + STORED - 1), AuthenticationError),
        "blocks swapped": (joined(b, a, c), AuthenticationError),
        "block repeated": (joined(a, a, c), AuthenticationError),
        "block of another file": (joined(a, other, c), AuthenticationError),
        "indexes from one": (joined(*seal_blocks(data, indexes=(1, 2, 3))), AuthenticationError),
        "big-endian indexes": (joined(*seal_blocks(data, order="big")), AuthenticationError),
    }


TAMPERED = _tampered()


@pytest.mark.parametrize("knows_size", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_file_of_the_right_length_is_refused(name: str, threads: int, knows_size: bool) -> None:
    stored, expected = TAMPERED[name]
    assert len(stored) == len(sealed(3 * BLOCK))
    source = Watched(stored, knows_size=knows_size)
    with Ags1Reader(source, trusted(stored), threads=threads) as reader, pytest.raises(expected) as caught:
        reader.read()
    assert type(caught.value) is expected
    for secret in (KEY.encryption_key.hex(), repr(KEY.encryption_key)):
        assert secret not in str(caught.value)


def test_big_endian_indexes_differ_from_little_endian_ones_only_after_block_0() -> None:
    """So a test with one block alone would prove nothing."""
    stored = TAMPERED["big-endian indexes"][0]
    with Ags1Reader(stored, trusted(stored)) as reader:
        assert reader.read(BLOCK) == plain(3 * BLOCK)[:BLOCK]
        with pytest.raises(AuthenticationError):
            reader.read(1)


WRONG_KEYS = {
    "key": replace(KEY, encryption_key=bytes(16)),
    "longer key": replace(KEY, encryption_key=KEY.encryption_key + bytes(16)),
    "AAD prefix": replace(KEY, aad_prefix=bytes(16)),
    "no AAD prefix": replace(KEY, aad_prefix=None),
    "shorter AAD prefix": replace(KEY, aad_prefix=KEY.aad_prefix[:-1] if KEY.aad_prefix else b""),
}


@pytest.mark.parametrize("length", [0, 1, BLOCK + 1])
@pytest.mark.parametrize("name", WRONG_KEYS)
def test_wrong_key_metadata_open_nothing(name: str, length: int) -> None:
    stored = sealed(length)
    wrong = WRONG_KEYS[name].with_length(len(stored))
    for attempt in (Ags1Reader.read, lambda r: r.read_at(0, 1), lambda r: list(r.windows()), Ags1Reader.readline):
        with Ags1Reader(stored, wrong) as reader, pytest.raises(AuthenticationError):
            attempt(reader)


SHORTER: dict[str, Callable[[bytes], bytes]] = {
    "one byte": lambda stored: stored[:-1],
    "last block": lambda stored: stored[: 8 + 2 * STORED],
    "all blocks": lambda stored: stored[:8],
    "everything": lambda _: b"",
    "a block dropped": lambda stored: joined(split(stored)[0], split(stored)[2]),
}


@pytest.mark.parametrize("knows_size", [True, False])
@pytest.mark.parametrize("name", SHORTER)
def test_file_shorter_than_its_trusted_length_is_truncated(name: str, knows_size: bool) -> None:
    good = sealed(3 * BLOCK)
    source = Watched(SHORTER[name](good), knows_size=knows_size)
    with pytest.raises(TruncatedError), Ags1Reader(source, trusted(good)) as reader:
        reader.read()
    assert source.closed == 1
    assert knows_size == (source.requests == [])  # one that knows its size is refused without a request


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("knows_size", [True, False])
@pytest.mark.parametrize("extra", [b"\0", bytes(28), seal_block(b"more", 3)], ids=["byte", "overhead", "block"])
def test_file_longer_than_its_trusted_length_has_trailing_bytes(extra: bytes, knows_size: bool, threads: int) -> None:
    good = sealed(3 * BLOCK)
    source = Watched(good + extra, knows_size=knows_size)
    with pytest.raises(TrailingBytesError), Ags1Reader(source, trusted(good), threads=threads) as reader:
        for _ in reader.windows():
            pass
    assert source.closed == 1


def test_source_that_gives_more_than_it_was_asked_for_is_refused() -> None:
    class Generous(Watched):
        def read_at(self, offset: int, length: int, scratch: memoryview) -> bytes:
            return super().read_at(offset, length, scratch) + b"!"

    stored = sealed(10)
    with Ags1Reader(Generous(stored), trusted(stored)) as reader, pytest.raises(TrailingBytesError):
        reader.read()


def _impossible() -> list[tuple[int, type[SealbergError]]]:
    return [
        (0, HeaderOnlyError),
        (8, HeaderOnlyError),
        (35, HeaderOnlyError),
        (8 + STORED + 1, CutBlockError),
        (8 + STORED + 27, CutBlockError),
        (8 + STORED + 28, EmptyBlockError),
        (8 + 5 * STORED + 28, EmptyBlockError),
        (8 + (2**31 - 1) * STORED + 29, TooManyBlocksError),
        (2**63 - 1, TooManyBlocksError),
    ]


@pytest.mark.parametrize(("length", "expected"), _impossible())
def test_impossible_length_is_refused_before_a_key_or_a_byte_is_touched(
    length: int, expected: type[SealbergError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*args: object) -> None:
        pytest.fail("a key was touched")

    monkeypatch.setattr("sealberg.files.ags1_reader.BlockCipher", explode)
    source = Watched(b"", knows_size=False)
    with pytest.raises(expected) as caught:
        Ags1Reader(source, trusted(length))
    assert type(caught.value) is expected
    assert source.requests == []
    assert source.closed == 1


@pytest.mark.parametrize(("cut", "error"), [(-1, TruncatedError), (1, TrailingBytesError)])
def test_length_that_storage_contradicts_is_refused_before_a_key_is_touched(
    cut: int, error: type[SealbergError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sealberg.files.ags1_reader.BlockCipher", lambda *_: pytest.fail("a key was touched"))
    with pytest.raises(error):
        Ags1Reader((sealed(100) + b"!")[: 136 + cut], trusted(136))


def test_missing_length_is_refused() -> None:
    with pytest.raises(MissingLengthError, match="allow_missing_length"):
        Ags1Reader(sealed(10), KEY)
    with pytest.raises(MissingLengthError, match="neither"):
        Ags1Reader(Watched(sealed(10), knows_size=False), KEY, allow_missing_length=True)


def test_allowed_missing_length_reads_and_does_not_see_whole_blocks_cut_off() -> None:
    """The risk that the option names is real."""
    good = sealed(3 * BLOCK)
    with Ags1Reader(good, KEY, allow_missing_length=True) as reader:
        assert reader.read() == plain(3 * BLOCK)
    with Ags1Reader(good[: 8 + 2 * STORED], KEY, allow_missing_length=True) as reader:
        assert reader.read() == plain(3 * BLOCK)[: 2 * BLOCK]  # a block is gone, and nobody notices
    with Ags1Reader(good[:-1], KEY, allow_missing_length=True) as reader, pytest.raises(AuthenticationError):
        reader.read()  # anything else shows
    with pytest.raises(EmptyBlockError):
        Ags1Reader(good + seal_block(b"", 3), KEY, allow_missing_length=True)


def test_allowed_missing_length_does_not_replace_a_length_that_is_there() -> None:
    good = sealed(3 * BLOCK)
    with pytest.raises(TruncatedError):
        Ags1Reader(good[: 8 + 2 * STORED], trusted(good), allow_missing_length=True)


@pytest.mark.parametrize("length", [0, 200])
def test_every_flipped_byte_is_refused(length: int) -> None:
    good = sealed(length)
    for at in range(len(good)):
        expected = BadMagicError if at < 4 else BlockSizeError if at < 8 else AuthenticationError
        for mask in (0x01, 0x80, 0xFF):
            stored = flip(good, at, mask)
            with Ags1Reader(stored, trusted(good), threads=1) as reader:
                for _ in range(2):  # and refused again when asked again
                    with pytest.raises(expected):
                        reader.read()
                    with pytest.raises(expected):
                        reader.read_at(0, 1)
                assert reader.tell() == 0


@pytest.mark.parametrize("length", [0, 200])
def test_every_truncation_and_every_byte_more_is_refused(length: int) -> None:
    good = sealed(length)
    for cut in range(len(good)):
        with pytest.raises(TruncatedError):
            Ags1Reader(good[:cut], trusted(good))
        with pytest.raises(IntegrityError), Ags1Reader(good[:cut], KEY, allow_missing_length=True) as reader:
            reader.read()
    for more in range(256):
        with pytest.raises(TrailingBytesError):
            Ags1Reader(good + bytes([more]), trusted(good))
        with (
            pytest.raises(IntegrityError),
            Ags1Reader(good + bytes([more]), KEY, allow_missing_length=True) as reader,
        ):
            reader.read()


def test_wrong_trusted_length_opens_nothing_it_should_not() -> None:
    good = sealed(200)
    for claimed in range(36, len(good) + 40):
        if claimed != len(good):
            with (
                pytest.raises(IntegrityError),
                Ags1Reader(Watched(good, knows_size=False), trusted(claimed)) as reader,
            ):
                reader.read()


def test_empty_stream_is_proved_empty_by_every_way_to_read() -> None:
    """Otherwise 36 bytes of anything would pass for a file without rows."""
    fake = HEADER + bytes(28)
    for attempt in (
        Ags1Reader.read,
        Ags1Reader.read1,
        Ags1Reader.peek,
        Ags1Reader.readline,
        lambda r: r.readinto(bytearray(1)),
        lambda r: r.read_at(0, 0),
        lambda r: list(r.windows()),
        list,
    ):
        with Ags1Reader(fake, trusted(36)) as reader:
            for _ in range(2):
                with pytest.raises(AuthenticationError):
                    attempt(reader)
        with Ags1Reader(sealed(0), trusted(36)) as reader:
            assert not attempt(reader)


# -- nothing unauthenticated, and the rest goes on ---------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("damaged", [0, 1, 3, 4, 8])
def test_damage_shows_at_its_own_block_not_before_and_every_time(damaged: int, threads: int) -> None:
    stored = flip(sealed(MANY), 8 + damaged * STORED + 12)
    data = plain(MANY)
    with Ags1Reader(stored, trusted(stored), threads=threads) as reader:
        for _ in range(2):
            reader.seek(0)
            got = bytearray()
            with pytest.raises(AuthenticationError, match=f"block {damaged} "):
                while piece := reader.read(BLOCK // 4):
                    got += piece
            assert got == data[: damaged * BLOCK]
            assert reader.tell() == damaged * BLOCK
            with pytest.raises(AuthenticationError, match=f"block {damaged} "):
                reader.read(1)
        after = (damaged + 1) * BLOCK
        reader.seek(after)
        assert reader.read() == data[after:]
        with pytest.raises(AuthenticationError, match=f"block {damaged} "):
            reader.read_at(damaged * BLOCK + 5, 1)
        before = max(0, damaged * BLOCK - 5)
        assert reader.read_at(before, damaged * BLOCK - before) == data[before : damaged * BLOCK]


@pytest.mark.parametrize("threads", THREADS)
def test_failed_readinto_leaves_zeros_where_it_failed_and_the_position_alone(threads: int) -> None:
    damaged = 5
    stored = flip(sealed(MANY), 8 + damaged * STORED + STORED - 1)  # the tag: its plaintext would come out right
    data = plain(MANY)
    buffer = bytearray(b"\xee" * MANY)
    with Ags1Reader(stored, trusted(stored), threads=threads) as reader:
        with pytest.raises(AuthenticationError):
            reader.readinto(buffer)
        assert reader.tell() == 0
        lost = slice(damaged * BLOCK, (damaged + 1) * BLOCK)
        assert not any(buffer[lost])
        for index in range(9):  # every other block is authentic, or was not reached
            block = slice(index * BLOCK, min((index + 1) * BLOCK, MANY))
            if index != damaged:
                assert buffer[block] in (data[block], b"\xee" * len(data[block]))
        edge = bytearray(b"\xee" * 1000)
        reader.seek(lost.start - 500)
        with pytest.raises(AuthenticationError):
            reader.readinto(edge)
        assert edge[500:] in (bytes(500), b"\xee" * 500)


def test_failed_read_across_many_requests_does_not_move() -> None:
    length = 18 * BLOCK  # more than one request takes
    stored = flip(sealed(length), 8 + 17 * STORED)
    with Ags1Reader(stored, trusted(stored), threads=2) as reader:
        reader.seek(10)
        with pytest.raises(AuthenticationError, match="block 17 "):
            reader.read()
        assert reader.tell() == 10
        assert reader.read(5) == plain(length)[10:15]


@pytest.mark.parametrize("threads", [2, 3])
def test_storage_that_fails_while_looking_ahead_fails_the_read_that_needs_it_and_may_recover(threads: int) -> None:
    stored = sealed(MANY)
    source = Watched(stored)
    down = True

    def refuse(offset: int, length: int) -> None:
        if down and offset + length > 8 + 6 * STORED:
            raise ConnectionError("storage is down")

    source.before = refuse
    with Ags1Reader(source, trusted(stored), threads=threads) as reader:
        got = bytearray()
        with pytest.raises(ConnectionError):
            while piece := reader.read(100_000):
                got += piece
        assert 5 * BLOCK - 100_000 < len(got) <= 6 * BLOCK
        with pytest.raises(ConnectionError):
            reader.seek(7 * BLOCK)
            reader.read(1)
        down = False
        reader.seek(len(got))
        while piece := reader.read(100_000):
            got += piece
        assert got == plain(MANY)
