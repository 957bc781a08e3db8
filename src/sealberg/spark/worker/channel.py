"""The pipe between a task of Spark and the Python process beside it, and storage as seen through it.

    in     how many parts, then each part after its length          a request: a verb, and what it is about
    out    a letter, a length, a payload                            R B W N D E, as the Java side has them

    Channel    both ends                           StoredFileIO    files that the task reads for us, range by range

Nothing here opens a file or a connection: the JVM has the credentials of the storage, and this process has none.
"""

from __future__ import annotations

import io
import struct
import threading
from typing import Any, BinaryIO, Final

from pyiceberg.io import FileIO, InputFile, OutputFile

from sealberg.errors import UnsupportedError

_WHOLE: Final = 1 << 20  # a buffer of this size between whoever reads little by little and the pipe


class Channel:
    """Requests come in, answers go out; several threads may ask for ranges of files at a time."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()

    def request(self) -> list[bytes] | None:
        """The parts of the next request; None when the other side is gone."""
        head = self._source.read(4)
        if len(head) < 4:
            return None
        return [self.take() for _ in range(*struct.unpack(">i", head))]

    def take(self) -> bytes:
        """A part that the other side gives."""
        (length,) = struct.unpack(">i", self._exactly(4))
        if length < 0:
            raise OSError(self.take().decode())
        return self._exactly(length)

    def send(self, letter: bytes, payload: Any = b"") -> None:
        with self._lock:
            self._send(letter, payload)

    def read(self, location: str, offset: int, length: int) -> bytes:
        """Up to `length` stored bytes; with a negative length, how long the file is."""
        with self._lock:
            self._send(b"R", struct.pack(">qi", offset, length) + location.encode())
            return self.take()

    def _send(self, letter: bytes, payload: Any) -> None:
        self._sink.write(letter + struct.pack(">i", memoryview(payload).nbytes))
        self._sink.write(payload)
        self._sink.flush()

    def _exactly(self, length: int) -> bytes:
        found = self._source.read(length)
        if len(found) < length:
            raise EOFError("the task is gone")
        return found


class StoredFileIO(FileIO):
    """Stored files, read by the task."""

    def __init__(self, channel: Channel) -> None:
        super().__init__({})
        self._channel = channel

    def new_input(self, location: str) -> InputFile:
        return _StoredInput(str(location), self._channel)

    def new_output(self, location: str) -> OutputFile:
        raise UnsupportedError(f"{location!s}: a reader writes nothing")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise UnsupportedError(f"{location!s}: a reader deletes nothing")


class _StoredInput(InputFile):
    def __init__(self, location: str, channel: Channel) -> None:
        super().__init__(location)
        self._channel = channel

    def __len__(self) -> int:
        return int.from_bytes(self._channel.read(self.location, 0, -1), "big")

    def exists(self) -> bool:
        try:
            return len(self) >= 0
        except OSError:
            return False

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002 (it always is)
        return io.BufferedReader(_StoredStream(self.location, len(self), self._channel), _WHOLE)


class _StoredStream(io.RawIOBase):
    def __init__(self, location: str, length: int, channel: Channel) -> None:
        self._location = location
        self._length = length
        self._channel = channel
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._length - self._at))
        found = self._channel.read(self._location, self._at, length) if length else b""
        view[: len(found)] = found
        self._at += len(found)
        return len(found)
