"""A table's `encryption-keys` as an immutable value.

    master key, in the KMS                           `encryption.key-id` of the table
      └─ KEK            {key-id, encrypted-key-metadata: wrapped by the KMS, encrypted-by-id: master key id,
      │                  properties: {KEY_TIMESTAMP: decimal milliseconds}}
      └─── list key     {key-id, encrypted-key-metadata: sealed under the KEK, AAD = its KEY_TIMESTAMP,
                         encrypted-by-id: the KEK's key-id}     <- the `key-id` of a snapshot names this one

The timestamp of a KEK limits how long the KEK seals new keys. An attacker who can edit the list must not
be able to bring an old KEK back into use, so a timestamp in the future is refused, and so are two entries
with the same wrapped bytes. Both are refused for reading too, because no correct writer produces them.

The proposal on the developers' list calls the timestamp `key-timestamp`. A KEK of a writer that follows it opens its
keys; no new key is sealed under it, because Java would not find the AAD.

A ring is immutable: each change returns a new ring. The ring keeps entries that nothing refers to (failed
commits of Java leave some), unknown properties and unknown members. A lost key is lost data, so no
method removes a key that another entry needs.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError, KeyNotFoundError, KeyringError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

KEY_TIMESTAMP: Final = "KEY_TIMESTAMP"
TIMESTAMP_NAMES: Final = (KEY_TIMESTAMP, "key-timestamp")  # understood; the first is written
DAY_MS: Final = 24 * 60 * 60 * 1000
KEK_LIFESPAN_MS: Final = 730 * DAY_MS  # the longest use of a key-wrapping key by NIST SP 800-57
MAX_SKEW_MS: Final = DAY_MS  # by how much the clock of a KEK's writer may be ahead of the local clock

_MEMBERS: Final = frozenset({"key-id", "encrypted-key-metadata", "encrypted-by-id", "properties"})
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


def timestamp_in(properties: object) -> Any:
    """The timestamp among the properties of an entry of `encryption-keys`; None if it has none, and is no KEK."""
    if not isinstance(properties, Mapping):
        return None
    return next((properties[name] for name in TIMESTAMP_NAMES if name in properties), None)


@dataclass(frozen=True)
class EncryptedKey:
    """One entry of `encryption-keys`. Its fields are stored as plaintext; the key in it is wrapped or sealed."""

    key_id: str
    encrypted_key_metadata: bytes = field(repr=False)
    encrypted_by_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=lambda: _NONE, hash=False)
    unknown: Mapping[str, Any] = field(default_factory=lambda: _NONE, hash=False, repr=False)

    def __post_init__(self) -> None:
        # Most keys have neither, and a table has thousands of keys.
        object.__setattr__(self, "properties", MappingProxyType(dict(self.properties)) if self.properties else _NONE)
        object.__setattr__(self, "unknown", MappingProxyType(dict(self.unknown)) if self.unknown else _NONE)

    def __deepcopy__(self, _memo: object) -> EncryptedKey:
        return self  # immutable

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.key_id, self.encrypted_key_metadata, self.encrypted_by_id)
        return type(self), (*parts, dict(self.properties), dict(self.unknown))

    @property
    def timestamp(self) -> str | None:
        """The KEY_TIMESTAMP of a KEK, exactly as written: this string is the AAD of the keys sealed under the KEK."""
        stamp: str | None = timestamp_in(self.properties)
        return stamp

    @property
    def timestamp_ms(self) -> int | None:
        """The timestamp as a number; None if it is missing or not a number."""
        stamp = self.timestamp
        return int(stamp) if stamp and re.fullmatch(r"[+-]?[0-9]{1,19}", stamp) else None

    @property
    def java_finds_timestamp(self) -> bool:
        """Whether the timestamp has the name that Java writes, so that new keys may be sealed under this KEK."""
        return KEY_TIMESTAMP in self.properties

    def refuse_future(self, now_ms: int) -> None:
        """Refuse a KEK whose timestamp is more than a day in the future."""
        stamp = self.timestamp_ms
        if stamp is not None and stamp > now_ms + MAX_SKEW_MS:
            raise KeyringError(
                f"KEK {self.key_id} has a {KEY_TIMESTAMP} in the future: found {_time(stamp)}, "
                f"the local clock is at {_time(now_ms)}, expected at most one day ahead; "
                "the entry was altered or a clock is wrong"
            )

    @classmethod
    def from_json(cls, entry: object) -> EncryptedKey:
        if not isinstance(entry, dict):
            raise KeyringError(f"entry of encryption-keys is {type(entry).__name__}, expected an object")
        key_id = _string(entry, "key-id")
        by = None if entry.get("encrypted-by-id") is None else _string(entry, "encrypted-by-id")
        properties = entry.get("properties", _NONE)
        if properties is not _NONE:
            if not isinstance(properties, dict):
                raise KeyringError(f"properties of key {key_id} are {type(properties).__name__}, expected an object")
            properties = {name: _string(properties, name) for name in properties}
        return cls(
            key_id,
            _from_base64(_string(entry, "encrypted-key-metadata"), key_id),
            by,
            properties,
            _NONE if entry.keys() <= _MEMBERS else {name: entry[name] for name in entry if name not in _MEMBERS},
        )

    def to_json(self) -> dict[str, Any]:
        """Java's members in Java's order; an absent member is left out, never null."""
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
    """The difference between two rings. A changed entry is both in `removed` and in `added`."""

    added: tuple[EncryptedKey, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Keyring:
    """All entries of `encryption-keys`, in the order of the table metadata."""

    entries: tuple[EncryptedKey, ...] = ()
    _by_id: dict[str, EncryptedKey] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._by_id.update(zip(map(attrgetter("key_id"), self.entries), self.entries, strict=True))
        if len(self._by_id) < len(self.entries):
            _refuse_twice(self.entries)
        _refuse_cycles(self._by_id)
        _refuse_forged_keks(self.entries)

    def __eq__(self, other: object) -> bool:
        return self.entries == other.entries if isinstance(other, Keyring) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.entries)

    def __deepcopy__(self, _memo: object) -> Keyring:
        return self  # immutable

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
        """The ring for the parsed `encryption-keys` of a table's metadata."""
        if not isinstance(keys, list):
            raise KeyringError(f"encryption-keys is {type(keys).__name__}, expected a list")
        return cls(tuple(EncryptedKey.from_json(key) for key in keys))

    def to_json(self) -> list[dict[str, Any]]:
        return [entry.to_json() for entry in self.entries]

    # -- looking up keys ----------------------------------------------------------------------

    def keks(self, master_key_id: str) -> tuple[EncryptedKey, ...]:
        """The entries that this master key wraps: those whose `encrypted-by-id` equals its id, as in Java."""
        return tuple(entry for entry in self.entries if entry.encrypted_by_id == master_key_id)

    def active_kek(self, now_ms: int, *, master_key_id: str, lifespan_ms: int = KEK_LIFESPAN_MS) -> EncryptedKey | None:
        """The newest KEK that may still seal new keys, or None. Refuses KEKs with a timestamp in the future."""
        if not 0 < lifespan_ms <= KEK_LIFESPAN_MS:
            raise ConfigError(f"KEK lifespan is {lifespan_ms} ms, expected at least 1 and at most {KEK_LIFESPAN_MS} ms")
        for entry in self.keks(master_key_id):
            entry.refuse_future(now_ms)
        usable = [
            (entry.timestamp_ms, entry)
            for entry in self.keks(master_key_id)
            if entry.java_finds_timestamp
            and entry.timestamp_ms is not None
            and now_ms - entry.timestamp_ms < lifespan_ms
        ]
        return max(usable, key=lambda pair: pair[0])[1] if usable else None

    def list_key(self, key_id: str) -> tuple[EncryptedKey, EncryptedKey]:
        """The manifest-list entry that a snapshot's `key-id` names, and the KEK that opens this entry."""
        entry = self.get(key_id)
        if entry is None:
            raise KeyNotFoundError(f"Cannot find manifest list key metadata with id {key_id}")
        kek = self.get(entry.encrypted_by_id) if entry.encrypted_by_id is not None else None
        if kek is None:
            if entry.timestamp is not None:
                raise KeyringError(f"key {key_id} is a key encryption key, expected manifest list key metadata")
            raise KeyNotFoundError(
                f"cannot open key {key_id}: its KEK {entry.encrypted_by_id} is not found in encryption-keys"
            )
        if kek.timestamp is None:
            raise KeyringError(f"Key encryption key must be timestamped: {kek.key_id} has no {KEY_TIMESTAMP}")
        if kek.encrypted_by_id is None:
            raise KeyringError(f"KEK {kek.key_id} has no encrypted-by-id, expected the id of a master key")
        return entry, kek

    # -- new rings ----------------------------------------------------------------------------

    def with_keys(self, *new: EncryptedKey) -> Keyring:
        """This ring plus these entries. An equal entry is not added again; another entry of the same id is refused."""
        fresh = []
        for entry in new:
            held = self.get(entry.key_id)
            if held is None:
                fresh.append(entry)
            elif held != entry:
                raise KeyringError(f"cannot add key {entry.key_id}: encryption-keys has another key with this id")
        return Keyring((*self.entries, *fresh))

    def without(self, key_ids: Collection[str]) -> Keyring:
        """This ring minus these entries; refused if a remaining entry is sealed under a removed entry."""
        gone = set(key_ids)
        for entry in self.entries:
            if entry.key_id not in gone and entry.encrypted_by_id in gone:
                raise KeyringError(f"cannot remove key {entry.encrypted_by_id}: key {entry.key_id} is sealed under it")
        return Keyring(tuple(entry for entry in self.entries if entry.key_id not in gone))

    def diff(self, base: Keyring) -> RingDiff:
        """The entries that were added and removed since `base`."""
        return RingDiff(
            added=tuple(entry for entry in self.entries if base.get(entry.key_id) != entry),
            removed=tuple(entry.key_id for entry in base.entries if self.get(entry.key_id) != entry),
        )

    def apply(self, diff: RingDiff) -> Keyring:
        """Apply the changes of another ring: `theirs.apply(ours.diff(base))` merges two commits.

        Refused if the result would lose a key: both sides added different keys under one id, or one
        side removed a key under which the other side sealed a new key.
        """
        replaced = {entry.key_id: entry for entry in diff.added if entry.key_id in diff.removed}
        kept = self.without([key_id for key_id in diff.removed if key_id not in replaced])
        swapped = Keyring(tuple(replaced.get(entry.key_id, entry) for entry in kept.entries))
        return swapped.with_keys(*diff.added)


