"""The policy of every loop that tries again: how often, how long, and inside another."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sealberg.catalogs.sql.turn import FileTurn
from sealberg.errors import ConfigError
from sealberg.write.retry import COMMIT, RetryPolicy

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize("value", ["ten", "1.5", ""])
def test_a_number_that_cannot_be_right_is_refused_by_name(value: str) -> None:
    with pytest.raises(ConfigError, match=r"commit\.retry\.max-wait-ms"):
        RetryPolicy.from_properties({"commit.retry.max-wait-ms": value}, "commit.retry.", COMMIT)


def test_below_zero_is_zero_as_in_java() -> None:
    names = ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")
    given = {f"commit.retry.{name}": "-1" for name in names}
    assert RetryPolicy.from_properties(given, "commit.retry.", COMMIT) == RetryPolicy(0, 0, 0, 0)


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


# -- turns ------------------------------------------------------------------------------------


def test_a_turn_is_one_writers_until_it_is_given_back_or_the_writer_dies(tmp_path: Path) -> None:
    one, two = FileTurn(str(tmp_path / "turn")), FileTurn(str(tmp_path / "turn"))
    assert one.take(0) is True
    assert one.is_ours
    assert two.take(0.05) is False
    assert not two.is_ours
    one.close()
    dead = "import sys, os; from sealberg.catalogs.sql.turn import FileTurn\nFileTurn(sys.argv[1]).take(0); os._exit(7)"
    assert subprocess.run([sys.executable, "-c", dead, str(tmp_path / "turn")], check=False).returncode == 7
    assert two.take(5) is True
    two.close()


def test_where_there_can_be_no_turn_writers_wait_as_they_do_without(tmp_path: Path) -> None:
    nowhere, clock = FileTurn(str(tmp_path / "missing" / "turn")), Clock()
    assert nowhere.take(0) is None
    assert COMMIT.start(sleep=clock.sleep, clock=clock).wait(nowhere)
    assert clock.slept


def test_whose_turn_it_is_does_not_sleep_and_waits_that_a_table_sets_are_kept(tmp_path: Path) -> None:
    turn, clock = FileTurn(str(tmp_path / "turn")), Clock()
    attempts = COMMIT.start(sleep=clock.sleep, clock=clock)
    for _ in range(100):
        assert attempts.wait(turn)
        assert turn.is_ours
    assert not attempts.wait(turn)
    assert clock.slept == []
    turn.close()
    java = RetryPolicy(num_retries=4, min_wait_ms=100, max_wait_ms=60_000, total_timeout_ms=1_800_000)
    assert java.start(sleep=clock.sleep, clock=clock).wait(turn)
    assert not turn.is_ours
    assert len(clock.slept) == 1
