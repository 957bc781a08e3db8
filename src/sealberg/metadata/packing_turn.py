"""One thread at a time packs and filters columns.

    thread 1   fetch, decompress, decode ──────── pack, filter │ fetch, decompress, decode ──────
    thread 2   ──── fetch, decompress, decode ──────── waits   │ pack, filter

Packing and filtering are many short calls of Arrow and NumPy. They hold the lock of the interpreter, so that threads
gain nothing from doing them at the same time; but each short call lets the lock go, another thread takes it, and the
first one waits. On two cores, several threads took up to four times as long as one to filter a thousand manifests.
"""

from __future__ import annotations

import os
import threading


class _Turn:
    """A lock that a forked child finds free, since threads of the parent do not exist there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def after_fork(self) -> None:
        self._lock = threading.RLock()


packing_turn = _Turn()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=packing_turn.after_fork)
