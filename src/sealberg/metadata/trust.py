"""What a catalog vouches for, and what does not agree with it.

    Trust    key id, key length, metadata location, SHA-256 of the metadata

Where a catalog keeps it is the catalog's business; when it is missing or differs, a table is refused.
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
    """What the catalog vouches for; without a hash (tools older than it) for the keys and the place only."""

    key_id: str
    key_length: str | None
    metadata_location: str
    metadata_hash: str | None

    @classmethod
    def of(cls, metadata: V3TableMetadata, location: str, digest: str | None) -> Trust | None:
        """For metadata that are to be trusted from now on; None for a table that is not encrypted."""
        key_id = metadata.properties.get(KEY_ID_PROPERTY)
        return None if key_id is None else cls(key_id, metadata.properties.get(KEY_LENGTH_PROPERTY), location, digest)

    def same_keys(self, other: Trust | None) -> bool:
        """What never changes in the life of a table."""
        return other is not None and (self.key_id, self.key_length) == (other.key_id, other.key_length)

    def check_location(self, table: str, location: str) -> None:
        """Refuse a pointer that somebody else has moved."""
        if location != self.metadata_location:
            raise TrustError(
                f"table {table} points at {location}, and the catalog vouches for "
                f"{self.metadata_location}: another tool has changed it"
            )

    def check_text(self, table: str, location: str, text: bytes) -> None:
        """Refuse metadata that were edited or swapped in storage."""
        if self.metadata_hash is None:
            _log.warning("the catalog has no hash for %s of table %s: it may have been modified", location, table)
            return
        if metadata_hash(text) != self.metadata_hash:
            raise TrustError(
                f"the metadata file {location} of table {table} might have been modified: "
                "its hash differs from the one that the catalog has"
            )


def refuse_untrusted(table: str, location: str, metadata: V3TableMetadata) -> None:
    """Without a row of trust a table is not encrypted; if it looks so, somebody else made it or took the row away."""
    if (
        KEY_ID_PROPERTY in metadata.properties
        or len(metadata.encryption_keys)
        or any(snapshot.key_id for snapshot in metadata.snapshots)
    ):
        raise TrustError(f"table {table} is encrypted according to {location}, and the catalog does not vouch for it")


def other_keys(table: str, before: Trust, now: Trust | None) -> str:
    was = f"the key id of {table} is {before.key_id} with a key length of {before.key_length or 'the default'}"
    if now is None:
        return f"{was}, and what is in storage is not encrypted"
    return f"{was}, and cannot become {now.key_id} with {now.key_length or 'the default'}"
