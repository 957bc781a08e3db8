"""How the keys of a table are used: each file has a key of its own, which is random and as long as the table wants.

weak      one byte repeated, shorter than encryption.data-key-length, or without an AAD prefix of 16 bytes
reused    two files under one key: whoever has the key of one reads the other
exposed   a key in the clear, beside the sealed keys of metadata.json

Only hashes of keys are remembered, which differ in every process, and no key is in a finding.
"""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from sealberg.errors import KeyMetadataError
from sealberg.format.aes_gcm import KEY_LENGTHS
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.file_key import AAD_PREFIX_LENGTH, DEFAULT_KEY_LENGTH, KEY_LENGTH_PROPERTY
from sealberg.keys.keyring import TIMESTAMP_NAMES
from sealberg.keys.kms.azure import VERSION as AZURE_VERSION
from sealberg.metadata.statistics import STATISTICS_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.keys.keyring import EncryptedKey
    from sealberg.metadata.table_metadata import V3TableMetadata

# Which files: lists, manifests or data files; and the sequence number of the file.
Kind: TypeAlias = tuple[str, int | None]


class KeyUse:
    """Checks the key of each file of one table once."""

    def __init__(self, metadata: V3TableMetadata, outcome: Outcome) -> None:
        self._demanded = demanded_length(metadata.properties)
        self._outcome = outcome
        self._keys: set[int] = set()
        self._places: set[int] = set()
        self._short: dict[str, tuple[int, int, str]] = {}
        self._long: dict[str, int] = {}

    def add(self, key: KeyMetadata, location: str, snapshot_id: int | None = None, *, of: Kind) -> None:
        """The key of a file that was not added before."""
        secret, prefix = key.encryption_key, key.aad_prefix
        mark = hash(secret)
        if mark in self._keys:
            text = "another file of the table has the same key, so whoever has the key of one file reads both"
            self._outcome.find("key-reused", text, location, snapshot_id)
        self._keys.add(mark)
        if len(set(secret)) == 1:
            text = "the key of the file is one byte repeated, expected a random key"
            self._outcome.find("key-weak", text, location, snapshot_id)
        if len(prefix or b"") < AAD_PREFIX_LENGTH:
            found = "no AAD prefix" if not prefix else f"an AAD prefix of {len(prefix)} bytes"
            text = f"the key of the file has {found}, expected {AAD_PREFIX_LENGTH} bytes: files can be exchanged"
            self._outcome.find("key-weak", text, location, snapshot_id)
        kind, number = of[0], of[1] or 0
        if len(secret) >= self._demanded:
            self._long[kind] = min(number, self._long.get(kind, number))
        elif kind not in self._short or number > self._short[kind][0]:
            self._short[kind] = (number, len(secret), str(location))

    def add_once(self, key: KeyMetadata, location: str, snapshot_id: int | None = None, *, of: Kind) -> None:
        """The key of a list or statistics file, which several snapshots may name."""
        if (place := hash(str(location))) not in self._places:
            self._places.add(place)
            self.add(key, location, snapshot_id, of=of)

    def finish(self, before: Callable[[], int]) -> None:
        """Tell of keys that are shorter than the table wants.

        Java lets the property be changed, and older files keep their keys. So a short key is told where the table has
        never had a long one, and where an older file has one.

        Args:
            before: the shortest length that the table has ever wanted, as far as its older metadata tell.
        """
        for kind, (number, length, location) in self._short.items():
            is_late = number > self._long[kind] if kind in self._long else kind == "list"
            if is_late and length < before():
                text = f"the key of the file has {length} bytes, the table wants {self._demanded}"
                self._outcome.find("key-weak", text, location)


def demanded_length(properties: Mapping[str, Any]) -> int:
    """How long the keys of a table with these properties are."""
    length = str(properties.get(KEY_LENGTH_PROPERTY, ""))
    return int(length) if length.isdigit() else DEFAULT_KEY_LENGTH


def check_exposed(metadata: V3TableMetadata, keys: Iterable[KeyMetadata], outcome: Outcome) -> None:
    """Find keys that lie in the clear in metadata.json: in its entries, properties and summaries.

    Args:
        keys: the keys of manifest lists that could be opened.
    """
    known = {spelled for key in keys for secret in (key.encryption_key, key.encode()) for spelled in _spellings(secret)}
    for entry in metadata.encryption_keys:
        for name, value in _members(entry):
            if entry.timestamp is None:
                text = f"the entry of the key {entry.key_id} has the member {name}, which may hold the key in the clear"
                outcome.find("key-exposed", text)
            elif _like_key(value):
                text = f"the entry of the KEK {entry.key_id} has a key in the clear in its member {name}"
                outcome.find("key-exposed", text)
    for where, values in _texts(metadata):
        for name, value in values.items():
            if isinstance(value, str) and value in known:
                outcome.find("key-exposed", f"the member {name} of {where} holds the key of a manifest list")


def _members(entry: EncryptedKey) -> Iterator[tuple[str, Any]]:
    """What an entry has beyond what Iceberg defines."""
    usual = (*TIMESTAMP_NAMES, STATISTICS_PATH, AZURE_VERSION)
    yield from ((name, value) for name, value in entry.properties.items() if name not in usual)
    yield from entry.unknown.items()


def _texts(metadata: V3TableMetadata) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "the table's properties", metadata.properties
    for snapshot in metadata.snapshots:
        if snapshot.summary is not None:
            yield f"the summary of snapshot {snapshot.snapshot_id}", snapshot.summary.additional_properties


def _spellings(secret: bytes) -> tuple[str, ...]:
    standard, safe = base64.b64encode(secret).decode(), base64.urlsafe_b64encode(secret).decode()
    return standard, standard.rstrip("="), safe, safe.rstrip("="), secret.hex(), secret.hex().upper()


def _like_key(value: Any) -> bool:
    """Whether a text is the hex or base64 of as many bytes as a key has, or of key metadata."""
    if not isinstance(value, str):
        return True  # Iceberg's properties are texts
    for decoded in _decoded(value.strip()):
        if len(decoded) in KEY_LENGTHS:
            return True
        try:
            KeyMetadata.decode(decoded)
        except KeyMetadataError:
            continue
        return True
    return False


def _decoded(text: str) -> Iterator[bytes]:
    with suppress(ValueError):
        yield bytes.fromhex(text)
    with suppress(ValueError, binascii.Error):
        yield base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
