"""A stream that writes an AGS1 file.

    write ──> group of plaintext blocks ──seal──> sealed group ──> sink

Blocks are collected in small groups. Several threads seal a full group while the next group fills;
each sealed group goes to the sink in one write, in order. With one thread a group is one block.

A file is complete only after `close`. If a writer ends earlier (an exception in a `with` block, a
failed sink, a garbage-collected object), it appends bytes that make the stream invalid, if the sink
still accepts them. A killed process cannot do that: readers detect such a file by its trusted length.
"""

from __future__ import annotations

import contextlib
import io
from concurrent.futures import wait
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from sealberg.errors import ConfigError, PoisonedError
from sealberg.files.file_writer import FileWriter
from sealberg.files.thread_pool import forks, in_parallel, submit, thread_count
from sealberg.format.aes_gcm import OVERHEAD
from sealberg.format.ags1 import BLOCK_SIZE, HEADER, STORED_BLOCK_SIZE, BlockCipher

if TYPE_CHECKING:
    from concurrent.futures import Future

    from sealberg.format.key_metadata import KeyMetadata

MAX_GROUP_BLOCKS: Final = 4
# The first whole blocks of a stream are a valid stream themselves; these bytes after them make it invalid. The
# length is such that the bytes cannot complete a block that a failed write left incomplete: its tag would be zeros.
SPOILER: Final = bytes(OVERHEAD - 1)


class Sink(Protocol):
    """An object that accepts bytes in order: a file, a pipe, a PyIceberg OutputStream."""

    def write(self, data: Any, /) -> Any: ...

    def close(self) -> Any: ...


class _Group:
    """The plaintext and the sealed bytes of a few blocks; its memory is reused.

    The memory is not filled with zeros first: most AGS1 files are manifests of some kilobytes, and use little of it.
    """

    def __init__(self, blocks: int) -> None:
        self.plain = np.empty(blocks * BLOCK_SIZE, np.uint8).data
        self.sealed = np.empty(blocks * STORED_BLOCK_SIZE, np.uint8).data
        self.filled = 0
        self.sealing: list[Future[None]] = []


