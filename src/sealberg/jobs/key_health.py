"""Whether master keys open what they wrapped: what the KMS says of a key, and a KEK of each version that it unwraps.

    health_of(kms, "hr", tables) ──describe──> facts ──────────┐
                                 ──unwrap a KEK of each──────> problems, or why nothing is known

Whoever may not open tables may still be told of their keys: a description is enough, where unwrapping is denied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealberg.errors import (
    AccessDeniedError,
    KeyDestroyedError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsUnavailableError,
    SealbergError,
    WrongKeyError,
    WrongPassphraseError,
)
from sealberg.jobs.key_jobs import manager_of
from sealberg.keys.kms.client import WrappedKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sealberg.keys.keyring import EncryptedKey
    from sealberg.keys.kms.client import KmsClient
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.table.catalog_table import CatalogTable

PROBLEMS: Final[Mapping[type[SealbergError], str]] = {
    KeyNotFoundError: "the key is missing",
    KeyDisabledError: "the key is disabled",
    KeyDestroyedError: "the key is destroyed, or will be",
    WrongKeyError: "the key does not open what it wrapped",
}


@dataclass
class Health:
    """What is known of a master key.

    Attributes:
        facts: what the KMS says of it.
        problems: why tables under it cannot be read, or soon cannot.
        unknown: why it is not known whether they can be.
    """

    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unknown: str = ""


def health_of(kms: KmsClient, key_id: str, tables: Sequence[CatalogTable]) -> Health:
    """Ask the KMS for a master key, and to unwrap a KEK of each of its versions.

    Args:
        tables: under this key.
    """
    found, silent = Health(), ""
    try:
        found.facts = dict(kms.describe(key_id))
    except SealbergError as error:
        found.facts, silent = {"error": str(error)}, str(error)
        found.problems += _problems(error)
    else:
        if (trouble := kms.trouble_in(found.facts)) is not None:
            found.problems.append(trouble)
    described, opened, unsure = bool(found.facts) and not silent, 0, []
    for table, kek in _one_of_each_version(kms, key_id, tables):
        try:
            manager_of(table).prove_kek(table.metadata.encryption_keys, kek)
            opened += 1
        except SealbergError as error:
            if known := _problems(error):
                found.problems += known
            elif not described or not isinstance(error, AccessDeniedError):
                # Who may not open tables may still be told of their keys.
                unsure.append(str(error))
            if isinstance(error, KmsUnavailableError):
                break  # every further request would wait as long
    if not found.problems and (unsure or not (opened or described)):
        silent = silent or f"the KMS client {kms.provider} tells nothing of its keys, and no table has a KEK"
        found.unknown = "; ".join(dict.fromkeys(unsure or [silent]))
    return found


def _problems(error: SealbergError) -> list[str]:
    """What the error says of the key; nothing if the key may be in order."""
    if isinstance(error, WrongPassphraseError):
        return []
    return [f"{words}: {error}" for kind, words in PROBLEMS.items() if isinstance(error, kind)]


def _one_of_each_version(
    kms: KmsClient, key_id: str, tables: Iterable[CatalogTable]
) -> Iterator[tuple[CatalogTable, EncryptedKey]]:
    """A KEK of each version of a master key, the newest KEK first, with its table."""
    seen: set[str | None] = set()
    for table in tables:
        for kek, version in keks_by_version(kms, key_id, table.metadata):
            if version not in seen:
                seen.add(version)
                yield table, kek


def keks_by_version(
    kms: KmsClient, key_id: str, metadata: V3TableMetadata
) -> Iterator[tuple[EncryptedKey, str | None]]:
    """A KEK of a table for each version of the master key that wraps one, and the version, if the bytes tell it."""
    seen: set[str | None] = set()
    keks = [kek for kek in metadata.encryption_keys.keks(key_id) if kek.timestamp is not None]
    for kek in sorted(keks, key=lambda kek: -(kek.timestamp_ms or 0)):
        version = kms.version_in(WrappedKey(kek.encrypted_key_metadata, kek.properties))
        if version not in seen:
            seen.add(version)
            yield kek, version
