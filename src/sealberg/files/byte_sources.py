"""Where sealed bytes come from: anything that can give `length` bytes at `offset`.

    as_source(path | buffer | file of PyArrow | seekable binary file | RangedSource) -> RangedSource

A source says how long it is when it knows that without asking anybody (`size`, else None).
It may be read by several threads at once.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from sealberg.errors import ConfigError, FormatError

if TYPE_CHECKING:
    from sealberg.format.aes_gcm import Bytes


@runtime_checkable
class RangedSource(Protocol):
    """Random access to stored bytes."""

    @property
    def size(self) -> int | None:
        """The length, where it is known without a request."""

    def read_at(self, offset: int, length: int, scratch: memoryview) -> Bytes:
        """Up to `length` bytes from `offset`, fewer only at the end.

        `scratch` has room for them; a source may fill and return it instead of new memory.
        """

    def close(self) -> None:
        """Let go of what this source opened itself."""


Source: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | RangedSource | io.IOBase | Any"


def as_source(place: Source) -> RangedSource:
    """Make a source of whatever holds the bytes."""
    if isinstance(place, bytes | bytearray | memoryview):
        return BufferSource(place)
    if isinstance(place, str | os.PathLike):
        return FileSource(Path(place))
    if is_arrow_file(place):
        return ArrowSource(place)
    if isinstance(place, RangedSource) and not isinstance(place, io.IOBase):
        return place
    if hasattr(place, "seek") and hasattr(place, "read") and not isinstance(place, io.TextIOBase):
        return StreamSource(place)
    raise ConfigError(f"cannot read ranges from a {type(place).__name__}")


class BufferSource:
    """Bytes in memory; hands out views, never copies."""

    def __init__(self, buffer: Bytes) -> None:
        self._view = memoryview(buffer).cast("B").toreadonly()

    @property
    def size(self) -> int:
        return len(self._view)

    def read_at(self, offset: int, length: int, scratch: memoryview) -> memoryview:  # noqa: ARG002
        return self._view[offset : offset + length]

    def close(self) -> None:
        self._view = memoryview(b"")


class FileSource:
    """A local file, read at offsets without a shared position."""

    _fd = -1  # for the finalizer of one that could not be opened

    def __init__(self, path: Path) -> None:
        # Non-blocking: opening a named pipe would wait for ever.
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self.close()
            raise FormatError(f"{path} is not a file, expected a regular file")

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, offset: int, length: int, scratch: memoryview) -> memoryview:
        done = 0
        while done < length:  # a single call gives at most 2 GiB, and may give less at any time
            count = os.preadv(self._fd, [scratch[done:length]], offset + done)
            if count == 0:
                break
            done += count
        return scratch[:done]

    def close(self) -> None:
        fd, self._fd = self._fd, -1  # at once: closed twice, it would close somebody else's file
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def is_arrow_file(place: object) -> bool:
    """Is this a file of PyArrow? Without importing PyArrow, which takes its time."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(place, pyarrow.NativeFile)


class ArrowSource:
    """An open file of PyArrow, read at offsets without a shared position.

    A seek is avoided: in Google Cloud Storage it is a request, and one to the end of an object fails.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._size = int(file.size())

    @property
    def size(self) -> int:
        return self._size

    def read_at(self, offset: int, length: int, scratch: memoryview) -> Bytes:
        wanted = min(length, self._size - offset)
        if wanted <= 0:
            return scratch[:0]
        piece: bytes = self._file.read_at(wanted, offset)
        return piece

    def close(self) -> None:
        self._file.close()


class OneThreadSource(ArrowSource):
    """The same for one thread: it seeks, and reads into the caller's memory instead of new memory.

    Only for local files: in object stores a seek may be a request.
    """

    def read_at(self, offset: int, length: int, scratch: memoryview) -> memoryview:
        self._file.seek(offset)
        done = 0
        while done < length and (count := self._file.readinto(scratch[done:length])):
            done += int(count)
        return scratch[:done]


class StreamSource:
    """An open seekable file or PyIceberg InputStream; one position, so one thread (and process) at a time."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._size = self._find_size()

    def _find_size(self) -> int:
        with self._lock:
            self._stream.seek(0, os.SEEK_END)
            return int(self._stream.tell())

    @property
    def size(self) -> int:
        return self._size

    def read_at(self, offset: int, length: int, scratch: memoryview) -> memoryview:
        done = 0
        with self._lock:
            self._stream.seek(offset)
            while done < length:
                piece = self._stream.read(length - done)
                if not piece:
                    break
                if done == 0 and len(piece) == length:
                    return memoryview(piece)
                scratch[done : done + len(piece)] = piece
                done += len(piece)
        return scratch[:done]

    def close(self) -> None:
        self._stream.close()
