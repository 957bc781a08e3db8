"""What was read and decoded once, kept for the next time in the same process.

    lists       (path, key metadata)                              ->  manifests          table/manifests
    manifests   (path, key, length, what its line passes on)      ->  entries            table/manifest_cache
    vectors     (path, key metadata, place in the file, count)    ->  deleted positions  table/data_files

Files of a table never change, so nothing here grows old; what was used longest ago makes room.

Only what has a key is kept. Its bytes were authenticated, and whoever asks has brought the key; of a file without
one nothing proves that another storage would give the same bytes under the same name.
Entries hold file keys: they stay in the memory of this process, and are in no pickle, print or file.
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


class _Kept(NamedTuple, Generic[V]):
    value: V
    weight: int


class Cache(Generic[V]):
    """A map bounded by the bytes of what is in it; safe to share among threads."""

    def __init__(self, max_bytes: int, weigh: Callable[[V], int]) -> None:
        self._max_bytes = max_bytes
        self._weigh = weigh
        self._empty()
        _ALL.add(self)

    def get(self, key: Key, make: Callable[[], V]) -> V:
        """What is kept under the key, else what `make` gives; not to be changed."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        if found is not None:
            return found.value
        value = make()
        weight = self._weigh(value)
        if weight > self._max_bytes:
            return value
        with self._lock:
            self._drop(key)
            self._kept[key] = _Kept(value, weight)
            self._weight += weight
            while self._weight > self._max_bytes:
                self._drop(next(iter(self._kept)))
        return value

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._weight = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def weight(self) -> int:
        """About how many bytes are kept."""
        return self._weight

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._kept)} kept, {self._weight >> 20} MiB)"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._max_bytes, self._weigh)

    def _drop(self, key: Key) -> None:
        old = self._kept.pop(key, None)
        if old is not None:
            self._weight -= old.weight

    def _empty(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, _Kept[V]] = OrderedDict()
        self._weight = 0


_ALL: Final[weakref.WeakSet[Cache[Any]]] = weakref.WeakSet()


def clear() -> None:
    """Forget what this process has decoded, and the keys in it."""
    for cache in list(_ALL):
        cache.clear()


def _after_fork() -> None:
    # Another thread of the parent may have held a lock, which then never opens here.
    for cache in list(_ALL):
        cache._empty()  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
