"""A file lock that lets one writer retry at a time, among the processes that share an SQLite database.

    conflict ──> take the turn ──> rebuild the snapshot, commit ──> release the turn
                       └── not taken in time, or the file cannot be opened: retry without it

The turn does not protect the table: only the pointer decides which commit is applied. The turn keeps writers that had a
conflict from building snapshots at the same time of which only one can be committed. The operating system releases the
turn of a process that dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import time
from typing import Final

POLL_S: Final = (0.02, 0.08)


class FileTurn:
    """A lock on an empty file beside the database; the file is never deleted."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def is_ours(self) -> bool:
        return self._descriptor is not None

    def take(self, timeout_s: float) -> bool | None:
        """Wait for the turn; False if others held it all the time, None if the file cannot be locked."""
        deadline = time.monotonic() + timeout_s
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            return None
        try:
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._descriptor, descriptor = descriptor, -1
                    return True
                if time.monotonic() >= deadline:
                    return False
                time.sleep(random.uniform(*POLL_S))  # noqa: S311
        except OSError:  # a file system without such locks
            return None
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def close(self) -> None:
        """Release the turn, if it is taken."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
