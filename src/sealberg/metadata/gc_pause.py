"""Python's garbage collector, at rest while very many objects are made that all stay.

A manifest becomes some hundred thousand small objects, and none of them is garbage. The collector looks at all of
them over and over as they come: a third of the time that decoding takes. So it rests until they are there.
"""

from __future__ import annotations

import gc
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Rest:
    """Several threads may ask for it at a time; the last one wakes the collector, if it was awake before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = 0
        self._was_awake = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._asked:
                self._was_awake = gc.isenabled()
                gc.disable()
            self._asked += 1
        try:
            yield
        finally:
            with self._lock:
                self._asked -= 1
                if not self._asked and self._was_awake:
                    gc.enable()

    def after_fork(self) -> None:
        """The threads that asked are not there."""
        if self._asked and self._was_awake:
            gc.enable()
        self.__init__()  # type: ignore[misc]


gc_paused = _Rest()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=gc_paused.after_fork)
