"""Whatever the calls, the threads and the sizes: streams agree with io.BytesIO and with other hands."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kit.examples import examples
from kit.tables.streams import BLOCK, EDGES, KEY, THREADS, Watched, open_by_hand, plain, sealed, trusted
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer

LENGTHS = (*EDGES, 5 * BLOCK + 17, 9 * BLOCK)
BIGGEST = max(LENGTHS)
near_edges = st.builds(lambda block, by: max(0, block * BLOCK + by), st.integers(0, 9), st.integers(-3, 3))
offsets = near_edges | st.integers(0, BIGGEST + 10)
counts = st.sampled_from([0, 1, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK]) | st.integers(0, 4 * BLOCK)


class ReaderIsBytesIO(RuleBasedStateMachine):
    """One reader and one BytesIO, asked the same questions."""

    @initialize(
        length=st.sampled_from(LENGTHS),
        threads=st.sampled_from(THREADS),
        kind=st.sampled_from(["buffer", "unsized", "stream"]),
    )
    def begin(self, length: int, threads: int, kind: str) -> None:
        stored = sealed(length)
        source: bytes | Watched | io.BytesIO = stored
        if kind == "unsized":
            source = Watched(stored, knows_size=False)
        elif kind == "stream":
            source = io.BytesIO(stored)
        self.data = plain(length)
        self.model = io.BytesIO(self.data)
        self.reader = Ags1Reader(source, trusted(stored), threads=threads)

    @rule(offset=offsets)
    def seek(self, offset: int) -> None:
        assert self.reader.seek(offset) == self.model.seek(offset)

    @rule(back=st.integers(0, 2 * BLOCK))
    def seek_back(self, back: int) -> None:
        back = min(back, self.model.tell())
        assert self.reader.seek(-back, io.SEEK_CUR) == self.model.seek(-back, io.SEEK_CUR)

    @rule(back=st.integers(0, BLOCK))
    def seek_from_the_end(self, back: int) -> None:
        back = min(back, len(self.data))
        assert self.reader.seek(-back, io.SEEK_END) == self.model.seek(-back, io.SEEK_END)

    @rule(count=counts)
    def read(self, count: int) -> None:
        assert self.reader.read(count) == self.model.read(count)

    @rule(count=counts, times=st.integers(2, 12))
    def read_on(self, count: int, times: int) -> None:
        for _ in range(times):
            assert self.reader.read(count // 4) == self.model.read(count // 4)

    @rule()
    def read_all(self) -> None:
        assert self.reader.read() == self.model.read()

    @rule(count=counts)
    def readinto(self, count: int) -> None:
        ours, theirs = bytearray(b"\xee" * count), bytearray(b"\xee" * count)
        assert self.reader.readinto(ours) == self.model.readinto(theirs)
        assert ours == theirs

    @rule(limit=st.sampled_from([-1, 0, 1, 100]))
    def readline(self, limit: int) -> None:
        assert self.reader.readline(limit) == self.model.readline(limit)

    @rule(offset=offsets, count=counts)
    def read_at(self, offset: int, count: int) -> None:
        assert self.reader.read_at(offset, count) == self.data[offset : offset + count]

    @rule()
    def peek(self) -> None:
        at = self.model.tell()
        seen = self.reader.peek()
        assert seen == self.data[at : at + len(seen)]
        assert bool(seen) == (at < len(self.data))

    @rule(most=st.integers(1, 4))
    def some_windows(self, most: int) -> None:
        for window, _ in zip(self.reader.windows(), range(most), strict=False):
            assert window == self.model.read(len(window))
        self.model.seek(self.reader.tell())  # the window that zip took and dropped

    @invariant()
    def position_agrees(self) -> None:
        if hasattr(self, "reader"):
            assert self.reader.tell() == self.model.tell()

    def teardown(self) -> None:
        if hasattr(self, "reader"):
            self.reader.close()


@pytest.mark.parametrize("size", [None, -1, 0, 1, 99, 100, BLOCK + 5])
@pytest.mark.parametrize("back", [0, 1, 50])
def test_a_line_is_no_longer_than_its_limit_where_a_block_ends(size: int | None, back: int) -> None:
    """Python's own readline counts the limit anew for each look ahead."""
    data = plain(2 * BLOCK)
    with Ags1Reader(sealed(2 * BLOCK), trusted(sealed(2 * BLOCK))) as reader:
        model = io.BytesIO(data)
        for stream in (reader, model):
            stream.seek(BLOCK - back)
        for _ in range(3):
            assert reader.readline(size) == model.readline(size)


ReaderIsBytesIO.TestCase.settings = examples(0.5, stateful_step_count=25)
test_reader_is_bytesio = ReaderIsBytesIO.TestCase


@pytest.mark.slow
@examples(0.4)
@given(
    pieces=st.lists(st.sampled_from([0, 1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 4 * BLOCK, 9 * BLOCK // 2]), max_size=6),
    threads=st.sampled_from(THREADS),
)
def test_writes_of_any_size_make_the_same_stream(pieces: list[int], threads: int) -> None:
    data = plain(27 * BLOCK)[: sum(pieces)]
    sink = io.BytesIO()
    done = 0
    with Ags1Writer(sink, KEY, threads=threads, close_sink=False) as writer:
        for size in pieces:
            buffer = bytearray(data[done : done + size])
            assert writer.write(buffer) == size
            buffer[:] = bytes(size)
            done += size
            assert writer.tell() == done
    stored = sink.getvalue()
    assert len(stored) == writer.stored_length
    assert open_by_hand(stored) == data
    with Ags1Reader(stored, writer.key_metadata, threads=threads) as reader:
        assert reader.read() == data


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("length", [*EDGES, 9 * BLOCK])
def test_block_edges_come_back_through_both(length: int, threads: int) -> None:
    data = plain(length)
    for step in (777_777, BLOCK, 4 * BLOCK):
        sink = io.BytesIO()
        with Ags1Writer(sink, KEY, threads=threads, close_sink=False) as writer:
            for at in range(0, length, step):
                writer.write(data[at : at + step])
        with Ags1Reader(sink.getvalue(), writer.key_metadata, threads=threads) as reader:
            assert b"".join(iter(lambda: reader.read(step), b"")) == data  # noqa: B023 (used at once)
