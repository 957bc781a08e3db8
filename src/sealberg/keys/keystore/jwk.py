"""Master keys as a JWK set (RFC 7517), the content of a keystore.

    {"keys": [
      {"kty": "oct", "kid": "hr", "k": "<base64url>", "alg": "A256GCMKW", "iat": 1767225600}
    ]}

`kid` is the master key id that tables name, `k` the key, `iat` the time of its creation in seconds.
Unknown members of the set and of each key are kept, and so are keys of other types. This module
does no I/O.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sealberg.errors import ConfigError, FormatError
from sealberg.format.aes_gcm import KEY_LENGTHS, check_key_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_LENGTH: Final = 32


@dataclass(frozen=True, slots=True)
class MasterKey:
    """One key that wraps the KEKs of tables."""

    id: str
    key: bytes = field(repr=False, hash=False)
    members: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)  # of the JWK except kty, kid, k

    def __post_init__(self) -> None:
        if not self.id or self.id != self.id.strip() or not self.id.isprintable():
            raise ConfigError(f"master key id must be printable, without leading or trailing spaces, found {self.id!r}")
        check_key_length(len(self.key))

    @classmethod
    def generate(cls, id: str, created: datetime, length: int = DEFAULT_LENGTH) -> MasterKey:  # noqa: A002
        """A new random key."""
        check_key_length(length)
        return cls.made(id, os.urandom(length), created)

    @classmethod
    def made(cls, id: str, key: bytes, created: datetime | None) -> MasterKey:  # noqa: A002
        """An existing key, for example an imported one."""
        members: dict[str, Any] = {"alg": f"A{len(key) * 8}GCMKW"}
        if created is not None:
            members["iat"] = int(created.timestamp())
        return cls(id, key, members)

    @property
    def created(self) -> datetime | None:
        """The time of creation, if the JWK has it."""
        seconds = self.members.get("iat")
        if not isinstance(seconds, int | float) or isinstance(seconds, bool):
            return None
        try:
            return datetime.fromtimestamp(seconds, UTC)
        except (ValueError, OverflowError, OSError):
            return None

    def renamed(self, id: str) -> MasterKey:  # noqa: A002
        """The same key under another id."""
        return replace(self, id=id)

    def jwk(self) -> dict[str, Any]:
        return {"kty": "oct", "kid": self.id, "k": _base64url(self.key), **self.members}


@dataclass(frozen=True, slots=True)
class Keystore:
    """An immutable set of master keys; a change returns a new set."""

    keys: tuple[MasterKey, ...] = ()
    foreign: tuple[Mapping[str, Any], ...] = field(default=(), repr=False, hash=False)  # JWKs of other types
    members: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        seen = set()
        for key in self.keys:
            if key.id in seen:
                raise ConfigError(f"cannot add master key {key.id}: {key.id} is already in the keystore")
            seen.add(key.id)

    def get(self, id: str) -> MasterKey | None:  # noqa: A002
        return next((key for key in self.keys if key.id == id), None)

    def with_keys(self, keys: Iterable[MasterKey]) -> Keystore:
        """This set plus these keys; an existing id is refused, because replacing its key would lose tables."""
        return replace(self, keys=(*self.keys, *keys))

    def without(self, id: str) -> Keystore:  # noqa: A002
        """This set minus one key; every table under that key is lost."""
        return replace(self, keys=tuple(key for key in self.keys if key.id != id))

    def encode(self) -> bytes:
        keys = [*(key.jwk() for key in self.keys), *(dict(jwk) for jwk in self.foreign)]
        # Indented, for people who read it with `age -d`.
        return json.dumps({"keys": keys, **self.members}, indent=2, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def decode(cls, text: bytes) -> Keystore:
        members = _parse(text)
        jwks = members.pop("keys", None) if isinstance(members, dict) else None
        if not isinstance(jwks, list) or not all(isinstance(jwk, dict) for jwk in jwks):
            raise FormatError('not a JWK set: expected an object with an array of objects "keys"')
        ours = [(number, jwk) for number, jwk in enumerate(jwks) if jwk.get("kty") == "oct"]
        foreign = tuple(jwk for jwk in jwks if jwk.get("kty") != "oct")
        keys = tuple(_master_key(number, jwk) for number, jwk in ours)
        try:
            return cls(keys, foreign, members)
        except ConfigError:
            raise FormatError("JWK set has two keys with the same kid") from None


def _master_key(number: int, jwk: dict[str, Any]) -> MasterKey:
    members = {name: value for name, value in jwk.items() if name not in {"kty", "kid", "k"}}
    id, text = jwk.get("kid"), jwk.get("k")  # noqa: A001
    if not isinstance(id, str) or not isinstance(text, str):
        raise FormatError(f"JWK {number} has no kid or no k, expected both as strings")
    key = _unbase64url(text)
    # The value is not shown: even a malformed k may hold a key.
    if key is None:
        raise FormatError(f"JWK {number}: k is malformed, expected base64url without padding")
    if len(key) not in KEY_LENGTHS:
        raise FormatError(f"JWK {number}: k has {len(key)} bytes, expected 16, 24 or 32")
    try:
        return MasterKey(id, key, members)
    except ConfigError as error:
        raise FormatError(f"JWK {number}: {error}") from None


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        # No cause: the exception holds the whole text with the keys.
        raise FormatError("not a JWK set: the content is not JSON in UTF-8") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise FormatError("JWK set has an object with a duplicate member")
    return value


def _no_constant(_: str) -> NoReturn:
    raise FormatError("not a JWK set: NaN and Infinity are not JSON")


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _unbase64url(text: str) -> bytes | None:
    try:
        value = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (UnicodeEncodeError, binascii.Error):
        return None
    return value if _base64url(value) == text else None
