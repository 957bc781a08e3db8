"""Buffers to use again: page faults of new buffers take a good part of the time of decryption.

buffer = pool.take(1 << 20)
...
pool.give(buffer)          for the next `take` of about the same length

own_buffers()              the pool of this thread, for work that opens one file after another
"""

from __future__ import annotations

import threading
from typing import Final

THREAD_BUDGET: Final = 16 << 20


class BufferPool:
    """Keeps buffers that are not in use.

    Args:
        most: the most bytes that are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: list[bytearray] = []
        self._lock = threading.Lock()

    def take(self, length: int) -> memoryview:
        with self._lock:
            for i, held in enumerate(self._held):
                if length <= len(held) <= 2 * length:  # larger buffers are kept for larger requests
                    return memoryview(self._held.pop(i))[:length]
        return memoryview(bytearray(length))

    def give(self, buffer: memoryview) -> None:
        if not isinstance(buffer.obj, bytearray):
            return
        with self._lock:
            self._held.append(buffer.obj)
            while sum(map(len, self._held)) > self._most:
                self._held.pop(0)


class _OfThread(threading.local):
    """Ends with its thread. A thread forks only itself, so no lock of another thread is inherited."""

    def __init__(self) -> None:
        self.pool = BufferPool(THREAD_BUDGET)


_of_thread: Final = _OfThread()


def own_buffers() -> BufferPool:
    """The pool of this thread."""
    return _of_thread.pool
