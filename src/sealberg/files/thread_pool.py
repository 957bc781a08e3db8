"""The threads that encrypt and decrypt blocks in parallel.

`cryptography` releases the GIL while it works on a block, so threads use every core. One pool serves
the whole process; a task in the pool never waits for another task, so files can share the pool
without a deadlock. The caller works too: `in_parallel` with n threads uses n - 1 of the pool.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# With more than a few threads, memory bandwidth is the limit, not the cipher.
DEFAULT_THREADS = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)

_pool: ThreadPoolExecutor | None = None
_making = threading.Lock()
_forks = 0


def forks() -> int:
    """The number of forks between this process and the process that imported this module.

    A future created under another number never completes here, and a lock may never be released.
    """
    return _forks


def thread_count(asked: int | None) -> int:
    """How many threads to use for one file."""
    if asked is None:
        return DEFAULT_THREADS
    if asked < 1:
        raise ConfigError(f"the number of threads is {asked}, expected at least 1")
    return asked


def submit(act: Callable[[], T]) -> Future[T]:
    """Run `act` in the pool."""
    global _pool  # noqa: PLW0603 (one pool a process)
    if _pool is None:
        with _making:
            if _pool is None:
                _pool = ThreadPoolExecutor(max(4, 2 * DEFAULT_THREADS), thread_name_prefix="sealberg")
    return _pool.submit(act)


def in_parallel(act: Callable[[int, int], None], first: int, stop: int, threads: int) -> None:
    """Call `act` on contiguous runs that cover `first`..`stop`, one run per thread."""
    runs = _runs(first, stop, threads)
    waiting = [submit(partial(act, lo, hi)) for lo, hi in runs[1:]]
    try:
        act(*runs[0])
    finally:
        wait(waiting)  # no thread may write into a buffer after it is returned to the caller
    for done in waiting:
        done.result()


def _runs(first: int, stop: int, threads: int) -> list[tuple[int, int]]:
    count = max(1, min(threads, stop - first))
    cuts = [first + (stop - first) * i // count for i in range(count + 1)]
    return list(pairwise(cuts))


def _forget_pool() -> None:
    # Threads do not survive a fork, and one of them may have held the lock.
    global _pool, _making, _forks
    _pool, _making, _forks = None, threading.Lock(), _forks + 1


os.register_at_fork(after_in_child=_forget_pool)
