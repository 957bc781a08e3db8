"""Writes a stream of rows to files of the target size, with bounded memory.

    rows of a partition ──held──> a row group ──thread of the pool──> the partition's open file ──target size──> next

`StreamWriter` holds rows by key (a partition, or a lane of an unpartitioned stream) until the rows fill a row group,
or until all held rows exceed BUDGET; then the keys that hold most rows are written as smaller row groups. At most
`most_open` files are open: a file in an upload costs buffers, whatever it holds, and a local file costs a descriptor.
So memory depends neither on the length of the stream nor on the number of partitions.

The rows that arrive are slices: one slice that is held keeps the rows of all keys that came with it. So written rows
count until there is room again; then the rows that are still held are copied into memory of their own.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from concurrent.futures import Executor, Future, wait
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import urlparse

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sealberg.metadata.manifest import DataFileV3

    Opener = Callable[[], "OpenFile"]

BUDGET: Final = 208 << 20  # bytes of rows that are held
KEPT: Final = 8  # the part of the budget that is still held, and copied, after the budget is reached
MAX_OPEN: Final = 100  # files in an object store: each upload keeps parts of several megabytes
MAX_OPEN_LOCAL: Final = 512  # each takes some hundred kilobytes
SMALL: Final = 4 << 20  # bytes of a row group that may be copied once more, and of a job of several row groups
OVERHEAD: Final = 256 << 10  # a file costs about as much as so many bytes of rows
UNDER_WAY: Final = min(4, os.cpu_count() or 1)  # row groups that are written at a time


def most_open(location: str) -> int:
    """How many files below this location may be open at a time; the process keeps half of its descriptors."""
    if urlparse(location).scheme not in ("", "file"):
        return MAX_OPEN
    try:
        import resource
    except ImportError:  # Windows
        return MAX_OPEN
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_OPEN_LOCAL if soft == resource.RLIM_INFINITY else max(1, min(MAX_OPEN_LOCAL, soft // 2))


class OpenFile(Protocol):
    """A data file before its last row."""

    def write(self, rows: pa.Table, *, end_group: bool) -> None: ...

    def close(self) -> DataFileV3: ...

    def abort(self) -> None: ...


class Sized(NamedTuple):
    """A batch and its size, which pyarrow computes anew each time that it is asked."""

    batch: pa.RecordBatch
    bytes: int


class RollingFile:
    """The files of one key, one after another; used by one thread at a time."""

    def __init__(self, open_file: Opener, target: int) -> None:
        self._open_file = open_file
        self._target = target
        self._file: OpenFile | None = None
        self._bytes = 0
        self.files: list[DataFileV3] = []

    def write(self, rows: list[Sized]) -> None:
        """Write one row group; a batch that would exceed the target size begins the next file."""
        group: list[Sized] = []
        for one in rows:
            if self._bytes and self._bytes + one.bytes > self._target:
                self._put(group)
                self.finish()
                group = []
            group.append(one)
            self._bytes += one.bytes
        self._put(group)

    def _put(self, group: list[Sized]) -> None:
        if group:
            self._file = self._file or self._open_file()
            rows = pa.Table.from_batches([one.batch for one in group])
            # A row group of many small batches is written faster after they are copied.
            small = sum(one.bytes for one in group) <= SMALL
            self._file.write(rows.combine_chunks() if small else rows, end_group=True)

    def finish(self) -> None:
        """Close the open file."""
        if self._file is not None:
            self.files.append(self._file.close())
        self._file, self._bytes = None, 0

    def abort(self) -> None:
        if self._file is not None:
            self._file.abort()


class _Held:
    """The rows of one key that are not written yet."""

    def __init__(self, rolling: RollingFile) -> None:
        self.rolling = rolling
        self.batches: list[Sized] = []
        self.bytes = self.rows = 0
        self.job: Future[None] | None = None

    def add(self, batches: list[pa.RecordBatch]) -> int:
        added = [Sized(batch, batch.nbytes) for batch in batches]
        self.batches += added
        size = sum(one.bytes for one in added)
        self.bytes += size
        self.rows += sum(batch.num_rows for batch in batches)
        return size

    def take(self) -> list[Sized]:
        taken, self.batches, self.bytes, self.rows = self.batches, [], 0, 0
        return taken

    def copy(self, target: int) -> None:
        """Put the rows into memory of their own, in batches of at most the target size of a file."""
        if not self.batches:
            return
        rows = pa.Table.from_batches([one.batch for one in self.batches])
        # One batch is copied by `take`: to concatenate it alone copies nothing.
        copied = rows.take(pa.arange(0, rows.num_rows)) if len(self.batches) == 1 else rows.combine_chunks()
        most = max(1, target * self.rows // max(1, self.bytes))
        self.batches = [Sized(batch, batch.nbytes) for batch in copied.to_batches(max_chunksize=most)]


_RowGroup = tuple[_Held, list[Sized], bool]  # whose rows, which rows, and whether the file ends with them


class StreamWriter:
    """Writes the rows of many keys; `finish` returns the files in the order in which the keys came."""

    def __init__(
        self, pool: Executor, target: int, group_rows: int, group_bytes: int, budget: int = BUDGET, most: int = MAX_OPEN
    ) -> None:
        self._pool, self._target = pool, target
        self._group_rows, self._group_bytes = group_rows, group_bytes
        self._budget, self._ahead, self._most = budget, budget // 8 * 5, most
        self._keys: dict[Hashable, _Held] = {}
        self._open: OrderedDict[Hashable, _Held] = OrderedDict()
        self._jobs: deque[Future[None]] = deque()
        self._next_job: list[_RowGroup] = []
        self._next_bytes = 0
        self._next: list[Hashable] = []  # keys by what they held when they were sorted, most last
        self.held_bytes = 0
        self._kept_bytes = 0  # of the slices whose rows may still be in memory, written or not

    def add(self, key: Hashable, open_file: Opener, batches: list[pa.RecordBatch]) -> None:
        """Add rows of one key; they are written later. `open_file` opens a new file of the key."""
        held = self._keys.get(key)
        if held is None:
            held = self._keys[key] = _Held(RollingFile(open_file, self._target))
        added = held.add(batches)
        self.held_bytes += added
        self._kept_bytes += added
        if held.rows >= self._group_rows or held.bytes >= self._group_bytes:
            self._write(key, held)
            self._start()
        if self._kept_bytes > self._budget:
            self._make_room()
        elif self.held_bytes > self._ahead:
            self._write_ahead()

    def idle(self, key: Hashable) -> bool:
        """Whether no thread writes rows of the key."""
        held = self._keys.get(key)
        return held is None or held.job is None or held.job.done()

    def finish(self) -> list[DataFileV3]:
        """Write what is held, close all files."""
        for held in self._keys.values():
            self._prepare(held, close=True)
        self._start()
        while self._jobs:
            self._jobs.popleft().result()
        return [file for held in self._keys.values() for file in held.rolling.files]

    def abort(self) -> None:
        """Give up all open files; returns when no thread writes any more."""
        wait(self._jobs)
        for held in self._keys.values():
            held.rolling.abort()

    def _make_room(self) -> None:
        # Nearly all at once: the keys are sorted once for many row groups, and few rows are copied. Keys with few rows
        # wait for more, unless all keys have few.
        for key, held in sorted(self._keys.items(), key=lambda item: -item[1].bytes):
            if self.held_bytes <= self._budget // KEPT:
                held.copy(self._target)
            elif held.bytes:
                self._write(key, held)
        self._start()
        self._kept_bytes = self.held_bytes

    def _write_ahead(self) -> None:
        """Give an idle thread the keys that hold most rows, so that threads write while rows arrive."""
        while self._jobs and self._jobs[0].done():
            self._jobs.popleft().result()
        if len(self._jobs) >= UNDER_WAY:
            return
        if not self._next:
            self._next = sorted(self._keys, key=lambda key: self._keys[key].bytes)
        while self._next and len(self._jobs) < UNDER_WAY and self.held_bytes > self._ahead:
            key = self._next.pop()
            if self._keys[key].bytes * len(self._keys) < self.held_bytes:
                self._next.clear()  # less than others hold by now
            else:
                self._write(key, self._keys[key])
        self._start()

    def _write(self, key: Hashable, held: _Held) -> None:
        self._prepare(held, close=False)
        self._open[key] = held
        self._open.move_to_end(key)
        if len(self._open) > self._most:
            _, oldest = self._open.popitem(last=False)
            self._prepare(oldest, close=True)

    def _prepare(self, held: _Held, *, close: bool) -> None:
        """Add a row group to the next job: one job writes many small ones, so that threads need not wait for more."""
        self.held_bytes -= held.bytes
        self._next_bytes += held.bytes + OVERHEAD
        self._next_job.append((held, held.take(), close))
        if self._next_bytes >= SMALL:
            self._start()

    def _start(self) -> None:
        job, self._next_job, self._next_bytes = self._next_job, [], 0
        for held, _, _ in job:
            if held.job is not None:
                held.job.result()  # the row groups of a file are written in order
        while len(self._jobs) >= UNDER_WAY:
            self._jobs.popleft().result()
        if job:
            self._jobs.append(self._pool.submit(_run, job))
        for held, _, _ in job:
            held.job = self._jobs[-1]


def _run(job: list[_RowGroup]) -> None:
    for held, rows, close in job:
        held.rolling.write(rows)
        if close:
            held.rolling.finish()
