"""Several streams read in parallel, their items in order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sealberg.scan.ordered_streams import in_order

if TYPE_CHECKING:
    from collections.abc import Generator


def test_no_more_streams_are_open_than_the_window_has_and_none_runs_far_ahead() -> None:
    lock, open_now, most, taken = threading.Lock(), 0, 0, 0

    def stream(number: int) -> Generator[int]:
        nonlocal open_now, most, taken
        with lock:
            open_now += 1
            most = max(most, open_now)
        try:
            for item in range(10):
                with lock:
                    taken += 1
                yield 100 * number + item
        finally:
            with lock:
                open_now -= 1

    with ThreadPoolExecutor(4) as pool:
        items = in_order(pool, (stream(n) for n in range(6)), window=3, budget=2, weigh=lambda _: 1)
        seen = []
        for item in items:
            seen.append(item)
            assert taken <= len(seen) + 3 * 2 + 2
    assert seen == [100 * n + item for n in range(6) for item in range(10)]
    assert (most, open_now) == (3, 0)


def test_who_stops_early_leaves_no_stream_open() -> None:
    closed: list[int] = []

    def stream(number: int) -> Generator[int]:
        try:
            while True:
                yield number
        finally:
            closed.append(number)

    with ThreadPoolExecutor(2) as pool:
        items = in_order(pool, (stream(n) for n in range(5)), window=3, budget=4, weigh=lambda _: 1)
        assert next(items) == 0
        items.close()  # type: ignore[attr-defined]
    assert sorted(closed) in ([0], [0, 1], [0, 1, 2]), "those that had begun"


def test_an_error_comes_after_the_items_before_it() -> None:
    def stream(number: int) -> Generator[int]:
        yield number
        if number == 1:
            raise RuntimeError("broken")

    with ThreadPoolExecutor(2) as pool:
        items = in_order(pool, (stream(n) for n in range(4)), window=4, budget=1, weigh=lambda _: 1)
        assert [next(items), next(items)] == [0, 1]
        with pytest.raises(RuntimeError, match="broken"):
            next(items)
