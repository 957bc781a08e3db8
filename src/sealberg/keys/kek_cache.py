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
import os
import random
import threading
import time
from collections import OrderedDict
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError, KeyAccessError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealberg.keys.keyring import EncryptedKey

DEFAULT_TTL_S: Final = 3600.0
JITTER: Final = 0.1


@dataclass(slots=True)
class _Held:
    key: bytearray = field(repr=False)
    expires: float


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
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._held: OrderedDict[bytes, _Held] = OrderedDict()
        self._under_way: dict[bytes, Future[bytes]] = {}

    def get(self, kek: EncryptedKey, unwrap: Callable[[], bytes]) -> bytes:
        """The key of this entry, unwrapped now or not long ago."""
        if self.ttl_s == 0:
            return unwrap()
        if self._pid != os.getpid():
            # After a fork: the lock may be held, and the calls under way are made by threads that are not here.
            self._reset()
        name = _name(kek)
        while True:
            with self._lock:
                if (known := self._fresh(name)) is not None:
                    return known
                flight = self._under_way.get(name)
                if mine := flight is None:
                    flight = self._under_way[name] = Future()
            if mine:
                return self._fly(name, flight, unwrap)
            with contextlib.suppress(CancelledError):
                return _join(flight)

    def put(self, kek: EncryptedKey, key: bytes) -> None:
        """Remember a KEK that was just made."""
        if self.ttl_s:
            with self._lock:
                self._keep(_name(kek), key)

    def close(self) -> None:
        """Forget everything, overwriting what can be overwritten."""
        with self._lock:
            while self._held:
                _wipe(self._held.popitem()[1])

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        return f"KekCache({len(self._held)} keys, {self.ttl_s:g} s)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (self.ttl_s, self.most)

    def _fly(self, name: bytes, flight: Future[bytes], unwrap: Callable[[], bytes]) -> bytes:
        try:
            key = unwrap()
        except BaseException as error:
            with self._lock:
                self._under_way.pop(name, None)
            if isinstance(error, Exception):
                flight.set_exception(error)
            else:
                flight.cancel()  # an interrupt is for this thread alone; the others ask again
            raise
        with self._lock:
            self._keep(name, key)
            self._under_way.pop(name, None)
        flight.set_result(key)
        return key

    def _fresh(self, name: bytes) -> bytes | None:
        held = self._held.get(name)
        if held is None:
            return None
        if self._clock() >= held.expires:
            _wipe(self._held.pop(name))
            return None
        self._held.move_to_end(name)
        # A copy: the original is overwritten when it leaves, perhaps while this one is in use.
        return bytes(held.key)

    def _keep(self, name: bytes, key: bytes) -> None:
        lifetime = self.ttl_s * (1 - random.uniform(0, JITTER))  # noqa: S311 (spreads load, hides nothing)
        self._held[name] = _Held(bytearray(key), self._clock() + lifetime)
        self._held.move_to_end(name)
        while len(self._held) > self.most:
            _wipe(self._held.popitem(last=False)[1])


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
