"""A cache of decoded manifests for the next plan of the same process.

    (path, key metadata, length, inherited fields)  ->  entries with these fields

Decoding is the expensive part, so the cache holds entries, not bytes. The entries are shared and must not be changed;
code that hands an entry to a caller hands out a deep copy (`copy_of`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.typedef import Record
from pyiceberg.utils.lazydict import LazyDict

from sealberg.metadata.decode_cache import Cache, Key
from sealberg.pyiceberg_private import dict_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BYTES: Final = 256 << 20
# About the memory in CPython, measured with entries of 20 columns: an entry with its file; a member of a map.
ENTRY_BYTES: Final = 2000
MEMBER_BYTES: Final = 90

R = TypeVar("R", bound=Record)


class ManifestCache(Cache[list[ManifestEntry]]):
    """A bounded map of decoded manifests; safe to share among threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(max_bytes, _weigh)

    def get(self, key: Key, make: Callable[[], list[ManifestEntry]]) -> list[ManifestEntry]:
        try:
            return super().get(key, lambda: _unpacked(make()))
        except BaseException:
            del key  # as there
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return ManifestCache, (self._max_bytes,)


def _weigh(entries: list[ManifestEntry]) -> int:
    members = sum(len(value) for entry in entries for value in values_of(entry.data_file) if type(value) in _MUTABLE)
    return ENTRY_BYTES * len(entries) + MEMBER_BYTES * members


def _unpacked(entries: list[ManifestEntry]) -> list[ManifestEntry]:
    """Convert lazy maps to dicts: the garbage collector ignores a dict of numbers, but not a LazyDict."""
    for entry in entries:
        values = values_of(entry.data_file)
        for at, value in enumerate(values):
            if type(value) is LazyDict:
                values[at] = dict_of(value)
    return entries


def copy_of(record: R) -> R:
    """A deep copy."""
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
    # Not isinstance: Record has a protocol among its bases, which makes isinstance a hundred times as slow.
    return Record in kind.__mro__


@cache
def _is_file(kind: type) -> bool:
    return DataFile in kind.__mro__


_FROZEN: Final = frozenset({int, str, bytes, bool, type(None), DataFileContent, FileFormat})  # not worth a call
_MUTABLE: Final = frozenset({dict, list})


SHARED: Final = ManifestCache()
