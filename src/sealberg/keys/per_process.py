"""A value that each process makes for itself.

    lock = PerProcess(threading.Lock)
    with lock.here(): ...

A forked child inherits locks that threads of its parent hold, and none of these threads: it would
wait for ever. So a lock, and whatever is guarded by it, is found by the id of the process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Calls `make` once in each process that asks. A pickle carries `make` and no value.

    Args:
        make: makes the value; a class or a function of a module, so that it pickles.
        keep_inherited: what a forked child does with its parent's values. True: it holds them untouched,
            because letting go of a connection could close it for the parent. False: it lets go of them.
    """

    def __init__(self, make: Callable[[], T], *, keep_inherited: bool = True) -> None:
        self._make = make
        self._keep_inherited = keep_inherited
        self._values: dict[int, T] = {}

    def here(self) -> T:
        """The value of this process."""
        pid = os.getpid()
        if pid in self._values:
            return self._values[pid]
        if not self._keep_inherited:
            for other in list(self._values):
                if other != pid:
                    self._values.pop(other, None)
        # `setdefault` is atomic, so threads that come first together agree on one value.
        return self._values.setdefault(pid, self._make())

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._make, self._keep_inherited)


def _rebuild(make: Callable[[], T], keep_inherited: bool) -> PerProcess[T]:
    return PerProcess(make, keep_inherited=keep_inherited)
