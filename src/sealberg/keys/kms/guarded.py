"""Retries, time limits and typed errors around a third-party KMS client.

    GuardedKms.wrap ──> RetryPolicy.run ──> a daemon thread ──> client.wrap
                             │                  └─ no answer in time ──> KmsUnavailableError
                             └─ the client's exception as a KeyAccessError

The clients of this package that call a server use the timeouts of their SDKs and retry by
themselves (remote.py), so they are not guarded. Python cannot interrupt a call into PKCS#11 or into
a third-party client, so that call runs in a daemon thread and is abandoned there when it takes too
long. While `MAX_ABANDONED` abandoned calls of one client class have not returned, further calls of
that class in the same process are refused.
"""

from __future__ import annotations

import contextvars
import ssl
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sealberg.errors import (
    AccessDeniedError,
    KeyAccessError,
    KmsThrottledError,
    KmsUnavailableError,
    SealbergError,
)
from sealberg.keys.kms.client import GeneratedKey, KmsClient
from sealberg.keys.kms.retry_policy import RetryPolicy
from sealberg.keys.per_process import PerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

MAX_ABANDONED: Final = 8

# Operating system errors for which a retry is useless.
_LASTING: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError, ssl.SSLCertVerificationError)


def guarded(client: KmsClient, retry_policy: RetryPolicy | None = None) -> KmsClient:
    """The client itself if it is from this package and limits the time of its calls, else the client guarded."""
    if isinstance(client, GuardedKms) or (client.is_built_in() and not client.can_hang):
        return client
    return GuardedKms(client, retry_policy)


class GuardedKms(KmsClient):
    """A client with the retries, time limits and errors of this package.

    A client that retries by itself (`retries_itself`) is called once for each request, within the total time.
    """

    def __init__(self, client: KmsClient, retry_policy: RetryPolicy | None = None) -> None:
        self.client = client
        self.retry_policy = retry_policy or RetryPolicy()
        self.provider = client.provider
        self.generates = client.generates
        self.retries_itself = True

    def __repr__(self) -> str:
        return f"GuardedKms({self.client!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.client, self.retry_policy)

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        return self._bytes(
            "wrap", master_key_id, self._call(master_key_id, lambda: self.client.wrap(key, master_key_id))
        )

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        key = self._call(master_key_id, lambda: self.client.unwrap(wrapped, master_key_id))
        return self._bytes("unwrap", master_key_id, key)

    def generate(self, length: int, master_key_id: str) -> GeneratedKey:
        return self._call(master_key_id, lambda: self.client.generate(length, master_key_id))

    def rewrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        rewrapped = self._call(master_key_id, lambda: self.client.rewrap(wrapped, master_key_id))
        return self._bytes("rewrap", master_key_id, rewrapped)

    def newest_version(self, master_key_id: str) -> str | None:
        return self._call(master_key_id, lambda: self.client.newest_version(master_key_id))

    def version_in(self, wrapped: bytes) -> str | None:
        return self.client.version_in(wrapped)

    def unwrap_by(self, wrapped: bytes, master_key_id: str, newest: str | None) -> tuple[bytes, bool | None]:
        key, told = self._call(master_key_id, lambda: self.client.unwrap_by(wrapped, master_key_id, newest))
        return self._bytes("unwrap", master_key_id, key), told

    def deletion_days(self, master_key_id: str) -> range:
        return self._call(master_key_id, lambda: self.client.deletion_days(master_key_id))

    def schedule_deletion(self, master_key_id: str, days: int) -> Mapping[str, str]:
        return self._call(master_key_id, lambda: self.client.schedule_deletion(master_key_id, days))

    def describe(self, master_key_id: str) -> Mapping[str, str]:
        return self._call(master_key_id, lambda: self.client.describe(master_key_id))

    def trouble_in(self, facts: Mapping[str, str]) -> str | None:
        return self.client.trouble_in(facts)

    def key_ids(self, most: int) -> tuple[str, ...] | None:
        policy = self.retry_policy
        return self._within(policy.connect_timeout_s + policy.read_timeout_s, lambda: self.client.key_ids(most))

    def command_to_make(self, master_key_id: str) -> str | None:
        return self.client.command_to_make(master_key_id)

    def close(self) -> None:
        self.client.close()

    def _call(self, master_key_id: str, act: Callable[[], T]) -> T:
        policy = self.retry_policy
        deadline = time.monotonic() + policy.total_timeout_s
        about = {"provider": self.provider, "key_id": master_key_id}

        def attempt() -> T:
            left = deadline - time.monotonic()
            if not self.client.retries_itself:
                left = min(left, policy.connect_timeout_s + policy.read_timeout_s)
            try:
                return self._within(max(left, 0.0), act)
            except KeyAccessError as error:
                raise error.about(**{**about, **error.context}) from error
            except SealbergError:
                raise
            except Exception as error:
                raise translate(error, self.client, **about) from error

        return attempt() if self.client.retries_itself else policy.run(attempt)

    def _within(self, seconds: float, act: Callable[[], T]) -> T:
        """Run `act` in a thread; KmsUnavailableError if it takes longer than `seconds`."""
        name = type(self.client).__qualname__
        abandoned = _ABANDONED.here().setdefault(type(self.client), _Abandoned())
        if abandoned.count >= MAX_ABANDONED:
            raise KmsUnavailableError(
                f"the call was not made: {abandoned.count} earlier calls to {name} have not returned, "
                f"expected fewer than {MAX_ABANDONED}"
            )
        outcome: Future[T] = Future()
        context = contextvars.copy_context()

        def run() -> None:
            try:
                outcome.set_result(context.run(act))
            except BaseException as error:  # noqa: BLE001 (raised again in the waiting thread)
                outcome.set_exception(error)

        threading.Thread(target=run, name=f"sealberg-kms-{self.provider}", daemon=True).start()
        try:
            return outcome.result(seconds)
        except TimeoutError:
            if outcome.done():  # the result came just now, or the client itself raised a TimeoutError
                return outcome.result()
        abandoned.add(outcome)
        raise KmsUnavailableError(f"{name} did not return within {seconds:.3g} s")

    def _bytes(self, verb: str, master_key_id: str, found: object) -> bytes:
        if isinstance(found, bytes):
            return found
        if isinstance(found, bytearray | memoryview):
            return bytes(found)
        reason = f"{verb} of {type(self.client).__qualname__} returned {type(found).__name__}, expected bytes"
        raise KeyAccessError(reason, provider=self.provider, key_id=master_key_id)


