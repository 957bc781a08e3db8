"""Encrypt and decrypt a stream of 4 GiB in this process; print by how many MiB its peak memory grew."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.format.ags1 import STORED_BLOCK_SIZE, Layout
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from sealberg.format.aes_gcm import Bytes

SIZE = 4 << 30
CHUNK = os.urandom(1 << 16)


class Pipe:
    """Passes what the writer writes to the reader, and holds only a few blocks."""

    size = Layout.of_plain(SIZE).stored_length

    def __init__(self) -> None:
        self._held = bytearray()
        self._start = 0
        self._changed = threading.Condition()

    def write(self, data: Bytes) -> int:
        with self._changed:
            self._changed.wait_for(lambda: len(self._held) < 4 * STORED_BLOCK_SIZE)
            self._held += data
            self._changed.notify_all()
        return len(data)

    def read_at(self, offset: int, length: int, scratch: memoryview) -> Bytes:
        with self._changed:
            self._changed.wait_for(lambda: self._start + len(self._held) >= offset + length)
            at = offset - self._start
            scratch[:length] = self._held[at : at + length]
            del self._held[: at + length]
            self._start = offset + length
            self._changed.notify_all()
        return scratch[:length]

    def close(self) -> None: ...


def peak_mib() -> float:
    # Not getrusage: its peak is inherited from the parent across fork and exec.
    status = Path("/proc/self/status").read_text()
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def main() -> None:
    before = peak_mib()
    pipe, keys = Pipe(), new_file_key()

    def produce() -> None:
        with Ags1Writer(pipe, keys, threads=2) as writer:
            for _ in range(SIZE // len(CHUNK)):
                writer.write(CHUNK)

    thread = threading.Thread(target=produce)
    thread.start()
    count = 0
    # One thread: blocks that are opened in parallel would be read from the pipe out of order.
    with Ags1Reader(pipe, keys.with_length(pipe.size), threads=1) as reader:
        while piece := reader.read(1 << 16):
            count += len(piece)
    thread.join()
    assert count == SIZE
    print(peak_mib() - before)


if __name__ == "__main__":
    main()
