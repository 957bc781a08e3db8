"""The policy of every loop that tries again: how often, how long, and inside another."""

from __future__ import annotations

import pytest

from sealberg.errors import ConfigError
from sealberg.table.retry import COMMIT, RetryPolicy


class Clock:
    """Time that passes only when somebody sleeps or says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize("value", ["-1", "ten", "1.5", ""])
def test_a_number_that_cannot_be_right_is_refused_by_name(value: str) -> None:
    with pytest.raises(ConfigError, match=r"commit\.retry\.max-wait-ms"):
        RetryPolicy.from_properties({"commit.retry.max-wait-ms": value}, "commit.retry.", COMMIT)


def test_what_a_table_sets_wins_and_the_rest_is_the_default() -> None:
    default = RetryPolicy(1, 2, 3, 4, adaptive=True)
    given = {"commit.retry.num-retries": "7", "commit.retry.total-timeout-ms": "9"}
    assert RetryPolicy.from_properties(given, "commit.retry.", default) == RetryPolicy(7, 2, 3, 9, adaptive=True)
    java = {"num-retries": "4", "min-wait-ms": "100", "max-wait-ms": "60000", "total-timeout-ms": "1800000"}
    policy = RetryPolicy.from_properties(
        {f"commit.retry.{key}": value for key, value in java.items()}, "commit.retry.", COMMIT
    )
    assert policy == RetryPolicy(4, 100, 60_000, 1_800_000, adaptive=False)


def test_waits_double_up_to_the_longest_and_are_never_the_same() -> None:
    policy, clock = RetryPolicy(num_retries=200, min_wait_ms=100, max_wait_ms=800, total_timeout_ms=10**9), Clock()
    attempts = policy.start(sleep=clock.sleep, clock=clock)
    while attempts.wait():
        pass
    assert len(clock.slept) == 200
    assert len(set(clock.slept)) == 200
    for retry, slept in enumerate(clock.slept):
        assert 0.05 <= slept <= min(0.1 * 2**retry, 0.8)
    assert max(clock.slept) > 0.4


def test_by_default_the_waits_follow_the_time_that_an_attempt_takes() -> None:
    longest = {}
    for attempt_s in (0.01, 1.0):
        clock = Clock()
        attempts = COMMIT.start(sleep=clock.sleep, clock=clock)
        for _ in range(40):
            clock.now += attempt_s
            assert attempts.wait()
        longest[attempt_s] = max(clock.slept)
    assert longest[0.01] <= 0.8
    assert 4 < longest[1.0] <= 16
    assert COMMIT.wait_s(50, attempt_s=3600) <= 20


def test_nothing_is_tried_again_after_the_total_time() -> None:
    policy, clock = RetryPolicy(num_retries=1000, min_wait_ms=100, max_wait_ms=100, total_timeout_ms=5_000), Clock()
    attempts = policy.start(sleep=clock.sleep, clock=clock)
    while attempts.wait():
        clock.now += 0.5
    assert 4 < clock.now < 5.6  # the last attempt began in time
    assert attempts.seconds == clock.now


def test_a_loop_inside_another_ends_with_the_outer_one_unless_it_stands_apart() -> None:
    outer = RetryPolicy(num_retries=9, min_wait_ms=1, max_wait_ms=1, total_timeout_ms=0)
    inner = RetryPolicy(num_retries=9, min_wait_ms=1, max_wait_ms=1, total_timeout_ms=60_000)
    with outer.start():
        assert not inner.start().wait()
        assert inner.start_apart().wait()
        with inner.start_apart():
            assert inner.start().wait()
    assert inner.start().wait()
