"""A keyring of thousands of entries that are made when somebody asks for them.

    ids, wrapped keys in base64, ids of the wrapping keys, properties ──long_keyring──> LongKeyring

The ring is checked as any other when it is made: no id twice, no cycle, no copied KEK. Entries with properties, which
are the KEKs, are made for that. The others are list keys, of which a reader opens one.
"""

from __future__ import annotations

import binascii
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sealberg.errors import KeyringError
from sealberg.keys.keyring import EncryptedKey, Keyring

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Columns = tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]


def long_keyring(keys: Sequence[tuple[str, str, str, str]]) -> Keyring | None:
    """The ring for id, base64, encrypted-by-id and properties of each entry; None if `Keyring.from_json` must decide.

    Args:
        keys: texts of valid Unicode. The base64 has only characters of the alphabet and at most two for padding; the
            properties are the JSON of an object of strings, or empty.
    """
    columns: Any = tuple(zip(*keys, strict=True))
    ids, wrapped, by, properties = columns
    places = dict(zip(ids, range(len(ids)), strict=True))
    wrapping = places.keys() & set(by)
    if (
        len(places) < len(ids)
        or any(length % 4 for length in set(map(len, wrapped)))
        or any(by[places[key_id]] in places for key_id in wrapping)  # chains may be cycles
    ):
        return None
    try:
        Keyring(tuple(_entry(columns, place) for place, text in enumerate(properties) if text))
    except KeyringError:
        return None
    return LongKeyring(columns, places)


class LongKeyring(Keyring):
    """A ring whose entries are columns of text; equal to the ring of the same entries."""

    _columns: Columns  # no `__slots__`: `cached_property` needs a `__dict__`
    _places: dict[str, int]

    def __init__(self, columns: Columns, places: dict[str, int]) -> None:
        self.__dict__.update(_columns=columns, _places=places)

    @cached_property
    def _whole(self) -> Keyring:
        return Keyring(tuple(_entry(self._columns, place) for place in range(len(self))))

    @property
    def entries(self) -> tuple[EncryptedKey, ...]:
        return self._whole.entries

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[EncryptedKey]:
        return iter(self.entries)

    def __contains__(self, key_id: object) -> bool:
        return key_id in self._places

    def get(self, key_id: str) -> EncryptedKey | None:
        if "_whole" in self.__dict__:
            return self._whole.get(key_id)
        place = self._places.get(key_id)
        return None if place is None else _entry(self._columns, place)

    def __reduce__(self) -> tuple[Any, ...]:
        return Keyring, (self.entries,)

    def __repr__(self) -> str:
        return repr(self._whole)


def _entry(columns: Columns, place: int) -> EncryptedKey:
    key_id, wrapped, by, properties = (column[place] for column in columns)
    return EncryptedKey(key_id, binascii.a2b_base64(wrapped), by, json.loads(properties) if properties else {})
