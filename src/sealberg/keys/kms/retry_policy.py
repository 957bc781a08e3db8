"""When a call to a KMS is retried, and how long it may take.

    run(act) ── KmsUnavailableError, KmsThrottledError ──> wait, retry
             └─ any other error ──> raise at once

The waits are exponential with full jitter (random between 0 and a doubling bound), so that many
workers that failed together do not retry together. Each field of `RetryPolicy` is a property with
the prefix `encryption.kms.`.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sealberg.errors import ConfigError, KmsUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

PREFIX: Final = "encryption.kms."


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait for a server, and how often to call it."""

    connect_timeout_s: float = 2.0
    read_timeout_s: float = 5.0
    total_timeout_s: float = 30.0
    max_attempts: int = 5
    backoff_s: float = 0.1
    max_backoff_s: float = 5.0

    def __post_init__(self) -> None:
        for item in fields(self):
            if not 0 < (value := getattr(self, item.name)) < float("inf"):
                raise ConfigError(f"{property_of(item.name)} must be positive, found {value}")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RetryPolicy:
        given: dict[str, Any] = {}
        for item in fields(cls):
            name = property_of(item.name)
            if name in properties:
                given[item.name] = _number(name, properties[name], whole=item.name == "max_attempts")
        return cls(**given)

    @classmethod
    def property_names(cls) -> tuple[str, ...]:
        return tuple(property_of(item.name) for item in fields(cls))

    def bound(self, attempt: int) -> float:
        """The longest wait after this attempt, counted from 1: `backoff_s`, doubled each time."""
        # The exponent is capped: 2.0 to the power of a large max_attempts overflows.
        return min(self.max_backoff_s, self.backoff_s * 2.0 ** min(attempt - 1, 64))

    def run(
        self,
        act: Callable[[], T],
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> T:
        """Call `act` until it succeeds, raises an error that is not retried, or the policy allows no more attempts."""
        deadline = clock() + self.total_timeout_s
        for attempt in range(1, self.max_attempts + 1):
            try:
                return act()
            except KmsUnavailableError as error:
                # Randomness only spreads the load here; nothing secret depends on it.
                wait = random.uniform(0, self.bound(attempt))  # noqa: S311
                if attempt == self.max_attempts or clock() + wait >= deadline:
                    raise error.about(attempts=str(attempt)) from error
                sleep(wait)
        raise AssertionError("unreachable: max_attempts is at least 1")


def property_of(field: str) -> str:
    """`read_timeout_s` is set by `encryption.kms.read-timeout-s`."""
    return PREFIX + field.replace("_", "-")


def _number(name: str, value: str, *, whole: bool) -> float | int:
    try:
        return int(value) if whole else float(value)
    except ValueError:
        raise ConfigError(f"{name} must be {'an integer' if whole else 'a number'}, found {value!r}") from None
