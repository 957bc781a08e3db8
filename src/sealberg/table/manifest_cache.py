"""Decoded manifests, kept for the next plan of the same process.

    (path, key metadata, length, what its line in the list passes on)  ->  entries, which have it

A manifest never changes, so nothing here grows old; the least recently used one makes room. Decoding is what
costs, so entries are kept and not bytes. They are shared, and nobody changes them: who gives one away gives a
`copy_of` it, of what is in it too.

Only manifests with a key are kept. Their bytes were authenticated, and whoever asks has brought the key; of a
manifest without one nothing proves that another storage would give the same bytes under the same name.
The entries hold file keys: they stay in the memory of this process, and are in no pickle, print or file.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.utils.lazydict import LazyDict

from sealberg.table.pyiceberg_0_12 import dict_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import ManifestEntry

MAX_BYTES: Final = 256 << 20
# What CPython needs, roughly, as measured with entries of 20 columns: an entry and its file; a member of a map.
ENTRY_BYTES: Final = 2000
MEMBER_BYTES: Final = 90

R = TypeVar("R", bound=Record)
Key = tuple[str | bytes | int | None, ...]


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
        """The entries of a manifest; not to be changed."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        if found is not None:
            return found.entries
        entries = decode()
        for entry in entries:
            _unpack(entry)
        weight = sum(map(_weigh, entries))
        if weight > self._max_bytes:
            return entries
        with self._lock:
            self._drop(key)
            self._kept[key] = _Kept(entries, weight)
            self._weight += weight
            while self._weight > self._max_bytes:
                self._drop(next(iter(self._kept)))
        return entries

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
    members = sum(len(value) for value in values_of(entry.data_file) if type(value) in _MUTABLE)
    return ENTRY_BYTES + MEMBER_BYTES * members


def _unpack(entry: ManifestEntry) -> None:
    """Maps as dicts: a dict of numbers is nothing to the garbage collector, a lazy one is three things."""
    values = values_of(entry.data_file)
    for at, value in enumerate(values):
        if type(value) is LazyDict:
            values[at] = dict_of(value)


def copy_of(record: R) -> R:
    """A record whose values, and the values of which, can be changed without harm to the first."""
    made = type(record)(*[value if type(value) in _FROZEN else _copied(value) for value in values_of(record)])
    if _is_file(type(record)):
        made.spec_id = record.spec_id  # type: ignore[attr-defined]
    return made


def _copied(value: Any) -> Any:
    kind: type = type(value)
    if kind in _MUTABLE:
        return value.copy()
    return copy_of(value) if _is_record(kind) else value


@cache
def _is_record(kind: type) -> bool:
    # By hand, for a protocol is among its bases, which makes `isinstance` a hundred times as slow.
    return Record in kind.__mro__


@cache
def _is_file(kind: type) -> bool:
    return DataFile in kind.__mro__


_FROZEN: Final = frozenset({int, str, bytes, bool, type(None), DataFileContent, FileFormat})  # not worth a call
_MUTABLE: Final = frozenset({dict, list})


SHARED: Final = ManifestCache()


def clear() -> None:
    """Forget the manifests that this process has decoded, and the keys in them."""
    SHARED.clear()


def _after_fork() -> None:
    # Another thread of the parent may have held the lock, which then never opens here.
    SHARED.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
