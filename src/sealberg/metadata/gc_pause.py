"""Pauses Python's garbage collector while many long-lived objects are created.

Decoding a manifest creates some hundred thousand small objects, none of which is garbage. The collector would traverse
them again and again meanwhile, which takes a third of the decoding time.
"""

from __future__ import annotations

import gc
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _GcPause:
    """A pause that several threads may share; the last thread enables the collector, if it was enabled before."""

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
        """Ends all pauses: the threads that began them do not exist in the child."""
        if self._asked and self._was_awake:
            gc.enable()
        self.__init__()  # type: ignore[misc]


gc_paused = _GcPause()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=gc_paused.after_fork)
