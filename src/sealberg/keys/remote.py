"""What every client of a server shares: one way to retry, one way to fail.

    act() ── fails ──> translate(error) ──> Throttled, Unavailable: wait, try again
                                        └─> anything else: raise at once

SDKs retry each in their own way and on their own list of errors, so their retries are switched
off and this loop does it for all: at most 5 attempts in at most 30 s, with full jitter
(a random wait between nothing and a doubling bound), so that a thousand workers that were
turned away together do not come back together.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import random
import threading
import time
from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sealberg.errors import ConfigError, KeyAccessError, KmsUnavailableError
from sealberg.keys.kms import KmsClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

PREFIX: Final = "encryption.kms."


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a server, and how often. Each field is a property: `encryption.kms.read-timeout-s`."""

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
    def from_properties(cls, properties: Mapping[str, str]) -> Patience:
        given: dict[str, Any] = {}
        for item in fields(cls):
            name = property_of(item.name)
            if name in properties:
                given[item.name] = _number(name, properties[name], whole=item.name == "max_attempts")
        return cls(**given)

    def bound(self, attempt: int) -> float:
        """The longest wait after this attempt, counted from 1: `backoff_s`, doubled each time."""
        # The exponent is capped because two to the power of a large max_attempts is no float.
        return min(self.max_backoff_s, self.backoff_s * 2.0 ** min(attempt - 1, 64))

    def run(
        self,
        act: Callable[[], T],
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> T:
        """Call `act` until it succeeds, fails for good, or patience ends."""
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
        raise ConfigError(f"{name} must be a number{' without a fraction' if whole else ''}, found {value!r}") from None


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine, where an emulator may go without TLS."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Withhold(logging.Filter):
    """Drops debug records that say `marker`: SDKs log whole requests and answers, and ours hold keys."""

    def __init__(self, marker: str = "") -> None:
        super().__init__()
        self.marker = marker

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.DEBUG or self.marker not in record.getMessage()


class _Held:
    """What one process has: its connection, and the lock under which it is made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: Any = None


class RemoteKms(KmsClient):
    """A KMS behind a network.

    Holds frozen settings; the SDK's own client is made on first use in each process, because
    sessions and channels must not cross a fork, and is left behind when this object is pickled.
    """

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()
        self._held: dict[int, _Held] = {}

    @abstractmethod
    def connect(self) -> Any:
        """Make the SDK's client, its own retries switched off."""

    @abstractmethod
    def translate(self, error: Exception, master_key_id: str) -> KeyAccessError | ConfigError | None:
        """This provider's error as one of ours; None for what is not the provider's (a bug of ours)."""

    @property
    def connection(self) -> Any:
        connection = self._connection
        return self.reconnect(None) if connection is None else connection

    @property
    def _connection(self) -> Any:
        return self._here().connection

    def reconnect(self, stale: Any) -> Any:
        """A new connection in place of `stale`, unless another thread was faster; `stale` is not closed."""
        held = self._here()
        with held.lock:
            if held.connection is None or held.connection is stale:
                held.connection = self.connect()
            return held.connection

    def _here(self) -> _Held:
        # One entry per process. A forked child finds its parent's entry and leaves it alone: the
        # lock in it may be held by a thread that the child does not have, and letting go of the
        # connection could close it for the parent. `setdefault` is atomic, so threads agree.
        return self._held.setdefault(os.getpid(), _Held())

    def call(self, master_key_id: str, act: Callable[[], T]) -> T:
        """Run one request with patience, its failures translated."""

        def once() -> T:
            try:
                return act()
            except (KeyAccessError, ConfigError):
                raise
            except Exception as error:
                ours = self.translate(error, master_key_id)
                if ours is None:
                    raise
                raise ours from error

        return self.patience.run(once)

    def close(self) -> None:
        held = self._here()
        with held.lock:
            connection, held.connection = held.connection, None
        if connection is not None:
            self.disconnect(connection)

    def disconnect(self, connection: Any) -> None:
        """Close the SDK's client, where it can be closed."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": {}}
