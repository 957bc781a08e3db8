"""Decoded manifests, kept for the next plan of the same process.

    (path, key metadata, length)  ->  entries as they were decoded, before they inherited anything

A manifest never changes, so nothing here grows old; the least recently used one makes room. Decoding is what
costs, so entries are kept and not bytes. Everybody gets copies: entries inherit numbers from the line of the
list that led to them, and one manifest can stand in many lists.

Only manifests with a key are kept. Their bytes were authenticated, and whoever asks has brought the key; of a
manifest without one nothing proves that another storage would give the same bytes under the same name.
The entries hold file keys: they stay in the memory of this process, and are in no pickle, print or file.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyiceberg.typedef import Record

from sealberg.table.pyiceberg_0_12 import values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import ManifestEntry

MAX_BYTES: Final = 256 << 20
# What CPython needs, roughly, as measured with entries of 20 columns: an entry and its file, a member of a map.
ENTRY_BYTES: Final = 2000
MEMBER_BYTES: Final = 110

Key = tuple[str, bytes, int]


class _Kept(NamedTuple):
    entries: list[ManifestEntry]
    weight: int


class ManifestCache:
    """A bounded map of decoded manifests; safe to share among threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._weight = 0

    def get(self, key: Key, decode: Callable[[], list[ManifestEntry]]) -> list[ManifestEntry]:
        """The entries of a manifest, the caller's own to change."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        if found is not None:
            return [_copy(entry) for entry in found.entries]
        entries = decode()
        weight = sum(map(_weigh, entries))
        if weight > self._max_bytes:
            return entries
        with self._lock:
            self._drop(key)
            self._kept[key] = _Kept(entries, weight)
            self._weight += weight
            while self._weight > self._max_bytes:
                self._drop(next(iter(self._kept)))
        return [_copy(entry) for entry in entries]

    def clear(self) -> None:
        """Forget everything, keys of files included."""
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
        return f"ManifestCache({len(self._kept)} manifests, {self._weight >> 20} MiB)"

    def __reduce__(self) -> tuple[Any, ...]:
        return ManifestCache, (self._max_bytes,)

    def _drop(self, key: Key) -> None:
        old = self._kept.pop(key, None)
        if old is not None:
            self._weight -= old.weight


def _weigh(entry: ManifestEntry) -> int:
    members = sum(len(value) for value in values_of(entry.data_file) if isinstance(value, dict | list))
    return ENTRY_BYTES + MEMBER_BYTES * members


def _copy(record: Any) -> Any:
    """A record whose values, and the values of which, can be changed without harm to the first."""
    return type(record)(*[_copied(value) for value in values_of(record)])


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind is dict or kind is list:
        return value.copy()
    return _copy(value) if isinstance(value, Record) else value


SHARED: Final = ManifestCache()


def clear() -> None:
    """Forget the manifests that this process has decoded, and the keys in them."""
    SHARED.clear()


def _after_fork() -> None:
    # Another thread of the parent may have held the lock, which then never opens here.
    SHARED.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
