"""Ags1Reader on several threads, in forked processes, and within bounds of memory and open files."""

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
from pathlib import Path

import pytest

from kit.tables.streams import (
    BLOCK,
    KEY,
    STORED,
    Watched,
    plain,
    sealed,
    trusted,
)
from sealberg.errors import (
    AuthenticationError,
    ConfigError,
    IntegrityError,
)
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.thread_pool import in_parallel

MANY = 8 * BLOCK + 12345  # nine blocks


def reader_of(length: int, threads: int | None = None) -> Ags1Reader:
    stored = sealed(length)
    return Ags1Reader(stored, trusted(stored), threads=threads)


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
    with Ags1Reader(source, trusted(stored), threads=2) as reader, ThreadPoolExecutor(16) as crowd:
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
        in_parallel(act, 0, 3, 3)
    assert sorted(ended) == [1, 2]


def test_the_error_of_several_runs_is_that_of_the_first_block() -> None:
    def act(lo: int, hi: int) -> None:
        time.sleep(0.02 if lo == 1 else 0)
        if lo:
            raise AuthenticationError(f"block {lo}")

    with pytest.raises(AuthenticationError, match="block 1"):
        in_parallel(act, 0, 3, 3)


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
    reader = Ags1Reader(source, trusted(stored), threads=2)
    next(reader.windows())
    assert begun.wait(60)
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
            signal.alarm(120)
            act()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_forked_child_reads_with_threads_and_the_parent_goes_on(tmp_path: Path) -> None:
    stored = sealed(MANY)
    (tmp_path / "f").write_bytes(stored)
    with Ags1Reader(tmp_path / "f", trusted(stored), threads=2) as reader:
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
    reader = Ags1Reader(source, trusted(stored), threads=2)
    windows = reader.windows()
    first = bytes(next(windows))
    assert held.wait(60)

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
            Ags1Reader(tmp_path / "f", key)
        kept.append(caught.value)
    with pytest.raises(ConfigError) as bad:
        Ags1Reader(tmp_path / "f", trusted(46), threads=0)
    kept.append(bad.value)

    def explode(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sealberg.files.ags1_reader.BlockCipher", explode)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        Ags1Reader(tmp_path / "f", trusted(46))
    kept.append(interrupted.value)
    assert open_files() == before


def test_refused_readers_and_writers_die_silently() -> None:
    """Development mode shows what finalizers raise; the usual mode swallows it."""
    code = """
import io
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.format.key_metadata import KeyMetadata
for make in (lambda: Ags1Reader("/nowhere/at/all", KeyMetadata(bytes(16), None, 36)),
             lambda: Ags1Reader(object(), KeyMetadata(bytes(16), None, 36)),
             lambda: Ags1Reader(b"", KeyMetadata(bytes(16), None, 36)),
             lambda: Ags1Reader(b"", KeyMetadata(bytes(16), None, 36), threads=0),
             lambda: Ags1Writer(io.BytesIO(), KeyMetadata(bytes(16)), threads=0)):
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
    with Ags1Reader(stored, trusted(stored), threads=4) as reader, ThreadPoolExecutor(8) as crowd:
        for done in [crowd.submit(reader.read_at, 0, length) for _ in range(8)]:
            assert done.result() == plain(length)
        assert sum(map(len, reader._buffers._held)) <= 24 * STORED


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the peak of one process")
def test_streaming_256_mib_takes_little_memory(tmp_path: Path) -> None:
    # Not ru_maxrss: it starts at the size of the process that forked this one, and would hide everything.
    code = """
import sys
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.format.key_metadata import KeyMetadata

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

chunk = bytes(range(256)) * 1000
before = peak()
with Ags1Writer(open(sys.argv[1], "wb"), KeyMetadata(bytes(16)), threads=2) as writer:
    while writer.tell() < 256 << 20:
        writer.write(chunk)
written = peak()
for chunked in (True, False):
    total = 0
    with Ags1Reader(sys.argv[1], writer.key_metadata, threads=2) as reader:
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
