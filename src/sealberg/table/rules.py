"""What may never happen to an encrypted table, checked on every commit of every catalog.

the key id is set when the table is made, and never changed, added later or removed
the length of its keys stays as it was
the format version is 3
a key that a snapshot or another key needs is not lost
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.errors import ConfigError, KeyringError
from sealberg.keys.file_keys import KEY_LENGTH_PROPERTY
from sealberg.keys.manager import KEY_ID_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.table.metadata import V3TableMetadata

VERSION_PROPERTY: Final = "format-version"


def format_version(properties: Mapping[str, str], default: int) -> int:
    """The version of a new table: 3 for an encrypted one, and no other, in Java's words."""
    given = [name for name in (KEY_ID_PROPERTY, KEY_LENGTH_PROPERTY) if name in properties]
    version = int(properties.get(VERSION_PROPERTY, 3 if KEY_ID_PROPERTY in properties else default))
    if given and version < 3:
        raise ConfigError(f"Invalid properties for v{version}: [{', '.join(given)}]")
    if KEY_ID_PROPERTY in properties and not properties[KEY_ID_PROPERTY]:
        raise ConfigError(f"{KEY_ID_PROPERTY} is empty")
    return version


def check_change(before: V3TableMetadata, after: V3TableMetadata) -> None:
    """Refuse metadata that break one of the rules above."""
    old, new = before.properties.get(KEY_ID_PROPERTY), after.properties.get(KEY_ID_PROPERTY)
    if old is not None and new is None:
        raise ConfigError("Cannot remove key ID from an encrypted table")
    if old != new:
        raise ConfigError("Cannot modify key ID of an encrypted table")
    if old is not None and before.properties.get(KEY_LENGTH_PROPERTY) != after.properties.get(KEY_LENGTH_PROPERTY):
        raise ConfigError(f"Cannot modify {KEY_LENGTH_PROPERTY} of an encrypted table")
    check_keys(after)


def check_keys(metadata: V3TableMetadata) -> None:
    """Every snapshot of an encrypted table must be able to find its key."""
    if KEY_ID_PROPERTY not in metadata.properties:
        return
    for snapshot in metadata.snapshots:
        if snapshot.key_id is None:
            continue  # another writer's plaintext list: refused when it is read, not when the table changes
        if snapshot.key_id not in metadata.encryption_keys:
            raise KeyringError(f"snapshot {snapshot.snapshot_id} would lose its key {snapshot.key_id}")
        entry = metadata.encryption_keys.get(snapshot.key_id)
        assert entry is not None
        if entry.encrypted_by_id not in metadata.encryption_keys:
            raise KeyringError(f"snapshot {snapshot.snapshot_id} would lose the KEK {entry.encrypted_by_id}")
