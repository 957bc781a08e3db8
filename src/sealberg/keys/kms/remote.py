"""What every client of a server shares: one way to retry, one way to fail.

    act() ── fails ──> translate(error) ──> Throttled, Unavailable: wait, try again
                                        └─> anything else: raise at once

SDKs retry each in their own way and on their own list of errors, so their retries are switched
off and the loop of retry_policy does it for all: at most 5 attempts in at most 30 s.
"""

from __future__ import annotations

import ipaddress
import logging
import threading
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from sealberg.errors import ConfigError, KeyAccessError, KeyNotFoundError
from sealberg.keys.kms.client import KmsClient
from sealberg.keys.kms.retry_policy import RetryPolicy
from sealberg.keys.known_keys import with_known_keys
from sealberg.keys.per_process import PerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


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

    retries_itself = True

    def __init__(self, retry_policy: RetryPolicy | None = None) -> None:
        self.retry_policy = retry_policy or RetryPolicy()
        self._held = PerProcess(_Held)

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
        return self._held.here().connection

    def reconnect(self, stale: Any) -> Any:
        """A new connection in place of `stale`, unless another thread was faster; `stale` is not closed."""
        held = self._held.here()
        with held.lock:
            if held.connection is None or held.connection is stale:
                held.connection = self.connect()
            return held.connection

    def call(self, master_key_id: str, act: Callable[[], T]) -> T:
        """Run one request with retries, its failures translated."""

        def once() -> T:
            try:
                return act()
            except (KeyAccessError, ConfigError):
                raise
            except Exception as error:
                ours = self.translate(error, master_key_id)
                if ours is None:
                    raise
                if isinstance(ours, KeyNotFoundError):
                    ours = with_known_keys(ours, self, master_key_id)
                raise ours from error

        return self.retry_policy.run(once)

    def close(self) -> None:
        held = self._held.here()
        with held.lock:
            connection, held.connection = held.connection, None
        if connection is not None:
            self.disconnect(connection)

    def disconnect(self, connection: Any) -> None:
        """Close the SDK's client, where it can be closed."""
