"""Ags1Reader: a file like any other, that fetches no more than it needs."""

from __future__ import annotations

import io
import random
import time
from typing import TYPE_CHECKING, BinaryIO, cast

import fastavro
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.ipc  # type: ignore[import-untyped,unused-ignore]
import pytest
from pyiceberg.io import InputStream

from kit.tables.streams import (
    BLOCK,
    EDGES,
    STORED,
    THREADS,
    Watched,
    flip,
    plain,
    sealed,
    trusted,
)
from sealberg.errors import (
    BadMagicError,
    BlockSizeError,
)
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.seal import seal_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 8 * BLOCK + 12345  # nine blocks


def reader_of(length: int, threads: int | None = None) -> Ags1Reader:
    stored = sealed(length)
    return Ags1Reader(stored, trusted(stored), threads=threads)


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
    with Ags1Reader(stored, key) as reader:
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
    with io.TextIOWrapper(Ags1Reader(stored, key), encoding="utf-8") as lines:  # type: ignore[type-var]  # the stubs want a BufferedReader
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
    with pa.PythonFile(Ags1Reader(stored, key), mode="r") as file:
        assert file.size() == len(sink.getvalue())
        assert pyarrow.ipc.open_file(file).read_all() == table


def test_fastavro_reads_records_through_it() -> None:
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]})
    records = [{"s": "x" * (i % 300)} for i in range(15_000)]
    sink = io.BytesIO()
    fastavro.writer(sink, schema, records)
    stored, key = seal_bytes(sink.getvalue())
    assert len(stored) > 2 * STORED
    with Ags1Reader(stored, key) as reader:
        assert list(fastavro.reader(cast("BinaryIO", reader))) == records


# -- just the blocks it needs --------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
def test_random_reads_fetch_only_the_blocks_they_touch(threads: int) -> None:
    stored, data = sealed(MANY), plain(MANY)
    source = Watched(stored)
    dice = random.Random(5)
    offsets = [0, BLOCK - 2048, 8 * BLOCK - 1, *(dice.randrange(MANY) for _ in range(60)), 3 * BLOCK - 4095, MANY - 1]
    with Ags1Reader(source, trusted(stored), threads=threads) as reader:
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
    ways: list[Callable[[Ags1Reader], bytes]] = [
        lambda reader: reader.read_at(offset, length),
        lambda reader: (reader.seek(offset), reader.read(length))[1],
    ]
    for read in ways:
        source = Watched(stored)
        with Ags1Reader(source, trusted(stored), threads=threads) as reader:
            assert read(reader) == data[offset : offset + length]
        assert source.blocks() == list(range(offset // BLOCK, last + 1))
        assert len([request for request in source.requests if request != (0, 8)]) == 1


def test_header_is_checked_though_block_0_is_never_read() -> None:
    good = sealed(3 * BLOCK)
    for at, expected in ((0, BadMagicError), (5, BlockSizeError)):
        stored = flip(good, at)
        for read in (lambda r: r.read_at(2 * BLOCK, 10), lambda r: (r.seek(-1, 2), r.read())):
            with Ags1Reader(stored, trusted(stored)) as reader:
                for _ in range(2):
                    with pytest.raises(expected):
                        read(reader)
    source = Watched(good)
    with Ags1Reader(source, trusted(good)) as reader:
        reader.read_at(2 * BLOCK, 10)
        reader.read_at(BLOCK, 10)
    assert source.requests.count((0, 8)) == 1
    assert source.blocks() == [2, 1]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("chunk", [4096, 100_000, BLOCK, 3 * BLOCK // 2, 3 * BLOCK + 1, -1])
def test_reading_in_order_fetches_every_byte_once(chunk: int, threads: int) -> None:
    stored = sealed(MANY)
    source = Watched(stored, knows_size=False)
    with Ags1Reader(source, trusted(stored), threads=threads) as reader:
        assert b"".join(iter(lambda: reader.read(chunk), b"")) == plain(MANY)
    assert sorted(source.blocks()) == list(range(9))
    assert sum(length for _, length in source.requests) == len(stored) + 1  # and one byte beyond its end


def test_reading_in_order_looks_ahead() -> None:
    stored = sealed(MANY)
    source = Watched(stored)
    with Ags1Reader(source, trusted(stored), threads=2) as reader:
        while reader.tell() < BLOCK + 1:
            reader.read(4096)
        deadline = time.monotonic() + 60
        while len(source.blocks()) < 6 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert len(source.blocks()) >= 6


def test_small_reads_nearby_open_a_block_once() -> None:
    stored = sealed(MANY)
    source = Watched(stored)
    with Ags1Reader(source, trusted(stored)) as reader:
        for offset in range(3 * BLOCK, 4 * BLOCK, 50_000):
            reader.read_at(offset, 10)
    assert source.blocks() == [3]
