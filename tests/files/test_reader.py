"""SealedReader: a file like any other, that gives out nothing it has not authenticated."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import fastavro
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.ipc  # type: ignore[import-untyped,unused-ignore]
import pytest
from pyiceberg.io import InputStream

from kit.streams import (
    BLOCK,
    EDGES,
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
    ConfigError,
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
from sealberg.files.reader import SealedReader
from sealberg.files.whole import seal_bytes
from sealberg.files.workers import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 8 * BLOCK + 12345  # nine blocks


def reader_of(length: int, threads: int | None = None) -> SealedReader:
    stored = sealed(length)
    return SealedReader(stored, trusted(stored), threads=threads)


# -- a file like any other --------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("length", EDGES)
def test_reads_back_what_was_sealed(length: int, threads: int) -> None:
    with reader_of(length, threads) as reader:
        assert reader.plain_length == length
        assert reader.read() == plain(length)
        assert reader.read() == b""
        assert reader.tell() == length


def test_is_what_io_and_pyiceberg_call_a_stream() -> None:
    with reader_of(10) as reader:
        assert isinstance(reader, io.BufferedIOBase)
        assert isinstance(reader, InputStream)
        assert reader.readable()
        assert reader.seekable()
        assert not reader.writable()
        for refused in (lambda: reader.write(b"x"), reader.fileno, reader.detach, reader.truncate):
            with pytest.raises(io.UnsupportedOperation):
                refused()


def test_seeks_from_the_start_the_position_and_the_end() -> None:
    with reader_of(2 * BLOCK) as reader:
        data = plain(2 * BLOCK)
        assert reader.seek(BLOCK - 2) == BLOCK - 2
        assert reader.read(4) == data[BLOCK - 2 : BLOCK + 2]
        assert reader.seek(-4, io.SEEK_CUR) == BLOCK - 2
        assert reader.read(1) == data[BLOCK - 2 : BLOCK - 1]
        assert reader.seek(-3, io.SEEK_END) == 2 * BLOCK - 3
        assert reader.read(100) == data[-3:]
        assert reader.seek(5, io.SEEK_END) == reader.tell() == 2 * BLOCK + 5
        assert reader.read(1) == reader.read() == reader.read1() == reader.peek() == b""
        assert reader.readinto(bytearray(3)) == 0


def test_refuses_seeks_that_lead_nowhere_and_stays_where_it_is() -> None:
    with reader_of(10) as reader:
        reader.seek(3)
        for offset, whence in ((-1, 0), (-4, 1), (-11, 2), (0, 7)):
            with pytest.raises(ValueError, match="cannot seek"):
                reader.seek(offset, whence)
        assert reader.tell() == 3


@pytest.mark.parametrize("threads", [1, 2])
def test_every_way_to_read_gives_the_same_bytes(threads: int) -> None:
    length = 2 * BLOCK + 77
    data = plain(length)
    into, into1 = bytearray(b"\xee" * (length + 5)), bytearray(length)
    with reader_of(length, threads) as reader:
        assert reader.readinto(into) == length
        assert into == data + b"\xee" * 5
        reader.seek(0)
        assert reader.read(None) == data
        reader.seek(0)
        assert b"".join(iter(reader.read1, b"")) == data
        reader.seek(0)
        assert b"".join(iter(lambda: reader.read1(300_001), b"")) == data
        reader.seek(0)
        done = 0
        while count := reader.readinto1(memoryview(into1)[done : done + 700_000]):
            done += count
        assert into1 == data
        reader.seek(0)
        assert b"".join(bytes(window) for window in reader.windows()) == data
        assert reader.tell() == length
        assert reader.read_at(0, length + 9) == data
        assert reader.read(0) == reader.read_at(0, 0) == reader.read_at(length, 5) == b""


def test_fills_buffers_of_other_item_types_and_none_that_are_read_only() -> None:
    with reader_of(2 * BLOCK) as reader:
        wide = memoryview(bytearray(2 * BLOCK)).cast("I")
        assert reader.readinto(wide) == 2 * BLOCK
        assert wide.tobytes() == plain(2 * BLOCK)
        for size in (10, 2 * BLOCK):
            reader.seek(0)
            with pytest.raises((TypeError, BufferError, ValueError)):
                reader.readinto(bytes(size))
            assert reader.tell() == 0


def test_lines_are_those_of_bytesio_and_leave_the_position_behind_them() -> None:
    length = BLOCK + 5000
    model = io.BytesIO(plain(length))
    with reader_of(length) as reader:
        for _ in range(5):
            assert reader.readline() == model.readline()
            assert next(reader) == next(model)
            assert reader.readline(7) == model.readline(7)
            assert reader.tell() == model.tell()
        for line in reader:
            assert line == model.readline()
            assert reader.tell() == model.tell()
        assert reader.tell() == length


def test_a_line_longer_than_a_block_comes_in_one_piece() -> None:
    stored, key = seal_bytes(b"x" * (BLOCK + 5) + b"\nend")
    with SealedReader(stored, key) as reader:
        assert reader.readlines() == [b"x" * (BLOCK + 5) + b"\n", b"end"]


def test_peek_shows_bytes_and_does_not_move() -> None:
    with reader_of(BLOCK + 10) as reader:
        reader.seek(BLOCK - 1)
        assert reader.peek() == plain(BLOCK + 10)[BLOCK - 1 : BLOCK]
        assert reader.tell() == BLOCK - 1


def test_text_wrapper_reads_it_as_text() -> None:
    text = "".join(f"Zeile {i} ♥\n" for i in range(90_000))
    stored, key = seal_bytes(text.encode())
    assert len(stored) > STORED
    with io.TextIOWrapper(SealedReader(stored, key), encoding="utf-8") as lines:  # type: ignore[type-var]  # the stubs want a BufferedReader
        assert "".join(lines) == text


def test_closed_reader_says_so_like_every_file() -> None:
    reader = reader_of(10)
    windows = reader.windows()
    with reader:
        pass
    reader.close()  # twice is fine
    assert reader.closed
    calls = (
        reader.read,
        reader.read1,
        reader.peek,
        reader.readline,
        reader.tell,
        reader.__enter__,
        lambda: reader.seek(0),
        lambda: reader.readinto(bytearray(1)),
        lambda: reader.read_at(0, 1),
        lambda: next(windows),
        lambda: next(reader),
    )
    for call in calls:
        with pytest.raises(ValueError, match="closed"):
            call()


def test_reader_closed_between_windows_is_closed_not_truncated() -> None:
    reader = reader_of(MANY, 2)
    windows = reader.windows()
    first = next(windows)
    reader.close()
    assert first == plain(MANY)[: len(first)]  # the view outlives the reader
    with pytest.raises(ValueError, match="closed"):
        next(windows)


def test_windows_start_at_the_position_and_are_read_only() -> None:
    with reader_of(MANY, 2) as reader:
        reader.seek(BLOCK + 3)
        out = bytearray()
        for window in reader.windows():
            assert window.readonly
            time.sleep(0.002)  # let the reader look ahead: it must not write into what we hold
            out += window
        assert out == plain(MANY)[BLOCK + 3 :]


def test_pyarrow_reads_an_ipc_file_through_it() -> None:
    table = pa.table({"n": pa.array(range(300_000), pa.int64())})
    sink = io.BytesIO()
    with pyarrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=50_000)
    stored, key = seal_bytes(sink.getvalue())
    with pa.PythonFile(SealedReader(stored, key), mode="r") as file:
        assert file.size() == len(sink.getvalue())
        assert pyarrow.ipc.open_file(file).read_all() == table


def test_fastavro_reads_records_through_it() -> None:
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]})
    records = [{"s": "x" * (i % 300)} for i in range(15_000)]
    sink = io.BytesIO()
    fastavro.writer(sink, schema, records)
    stored, key = seal_bytes(sink.getvalue())
    assert len(stored) > 2 * STORED
    with SealedReader(stored, key) as reader:
        assert list(fastavro.reader(cast("BinaryIO", reader))) == records


# -- every refusal has its own type -----------------------------------------------------------


def joined(*blocks: bytes) -> bytes:
    return HEADER + b"".join(blocks)


def _tampered() -> dict[str, tuple[bytes, type[SealbergError]]]:
    """Files of the very length that is trusted, so that only what they hold gives them away."""
    good = sealed(3 * BLOCK)
    a, b, c = split(good)
    data = plain(3 * BLOCK)
    second = len(HEADER) + STORED
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
        "block of another file": (joined(a, split(sealed(2 * BLOCK))[1][:-1] + b"!", c), AuthenticationError),
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
    with SealedReader(source, trusted(stored), threads=threads) as reader, pytest.raises(expected) as caught:
        reader.read()
    assert type(caught.value) is expected
    for secret in (KEY.encryption_key.hex(), repr(KEY.encryption_key)):
        assert secret not in str(caught.value)


def test_big_endian_indexes_differ_from_little_endian_ones_only_after_block_0() -> None:
    """So a test with one block alone would prove nothing."""
    stored = TAMPERED["big-endian indexes"][0]
    with SealedReader(stored, trusted(stored)) as reader:
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
    for attempt in (SealedReader.read, lambda r: r.read_at(0, 1), lambda r: list(r.windows()), SealedReader.readline):
        with SealedReader(stored, wrong) as reader, pytest.raises(AuthenticationError):
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
    with pytest.raises(TruncatedError), SealedReader(source, trusted(good)) as reader:
        reader.read()
    assert source.closed == 1
    assert knows_size == (source.requests == [])  # one that knows its size is refused without a request


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("knows_size", [True, False])
@pytest.mark.parametrize("extra", [b"\0", bytes(28), seal_block(b"more", 3)], ids=["byte", "overhead", "block"])
def test_file_longer_than_its_trusted_length_has_trailing_bytes(extra: bytes, knows_size: bool, threads: int) -> None:
    good = sealed(3 * BLOCK)
    source = Watched(good + extra, knows_size=knows_size)
    with pytest.raises(TrailingBytesError), SealedReader(source, trusted(good), threads=threads) as reader:
        for _ in reader.windows():
            pass
    assert source.closed == 1


def test_source_that_gives_more_than_it_was_asked_for_is_refused() -> None:
    class Generous(Watched):
        def read_at(self, offset: int, length: int, scratch: memoryview) -> bytes:
            return super().read_at(offset, length, scratch) + b"!"

    stored = sealed(10)
    with SealedReader(Generous(stored), trusted(stored)) as reader, pytest.raises(TrailingBytesError):
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

    monkeypatch.setattr("sealberg.files.reader.BlockCipher", explode)
    source = Watched(b"", knows_size=False)
    with pytest.raises(expected) as caught:
        SealedReader(source, trusted(length))
    assert type(caught.value) is expected
    assert source.requests == []
    assert source.closed == 1


@pytest.mark.parametrize(("cut", "error"), [(-1, TruncatedError), (1, TrailingBytesError)])
def test_length_that_storage_contradicts_is_refused_before_a_key_is_touched(
    cut: int, error: type[SealbergError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sealberg.files.reader.BlockCipher", lambda *_: pytest.fail("a key was touched"))
    with pytest.raises(error):
        SealedReader((sealed(100) + b"!")[: 136 + cut], trusted(136))


def test_missing_length_is_refused() -> None:
    with pytest.raises(MissingLengthError, match="allow_missing_length"):
        SealedReader(sealed(10), KEY)
    with pytest.raises(MissingLengthError, match="neither"):
        SealedReader(Watched(sealed(10), knows_size=False), KEY, allow_missing_length=True)


def test_allowed_missing_length_reads_and_does_not_see_whole_blocks_cut_off() -> None:
    """The risk that the option names is real."""
    good = sealed(3 * BLOCK)
    with SealedReader(good, KEY, allow_missing_length=True) as reader:
        assert reader.read() == plain(3 * BLOCK)
    with SealedReader(good[: 8 + 2 * STORED], KEY, allow_missing_length=True) as reader:
        assert reader.read() == plain(3 * BLOCK)[: 2 * BLOCK]  # a block is gone, and nobody notices
    with SealedReader(good[:-1], KEY, allow_missing_length=True) as reader, pytest.raises(AuthenticationError):
        reader.read()  # anything else shows
    with pytest.raises(EmptyBlockError):
        SealedReader(good + seal_block(b"", 3), KEY, allow_missing_length=True)


def test_allowed_missing_length_does_not_replace_a_length_that_is_there() -> None:
    good = sealed(3 * BLOCK)
    with pytest.raises(TruncatedError):
        SealedReader(good[: 8 + 2 * STORED], trusted(good), allow_missing_length=True)


@pytest.mark.parametrize("length", [0, 200])
def test_every_flipped_byte_is_refused(length: int) -> None:
    good = sealed(length)
    for at in range(len(good)):
        expected = BadMagicError if at < 4 else BlockSizeError if at < 8 else AuthenticationError
        for mask in (0x01, 0x80, 0xFF):
            stored = flip(good, at, mask)
            with SealedReader(stored, trusted(good), threads=1) as reader:
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
            SealedReader(good[:cut], trusted(good))
        with pytest.raises(IntegrityError), SealedReader(good[:cut], KEY, allow_missing_length=True) as reader:
            reader.read()
    for more in range(256):
        with pytest.raises(TrailingBytesError):
            SealedReader(good + bytes([more]), trusted(good))
        with (
            pytest.raises(IntegrityError),
            SealedReader(good + bytes([more]), KEY, allow_missing_length=True) as reader,
        ):
            reader.read()


def test_wrong_trusted_length_opens_nothing_it_should_not() -> None:
    good = sealed(200)
    for claimed in range(36, len(good) + 40):
        if claimed != len(good):
            with (
                pytest.raises(IntegrityError),
                SealedReader(Watched(good, knows_size=False), trusted(claimed)) as reader,
            ):
                reader.read()


def test_empty_stream_is_proved_empty_by_every_way_to_read() -> None:
    """Otherwise 36 bytes of anything would pass for a file without rows."""
    fake = HEADER + bytes(28)
    for attempt in (
        SealedReader.read,
        SealedReader.read1,
        SealedReader.peek,
        SealedReader.readline,
        lambda r: r.readinto(bytearray(1)),
        lambda r: r.read_at(0, 0),
        lambda r: list(r.windows()),
        list,
    ):
        with SealedReader(fake, trusted(36)) as reader:
            for _ in range(2):
                with pytest.raises(AuthenticationError):
                    attempt(reader)
        with SealedReader(sealed(0), trusted(36)) as reader:
            assert not attempt(reader)


# -- nothing unauthenticated, and the rest goes on ---------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("damaged", [0, 1, 3, 4, 8])
def test_damage_shows_at_its_own_block_not_before_and_every_time(damaged: int, threads: int) -> None:
    stored = flip(sealed(MANY), 8 + damaged * STORED + 12)
    data = plain(MANY)
    with SealedReader(stored, trusted(stored), threads=threads) as reader:
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
    with SealedReader(stored, trusted(stored), threads=threads) as reader:
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
    with SealedReader(stored, trusted(stored), threads=2) as reader:
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
    with SealedReader(source, trusted(stored), threads=threads) as reader:
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


# -- just the blocks it needs --------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
def test_random_reads_fetch_only_the_blocks_they_touch(threads: int) -> None:
    stored, data = sealed(MANY), plain(MANY)
    source = Watched(stored)
    dice = random.Random(5)
    offsets = [0, BLOCK - 2048, 8 * BLOCK - 1, *(dice.randrange(MANY) for _ in range(60)), 3 * BLOCK - 4095, MANY - 1]
    with SealedReader(source, trusted(stored), threads=threads) as reader:
        for offset in offsets:
            source.requests.clear()
            reader.seek(offset)
            piece = reader.read(4096)
            assert piece == data[offset : offset + 4096]
            touched = set(range(offset // BLOCK, (offset + len(piece) - 1) // BLOCK + 1))
            time.sleep(0.001)  # for fetches in the background, of which there should be none
            fetched = source.blocks()
            assert set(fetched) <= touched
            assert len(fetched) == len(set(fetched))
            assert len([request for request in source.requests if request != (0, 8)]) <= 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("offset", "length"), [(BLOCK // 2, 3 * BLOCK), (BLOCK, 2 * BLOCK), (5, BLOCK), (0, MANY)])
def test_a_contiguous_range_is_one_request(offset: int, length: int, threads: int) -> None:
    stored, data = sealed(MANY), plain(MANY)
    last = min(offset + length - 1, MANY - 1) // BLOCK
    ways: list[Callable[[SealedReader], bytes]] = [
        lambda reader: reader.read_at(offset, length),
        lambda reader: (reader.seek(offset), reader.read(length))[1],
    ]
    for read in ways:
        source = Watched(stored)
        with SealedReader(source, trusted(stored), threads=threads) as reader:
            assert read(reader) == data[offset : offset + length]
        assert source.blocks() == list(range(offset // BLOCK, last + 1))
        assert len([request for request in source.requests if request != (0, 8)]) == 1


def test_header_is_checked_though_block_0_is_never_read() -> None:
    good = sealed(3 * BLOCK)
    for at, expected in ((0, BadMagicError), (5, BlockSizeError)):
        stored = flip(good, at)
        for read in (lambda r: r.read_at(2 * BLOCK, 10), lambda r: (r.seek(-1, 2), r.read())):
            with SealedReader(stored, trusted(stored)) as reader:
                for _ in range(2):
                    with pytest.raises(expected):
                        read(reader)
    source = Watched(good)
    with SealedReader(source, trusted(good)) as reader:
        reader.read_at(2 * BLOCK, 10)
        reader.read_at(BLOCK, 10)
    assert source.requests.count((0, 8)) == 1
    assert source.blocks() == [2, 1]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("chunk", [4096, 100_000, BLOCK, 3 * BLOCK // 2, 3 * BLOCK + 1, -1])
def test_reading_in_order_fetches_every_byte_once(chunk: int, threads: int) -> None:
    stored = sealed(MANY)
    source = Watched(stored, knows_size=False)
    with SealedReader(source, trusted(stored), threads=threads) as reader:
        assert b"".join(iter(lambda: reader.read(chunk), b"")) == plain(MANY)
    assert sorted(source.blocks()) == list(range(9))
    assert sum(length for _, length in source.requests) == len(stored) + 1  # and one byte beyond its end


def test_reading_in_order_looks_ahead() -> None:
    stored = sealed(MANY)
    source = Watched(stored)
    with SealedReader(source, trusted(stored), threads=2) as reader:
        while reader.tell() < BLOCK + 1:
            reader.read(4096)
        deadline = time.monotonic() + 10
        while len(source.blocks()) < 6 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert len(source.blocks()) >= 6


def test_small_reads_nearby_open_a_block_once() -> None:
    stored = sealed(MANY)
    source = Watched(stored)
    with SealedReader(source, trusted(stored)) as reader:
        for offset in range(3 * BLOCK, 4 * BLOCK, 50_000):
            reader.read_at(offset, 10)
    assert source.blocks() == [3]


# -- threads, forks, memory ----------------------------------------------------------------------


class Hesitant(io.BytesIO):
    """Lets others in between a seek and the read after it."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        position = super().seek(offset, whence)
        time.sleep(0.0001)
        return position


