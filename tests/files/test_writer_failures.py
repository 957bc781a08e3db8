"""A file of Ags1Writer is complete or invalid: failed sinks, aborted and forgotten writers, forks."""

from __future__ import annotations

import gc
import os
import signal
import time
import warnings
from typing import TYPE_CHECKING

import pytest

from files.test_writer import OutOfSpaceError, Sink
from kit.tables.streams import BLOCK, KEY, STORED, open_by_hand, plain
from sealberg.errors import ConfigError, CutBlockError, HeaderOnlyError, IntegrityError, PoisonedError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import SPOILER, Ags1Writer

if TYPE_CHECKING:
    from pathlib import Path


# -- whole or not at all -----------------------------------------------------------------------


def assert_no_stream(stored: bytes) -> None:
    """Refused by its layout alone: no key is needed to see that it is no file."""
    with pytest.raises((HeaderOnlyError, CutBlockError)):
        Ags1Reader(stored, KEY, allow_missing_length=True)


class Interrupt(BaseException):
    pass


def by_exception(writer: Ags1Writer) -> None:
    with pytest.raises(RuntimeError), writer:
        raise RuntimeError


def by_interrupt(writer: Ags1Writer) -> None:
    with pytest.raises(Interrupt), writer:
        raise Interrupt


def by_abort(writer: Ags1Writer) -> None:
    writer.abort()
    writer.close()  # changes nothing


ENDS = {"exception": by_exception, "interrupt": by_interrupt, "abort": by_abort}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("blocks", range(6))
@pytest.mark.parametrize("end", ENDS)
def test_unfinished_writer_leaves_nothing_that_looks_like_a_file(end: str, blocks: int, threads: int) -> None:
    for more in (0, 1):
        sink = Sink()
        writer = Ags1Writer(sink, KEY, threads=threads)
        for _ in range(blocks):
            writer.write(bytes(BLOCK))
        writer.write(bytes(more))
        ENDS[end](writer)
        assert_no_stream(bytes(sink.stored))
        assert sink.closed == 1
        with pytest.raises(ValueError, match="closed"):
            writer.write(b"x")


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("blocks", range(6))
def test_forgotten_writer_leaves_nothing_that_looks_like_a_file(blocks: int, threads: int) -> None:
    sink = Sink()
    writer = Ags1Writer(sink, KEY, threads=threads)
    writer.write(bytes(blocks * BLOCK))
    del writer
    gc.collect()
    assert_no_stream(bytes(sink.stored))
    assert sink.closed == 1


@pytest.mark.parametrize("error", [OutOfSpaceError, Interrupt])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("blocks", range(1, 6))
def test_failed_close_leaves_nothing_that_looks_like_a_file(
    blocks: int, threads: int, error: type[BaseException]
) -> None:
    """The write of the last bytes fails, and blocks before them are at the sink."""
    sink = Sink()
    writer = Ags1Writer(sink, KEY, threads=threads)
    for _ in range(blocks):
        writer.write(bytes(BLOCK))
    writer.write(b"end")

    def fail(sink: Sink, data: memoryview) -> None:
        sink.fail = lambda *_: None
        raise error

    sink.fail = fail
    with pytest.raises(error):
        writer.close()
    assert writer.closed
    assert sink.closed == 1
    assert_no_stream(bytes(sink.stored))
    with pytest.raises(ConfigError):
        _ = writer.key_metadata
    with pytest.raises(ValueError, match="closed"):
        writer.write(b"more")


@pytest.mark.parametrize("error", [OutOfSpaceError, Interrupt])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_failed_write_poisons_and_nothing_valid_follows(threads: int, error: type[BaseException]) -> None:
    sink = Sink()
    writer = Ags1Writer(sink, KEY, threads=threads)
    writer.write(bytes(4 * BLOCK))

    def fail(sink: Sink, data: memoryview) -> None:
        raise error("no space left")

    sink.fail = fail
    with pytest.raises(error):
        writer.write(bytes(9 * BLOCK))
    sink.fail = lambda *_: None  # there is space again, and yet
    before = len(sink.stored)
    with pytest.raises(PoisonedError, match="no space left") as caught:
        writer.write(b"more")
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value.__cause__, error)
    assert len(sink.stored) == before
    with pytest.raises(PoisonedError):
        writer.close()
    assert writer.closed
    assert sink.closed == 1
    assert bytes(sink.stored[before:]) == SPOILER
    assert_no_stream(bytes(sink.stored))


