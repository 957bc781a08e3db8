"""A table's `encryption-keys` as an immutable value.

    master key, in the KMS                           `encryption.key-id` of the table
      └─ KEK            {key-id, encrypted-key-metadata: wrapped by the KMS, encrypted-by-id: master key id,
      │                  properties: {KEY_TIMESTAMP: decimal milliseconds}}
      └─── list key     {key-id, encrypted-key-metadata: sealed under the KEK, AAD = its KEY_TIMESTAMP,
                         encrypted-by-id: the KEK's key-id}     <- the `key-id` of a snapshot names this one

A KEK is used for as long as its timestamp says, so whoever can edit the list must not be able to put an
old KEK into use again: a timestamp of the future is refused, and so are the same wrapped bytes under
two ids. Both are refused for reading too: no honest writer makes them.

A ring only grows by making a new ring. It keeps what it does not understand: entries that nothing
points at (failed attempts of Java leave some), unknown properties, unknown members. A lost key is
lost data, so nothing here lets go of a key that another one needs.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError, KeyNotFoundError, KeyringError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

KEY_TIMESTAMP: Final = "KEY_TIMESTAMP"
DAY_MS: Final = 24 * 60 * 60 * 1000
KEK_LIFESPAN_MS: Final = 730 * DAY_MS  # what NIST SP 800-57 lets a key-wrapping key be used for
MAX_SKEW_MS: Final = DAY_MS  # by how much the clock of the writer of a KEK may be ahead of ours

_MEMBERS: Final = ("key-id", "encrypted-key-metadata", "encrypted-by-id", "properties")


@dataclass(frozen=True)
class EncryptedKey:
    """One entry of the list. Everything in it is stored in the clear; nothing in it is a usable key."""

    key_id: str
    encrypted_key_metadata: bytes = field(repr=False)
    encrypted_by_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    unknown: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", MappingProxyType(dict(self.properties)))
        object.__setattr__(self, "unknown", MappingProxyType(dict(self.unknown)))

    def __deepcopy__(self, _memo: object) -> EncryptedKey:
        return self  # nothing in it can change

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.key_id, self.encrypted_key_metadata, self.encrypted_by_id)
        return type(self), (*parts, dict(self.properties), dict(self.unknown))

    @property
    def timestamp(self) -> str | None:
        """The KEY_TIMESTAMP of a KEK, exactly as written: it is the AAD of the keys below."""
        return self.properties.get(KEY_TIMESTAMP)

    @property
    def timestamp_ms(self) -> int | None:
        """The same as a number; None where there is none or it is no number."""
        stamp = self.timestamp
        return int(stamp) if stamp and re.fullmatch(r"[+-]?[0-9]{1,19}", stamp) else None

    def refuse_future(self, now_ms: int) -> None:
        """Refuse a KEK that says that it was made more than a day from now."""
        stamp = self.timestamp_ms
        if stamp is not None and stamp > now_ms + MAX_SKEW_MS:
            raise KeyringError(
                f"KEK {self.key_id} has the {KEY_TIMESTAMP} {_time(stamp)}, and this clock says {_time(now_ms)}: "
                "expected at most a day of difference, so the entry was altered or a clock is wrong"
            )

    @classmethod
    def from_json(cls, entry: object) -> EncryptedKey:
        if not isinstance(entry, dict):
            raise KeyringError(f"an encryption key must be an object, found {type(entry).__name__}")
        key_id = _string(entry, "key-id")
        by = None if entry.get("encrypted-by-id") is None else _string(entry, "encrypted-by-id")
        properties = entry.get("properties", {})
        if not isinstance(properties, dict):
            raise KeyringError(f"properties of key {key_id} must be an object of strings")
        properties = {name: _string(properties, name) for name in properties}
        return cls(
            key_id,
            _from_base64(_string(entry, "encrypted-key-metadata"), key_id),
            by,
            properties,
            {name: value for name, value in entry.items() if name not in _MEMBERS},
        )

    def to_json(self) -> dict[str, Any]:
        """Java's members in Java's order; what is absent is left out, never null."""
        entry: dict[str, Any] = {
            "key-id": self.key_id,
            "encrypted-key-metadata": base64.b64encode(self.encrypted_key_metadata).decode("ascii"),
        }
        if self.encrypted_by_id is not None:
            entry["encrypted-by-id"] = self.encrypted_by_id
        if self.properties:
            entry["properties"] = dict(self.properties)
        return {**entry, **self.unknown}


@dataclass(frozen=True, slots=True)
class RingDiff:
    """What turns one ring into another. An entry that changed is both removed and added."""

    added: tuple[EncryptedKey, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Keyring:
    """All entries, in the order in which the table has them."""

    entries: tuple[EncryptedKey, ...] = ()
    _by_id: dict[str, EncryptedKey] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for entry in self.entries:
            if entry.key_id in self._by_id:
                raise KeyringError(f"key id {entry.key_id} stands twice in encryption-keys")
            self._by_id[entry.key_id] = entry
        _refuse_cycles(self._by_id)
        _refuse_copies(self.entries)

    def __deepcopy__(self, _memo: object) -> Keyring:
        return self  # nothing in it can change

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[EncryptedKey]:
        return iter(self.entries)

    def __contains__(self, key_id: object) -> bool:
        return key_id in self._by_id

    def get(self, key_id: str) -> EncryptedKey | None:
        return self._by_id.get(key_id)

    # -- JSON ---------------------------------------------------------------------------------

    @classmethod
    def from_json(cls, keys: object) -> Keyring:
        """From the parsed `encryption-keys` of a table's metadata."""
        if not isinstance(keys, list):
            raise KeyringError(f"encryption-keys must be a list, found {type(keys).__name__}")
        return cls(tuple(EncryptedKey.from_json(key) for key in keys))

    def to_json(self) -> list[dict[str, Any]]:
        return [entry.to_json() for entry in self.entries]

    # -- who opens what -----------------------------------------------------------------------

    def keks(self, master_key_id: str) -> tuple[EncryptedKey, ...]:
        """The entries that this master key wraps, by Java's rule: the ids are equal."""
        return tuple(entry for entry in self.entries if entry.encrypted_by_id == master_key_id)

    def active_kek(self, now_ms: int, *, master_key_id: str, lifespan_ms: int = KEK_LIFESPAN_MS) -> EncryptedKey | None:
        """The newest KEK that may still seal new keys, if there is one. Never makes one; refuses one of the future."""
        if not 0 < lifespan_ms <= KEK_LIFESPAN_MS:
            raise ConfigError(f"a KEK may live for at most {KEK_LIFESPAN_MS} ms, not {lifespan_ms}")
        for entry in self.keks(master_key_id):
            entry.refuse_future(now_ms)
        usable = [
            (entry.timestamp_ms, entry)
            for entry in self.keks(master_key_id)
            if entry.timestamp_ms is not None and now_ms - entry.timestamp_ms < lifespan_ms
        ]
        return max(usable, key=lambda pair: pair[0])[1] if usable else None

    def list_key(self, key_id: str) -> tuple[EncryptedKey, EncryptedKey]:
        """The manifest-list entry that a snapshot's `key-id` names, and the KEK that opens it."""
        entry = self.get(key_id)
        if entry is None:
            raise KeyNotFoundError(f"Cannot find manifest list key metadata with id {key_id}")
        kek = self.get(entry.encrypted_by_id) if entry.encrypted_by_id is not None else None
        if kek is None:
            if entry.timestamp is not None:
                raise KeyringError(f"{key_id} is a key encryption key, not manifest list key metadata")
            raise KeyNotFoundError(f"the key {entry.encrypted_by_id} that seals {key_id} is not in encryption-keys")
        if kek.timestamp is None:
            raise KeyringError(f"Key encryption key must be timestamped: {kek.key_id} has no {KEY_TIMESTAMP}")
        if kek.encrypted_by_id is None:
            raise KeyringError(f"the KEK {kek.key_id} does not say which master key wraps it")
        return entry, kek

    # -- new rings ----------------------------------------------------------------------------

    def with_keys(self, *new: EncryptedKey) -> Keyring:
        """A ring with these entries too. The same entry again changes nothing; another one of its id is refused."""
        fresh = []
        for entry in new:
            held = self.get(entry.key_id)
            if held is None:
                fresh.append(entry)
            elif held != entry:
                raise KeyringError(f"another key with the id {entry.key_id} is in encryption-keys already")
        return Keyring((*self.entries, *fresh))

    def without(self, key_ids: Collection[str]) -> Keyring:
        """A ring without these entries, refused where one that stays is sealed under one that goes."""
        gone = set(key_ids)
        for entry in self.entries:
            if entry.key_id not in gone and entry.encrypted_by_id in gone:
                raise KeyringError(f"cannot remove key {entry.encrypted_by_id}: key {entry.key_id} is sealed under it")
        return Keyring(tuple(entry for entry in self.entries if entry.key_id not in gone))

    def diff(self, base: Keyring) -> RingDiff:
        """What happened since `base`."""
        return RingDiff(
            added=tuple(entry for entry in self.entries if base.get(entry.key_id) != entry),
            removed=tuple(entry.key_id for entry in base.entries if self.get(entry.key_id) != entry),
        )

    def apply(self, diff: RingDiff) -> Keyring:
        """Do to this ring what was done to another: `theirs.apply(ours.diff(base))` merges two commits.

        Refused where the outcome would lose a key: an id that both sides gave to different keys, or a
        removal under a key that the other side has added.
        """
        replaced = {entry.key_id: entry for entry in diff.added if entry.key_id in diff.removed}
        kept = self.without([key_id for key_id in diff.removed if key_id not in replaced])
        swapped = Keyring(tuple(replaced.get(entry.key_id, entry) for entry in kept.entries))
        return swapped.with_keys(*diff.added)


