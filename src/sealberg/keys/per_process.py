"""A value that each process creates for itself.

    lock = PerProcess(threading.Lock)
    with lock.here(): ...

A forked child inherits the locks that threads of its parent hold, but not these threads: waiting
for such a lock would never end. So a lock, and the state that it guards, is looked up by process id.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Calls `make` once in each process that needs the value. A pickle carries `make`, not the value.

    Args:
        make: creates the value; a class or a function of a module, so that `make` can be pickled.
        keep_inherited: what a forked child does with its parent's values. True: the child keeps them unused,
            because dropping a connection could close it for the parent. False: the child drops them.
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
        # `setdefault` is atomic, so threads that arrive together get the same value.
        return self._values.setdefault(pid, self._make())

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._make, self._keep_inherited)


def _rebuild(make: Callable[[], T], keep_inherited: bool) -> PerProcess[T]:
    return PerProcess(make, keep_inherited=keep_inherited)
