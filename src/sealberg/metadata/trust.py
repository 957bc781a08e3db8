"""The trust record: the metadata that a catalog vouches for, and the checks against it.

    Trust    key id, key length, metadata location, SHA-256 of the metadata

Each catalog stores its trust records in its own way. A table whose record is missing or differs is refused.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealberg.errors import TrustError
from sealberg.keys.file_key import KEY_LENGTH_PROPERTY
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.table_metadata import metadata_hash

if TYPE_CHECKING:
    from sealberg.metadata.table_metadata import V3TableMetadata

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trust:
    """The metadata that the catalog vouches for; without a hash (older tools), only keys and location."""

    key_id: str
    key_length: str | None
    metadata_location: str
    metadata_hash: str | None

    @classmethod
    def of(cls, metadata: V3TableMetadata, location: str, digest: str | None) -> Trust | None:
        """The record for metadata that are trusted from now on; None for a table that is not encrypted."""
        key_id = metadata.properties.get(KEY_ID_PROPERTY)
        return None if key_id is None else cls(key_id, metadata.properties.get(KEY_LENGTH_PROPERTY), location, digest)

    def same_keys(self, other: Trust | None) -> bool:
        """Whether key id and key length are equal; they never change in the life of a table."""
        return other is not None and (self.key_id, self.key_length) == (other.key_id, other.key_length)

    def check_location(self, table: str, location: str) -> None:
        """Refuse a metadata location that another tool has changed."""
        if location != self.metadata_location:
            raise TrustError(
                f"table {table} points at {location}, but the catalog vouches for "
                f"{self.metadata_location}: another tool has changed it; "
                f"`sealberg trust {table}` shows the change and can accept it"
            )

    def check_text(self, table: str, location: str, text: bytes) -> None:
        """Refuse metadata that were edited or replaced in storage."""
        if self.metadata_hash is None:
            _log.warning(
                "the catalog has no hash for the metadata file %s of table %s: the file may have been modified",
                location,
                table,
            )
            return
        if metadata_hash(text) != self.metadata_hash:
            raise TrustError(
                f"the metadata file {location} of table {table} might have been modified: "
                f"its hash differs from the hash in the catalog; `sealberg trust {table}` shows the change"
            )


def refuse_untrusted(table: str, location: str, metadata: V3TableMetadata) -> None:
    """Refuse encrypted metadata without a trust record: another tool created the table or removed the record."""
    if (
        KEY_ID_PROPERTY in metadata.properties
        or len(metadata.encryption_keys)
        or any(snapshot.key_id for snapshot in metadata.snapshots)
    ):
        raise TrustError(
            f"table {table} is encrypted according to {location}, but the catalog does not vouch for it: "
            f"another tool created it; `sealberg trust {table}` shows it and can accept it"
        )


def other_keys(table: str, before: Trust, now: Trust | None) -> str:
    was = f"the key id of {table} is {before.key_id} with a key length of {before.key_length or 'the default'}"
    if now is None:
        return f"{was}, but the table in storage is not encrypted"
    return f"{was}, and cannot become {now.key_id} with a key length of {now.key_length or 'the default'}"
