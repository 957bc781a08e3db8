"""Where the files of a job are worked on.

    tasks, lazily ──run──> results, in the order in which they are finished

Threads       threads of this process
SparkRunner   tasks of a Spark session (sealberg.spark.job_runner)

The same function works on a file in both. A task holds all that its file needs: location, key, and how to reach the
storage. So the key of a file is only where that file is worked on. Only as many tasks exist at a time as the runner
can work on, so a table with a million files needs no more memory than a table with a hundred.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from sealberg.errors import ConfigError
from sealberg.files.thread_pool import DEFAULT_THREADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")


class Runner(Protocol):
    """Applies a function to tasks, several at a time."""

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The result of `work` for each task, in any order. An error of `work` ends the run.

        Args:
            work: a function of a module, so that another process can import it by its name.
            tasks: values that can be pickled; taken from the iterable when a thread or process is free.
        """


class Threads:
    """Threads of this process.

    Args:
        count: how many; by default one per core, at most four.
    """

    def __init__(self, count: int | None = None) -> None:
        if count is not None and count < 1:
            raise ConfigError(f"the number of threads is {count}, expected at least 1")
        self.count = DEFAULT_THREADS if count is None else count

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        if self.count == 1:
            yield from map(work, tasks)
            return
        rest = iter(tasks)
        with ThreadPoolExecutor(self.count, thread_name_prefix="sealberg-job") as pool:
            running: set[Future[R]] = set()
            try:
                while True:
                    # One more than there are threads, so that no thread waits for the caller.
                    running |= {pool.submit(work, task) for task in islice(rest, self.count + 1 - len(running))}
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:  # an error, Ctrl-C, or a caller that has seen enough: no further task begins
                for future in running:
                    future.cancel()
