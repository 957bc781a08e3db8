"""A seekable stream of the plaintext of an AGS1 file.

    source ──fetch──> sealed blocks ──open──> window of plaintext ──> read, readinto, read_at

A *window* is a run of opened blocks. A read inside it is a slice; a read elsewhere fetches
just the blocks that it touches, in one request. Reads that follow each other make the reader
look ahead: a few windows are fetched and opened in the background, in order, with bounded
memory. Large reads open straight into the caller's buffer.

Every byte that comes out has been authenticated, at its own place, in a stream of the trusted
length; the header is checked once, whatever is read first.
"""

from __future__ import annotations

import io
import os
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from sealberg.errors import ConfigError, MissingLengthError, TrailingBytesError, TruncatedError
from sealberg.files.sources import as_source
from sealberg.files.workers import side_by_side, submit, thread_count
from sealberg.format.ags1 import BLOCK_SIZE, HEADER, STORED_BLOCK_SIZE, BlockCipher, Layout, check_header

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from sealberg.files.sources import RangedSource, Source
    from sealberg.format.key_metadata import KeyMetadata

MAX_REQUEST_BLOCKS: Final = 16
WINDOW_BUDGET_BLOCKS: Final = 8  # what looking ahead may hold, all windows together


class _Window(NamedTuple):
    """Opened blocks: plain offsets `start`..`stop`, and their bytes."""

    start: int
    stop: int
    plain: memoryview


_NOTHING: Final = _Window(0, 0, memoryview(b""))


