"""A cache of decoded files in one process, bounded by memory.

    lists       (path, key metadata)                              ->  manifests          metadata/manifest
    manifests   (path, key, length, inherited fields)             ->  entries            metadata/manifest_cache
    plans       the same                                          ->  columns            metadata/manifest_column_reader
    vectors     (path, key metadata, offset, length, count)       ->  deleted positions  scan/delete_loader

Files of a table never change, so entries never become wrong; the least recently used entry is removed first. A plan
reads all manifests of a table in order: if they do not fit, each would push out the one that the next plan needs first,
and no plan would find any. So the cache of plans removes only what has not been used for a while; what does not fit
is decoded each time, and the rest is found.

Only encrypted files are cached. Their bytes were authenticated, and the caller has the key. For a plaintext file
nothing proves that another storage has the same bytes under the same path.
Cached entries hold file keys: they stay in the memory of this process and are never pickled, printed or written.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

V = TypeVar("V")
Key = tuple[str | bytes | int | None, ...]


class _Entry(NamedTuple, Generic[V]):
    value: V
    weight: int
    used: float


class Cache(Generic[V]):
    """A map bounded by the estimated bytes of its values; safe to share among threads.

    Args:
        rest: how many seconds after its last use a value may be removed to make room.
    """

    def __init__(
        self,
        max_bytes: int,
        weigh: Callable[[V], int],
        *,
        rest: float = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._weigh = weigh
        self._rest = rest
        self._clock = clock
        self._empty()
        _ALL.add(self)

    def get(self, key: Key, make: Callable[[], V]) -> V:
        """The cached value, else the result of `make`, which is then cached. The caller must not change the value."""
        found = self.find(key)
        if found is not None:
            return found
        try:
            value = make()
        except BaseException:
            del key  # which may hold that of a file: error reporters record the variables of frames
            raise
        self.put(key, value)
        return value

    def find(self, key: Key) -> V | None:
        """The cached value; None if there is none."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries[key] = found._replace(used=self._clock())
            self._entries.move_to_end(key)
            return found.value

    def put(self, key: Key, value: V) -> None:
        """Cache a value in place of an older one, if there is room."""
        weight = self._weigh(value)
        if weight > self._max_bytes:
            return
        with self._lock:
            self._drop(key)
            while self._weight + weight > self._max_bytes:
                oldest, entry = next(iter(self._entries.items()))
                if self._clock() - entry.used < self._rest:
                    return
                self._drop(oldest)
            self._entries[key] = _Entry(value, weight, self._clock())
            self._weight += weight

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def weight(self) -> int:
        """The estimated bytes of all values."""
        return self._weight

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._entries)} values, {self._weight >> 20} MiB)"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), rest=self._rest), (self._max_bytes, self._weigh)

    def _drop(self, key: Key) -> None:
        old = self._entries.pop(key, None)
        if old is not None:
            self._weight -= old.weight

    def _empty(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, _Entry[V]] = OrderedDict()
        self._weight = 0


_ALL: Final[weakref.WeakSet[Cache[Any]]] = weakref.WeakSet()


def clear() -> None:
    """Clear all caches of this process, with the keys in them."""
    for cache in list(_ALL):
        cache.clear()


def _after_fork() -> None:
    # Another thread of the parent may have held a lock, which is never released in the child.
    for cache in list(_ALL):
        cache._empty()  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