class _Abandoned:
    """Counts the abandoned calls of one process that have not returned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def add(self, outcome: Future[Any]) -> None:
        self._change(1)
        outcome.add_done_callback(lambda _: self._change(-1))

    def _change(self, by: int) -> None:
        with self._lock:
            self.count += by


# By class and not by client: each `open_table(kms=...)` may have a client of its own.
_ABANDONED: Final[PerProcess[dict[type[KmsClient], _Abandoned]]] = PerProcess(dict)


def translate(error: Exception, client: KmsClient, **about: str | None) -> KeyAccessError:
    """The exception of a third-party client as a KeyAccessError.

    The message holds only the type of the exception and the operating system's error text; the
    exception's own message could hold a key.
    """
    kind, description = _kind(error), type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        description += f": {error.strerror}"
    return kind(f"{type(client).__qualname__} failed with {description}", **about)


def _kind(error: Exception) -> type[KeyAccessError]:
    status = _http_status(error)
    if status in {401, 403} or isinstance(error, PermissionError):
        return AccessDeniedError
    if status == 429:
        return KmsThrottledError
    if status is not None:
        return KmsUnavailableError if status >= 500 or status == 408 else KeyAccessError
    if isinstance(error, OSError) and not isinstance(error, _LASTING):
        return KmsUnavailableError
    return KeyAccessError


def _http_status(error: Exception) -> int | None:
    """The HTTP status in an exception of requests, httpx or urllib."""
    for found in (getattr(getattr(error, "response", None), "status_code", None), getattr(error, "code", None)):
        if type(found) is int and 400 <= found < 600:
            return found
    return None
