"""Ags1Writer: leaves a whole file, or bytes that nobody takes for one."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import fastavro
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.ipc  # type: ignore[import-untyped,unused-ignore]
import pytest
from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

from kit.tables.streams import BLOCK, EDGES, HEADER, KEY, STORED, THREADS, open_by_hand, plain, split, trusted
from sealberg.errors import ConfigError, PoisonedError
from sealberg.files.ags1_writer import Ags1Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Sink:
    """Keeps what it is given; fails in the ways it is told to."""

    def __init__(self) -> None:
        self.stored = bytearray()
        self.writes = 0
        self.closed = 0
        self.fail: Callable[[Sink, memoryview], None] = lambda *_: None

    def write(self, data: memoryview | bytes) -> int:
        self.writes += 1
        self.fail(self, memoryview(data))
        self.stored += data
        return len(data)

    def close(self) -> None:
        self.closed += 1


class OutOfSpaceError(OSError):
    pass


# -- the file it leaves ------------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("length", [*EDGES, 9 * BLOCK + 1])
def test_other_hands_open_what_it_wrote(length: int, threads: int) -> None:
    sink = Sink()
    with Ags1Writer(sink, KEY, threads=threads) as writer:
        assert writer.write(plain(length)) == length
        assert writer.tell() == length
    assert open_by_hand(bytes(sink.stored)) == plain(length)
    blocks = max(1, -(-length // BLOCK))
    assert writer.stored_length == len(sink.stored) == 8 + length + 28 * blocks  # so no empty block at an edge
    assert writer.key_metadata == trusted(len(sink.stored))
    assert writer.tell() == length
    assert sink.closed == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_empty_stream_is_36_bytes_written_or_not(threads: int) -> None:
    for pieces in ([], [b""], [b"", b""]):
        sink = Sink()
        with Ags1Writer(sink, KEY, threads=threads) as writer:
            for piece in pieces:
                writer.write(piece)
        assert len(sink.stored) == writer.stored_length == 36
        assert open_by_hand(bytes(sink.stored)) == b""


@pytest.mark.parametrize("threads", THREADS)
def test_no_nonce_comes_twice(threads: int) -> None:
    sink = Sink()
    with Ags1Writer(sink, KEY, threads=threads) as writer:
        writer.write(bytes(9 * BLOCK))  # straight from the caller's memory
        for _ in range(90):
            writer.write(bytes(BLOCK // 10 + 1))  # gathered in groups
    blocks = split(bytes(sink.stored))
    assert len({block[:12] for block in blocks}) == len(blocks) == 19


def test_header_is_lazy_and_flush_emits_nothing() -> None:
    sink = Sink()
    writer = Ags1Writer(sink, KEY, threads=1)
    writer.write(b"some")
    writer.flush()
    assert sink.writes == 0
    writer.write(bytes(BLOCK))
    assert sink.stored[:8] == HEADER
    assert len(sink.stored) == 8 + STORED
    writer.flush()
    assert len(sink.stored) == 8 + STORED
    writer.close()
    assert open_by_hand(bytes(sink.stored)) == b"some" + bytes(BLOCK)


def test_lengths_are_known_only_after_a_successful_close() -> None:
    writer = Ags1Writer(Sink(), KEY)
    for attribute in ("stored_length", "key_metadata"):
        with pytest.raises(ConfigError, match="after a successful close"):
            getattr(writer, attribute)
    writer.write(b"x")
    writer.abort()
    for attribute in ("stored_length", "key_metadata"):
        with pytest.raises(ConfigError, match="after a successful close"):
            getattr(writer, attribute)


@pytest.mark.parametrize("threads", [2, 3])
def test_caller_may_change_its_buffer_as_soon_as_write_returns(threads: int) -> None:
    sink, expected = Sink(), bytearray()
    with Ags1Writer(sink, KEY, threads=threads) as writer:
        for i, size in enumerate([BLOCK, 3 * BLOCK, 4 * BLOCK, 9 * BLOCK, 100, 5 * BLOCK, 4 * BLOCK]):
            buffer = bytearray([i + 1]) * size
            writer.write(buffer)
            expected += buffer
            buffer[:] = bytes(len(buffer))
    assert open_by_hand(bytes(sink.stored)) == expected


def test_takes_every_kind_of_buffer_and_no_text() -> None:
    sink = Sink()
    with Ags1Writer(sink, KEY) as writer:
        assert writer.write(memoryview(bytes(range(16))).cast("I")) == 16  # bytes, not items
        assert writer.write(bytearray(b"ab")) == 2
        assert writer.write(pa.py_buffer(b"cd")) == 2
        writer.writelines([b"e", b"f"])
        with pytest.raises(TypeError):
            writer.write("text")
        writer.write(b"g")  # a wrong argument is no poison
    assert open_by_hand(bytes(sink.stored)) == bytes(range(16)) + b"abcdefg"


def test_sink_stays_open_when_told_so() -> None:
    for end in (Ags1Writer.close, Ags1Writer.abort):
        sink = Sink()
        end(Ags1Writer(sink, KEY, close_sink=False))
        assert sink.closed == 0


# -- a file like any other ---------------------------------------------------------------------


def test_is_what_io_and_pyiceberg_call_a_stream() -> None:
    with Ags1Writer(Sink(), KEY) as writer:
        assert isinstance(writer, io.BufferedIOBase)
        assert isinstance(writer, OutputStream)
        assert writer.writable()
        assert not writer.readable()
        assert not writer.seekable()
        for refused in (lambda: writer.seek(0), writer.read, writer.fileno, writer.truncate):
            with pytest.raises(io.UnsupportedOperation):
                refused()


def test_closed_writer_says_so_like_every_file() -> None:
    sink = Sink()
    writer = Ags1Writer(sink, KEY)
    writer.close()
    stored = bytes(sink.stored)
    writer.close()
    writer.abort()  # too late to spoil anything
    for call in (lambda: writer.write(b"x"), writer.flush, writer.__enter__):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert (bytes(sink.stored), sink.closed) == (stored, 1)


def test_pyarrow_writes_an_ipc_file_through_it() -> None:
    table = pa.table({"n": pa.array(range(300_000), pa.int64())})
    sink = Sink()
    writer = Ags1Writer(sink, KEY)
    with pa.PythonFile(writer, mode="w") as file, pyarrow.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    assert writer.closed
    assert pyarrow.ipc.open_file(open_by_hand(bytes(sink.stored))).read_all() == table


def test_fastavro_writes_records_through_it() -> None:
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]})
    records = [{"s": "x" * (i % 300)} for i in range(15_000)]
    sink = Sink()
    with Ags1Writer(sink, KEY) as writer:
        fastavro.writer(cast("BinaryIO", writer), schema, records)
    assert list(fastavro.reader(io.BytesIO(open_by_hand(bytes(sink.stored))))) == records


def test_text_wrapper_writes_text_through_it() -> None:
    sink = Sink()
    with io.TextIOWrapper(Ags1Writer(sink, KEY), encoding="utf-8", newline="") as lines:  # type: ignore[type-var]
        lines.write("Zeile ♥\n" * 200_000)
    assert open_by_hand(bytes(sink.stored)).decode() == "Zeile ♥\n" * 200_000


def test_writes_to_what_pyiceberg_creates(tmp_path: Path) -> None:
    output = PyArrowFileIO().new_output(str(tmp_path / "f"))
    with Ags1Writer(output.create(), KEY) as writer:
        writer.write(plain(2 * BLOCK))
    assert open_by_hand((tmp_path / "f").read_bytes()) == plain(2 * BLOCK)


# -- sinks of every temper ---------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("most", [1000, 65536, STORED])
def test_raw_sink_that_takes_a_part_is_given_the_rest(most: int, threads: int) -> None:
    class Raw(io.RawIOBase):
        stored = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: Any, /) -> int:
            self.stored += data[:most]
            return min(most, len(data))

    sink = Raw()
    sink.stored = bytearray()
    with Ags1Writer(sink, KEY, threads=threads) as writer:
        writer.write(plain(7 * BLOCK // 2))
    assert open_by_hand(bytes(sink.stored)) == plain(7 * BLOCK // 2)
    assert writer.stored_length == len(sink.stored)


def test_sink_that_returns_nothing_took_it_all() -> None:
    class Silent(Sink):
        def write(self, data: memoryview | bytes) -> None:  # type: ignore[override]
            super().write(data)

    sink = Silent()
    with Ags1Writer(sink, KEY) as writer:
        writer.write(b"abc")
    assert writer.stored_length == len(sink.stored)


@pytest.mark.parametrize("answer", [None, 0, -1, 10**9])
def test_raw_sink_that_took_nothing_or_lies_is_an_error(answer: int | None) -> None:
    class Raw(io.RawIOBase):
        def write(self, data: Any, /) -> int | None:
            return answer  # None is what a raw file that would block says

    writer = Ags1Writer(Raw(), KEY)
    writer.write(b"abc")
    with pytest.raises(PoisonedError):
        writer.close()
    assert writer.closed
