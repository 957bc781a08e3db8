"""How often and for how long to retry: one policy for conflicting commits, lost responses and unreachable databases.

    policy = RetryPolicy.from_properties(table.properties, "commit.retry.", COMMIT)
    with policy.start() as attempts:
        while True:
            try:
                return act()
            except CommitFailedException:
                if not attempts.wait():        # sleeps; False when no attempt is left
                    raise

A retry loop inside another one ends with the outer one: the total timeout of a commit covers every retry in it.
"""

from __future__ import annotations

import random
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, Self

from sealberg.properties.values import RETRIES, WAIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token

_DEADLINE: Final[ContextVar[float]] = ContextVar("sealberg_retry_deadline", default=float("inf"))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Java's four numbers: `commit.retry.num-retries`, `.min-wait-ms`, `.max-wait-ms`, `.total-timeout-ms`.

    Args:
        adaptive: waits also grow with the duration of an attempt. Off if a property sets a wait: then the waits are
            Java's.
    """

    num_retries: int
    min_wait_ms: int
    max_wait_ms: int
    total_timeout_ms: int
    adaptive: bool = False

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], prefix: str, default: RetryPolicy) -> RetryPolicy:
        """The policy of the properties with this prefix; `default` fills in what they lack."""

        def number(name: str, otherwise: int) -> int:
            value = properties.get(prefix + name)
            kind = RETRIES if name == "num-retries" else WAIT
            found: int = otherwise if value is None else kind.of(f"the property {prefix}{name}", value)
            return max(found, 0)

        return cls(
            number("num-retries", default.num_retries),
            number("min-wait-ms", default.min_wait_ms),
            number("max-wait-ms", default.max_wait_ms),
            number("total-timeout-ms", default.total_timeout_ms),
            default.adaptive and not properties.keys() & {f"{prefix}min-wait-ms", f"{prefix}max-wait-ms"},
        )

    def start(
        self, *, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
    ) -> Attempts:
        """Start the first attempt; the total timeout counts from now."""
        return Attempts(self, sleep, clock, outer=_DEADLINE.get())

    def start_apart(self) -> Attempts:
        """Start with a total timeout of its own, even inside another loop: to find out whether its commit landed."""
        return Attempts(self, time.sleep, time.monotonic, outer=float("inf"))

    def wait_s(self, retry: int, attempt_s: float) -> float:
        """A random wait before this retry (from 0), after an attempt that took `attempt_s`."""
        least, doublings = self.min_wait_ms, min(retry, 64)
        if self.adaptive:
            # With more writers each attempt takes longer, and fewer of them should try at once.
            least, doublings = max(least, 2 * round(attempt_s * 1000)), min(retry, 3)
        bound = min(least * 2.0**doublings, self.max_wait_ms)
        # Jitter: writers that conflicted must not retry at the same time. No secret depends on this randomness.
        return random.uniform(min(self.min_wait_ms, bound) / 2, bound) / 1000  # noqa: S311


# Java's defaults are 4 retries, 100 ms, 60 s and 30 minutes. Why these: docs/decisions/0022-commit-retries.md.
COMMIT: Final = RetryPolicy(
    num_retries=100, min_wait_ms=100, max_wait_ms=20_000, total_timeout_ms=600_000, adaptive=True
)
STATUS_CHECK: Final = RetryPolicy(num_retries=3, min_wait_ms=1_000, max_wait_ms=60_000, total_timeout_ms=1_800_000)
DATABASE: Final = RetryPolicy(num_retries=1_000, min_wait_ms=100, max_wait_ms=1_000, total_timeout_ms=30_000)


class Attempts:
    """One run of a policy. As a context manager, it also limits the runs that start inside the block."""

    def __init__(
        self, policy: RetryPolicy, sleep: Callable[[float], None], clock: Callable[[], float], *, outer: float
    ) -> None:
        self.policy = policy
        self.made = 1
        self._sleep = sleep
        self._clock = clock
        self._began = self._attempt_began = clock()
        self._deadline = min(self._began + policy.total_timeout_ms / 1000, outer)
        self._outer: Token[float] | None = None

    def __enter__(self) -> Self:
        self._outer = _DEADLINE.set(self._deadline)
        return self

    def __exit__(self, *_: object) -> None:
        if self._outer is not None:
            _DEADLINE.reset(self._outer)

    @property
    def seconds(self) -> float:
        """The time since the first attempt began."""
        return self._clock() - self._began

    def wait(self, turn: Turn | None = None) -> bool:
        """Sleep until the next attempt; return False at once if no retry or no time is left.

        Args:
            turn: with an adaptive policy, wait for this turn instead of sleeping; the holder of the turn does not wait.
        """
        now = self._clock()
        wait_s = self.policy.wait_s(self.made - 1, now - self._attempt_began)
        if self.made > self.policy.num_retries or now + wait_s >= self._deadline:
            return False
        if turn is None or not self.policy.adaptive or not self._queue(turn, now):
            self._sleep(wait_s)
        self.made += 1
        self._attempt_began = self._clock()
        return True

    def _queue(self, turn: Turn, now: float) -> bool:
        if turn.is_ours:
            return True
        return turn.take(min(self.policy.max_wait_ms / 1000, self._deadline - now)) is not None


class Turn(Protocol):
    """A lock that one of several writers takes, so that the others do not retry at the same time."""

    @property
    def is_ours(self) -> bool: ...

    def take(self, timeout_s: float) -> bool | None:
        """True when taken, False on timeout, None where the catalog has no turns."""

    def close(self) -> None: ...