def _refuse_cycles(by_id: Mapping[str, EncryptedKey]) -> None:
    fine: set[str] = set()  # ways that are known to end; without it a long chain would take quadratic time
    for start in by_id:
        seen: dict[str, None] = {}
        step: str | None = start
        while step is not None and step in by_id and step not in fine:
            if step in seen:
                raise KeyringError(f"the keys {', '.join(seen)} are sealed under one another")
            seen[step] = None
            step = by_id[step].encrypted_by_id
        fine.update(seen)


def _refuse_copies(entries: Iterable[EncryptedKey]) -> None:
    keks: dict[bytes, str] = {}
    for entry in entries:
        if entry.timestamp is not None:
            first = keks.setdefault(entry.encrypted_key_metadata, entry.key_id)
            if first != entry.key_id:
                raise KeyringError(f"the KEKs {first} and {entry.key_id} have the same wrapped bytes: one is a copy")


def _time(ms: int) -> str:
    """For people: the time in UTC, and the number as it is stored."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec='milliseconds')} ({ms})"
    except (OverflowError, ValueError, OSError):  # beyond the year 9999
        return str(ms)


def _string(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if value is None:
        raise KeyringError(f"Cannot parse missing string: {name}")
    if not isinstance(value, str):
        raise KeyringError(f"Cannot parse to a string value: {name}: {value!r}")
    try:
        value.encode()  # it is AAD or a KMS key id some day, and JSON can spell what UTF-8 cannot
    except UnicodeEncodeError:
        raise KeyringError(f"{name} is not a text: {value!r}") from None
    return value


def _from_base64(text: str, key_id: str) -> bytes:
    # Java's decoder: the standard alphabet, padding optional but then right, nothing else in between.
    body = text.rstrip("=")
    padding = len(text) - len(body)
    try:
        if padding and (padding > 2 or len(text) % 4):
            raise binascii.Error
        return base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise KeyringError(f"encrypted-key-metadata of key {key_id} is not base64") from None
