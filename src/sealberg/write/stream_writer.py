"""Writes a stream of rows to files of the target size, with bounded memory.

    rows of a partition ──held──> a row group ──thread of the pool──> the partition's open file ──target size──> next

`StreamWriter` holds rows by key (a partition, or a lane of an unpartitioned stream) until the rows fill a row group,
or until all held rows exceed BUDGET; then the keys that hold most rows are written as smaller row groups. At most
MAX_OPEN files are open: a file in memory or in an upload costs buffers, whatever it holds. So memory depends neither
on the length of the stream nor on the number of partitions, and each row is copied once.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from concurrent.futures import Executor, Future, wait
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sealberg.metadata.manifest import DataFileV3

    Opener = Callable[[], "OpenFile"]

BUDGET: Final = 256 << 20  # bytes of rows that are held
MAX_OPEN: Final = 100  # pyarrow keeps a dictionary of a megabyte for each
UNDER_WAY: Final = min(4, os.cpu_count() or 1)  # row groups that are written at a time


class OpenFile(Protocol):
    """A data file before its last row."""

    def write(self, rows: pa.Table, *, end_group: bool) -> None: ...

    def close(self) -> DataFileV3: ...

    def abort(self) -> None: ...


class RollingFile:
    """The files of one key, one after another; used by one thread at a time."""

    def __init__(self, open_file: Opener, target: int) -> None:
        self._open_file = open_file
        self._target = target
        self._file: OpenFile | None = None
        self._bytes = 0
        self.files: list[DataFileV3] = []

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """Write one row group; a batch that would exceed the target size begins the next file."""
        group: list[pa.RecordBatch] = []
        for batch in batches:
            if self._bytes and self._bytes + batch.nbytes > self._target:
                self._put(group)
                self.finish()
                group = []
            group.append(batch)
            self._bytes += batch.nbytes
        self._put(group)

    def _put(self, group: list[pa.RecordBatch]) -> None:
        if group:
            self._file = self._file or self._open_file()
            self._file.write(pa.Table.from_batches(group), end_group=True)

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
        self.batches: list[pa.RecordBatch] = []
        self.bytes = self.rows = 0
        self.job: Future[None] | None = None

    def add(self, batches: list[pa.RecordBatch]) -> int:
        added: int = sum(batch.nbytes for batch in batches)
        self.batches += batches
        self.bytes += added
        self.rows += sum(batch.num_rows for batch in batches)
        return added

    def take(self) -> list[pa.RecordBatch]:
        taken, self.batches, self.bytes, self.rows = self.batches, [], 0, 0
        return taken


class StreamWriter:
    """Writes the rows of many keys; `finish` returns the files in the order in which the keys came."""

    def __init__(
        self, pool: Executor, target: int, group_rows: int, group_bytes: int, budget: int = BUDGET, most: int = MAX_OPEN
    ) -> None:
        self._pool, self._target = pool, target
        self._group_rows, self._group_bytes = group_rows, group_bytes
        self._budget, self._most = budget, most
        self._keys: dict[Hashable, _Held] = {}
        self._open: OrderedDict[Hashable, _Held] = OrderedDict()
        self._jobs: deque[Future[None]] = deque()
        self.held_bytes = 0

    def add(self, key: Hashable, open_file: Opener, batches: list[pa.RecordBatch]) -> None:
        """Add rows of one key; they are written later. `open_file` opens a new file of the key."""
        held = self._keys.get(key)
        if held is None:
            held = self._keys[key] = _Held(RollingFile(open_file, self._target))
        self.held_bytes += held.add(batches)
        if held.rows >= self._group_rows or held.bytes >= self._group_bytes:
            self._write(key, held)
        if self.held_bytes > self._budget:
            self._make_room()

    def idle(self, key: Hashable) -> bool:
        """Whether no thread writes rows of the key."""
        held = self._keys.get(key)
        return held is None or held.job is None or held.job.done()

    def finish(self) -> list[DataFileV3]:
        """Write what is held, close all files."""
        for held in self._keys.values():
            self._submit(held, held.take(), close=True)
        while self._jobs:
            self._jobs.popleft().result()
        return [file for held in self._keys.values() for file in held.rolling.files]

    def abort(self) -> None:
        """Give up all open files; returns when no thread writes any more."""
        wait(self._jobs)
        for held in self._keys.values():
            held.rolling.abort()

    def _make_room(self) -> None:
        # Half the budget at once: the keys are sorted once for many row groups.
        for key, held in sorted(self._keys.items(), key=lambda item: -item[1].bytes):
            if self.held_bytes <= self._budget // 2:
                return
            self._write(key, held)

    def _write(self, key: Hashable, held: _Held) -> None:
        self.held_bytes -= held.bytes
        self._submit(held, held.take(), close=False)
        self._open[key] = held
        self._open.move_to_end(key)
        if len(self._open) > self._most:
            _, oldest = self._open.popitem(last=False)
            self._submit(oldest, [], close=True)

    def _submit(self, held: _Held, batches: list[pa.RecordBatch], *, close: bool) -> None:
        if held.job is not None:
            held.job.result()  # the row groups of a file are written in order
        while len(self._jobs) >= UNDER_WAY:
            self._jobs.popleft().result()
        held.job = self._pool.submit(_run, held.rolling, batches, close=close)
        self._jobs.append(held.job)


def _run(rolling: RollingFile, batches: list[pa.RecordBatch], *, close: bool) -> None:
    rolling.write(batches)
    if close:
        rolling.finish()
