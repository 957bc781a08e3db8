"""Reads several streams in parallel and yields their items in the order of the streams.

    stream 0   [taken] [ready] ........        a job reads some items of one stream and ends;
    stream 1   [ready] ........                when its items are consumed, the next job of that stream starts
    stream 2   [ready] ........
    stream 3   not started

Only a window of streams is open at a time, and each stream is ahead by one job at most, so memory is bounded. A job
never waits for the consumer or for another job, so two scans that share the pool and are read in turns cannot block
each other.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Executor, Future

T = TypeVar("T")


class _Open(NamedTuple):
    stream: Generator[object]
    job: Future[tuple[list[object], bool]]


def in_order(
    executor: Executor,
    streams: Iterable[Generator[T]],
    *,
    window: int,
    budget: float,
    weigh: Callable[[T], int],
) -> Iterator[T]:
    """The items of all streams, one stream after another.

    Args:
        window: how many streams are read at a time.
        budget: a job ends when the items that it read weigh as much.
        weigh: the weight of an item.
    """
    waiting = iter(streams)
    running: deque[_Open] = deque()

    def take(stream: Generator[T]) -> tuple[list[object], bool]:
        taken: list[object] = []
        weight = 0.0
        for item in stream:
            taken.append(item)
            weight += weigh(item)
            if weight >= budget:
                return taken, True
        return taken, False

    try:
        while True:
            while len(running) < window and (stream := next(waiting, None)) is not None:
                running.append(_Open(stream, executor.submit(take, stream)))
            if not running:
                return
            items, more = running[0].job.result()
            first = running.popleft()
            if more:
                running.appendleft(_Open(first.stream, executor.submit(take, first.stream)))  # type: ignore[arg-type]
            yield from items  # type: ignore[misc]
            del items
    finally:
        for left in running:
            left.job.cancel()
        for left in running:
            if not left.job.cancelled():
                left.job.exception()
            left.stream.close()
