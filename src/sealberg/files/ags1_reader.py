"""A seekable stream of the plaintext of an AGS1 file.

    source ──fetch──> sealed blocks ──open──> window of plaintext ──> read, readinto, read_at

A *window* is a run of decrypted blocks. A read inside the window is a slice; any other read fetches
just the blocks that it needs, in one request. Sequential reads make the reader read ahead: a few
windows are fetched and decrypted in the background, in order, with bounded memory. Large reads
decrypt directly into the caller's buffer.

Every returned byte has been authenticated, at its own position, in a stream of the trusted length;
the header is checked once, before the first block. A read that fails leaves the position unchanged
and fails again; reads of undamaged blocks still work.
"""

from __future__ import annotations

import io
import os
from collections import deque
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from sealberg.errors import ConfigError, IntegrityError, MissingLengthError, TrailingBytesError, TruncatedError
from sealberg.files.buffer_pool import BufferPool
from sealberg.files.byte_sources import BufferSource, as_source
from sealberg.files.file_writer import closing_on_error
from sealberg.files.thread_pool import forks, in_parallel, submit, thread_count
from sealberg.format.ags1 import BLOCK_SIZE, HEADER, STORED_BLOCK_SIZE, BlockCipher, Layout, check_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from sealberg.files.byte_sources import RangedSource, Source
    from sealberg.format.key_metadata import KeyMetadata

MAX_REQUEST_BLOCKS: Final = 16
WINDOW_BUDGET_BLOCKS: Final = 8  # the most blocks that read-ahead holds
SPARE_BUDGET: Final = (MAX_REQUEST_BLOCKS + WINDOW_BUDGET_BLOCKS) * STORED_BLOCK_SIZE
PEEK_SIZE: Final = 8192


class _Window(NamedTuple):
    """Decrypted blocks: plain offsets `start`..`stop`, and their bytes."""

    start: int
    stop: int
    plain: memoryview


_NO_WINDOW: Final = _Window(-1, -1, memoryview(b""))