class SealedReader(io.BufferedIOBase):
    """Reads the plaintext of an AGS1 file; also a PyIceberg InputStream.

    Args:
        source: a path, a buffer, a seekable binary file, or a `RangedSource`; closed with the reader.
        key_metadata: the key, the AAD prefix and the trusted stored length.
        threads: how many threads open blocks; by default one a core, at most four.
        allow_missing_length: read a file whose key metadata carry no length. Its length is then
            taken from the storage, and an attacker there can cut whole blocks off its end unseen.
    """

    def __init__(
        self,
        source: Source,
        key_metadata: KeyMetadata,
        *,
        threads: int | None = None,
        allow_missing_length: bool = False,
    ) -> None:
        self._threads = thread_count(threads)
        self._source = as_source(source)
        try:
            # The length comes first: nothing touches a key for a file that cannot be whole.
            self._layout = Layout(_trusted_length(self._source, key_metadata, allow_missing=allow_missing_length))
            _compare_size(self._source, self._layout.stored_length)
        except BaseException:
            self._source.close()
            raise
        self._cipher = BlockCipher(key_metadata.encryption_key, key_metadata.aad_prefix)
        self._header_checked = False
        self._position = 0
        # The window under the position belongs to whoever moves the position, and its memory is used again;
        # the one of read_at may be in the hands of several threads, so its memory is not.
        self._window = self._near = _NOTHING
        self._ahead: deque[tuple[int, Future[_Window]]] = deque()
        self._sequential = 0
        self._spares = _Spares(2 * self._threads + 2)

    # -- what it is ---------------------------------------------------------------------------

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
            raise ConfigError(f"cannot seek by whence {whence}")
        if base + offset < 0:
            raise ConfigError(f"cannot seek to {base + offset}, before the start")
        self._position = base + offset
        return self._position

    def close(self) -> None:
        if not self.closed:
            self._drop_ahead(wait=True)
            self._window = self._near = _NOTHING
            self._spares = _Spares(0)
            self._source.close()
        super().close()

    # -- reading ------------------------------------------------------------------------------

    def read(self, size: int | None = -1, /) -> bytes:
        self._check_open()
        left = max(0, self.plain_length - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        at = self._position - self._window.start
        if self._window.start <= self._position and self._position + wanted <= self._window.stop:
            self._position += wanted
            return bytes(self._window.plain[at : at + wanted])
        out = bytearray(wanted)
        self._fill(memoryview(out))
        return bytes(out)

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(BLOCK_SIZE if size < 0 else size)

    def readinto(self, buffer: object, /) -> int:
        self._check_open()
        out = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # anything with a writable buffer
        out = out[: max(0, min(len(out), self.plain_length - self._position))]
        self._fill(out)
        return len(out)

    def readinto1(self, buffer: object, /) -> int:
        return self.readinto(buffer)

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from a plain offset (fewer at the end); leaves the position alone; thread-safe."""
        self._check_open()
        if offset < 0 or length < 0:
            raise ConfigError(f"cannot read {length} bytes at {offset}")
        stop = min(offset + length, self.plain_length)
        if offset >= stop:
            return b""
        window = self._near
        if not (window.start <= offset and stop <= window.stop):
            window = self._open_window(offset // BLOCK_SIZE, -(-stop // BLOCK_SIZE))
            if window.stop - window.start <= BLOCK_SIZE:
                self._near = window  # small reads tend to stay near; one assignment, so no lock
        return bytes(window.plain[offset - window.start : stop - window.start])

    def windows(self) -> Iterator[memoryview]:
        """Everything from the position on, window by window; each view is good until the next one."""
        self._check_open()
        self._sequential = max(self._sequential, 1)
        while self._position < self.plain_length:
            window = self._window_at(self._position)
            view = window.plain[self._position - window.start :]
            self._position = window.stop
            yield view.toreadonly()

    def __iter__(self) -> Iterator[bytes]:
        return iter(io.BufferedReader(_Raw(self)))

    # -- windows ------------------------------------------------------------------------------

    def _fill(self, out: memoryview) -> None:
        """Fill `out` from the position: edges through windows, whole blocks straight into place."""
        done = 0
        while done < len(out):
            index, within = divmod(self._position, BLOCK_SIZE)
            rest = min(self._layout.plain_length, self._position + len(out) - done)
            stop = self._layout.block_count if rest == self._layout.plain_length else rest // BLOCK_SIZE
            in_window = self._window.start <= self._position < self._window.stop
            if within == 0 and stop - index >= 2 and not in_window and not self._ahead:
                stop = min(stop, index + MAX_REQUEST_BLOCKS)
                count = self._layout.plain_start(stop) - self._position
                self._open_into(index, stop, out[done : done + count], self._threads)
            else:
                window = self._window_at(self._position)
                at = self._position - window.start
                count = min(len(out) - done, window.stop - self._position)
                out[done : done + count] = window.plain[at : at + count]
            done += count
            self._position += count

    def _window_at(self, position: int) -> _Window:
        """The window that holds this position, looked for ahead first."""
        old = self._window
        if old.start <= position < old.stop:
            return old
        self._sequential = self._sequential + 1 if position == old.stop else 0
        first = position // BLOCK_SIZE
        if self._ahead and self._ahead[0][0] == first:
            window = self._ahead.popleft()[1].result()
        else:
            self._drop_ahead()
            window = self._open_window(first, first + 1)
        self._window = window
        self._spares.give(old.plain)
        if self._sequential and self._threads > 1:
            self._look_ahead(-(-window.stop // BLOCK_SIZE))
        return window

    def _look_ahead(self, first: int) -> None:
        """Keep one window a thread under way behind the one in use, and one more so that no thread waits for us."""
        size = max(1, WINDOW_BUDGET_BLOCKS // (2 * self._threads))
        if self._ahead:
            first = self._ahead[-1][0] + size
        while len(self._ahead) <= self._threads and first < self._layout.block_count:
            stop = min(first + size, self._layout.block_count)
            self._ahead.append((first, submit(partial(self._open_window, first, stop, threads=1))))
            first = stop

    def _drop_ahead(self, *, wait: bool = False) -> None:
        dropped, self._ahead = self._ahead, deque()
        for _, future in dropped:
            if not future.cancel() and wait:
                future.exception()

    def _open_window(self, first: int, stop: int, threads: int | None = None) -> _Window:
        start, end = self._layout.plain_start(first), self._layout.plain_start(stop)
        plain = self._spares.take(end - start)
        self._open_into(first, stop, plain, threads or self._threads)
        return _Window(start, end, plain)

    # -- blocks -------------------------------------------------------------------------------

    def _open_into(self, first: int, stop: int, out: memoryview, threads: int) -> None:
        """Fetch blocks `first`..`stop` in one request (cut only when huge) and open them into `out`."""
        while first < stop:
            part = min(stop, first + MAX_REQUEST_BLOCKS)
            count = self._layout.plain_start(part) - self._layout.plain_start(first)
            self._open_request(first, part, out[:count], threads)
            first, out = part, out[count:]

    def _open_request(self, first: int, stop: int, out: memoryview, threads: int) -> None:
        start = self._layout.stored_start(first)
        lead = 0
        if not self._header_checked:
            if first == 0:
                lead = len(HEADER)
            else:
                check_header(self._fetch(0, len(HEADER), memoryview(bytearray(len(HEADER)))))
                self._header_checked = True
        length = self._layout.stored_start(stop) - start + lead
        # One byte more than there may be: the cheapest way to see that a source does not end where it should.
        probe = 1 if stop == self._layout.block_count and self._source.size is None else 0
        scratch = self._spares.take(length + probe)
        sealed = self._fetch(start - lead, length, scratch, probe)
        if lead:
            check_header(sealed[:lead])
            self._header_checked = True
            sealed = sealed[lead:]

        def open_run(lo: int, hi: int) -> None:
            for index in range(lo, hi):
                at, plain_at = (index - first) * STORED_BLOCK_SIZE, (index - first) * BLOCK_SIZE
                self._cipher.open_into(
                    index, sealed[at : at + STORED_BLOCK_SIZE], out[plain_at : plain_at + BLOCK_SIZE]
                )

        if threads == 1 or stop - first == 1:
            open_run(first, stop)
        else:
            side_by_side(open_run, first, stop, threads)
        self._spares.give(scratch)

    def _fetch(self, offset: int, length: int, scratch: memoryview, probe: int = 0) -> memoryview:
        found = memoryview(self._source.read_at(offset, length + probe, scratch))
        if len(found) < length:
            raise TruncatedError(
                f"the file ends at {offset + len(found)} bytes, its trusted length is {self._layout.stored_length}"
            )
        if len(found) > length:
            raise TrailingBytesError(f"the file goes on after its trusted length of {self._layout.stored_length} bytes")
        return found

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("read of a closed stream")


class _Spares:
    """Memory to use again: fresh megabytes cost page faults, a good part of the time of opening them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: list[bytearray] = []
        self._lock = threading.Lock()

    def take(self, length: int) -> memoryview:
        with self._lock:
            for i, held in enumerate(self._held):
                if len(held) >= length:
                    return memoryview(self._held.pop(i))[:length]
        return memoryview(bytearray(length))

    def give(self, buffer: memoryview) -> None:
        with self._lock:
            if len(self._held) < self._most and isinstance(buffer.obj, bytearray):
                self._held.append(buffer.obj)


class _Raw(io.RawIOBase):
    """Lets BufferedReader do what it does well: lines."""

    def __init__(self, reader: SealedReader) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        return self._reader.readinto(buffer)


def _trusted_length(source: RangedSource, key_metadata: KeyMetadata, *, allow_missing: bool) -> int:
    if key_metadata.file_length is not None:
        return key_metadata.file_length
    if not allow_missing:
        raise MissingLengthError(
            "the key metadata carry no file length, so blocks cut off the end would go unseen; "
            "allow_missing_length=True reads the file in spite of that"
        )
    if source.size is None:
        raise MissingLengthError("neither the key metadata nor the source know the length of the file")
    return source.size


def _compare_size(source: RangedSource, trusted: int) -> None:
    size = source.size
    if size is not None and size < trusted:
        raise TruncatedError(f"the file has {size} bytes, its trusted length is {trusted}")
    if size is not None and size > trusted:
        raise TrailingBytesError(f"the file has {size} bytes, its trusted length is {trusted}")
