"""A stream that leaves an AGS1 file behind.

    write ──> group of plaintext blocks ──seal──> sealed group ──> sink

Blocks are gathered in small groups. A full group is sealed by several threads while the next one
fills, and goes to the sink in one write, in order. With one thread a group is one block.

A file is whole only after `close`. Whatever ends a writer earlier (an exception in a `with` block,
a failed sink, a forgotten object) leaves bytes that no reader takes for a stream, as long as the
sink takes a few more. A killed process has no such last word: that is what trusted lengths are for.
"""

from __future__ import annotations

import contextlib
import io
from concurrent.futures import wait
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from sealberg.errors import ConfigError, PoisonedError
from sealberg.files.thread_pool import forks, side_by_side, submit, thread_count
from sealberg.format.aes_gcm import OVERHEAD
from sealberg.format.ags1 import BLOCK_SIZE, HEADER, STORED_BLOCK_SIZE, BlockCipher

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType

    from sealberg.format.key_metadata import KeyMetadata

MAX_GROUP_BLOCKS: Final = 4
# Whole blocks from the start of a stream are themselves a stream; these after them make it none. So many that
# they never complete a block that a failed write left one byte short: all of its tag would have to be zeros.
SPOILER: Final = bytes(OVERHEAD - 1)


class Sink(Protocol):
    """Anything that takes bytes in order: a file, a pipe, a PyIceberg OutputStream."""

    def write(self, data: Any, /) -> Any: ...

    def close(self) -> Any: ...


class _Group:
    """A few blocks, first plain, then sealed; its memory is used again and again."""

    def __init__(self, blocks: int) -> None:
        self.plain = memoryview(bytearray(blocks * BLOCK_SIZE))
        self.sealed = memoryview(bytearray(blocks * STORED_BLOCK_SIZE))
        self.filled = 0
        self.sealing: list[Future[None]] = []


class Ags1Writer(io.BufferedIOBase):
    """Writes an AGS1 file; also a PyIceberg OutputStream.

    Args:
        sink: takes the sealed bytes in order; closed with the writer unless `close_sink` is False.
        key_metadata: the key and the AAD prefix of this one file. `writer.key_metadata` has the
            length too once the file is whole.
        threads: how many threads seal blocks; by default one a core, at most four.
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
        self._whole = False

    # -- what it is ---------------------------------------------------------------------------

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        """The plain position, also after close."""
        return self._plain_length

    @property
    def stored_length(self) -> int:
        """How long the file is; known when it is whole."""
        if not self._whole:
            raise ConfigError("the stored length is known only after a successful close")
        return self._stored_length

    @property
    def key_metadata(self) -> KeyMetadata:
        """What a reader needs to open the file, its trusted length included."""
        return self._key_metadata.with_length(self.stored_length)

    # -- writing ------------------------------------------------------------------------------

    def write(self, data: Any, /) -> int:
        self._check_usable()
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
        """Nothing: a block cannot be sealed before it is full or the last."""
        if self.closed:
            raise ValueError("flush of a closed stream")

    def close(self) -> None:
        if self.closed:
            return
        self._check_process()
        if self._poison is not None:
            poison = self._poison
            self.abort()
            raise PoisonedError(f"the file is not whole, an earlier write failed: {poison}") from poison
        try:
            self._finish()
        except BaseException as error:
            self._poison = error
            self.abort()
            raise
        super().close()
        if self._close_sink:
            self._sink.close()
        self._whole = True

    def abort(self) -> None:
        """End without a file: what is at the sink cannot be read as a stream afterwards."""
        if self.closed:
            return
        if self._forks != forks():  # the parent still writes there, and its futures never end here
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __enter__(self) -> Self:
        self._check_usable()
        return self

    def __del__(self) -> None:
        # Not IOBase's: that would close, and so make a file that nobody said was finished.
        if not getattr(self, "closed", True) and hasattr(self, "_whole"):
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
        """A whole group lies in the caller's memory: seal it from there, before `write` returns."""
        self._drain()
        group, first = self._group, self._next_block
        self._next_block += self._group_blocks

        def seal_run(lo: int, hi: int) -> None:
            self._seal_run(plain, group.sealed, first, lo, hi)

        side_by_side(seal_run, 0, self._group_blocks, self._threads)
        self._put(group.sealed)

    def _hand_over(self) -> None:
        """Seal the full group in the background and go on with another."""
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
        """Write out the group under way, and give its memory back."""
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
        # The last block may be short; an empty stream is one empty block, no other ends in one.
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
            # Raw files may take less than they are given, or nothing (None) when they do not block;
            # other sinks that return None took it all.
            if count is None and not isinstance(self._sink, io.RawIOBase):
                count = len(view)
            if not count or not 0 < count <= len(view):
                raise PoisonedError(f"the sink took {count or 0} of {len(view)} bytes")
            self._stored_length += count
            view = view[count:]

    def _check_usable(self) -> None:
        if self.closed:
            raise ValueError("Writing to closed stream")
        self._check_process()
        if self._poison is not None:
            raise PoisonedError(f"an earlier write failed: {self._poison}") from self._poison

    def _check_process(self) -> None:
        if self._forks != forks() and self._poison is None:
            self._poison = PoisonedError("the writer belongs to the process that forked this one")