@pytest.mark.parametrize("as_stream", [False, True])
def test_read_at_is_safe_from_many_threads_while_another_reads_on(as_stream: bool) -> None:
    stored, data = sealed(MANY), plain(MANY)
    going = threading.Event()

    def hammer(seed: int) -> int:
        dice = random.Random(seed)
        rounds = 0
        while rounds < 25 or (going.is_set() and rounds < 200):
            offset, length = dice.randrange(MANY), dice.choice([1, 100, 5000, BLOCK, 5 * BLOCK // 2])
            assert reader.read_at(offset, length) == data[offset : offset + length]
            rounds += 1
        return rounds

    source = Hesitant(stored) if as_stream else stored
    with SealedReader(source, trusted(stored), threads=2) as reader, ThreadPoolExecutor(16) as crowd:
        going.set()
        waiting = [crowd.submit(hammer, seed) for seed in range(16)]
        for _ in range(3):
            reader.seek(0)
            assert b"".join(iter(lambda: reader.read(333_333), b"")) == data
        going.clear()
        assert all(done.result() >= 25 for done in waiting)


def test_read_at_leaves_the_position_alone_and_refuses_negatives() -> None:
    with reader_of(2 * BLOCK) as reader:
        reader.seek(7)
        reader.read_at(BLOCK, 100)
        assert reader.tell() == 7
        assert reader.read(3) == plain(2 * BLOCK)[7:10]
        for offset, length in ((-1, 1), (0, -1)):
            with pytest.raises(ConfigError):
                reader.read_at(offset, length)


def test_read_at_and_the_position_share_no_memory() -> None:
    with reader_of(MANY, 1) as reader:
        for block in range(8):
            assert reader.read_at(5, 10) == plain(MANY)[5:15]
            reader.seek(block * BLOCK)
            assert reader.read(10) == plain(MANY)[block * BLOCK : block * BLOCK + 10]


def test_nobody_writes_into_a_buffer_after_the_call_that_it_was_for() -> None:
    ended: list[int] = []

    def act(lo: int, hi: int) -> None:
        if lo == 0:
            raise AuthenticationError("the first run fails at once")
        time.sleep(0.05)
        ended.append(lo)

    with pytest.raises(AuthenticationError):
        side_by_side(act, 0, 3, 3)
    assert sorted(ended) == [1, 2]


def test_the_error_of_several_runs_is_that_of_the_first_block() -> None:
    def act(lo: int, hi: int) -> None:
        time.sleep(0.02 if lo == 1 else 0)
        if lo:
            raise AuthenticationError(f"block {lo}")

    with pytest.raises(AuthenticationError, match="block 1"):
        side_by_side(act, 0, 3, 3)


@pytest.mark.parametrize("seek_away", [False, True])
def test_close_waits_for_what_runs_in_the_background(seek_away: bool) -> None:
    stored = sealed(MANY)
    source = Watched(stored)
    late: list[int] = []
    begun = threading.Event()

    def dawdle(offset: int, length: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            time.sleep(0.1)
        if source.closed:
            late.append(offset)

    source.before = dawdle
    reader = SealedReader(source, trusted(stored), threads=2)
    next(reader.windows())
    assert begun.wait(10)
    if seek_away:  # what was under way is of no use any more, and still runs
        reader.seek(7 * BLOCK)
        reader.read(1)
    reader.close()
    time.sleep(0.3)
    assert len(source.requests) > 1
    assert late == []
    assert source.closed == 1


def _in_child(act: object) -> int:
    """Run `act` in a forked child; its exit status, or a timeout's signal."""
    assert callable(act)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is just the point
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(20)
            act()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_forked_child_reads_with_threads_and_the_parent_goes_on(tmp_path: Path) -> None:
    stored = sealed(MANY)
    (tmp_path / "f").write_bytes(stored)
    with SealedReader(tmp_path / "f", trusted(stored), threads=2) as reader:
        got = reader.read(BLOCK + 1)  # the pool exists by now
        got += reader.read(10)

        def child() -> None:
            assert reader.read() == plain(MANY)[len(got) :]
            reader.seek(0)
            assert b"".join(bytes(window) for window in reader.windows()) == plain(MANY)
            reader.close()

        assert _in_child(child) == 0
        assert got + reader.read() == plain(MANY)


@pytest.mark.parametrize("close_only", [False, True])
def test_forked_child_does_not_wait_for_what_its_parent_had_under_way(close_only: bool) -> None:
    stored = sealed(MANY)
    source = Watched(stored)
    gate = threading.Event()
    held = threading.Event()

    def hold(offset: int, length: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            held.set()
            gate.wait(30)

    source.before = hold
    reader = SealedReader(source, trusted(stored), threads=2)
    windows = reader.windows()
    first = bytes(next(windows))
    assert held.wait(10)

    def child() -> None:
        source.before = lambda *_: None
        source._lock = threading.Lock()
        if not close_only:
            assert first + b"".join(bytes(window) for window in windows) == plain(MANY)
        reader.close()

    try:
        assert _in_child(child) == 0
    finally:
        gate.set()
    assert first + b"".join(bytes(window) for window in windows) == plain(MANY)
    reader.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files as Linux shows them")
def test_refused_reader_leaves_no_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(sealed(10))
    before = open_files()
    kept: list[BaseException] = []  # their tracebacks keep every frame alive
    for key in (KEY, trusted(45), trusted(47), trusted(20)):
        with pytest.raises(IntegrityError) as caught:
            SealedReader(tmp_path / "f", key)
        kept.append(caught.value)
    with pytest.raises(ConfigError) as bad:
        SealedReader(tmp_path / "f", trusted(46), threads=0)
    kept.append(bad.value)

    def explode(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sealberg.files.reader.BlockCipher", explode)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        SealedReader(tmp_path / "f", trusted(46))
    kept.append(interrupted.value)
    assert open_files() == before


def test_refused_readers_and_writers_die_silently() -> None:
    """Development mode shows what finalizers raise; the usual mode swallows it."""
    code = """
import io
from sealberg.files.reader import SealedReader
from sealberg.files.writer import SealedWriter
from sealberg.format.key_metadata import KeyMetadata
for make in (lambda: SealedReader("/nowhere/at/all", KeyMetadata(bytes(16), None, 36)),
             lambda: SealedReader(object(), KeyMetadata(bytes(16), None, 36)),
             lambda: SealedReader(b"", KeyMetadata(bytes(16), None, 36)),
             lambda: SealedReader(b"", KeyMetadata(bytes(16), None, 36), threads=0),
             lambda: SealedWriter(io.BytesIO(), KeyMetadata(bytes(16)), threads=0)):
    try:
        make()
    except Exception:
        continue
    raise SystemExit("not refused")
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_bytes_of_memory_kept_for_later_are_few() -> None:
    """After a crowd of large reads the reader holds no more than it may."""
    length = 18 * BLOCK
    stored = sealed(length)
    with SealedReader(stored, trusted(stored), threads=4) as reader, ThreadPoolExecutor(8) as crowd:
        for done in [crowd.submit(reader.read_at, 0, length) for _ in range(8)]:
            assert done.result() == plain(length)
        assert sum(map(len, reader._spares._held)) <= 24 * STORED


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the peak of one process")
def test_streaming_256_mib_takes_little_memory(tmp_path: Path) -> None:
    # Not ru_maxrss: it starts at the size of the process that forked this one, and would hide everything.
    code = """
import sys
from sealberg.files.reader import SealedReader
from sealberg.files.writer import SealedWriter
from sealberg.format.key_metadata import KeyMetadata

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

chunk = bytes(range(256)) * 1000
before = peak()
with SealedWriter(open(sys.argv[1], "wb"), KeyMetadata(bytes(16)), threads=2) as writer:
    while writer.tell() < 256 << 20:
        writer.write(chunk)
written = peak()
for chunked in (True, False):
    total = 0
    with SealedReader(sys.argv[1], writer.key_metadata, threads=2) as reader:
        for piece in (iter(lambda: reader.read(300_000), b"") if chunked else reader.windows()):
            total += len(piece)
    assert total == writer.tell()
print(written - before, peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "big")], capture_output=True, text=True, check=True
    )
    sealing_kib, both_kib = map(int, done.stdout.split())
    assert 0 < sealing_kib <= both_kib < 64 * 1024