class Ags1Writer(FileWriter, io.BufferedIOBase):
    """Writes an AGS1 file; also a PyIceberg OutputStream.

    Args:
        sink: accepts the sealed bytes in order; closed with the writer unless `close_sink` is False.
        key_metadata: the key and the AAD prefix of this one file. `writer.key_metadata` also has the
            length after `close`.
        threads: how many threads seal blocks; by default one per core, at most four.
    """

    def __init__(
        self,
        sink: Sink,
        key_metadata: KeyMetadata,
        *,
        threads: int | None = None,
        close_sink: bool = True,
    ) -> None:
        self._threads = thread_count(threads)
        self._sink = sink
        self._close_sink = close_sink
        self._key_metadata = key_metadata
        self._cipher = BlockCipher(key_metadata.encryption_key, key_metadata.aad_prefix)
        self._group_blocks = 1 if self._threads == 1 else MAX_GROUP_BLOCKS
        self._group = _Group(self._group_blocks)
        self._pending: _Group | None = None
        self._next_block = 0
        self._plain_length = 0
        self._stored_length = 0
        self._poison: BaseException | None = None
        self._forks = forks()
        self._complete = False

    # -- position and length ------------------------------------------------------------------

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        """The plain position, also after close."""
        return self._plain_length

    @property
    def stored_length(self) -> int:
        """The length of the file; known after `close`."""
        if not self._complete:
            raise ConfigError("the stored length of the file is known only after a successful close")
        return self._stored_length

    @property
    def key_metadata(self) -> KeyMetadata:
        """The key metadata of the file, with its trusted length; known after `close`."""
        return self._key_metadata.with_length(self.stored_length)

    # -- writing ------------------------------------------------------------------------------

    def write(self, data: Any, /) -> int:
        self.check_usable()
        view = memoryview(data).cast("B")
        length = len(view)
        try:
            self._take(view)
        except BaseException as error:
            self._poison = error
            raise
        self._plain_length += length
        return length

    def flush(self) -> None:
        """Does nothing: a block cannot be sealed before it is full or the last block."""
        if self.closed:
            raise ValueError("flush of a closed stream")

    def close(self) -> None:
        if self.closed:
            return
        self._check_process()
        if self._poison is not None:
            poison = self._poison
            self.abort()
            raise PoisonedError(f"the file is incomplete, because an earlier write failed: {poison}") from poison
        try:
            self._finish()
        except BaseException as error:
            self._poison = error
            self.abort()
            raise
        super().close()
        if self._close_sink:
            self._sink.close()
        self._complete = True

    def abort(self) -> None:
        """Give up the file; makes the bytes that were written invalid as a stream."""
        if self.closed:
            return
        if self._forks != forks():  # the parent still writes to the sink, and its futures never complete here
            super().close()
            return
        for group in (self._pending, self._group):
            if group is not None:
                wait(group.sealing)
        if self._poison is None:
            self._poison = PoisonedError("the writer was aborted")
        with contextlib.suppress(Exception):
            if self._stored_length or self._next_block:
                self._sink.write(SPOILER)
        super().close()
        if self._close_sink:
            with contextlib.suppress(Exception):
                self._sink.close()

    def __del__(self) -> None:
        # Replaces IOBase's finalizer, which would call `close` and so complete an unfinished file.
        if not getattr(self, "closed", True) and hasattr(self, "_complete"):
            self.abort()

    # -- blocks -------------------------------------------------------------------------------

    def _take(self, view: memoryview) -> None:
        while len(view):
            group = self._group
            whole = len(view) // BLOCK_SIZE
            if group.filled == 0 and whole >= self._group_blocks:
                self._seal_directly(view[: self._group_blocks * BLOCK_SIZE])
                view = view[self._group_blocks * BLOCK_SIZE :]
                continue
            count = min(len(view), len(group.plain) - group.filled)
            group.plain[group.filled : group.filled + count] = view[:count]
            group.filled += count
            view = view[count:]
            if group.filled == len(group.plain):
                self._hand_over()

    def _seal_directly(self, plain: memoryview) -> None:
        """Seal a whole group directly from the caller's memory, before `write` returns."""
        self._drain()
        group, first = self._group, self._next_block
        self._next_block += self._group_blocks

        def seal_run(lo: int, hi: int) -> None:
            self._seal_run(plain, group.sealed, first, lo, hi)

        in_parallel(seal_run, 0, self._group_blocks, self._threads)
        self._put(group.sealed)

    def _hand_over(self) -> None:
        """Seal the full group in the background and continue with another group."""
        if self._threads == 1:
            self._seal_group(self._group, 0, self._group_blocks, self._next_block)
            self._next_block += self._group_blocks
            self._put(self._group.sealed)
            self._group.filled = 0
            return
        free = self._drain() or _Group(self._group_blocks)
        full, first = self._group, self._next_block
        self._next_block += self._group_blocks
        cuts = [self._group_blocks * i // self._threads for i in range(self._threads + 1)]
        full.sealing = [submit(partial(self._seal_group, full, lo, hi, first)) for lo, hi in pairwise(cuts) if lo < hi]
        self._pending, self._group = full, free

    def _drain(self) -> _Group | None:
        """Wait for the pending group, write it to the sink and return it for reuse."""
        group, self._pending = self._pending, None
        if group is None:
            return None
        wait(group.sealing)
        for done in group.sealing:
            done.result()
        self._put(group.sealed)
        group.filled, group.sealing = 0, []
        return group

    def _finish(self) -> None:
        self._drain()
        group = self._group
        # The last block may be short; an empty stream is one empty block, and no other stream ends in an empty block.
        blocks = -(-group.filled // BLOCK_SIZE) or (1 if self._next_block == 0 else 0)
        if blocks:
            self._seal_group(group, 0, blocks, self._next_block)
            self._next_block += blocks
            self._put(group.sealed[: group.filled + blocks * OVERHEAD])
        group.filled = 0

    def _seal_group(self, group: _Group, lo: int, hi: int, first: int) -> None:
        self._seal_run(group.plain[: group.filled], group.sealed, first, lo, hi)

    def _seal_run(self, plain: memoryview, sealed: memoryview, first: int, lo: int, hi: int) -> None:
        for i in range(lo, hi):
            block = plain[i * BLOCK_SIZE : (i + 1) * BLOCK_SIZE]
            at = i * STORED_BLOCK_SIZE
            self._cipher.seal_into(first + i, block, sealed[at : at + len(block) + OVERHEAD])

    def _put(self, sealed: memoryview) -> None:
        if self._stored_length == 0:
            self._put_all(memoryview(HEADER))
        self._put_all(sealed)

    def _put_all(self, view: memoryview) -> None:
        while len(view):
            count = self._sink.write(view)
            # A raw file may accept fewer bytes, or none (None) if it is non-blocking; for other sinks
            # None means that they accepted all bytes.
            if count is None and not isinstance(self._sink, io.RawIOBase):
                count = len(view)
            if not count or not 0 < count <= len(view):
                raise PoisonedError(f"write failed: the sink accepted {count or 0} of {len(view)} bytes")
            self._stored_length += count
            view = view[count:]

    def check_usable(self) -> None:
        if self.closed:
            raise ValueError("Writing to closed stream")
        self._check_process()
        if self._poison is not None:
            raise PoisonedError(f"an earlier write failed: {self._poison}") from self._poison

    def _check_process(self) -> None:
        if self._forks != forks() and self._poison is None:
            self._poison = PoisonedError("the writer belongs to the parent process and cannot be used after a fork")
