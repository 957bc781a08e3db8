"""The base class of KMS clients that call a server: connections, retries and typed errors.

    act() ── fails ──> translate(error) ──> Throttled, Unavailable: wait, retry
                                        └─> anything else: raise at once

Each SDK retries other errors in another way, so the retries of the SDKs are switched off and
`RetryPolicy` retries for all of them: by default at most 5 attempts in at most 30 s.
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
    """Drops debug records that contain `marker`: SDKs log whole requests and responses, which hold keys here."""

    def __init__(self, marker: str = "") -> None:
        super().__init__()
        self.marker = marker

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.DEBUG or self.marker not in record.getMessage()


class _Connection:
    """The connection of one process, and the lock under which the connection is made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: Any = None


class RemoteKms(KmsClient):
    """A KMS behind a network.

    Holds frozen settings. The SDK's client is created on first use in each process, because
    sessions and channels must not cross a fork; it is not pickled.
    """

    retries_itself = True

    def __init__(self, retry_policy: RetryPolicy | None = None) -> None:
        self.retry_policy = retry_policy or RetryPolicy()
        self._held = PerProcess(_Connection)

    @abstractmethod
    def connect(self) -> Any:
        """Create the SDK's client with the SDK's retries switched off."""

    @abstractmethod
    def translate(self, error: Exception, master_key_id: str) -> KeyAccessError | ConfigError | None:
        """The provider's exception as an error of sealberg; None if the exception is not the provider's (a bug)."""

    @property
    def connection(self) -> Any:
        connection = self._connection
        return self.reconnect(None) if connection is None else connection

    @property
    def _connection(self) -> Any:
        return self._held.here().connection

    def reconnect(self, stale: Any) -> Any:
        """Replace the connection `stale`, unless another thread already did; `stale` is not closed."""
        held = self._held.here()
        with held.lock:
            if held.connection is None or held.connection is stale:
                held.connection = self.connect()
            return held.connection

    def call(self, master_key_id: str, act: Callable[[], T], *, new: bool = False) -> T:
        """Run one request with retries and translate its errors; `new` is for `with_known_keys`."""

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
                    ours = with_known_keys(ours, self, master_key_id, new=new)
                raise ours from error

        return self.retry_policy.run(once)

    def close(self) -> None:
        held = self._held.here()
        with held.lock:
            connection, held.connection = held.connection, None
        if connection is not None:
            self.disconnect(connection)

    def disconnect(self, connection: Any) -> None:
        """Close the SDK's client, if it can be closed."""
