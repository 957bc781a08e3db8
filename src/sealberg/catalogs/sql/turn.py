"""Whose turn it is to commit, among the processes that share an SQLite database.

    lost once ──> wait for the turn ──> take all steps anew, commit ──> give the turn back
                         └── not ours in time, or no such file: go on without it

The pointer alone decides which commit lands. The turn only keeps writers that have lost from building, all at once,
what only one of them can commit. The operating system frees the turn of a process that dies.
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
    """A lock on a file beside the database, which holds nothing and stays."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def is_ours(self) -> bool:
        return self._descriptor is not None

    def take(self, timeout_s: float) -> bool | None:
        """Wait for the turn; False if others had it all the time, None where it cannot be had at all."""
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
        """Give the turn back, if it is ours."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
