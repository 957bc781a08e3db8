"""Unwrapped KEKs in memory: one KMS call per KEK, process and hour.

    get(entry, unwrap) ── cached ──> the key
                       ├─ another thread is unwrapping it ──> wait for that call
                       └─ else ──> unwrap, cache until the key expires

A reader whose access was revoked can go on for at most the time to live. Jitter only shortens the
time to live, so that many processes that started together do not call the KMS together again.
Failures are not cached. Keys are never pickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import threading
import time
from collections import OrderedDict
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError, KeyAccessError
from sealberg.keys.per_process import PerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealberg.keys.keyring import EncryptedKey

DEFAULT_TTL_S: Final = 3600.0
JITTER: Final = 0.1


@dataclass(slots=True)
class _CachedKey:
    key: bytearray = field(repr=False)
    expires: float


class _State:
    """The cached keys and the pending calls of one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.cached: OrderedDict[bytes, _CachedKey] = OrderedDict()
        self.pending: dict[bytes, Future[bytes]] = {}


class KekCache:
    """Safe to share among threads and tables: the cache key covers the id and the wrapped bytes of a KEK."""

    def __init__(
        self,
        ttl_s: float = DEFAULT_TTL_S,
        *,
        most: int = 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 <= ttl_s < float("inf"):
            raise ConfigError(f"time to live of the KEK cache is {ttl_s} s, expected 0 or more")
        if most < 1:
            raise ConfigError(f"size of the KEK cache is {most} keys, expected at least 1")
        self.ttl_s = ttl_s
        self.most = most
        self._clock = clock
        # After a fork the lock may be held, and pending calls belong to threads that the child does not have.
        self._state = PerProcess(_State, keep_inherited=False)

    def get(self, kek: EncryptedKey, unwrap: Callable[[], bytes]) -> bytes:
        """The unwrapped key of this KEK, from the cache or from `unwrap`."""
        if self.ttl_s == 0:
            return unwrap()
        name, state = _cache_key(kek), self._state.here()
        while True:
            with state.lock:
                if (known := self._unexpired(state, name)) is not None:
                    return known
                call = state.pending.get(name)
                if mine := call is None:
                    call = state.pending[name] = Future()
            if mine:
                return self._unwrap(state, name, call, unwrap)
            with contextlib.suppress(CancelledError):
                return _result_of(call)

    def put(self, kek: EncryptedKey, key: bytes) -> None:
        """Cache a KEK that was just created."""
        if self.ttl_s:
            state = self._state.here()
            with state.lock:
                self._store(state, _cache_key(kek), key)

    def close(self) -> None:
        """Remove all keys and overwrite their bytes."""
        state = self._state.here()
        with state.lock:
            while state.cached:
                _wipe(state.cached.popitem()[1])

    def __len__(self) -> int:
        return len(self._state.here().cached)

    def __repr__(self) -> str:
        return f"KekCache({len(self)} keys, {self.ttl_s:g} s)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (self.ttl_s, self.most)

    def _unwrap(self, state: _State, name: bytes, call: Future[bytes], unwrap: Callable[[], bytes]) -> bytes:
        try:
            key = unwrap()
        except BaseException as error:
            with state.lock:
                state.pending.pop(name, None)
            if isinstance(error, Exception):
                call.set_exception(error)
            else:
                call.cancel()  # an interrupt concerns this thread alone; waiting threads call the KMS themselves
            raise
        with state.lock:
            self._store(state, name, key)
            state.pending.pop(name, None)
        call.set_result(key)
        return key

    def _unexpired(self, state: _State, name: bytes) -> bytes | None:
        cached = state.cached.get(name)
        if cached is None:
            return None
        if self._clock() >= cached.expires:
            _wipe(state.cached.pop(name))
            return None
        state.cached.move_to_end(name)
        # A copy: the cached bytes are overwritten on removal, perhaps while the caller still uses the key.
        return bytes(cached.key)

    def _store(self, state: _State, name: bytes, key: bytes) -> None:
        lifetime = self.ttl_s * (1 - random.uniform(0, JITTER))  # noqa: S311 (spreads load, hides nothing)
        state.cached[name] = _CachedKey(bytearray(key), self._clock() + lifetime)
        state.cached.move_to_end(name)
        while len(state.cached) > self.most:
            _wipe(state.cached.popitem(last=False)[1])


def _empty(ttl_s: float, most: int) -> KekCache:
    return KekCache(ttl_s, most=most)


def _cache_key(kek: EncryptedKey) -> bytes:
    # Not the id alone: an entry with the same id and other wrapped bytes (re-wrapped or forged) is another key.
    parts = (kek.key_id.encode(), (kek.encrypted_by_id or "").encode(), kek.encrypted_key_metadata)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _result_of(call: Future[bytes]) -> bytes:
    try:
        return call.result()
    except KeyAccessError as error:
        raise error.about() from error  # a copy: threads must not share one traceback


def _wipe(cached: _CachedKey) -> None:
    cached.key[:] = bytes(len(cached.key))