class Ags1Reader(io.BufferedIOBase):
    """Reads the plaintext of an AGS1 file; also a PyIceberg InputStream.

    Args:
        source: a path, a buffer, a seekable binary file, or a `RangedSource`; closed with the reader.
        key_metadata: the key, the AAD prefix and the trusted stored length.
        threads: how many threads decrypt blocks; by default one per core, at most four.
        allow_missing_length: read a file whose key metadata have no length. The length is then
            taken from the storage, and an attacker there can remove whole blocks from the end undetected.
    """

    def __init__(
        self,
        source: Source,
        key_metadata: KeyMetadata,
        *,
        threads: int | None = None,
        allow_missing_length: bool = False,
    ) -> None:
        # The attributes that `close` needs come first: the finalizer runs even if the constructor raises.
        self._source: RangedSource = BufferSource(b"")
        self._ahead: deque[tuple[int, Future[_Window]]] = deque()
        self._dropped: list[Future[_Window]] = []
        self._forks = forks()
        self._buffers = BufferPool(SPARE_BUDGET)
        # `_window` is used only by reads at the position, and its memory is reused. `_read_at_window` belongs to
        # `read_at`, which several threads may use at once, so its memory is not reused.
        self._window = self._read_at_window = _NO_WINDOW
        self._position = 0
        self._sequential = False  # whether the last access was a read that ended at the position
        self._header_checked = False
        self._threads = thread_count(threads)
        self._source = as_source(source)
        with closing_on_error(self):
            # The length is checked first: no key is used for a file of an impossible or wrong length.
            self._layout = Layout(_trusted_length(self._source, key_metadata, allow_missing=allow_missing_length))
            _compare_size(self._source, self._layout.stored_length)
            self._cipher = BlockCipher(key_metadata.encryption_key, key_metadata.aad_prefix)

    # -- position and length ------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def plain_length(self) -> int:
        return self._layout.plain_length

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check_open()
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.plain_length}.get(whence)
        if base is None:
            raise ConfigError(f"cannot seek: whence is {whence}, expected 0, 1 or 2")
        if base + offset < 0:
            raise ConfigError(f"cannot seek to the negative position {base + offset}")
        self._sequential = self._sequential and offset + base == self._position
        self._position = base + offset
        return self._position

    def close(self) -> None:
        if not self.closed:
            self._after_fork()
            self._drop_ahead()
            wait(self._dropped)  # no thread may read a closed source
            self._window = self._read_at_window = _NO_WINDOW
            self._buffers = BufferPool(0)
            self._source.close()
        super().close()

    # -- reading ------------------------------------------------------------------------------

    def read(self, size: int | None = -1, /) -> bytes:
        self._check_readable()
        left = max(0, self.plain_length - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        at = self._position - self._window.start
        if self._window.start <= self._position and self._position + wanted <= self._window.stop:
            self._position += wanted
            self._sequential = True
            return bytes(self._window.plain[at : at + wanted])
        out = bytearray(wanted)
        self._fill(memoryview(out))
        return bytes(out)

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(BLOCK_SIZE if size < 0 else size)

    def readinto(self, buffer: object, /) -> int:
        self._check_readable()
        out = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # anything with a writable buffer
        out = out[: max(0, min(len(out), self.plain_length - self._position))]
        self._fill(out)
        return len(out)

    def readinto1(self, buffer: object, /) -> int:
        return self.readinto(buffer)

    def peek(self, size: int = 0, /) -> bytes:
        """A few bytes at the position, without moving it."""
        self._check_readable()
        if self._position >= self.plain_length:
            return b""
        window = self._window_at(self._position)
        at = self._position - window.start
        return bytes(window.plain[at : at + max(size, PEEK_SIZE)])

    def readline(self, size: int | None = -1, /) -> bytes:
        """The next line, at most `size` bytes of it; Python's own readline may return more where `peek` ends."""
        line = bytearray()
        while size is None or size < 0 or len(line) < size:
            seen = self.peek()
            if size is not None and size >= 0:
                seen = seen[: size - len(line)]
            end = seen.find(b"\n") + 1
            line += self.read(end or len(seen))
            if end or not seen:
                break
        return bytes(line)

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes at a plain offset (fewer at the end); does not move the position; thread-safe."""
        self._check_readable()
        if offset < 0 or length < 0:
            raise ConfigError(f"cannot read {length} bytes at offset {offset}, expected 0 or more for both")
        stop = min(offset + length, self.plain_length)
        if offset >= stop:
            return b""
        window = self._read_at_window
        if not (window.start <= offset and stop <= window.stop):
            window = self._open_window(offset // BLOCK_SIZE, -(-stop // BLOCK_SIZE))
            if window.stop - window.start <= BLOCK_SIZE:
                self._read_at_window = window  # small reads are often close together; one assignment needs no lock
        return bytes(window.plain[offset - window.start : stop - window.start])

    def windows(self) -> Iterator[memoryview]:
        """All bytes from the position on, window by window; each view is valid until the next one."""
        self._check_readable()
        while self._position < self.plain_length:
            self._sequential = True
            window = self._window_at(self._position)
            view = window.plain[self._position - window.start :]
            self._position = window.stop
            yield view.toreadonly()
            self._check_readable()

    # -- windows ------------------------------------------------------------------------------

    def _fill(self, out: memoryview) -> None:
        """Fill `out` from the position, and move the position."""
        position, end = self._position, self._position + len(out)
        while position < end:
            first, last = position // BLOCK_SIZE, (end - 1) // BLOCK_SIZE
            in_window = self._window.start <= position < self._window.stop
            if in_window or first == last or self._is_next_ahead(first):
                window = self._window_at(position)
                count = min(end, window.stop) - position
                out[:count] = window.plain[position - window.start :][:count]
            else:
                count = self._open_across(position, out)
            position, out = position + count, out[count:]
        self._position = position
        self._sequential = True

    def _open_across(self, position: int, out: memoryview) -> int:
        """Decrypt the blocks for `out` in one request, whole blocks in place; returns the number of bytes."""
        self._drop_ahead()
        first = position // BLOCK_SIZE
        stop = min(-(-(position + len(out)) // BLOCK_SIZE), first + MAX_REQUEST_BLOCKS)
        end = min(position + len(out), self._layout.plain_start(stop))
        places, edges = [], []
        for index in range(first, stop):
            start, after = self._layout.plain_start(index), self._layout.plain_start(index + 1)
            if position <= start and after <= end:
                places.append(out[start - position : after - position])
            else:  # the first or the last block, of which only a part is wanted
                edges.append(_Window(start, after, self._buffers.take(after - start)))
                places.append(edges[-1].plain)
        self._open_blocks(first, places, self._threads)
        for edge in edges:
            start, after = max(position, edge.start), min(end, edge.stop)
            out[start - position : after - position] = edge.plain[start - edge.start : after - edge.start]
            self._use(edge)  # the last edge stays: the next sequential read begins in it
        return end - position

    def _use(self, window: _Window) -> None:
        old, self._window = self._window, window
        self._buffers.give(old.plain)

    def _window_at(self, position: int) -> _Window:
        """The window that holds this position, from the read-ahead if possible."""
        if self._window.start <= position < self._window.stop:
            return self._window
        first = position // BLOCK_SIZE
        window = self._next_ahead() if self._is_next_ahead(first) else None
        if window is None:
            self._drop_ahead()
            window = self._open_window(first, first + 1)
        self._use(window)
        if self._sequential and self._threads > 1:
            self._read_ahead(-(-window.stop // BLOCK_SIZE))
        return window

    # -- read-ahead ---------------------------------------------------------------------------

    def _is_next_ahead(self, first: int) -> bool:
        return bool(self._ahead) and self._ahead[0][0] == first

    def _next_ahead(self) -> _Window | None:
        try:
            return self._ahead.popleft()[1].result()
        except IntegrityError:
            return None  # another block of the window may be damaged: only a read of that block may fail

    def _read_ahead(self, first: int) -> None:
        """Keep one window per thread in progress, and one more, so that no thread waits for the caller."""
        size = max(1, WINDOW_BUDGET_BLOCKS // (2 * self._threads))
        if self._ahead:
            first = self._ahead[-1][0] + size
        while len(self._ahead) <= self._threads and first < self._layout.block_count:
            stop = min(first + size, self._layout.block_count)
            self._ahead.append((first, submit(partial(self._open_window, first, stop, threads=1))))
            first = stop

    def _drop_ahead(self) -> None:
        running = [future for _, future in self._ahead if not future.cancel()]
        self._dropped = [future for future in self._dropped + running if not future.done()]
        self._ahead.clear()

    def _after_fork(self) -> None:
        """In a forked child, the parent's futures never complete and its locks may never be released: drop them."""
        if self._forks != forks():
            self._forks = forks()
            self._ahead, self._dropped = deque(), []
            self._buffers = BufferPool(SPARE_BUDGET)

    # -- blocks -------------------------------------------------------------------------------

    def _open_window(self, first: int, stop: int, threads: int | None = None) -> _Window:
        start, end = self._layout.plain_start(first), self._layout.plain_start(stop)
        plain = self._buffers.take(end - start)
        places = [plain[i * BLOCK_SIZE : (i + 1) * BLOCK_SIZE] for i in range(stop - first)]
        for i in range(0, len(places), MAX_REQUEST_BLOCKS):
            self._open_blocks(first + i, places[i : i + MAX_REQUEST_BLOCKS], threads or self._threads)
        return _Window(start, end, plain)

    def _open_blocks(self, first: int, places: Sequence[memoryview], threads: int) -> None:
        """Fetch the blocks from `first` on in one request and decrypt each into its place."""
        stop = first + len(places)
        start = self._layout.stored_start(first)
        lead = 0
        if not self._header_checked:
            if first == 0:
                lead = len(HEADER)
            else:
                check_header(self._fetch(0, len(HEADER), memoryview(bytearray(len(HEADER)))))
                self._header_checked = True
        length = self._layout.stored_start(stop) - start + lead
        # For a source of unknown size, one more byte is requested to detect a file that is too long.
        probe = 1 if stop == self._layout.block_count and self._source.size is None else 0
        scratch = self._buffers.take(length + probe)
        sealed = self._fetch(start - lead, length, scratch, probe)
        if lead:
            check_header(sealed[:lead])
            self._header_checked = True
            sealed = sealed[lead:]

        def open_run(lo: int, hi: int) -> None:
            for i in range(lo, hi):
                block = sealed[i * STORED_BLOCK_SIZE : (i + 1) * STORED_BLOCK_SIZE]
                self._cipher.open_into(first + i, block, places[i])

        if threads == 1 or len(places) == 1:
            open_run(0, len(places))
        else:
            in_parallel(open_run, 0, len(places), threads)
        self._buffers.give(scratch)

    def _fetch(self, offset: int, length: int, scratch: memoryview, probe: int = 0) -> memoryview:
        found = memoryview(self._source.read_at(offset, length + probe, scratch))
        if len(found) < length:
            raise TruncatedError(
                f"the file is truncated: it ends at {offset + len(found)} bytes, "
                f"its trusted length is {self._layout.stored_length}"
            )
        if len(found) > length:
            raise TrailingBytesError(
                f"the file is too long: it has bytes after its trusted length of {self._layout.stored_length}"
            )
        return found

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("read of a closed stream")

    def _check_readable(self) -> None:
        self._check_open()
        self._after_fork()
        if self.plain_length == 0 and self._window is _NO_WINDOW:
            # No read would authenticate an empty stream, so its empty block is checked here.
            self._window = self._open_window(0, 1)


def _trusted_length(source: RangedSource, key_metadata: KeyMetadata, *, allow_missing: bool) -> int:
    if key_metadata.file_length is not None:
        return key_metadata.file_length
    if not allow_missing:
        raise MissingLengthError(
            "the key metadata have no file length, so blocks removed from the end could not be detected; "
            "allow_missing_length=True reads the file anyway"
        )
    if source.size is None:
        raise MissingLengthError("the length of the file is unknown: neither the key metadata nor the source have it")
    return source.size


def _compare_size(source: RangedSource, trusted: int) -> None:
    size = source.size
    if size is not None and size < trusted:
        raise TruncatedError(f"the file is truncated: it has {size} bytes, its trusted length is {trusted}")
    if size is not None and size > trusted:
        raise TrailingBytesError(f"the file is too long: it has {size} bytes, its trusted length is {trusted}")