def _refuse_twice(entries: Iterable[EncryptedKey]) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.key_id in seen:
            raise KeyringError(f"key id {entry.key_id} occurs twice in encryption-keys")
        seen.add(entry.key_id)


def _refuse_cycles(by_id: Mapping[str, EncryptedKey]) -> None:
    wrapping = by_id.keys() & set(map(attrgetter("encrypted_by_id"), by_id.values()))
    if not any(by_id[key_id].encrypted_by_id in by_id for key_id in wrapping):
        return  # no chain is longer than one step
    fine: set[str] = set()  # keys known to be in no cycle; without this set a long chain takes quadratic time
    for start in by_id:
        seen: dict[str, None] = {}
        step: str | None = start
        while step is not None and step in by_id and step not in fine:
            if step in seen:
                raise KeyringError(
                    f"encryption-keys has a cycle: the keys {', '.join(seen)} are sealed under one another"
                )
            seen[step] = None
            step = by_id[step].encrypted_by_id
        fine.update(seen)


def _refuse_forged_keks(entries: Iterable[EncryptedKey]) -> None:
    keks: dict[bytes, str] = {}
    for entry in entries:
        if entry.properties and entry.timestamp is not None:
            if len({entry.properties[name] for name in TIMESTAMP_NAMES if name in entry.properties}) > 1:
                raise KeyringError(
                    f"KEK {entry.key_id} has a {' and a '.join(TIMESTAMP_NAMES)} that differ: one was forged"
                )
            first = keks.setdefault(entry.encrypted_key_metadata, entry.key_id)
            if first != entry.key_id:
                raise KeyringError(
                    f"KEKs {first} and {entry.key_id} have the same wrapped bytes: one KEK is a forged copy"
                )


def _time(ms: int) -> str:
    """The time in UTC and the stored number, for messages."""
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
    if value.isascii():
        return value
    try:
        value.encode()  # used as AAD or KMS key id in UTF-8; JSON can hold lone surrogates, which UTF-8 cannot
    except UnicodeEncodeError:
        raise KeyringError(f"{name} in encryption-keys is not valid Unicode: {value!r}") from None
    return value


def _from_base64(text: str, key_id: str) -> bytes:
    # As Java's decoder: standard alphabet, no other characters; padding is optional, but must be correct.
    body = text.rstrip("=")
    padding = len(text) - len(body)
    try:
        if text.isascii() and not len(text) % 4 and padding < 3:
            return binascii.a2b_base64(text, strict_mode=True)
        if padding and (padding > 2 or len(text) % 4):
            raise binascii.Error
        return base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise KeyringError(f"encrypted-key-metadata of key {key_id} is not base64") from None
