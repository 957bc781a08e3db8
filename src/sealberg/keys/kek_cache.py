"""Unwrapped KEKs, for a while: one KMS call per KEK, process and hour.

    get(entry, unwrap) ── fresh ──> the key
                       ├─ under way in another thread ──> wait for that one call
                       └─ else ──> unwrap, remember until it expires

The time to live is the longest that a reader whose access was revoked can go on, so it is an upper
bound: jitter only shortens it, so that a fleet that started together does not return to the KMS
together. Failures are never remembered. Nothing of it is pickled.
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
class _Held:
    key: bytearray = field(repr=False)
    expires: float


class _State:
    """What one process keeps."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held: OrderedDict[bytes, _Held] = OrderedDict()
        self.under_way: dict[bytes, Future[bytes]] = {}


class KekCache:
    """Safe to share among threads and tables: an entry is found by what it unwraps, not by its name alone."""

    def __init__(
        self,
        ttl_s: float = DEFAULT_TTL_S,
        *,
        most: int = 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 <= ttl_s < float("inf"):
            raise ConfigError(f"a cache keeps keys for 0 or more seconds, not {ttl_s}")
        if most < 1:
            raise ConfigError(f"a cache holds at least one key, not {most}")
        self.ttl_s = ttl_s
        self.most = most
        self._clock = clock
        # After a fork the lock may be held, and the calls under way are made by threads that the child does not have.
        self._state = PerProcess(_State, keep_inherited=False)

    def get(self, kek: EncryptedKey, unwrap: Callable[[], bytes]) -> bytes:
        """The key of this entry, unwrapped now or not long ago."""
        if self.ttl_s == 0:
            return unwrap()
        name, state = _name(kek), self._state.here()
        while True:
            with state.lock:
                if (known := self._fresh(state, name)) is not None:
                    return known
                flight = state.under_way.get(name)
                if mine := flight is None:
                    flight = state.under_way[name] = Future()
            if mine:
                return self._fly(state, name, flight, unwrap)
            with contextlib.suppress(CancelledError):
                return _join(flight)

    def put(self, kek: EncryptedKey, key: bytes) -> None:
        """Remember a KEK that was just made."""
        if self.ttl_s:
            state = self._state.here()
            with state.lock:
                self._keep(state, _name(kek), key)

    def close(self) -> None:
        """Forget everything, overwriting what can be overwritten."""
        state = self._state.here()
        with state.lock:
            while state.held:
                _wipe(state.held.popitem()[1])

    def __len__(self) -> int:
        return len(self._state.here().held)

    def __repr__(self) -> str:
        return f"KekCache({len(self)} keys, {self.ttl_s:g} s)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (self.ttl_s, self.most)

    def _fly(self, state: _State, name: bytes, flight: Future[bytes], unwrap: Callable[[], bytes]) -> bytes:
        try:
            key = unwrap()
        except BaseException as error:
            with state.lock:
                state.under_way.pop(name, None)
            if isinstance(error, Exception):
                flight.set_exception(error)
            else:
                flight.cancel()  # an interrupt is for this thread alone; the others ask again
            raise
        with state.lock:
            self._keep(state, name, key)
            state.under_way.pop(name, None)
        flight.set_result(key)
        return key

    def _fresh(self, state: _State, name: bytes) -> bytes | None:
        held = state.held.get(name)
        if held is None:
            return None
        if self._clock() >= held.expires:
            _wipe(state.held.pop(name))
            return None
        state.held.move_to_end(name)
        # A copy: the original is overwritten when it leaves, perhaps while this one is in use.
        return bytes(held.key)

    def _keep(self, state: _State, name: bytes, key: bytes) -> None:
        lifetime = self.ttl_s * (1 - random.uniform(0, JITTER))  # noqa: S311 (spreads load, hides nothing)
        state.held[name] = _Held(bytearray(key), self._clock() + lifetime)
        state.held.move_to_end(name)
        while len(state.held) > self.most:
            _wipe(state.held.popitem(last=False)[1])


def _empty(ttl_s: float, most: int) -> KekCache:
    return KekCache(ttl_s, most=most)


def _name(kek: EncryptedKey) -> bytes:
    # Not the id alone: a re-wrapped or forged entry of the same id must be asked for anew.
    parts = (kek.key_id.encode(), (kek.encrypted_by_id or "").encode(), kek.encrypted_key_metadata)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _join(flight: Future[bytes]) -> bytes:
    try:
        return flight.result()
    except KeyAccessError as error:
        raise error.about() from error  # its own copy: threads must not share one traceback


def _wipe(held: _Held) -> None:
    held.key[:] = bytes(len(held.key))