def test_failed_write_inside_with_surfaces_even_when_the_block_swallows_it() -> None:
    sink = Sink()

    def fail(sink: Sink, data: memoryview) -> None:
        raise OutOfSpaceError

    sink.fail = fail
    with pytest.raises(PoisonedError), Ags1Writer(sink, KEY, threads=1) as writer:
        with pytest.raises(OutOfSpaceError):
            writer.write(bytes(BLOCK))
        assert not writer.closed
    assert sink.stored == b""


@pytest.mark.parametrize("taken", [0, 1, 12, 27, 28, STORED - 28, STORED - 27, STORED - 26, STORED - 1, STORED])
def test_sink_that_fails_in_the_midst_of_a_block_leaves_no_file(taken: int) -> None:
    """What is appended must not complete what a failed write left a byte short."""
    sink = Sink()
    writer = Ags1Writer(sink, KEY, threads=1)
    writer.write(bytes(2 * BLOCK))

    def fail(sink: Sink, data: memoryview) -> None:
        sink.stored += data[:taken]
        sink.fail = lambda *_: None
        raise OutOfSpaceError

    sink.fail = fail
    with pytest.raises(OutOfSpaceError):
        writer.write(bytes(BLOCK))
    writer.abort()
    stored = bytes(sink.stored)
    with pytest.raises(IntegrityError), Ags1Reader(stored, KEY, allow_missing_length=True) as reader:
        reader.read()
    if taken in (0, STORED - 1, STORED):
        assert_no_stream(stored)


@pytest.mark.parametrize("threads", [1, 2])
def test_cipher_that_fails_poisons(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink()
    writer = Ags1Writer(sink, KEY, threads=threads)
    for _ in range(4):
        writer.write(bytes(BLOCK))

    def explode(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sealberg.format.ags1.BlockCipher.seal_into", explode)
    with pytest.raises(MemoryError):
        for _ in range(9):
            writer.write(bytes(BLOCK))
    monkeypatch.undo()
    with pytest.raises(PoisonedError):
        writer.write(b"more")
    with pytest.raises(PoisonedError):
        writer.close()
    assert_no_stream(bytes(sink.stored))


def test_sink_that_fails_to_close_is_no_whole_file() -> None:
    class Stuck(Sink):
        def close(self) -> None:
            super().close()
            raise OutOfSpaceError

    sink = Stuck()
    writer = Ags1Writer(sink, KEY)
    with pytest.raises(OutOfSpaceError):
        writer.close()
    assert writer.closed
    with pytest.raises(ConfigError):
        _ = writer.key_metadata


@pytest.mark.slow
@pytest.mark.parametrize("end", ["close", "abort", "forget", "write"])
def test_forked_child_leaves_its_parents_file_alone(end: str, tmp_path: Path) -> None:
    """A child that unwinds or collects a writer of its parent shares the file behind it."""
    path = tmp_path / "f"
    writer = Ags1Writer(path.open("wb", buffering=0), KEY, threads=2)
    for _ in range(9):
        writer.write(plain(BLOCK))
    time.sleep(0.05)  # else threads that the child does not have keep the writer from being collected there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is just the point
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(120)
            if end == "abort":
                writer.abort()
            elif end == "forget":
                del writer
                gc.collect()
            else:
                with pytest.raises(PoisonedError, match="process"):
                    writer.close() if end == "close" else writer.write(b"x")
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.write(b"end")
    writer.close()
    assert open_by_hand(path.read_bytes()) == 9 * plain(BLOCK) + b"end"
