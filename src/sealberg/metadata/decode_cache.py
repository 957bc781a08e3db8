"""A cache of decoded files in one process, bounded by memory.

    lists       (path, key metadata)                              ->  manifests          metadata/manifest
    manifests   (path, key, length, inherited fields)             ->  entries            metadata/manifest_cache
    vectors     (path, key metadata, offset, length, count)       ->  deleted positions  scan/delete_loader

Files of a table never change, so entries never become stale; the least recently used entry is removed first.

Only encrypted files are cached. Their bytes were authenticated, and the caller has the key. For a plaintext file
nothing proves that another storage has the same bytes under the same path.
Cached entries hold file keys: they stay in the memory of this process and are never pickled, printed or written.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

V = TypeVar("V")
Key = tuple[str | bytes | int | None, ...]


class _Entry(NamedTuple, Generic[V]):
    value: V
    weight: int


class Cache(Generic[V]):
    """A map bounded by the estimated bytes of its values; safe to share among threads."""

    def __init__(self, max_bytes: int, weigh: Callable[[V], int]) -> None:
        self._max_bytes = max_bytes
        self._weigh = weigh
        self._empty()
        _ALL.add(self)

    def get(self, key: Key, make: Callable[[], V]) -> V:
        """The cached value, else the result of `make`, which is then cached. The caller must not change the value."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
        if found is not None:
            return found.value
        value = make()
        weight = self._weigh(value)
        if weight > self._max_bytes:
            return value
        with self._lock:
            self._drop(key)
            self._entries[key] = _Entry(value, weight)
            self._weight += weight
            while self._weight > self._max_bytes:
                self._drop(next(iter(self._entries)))
        return value

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
        return type(self), (self._max_bytes, self._weigh)

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
