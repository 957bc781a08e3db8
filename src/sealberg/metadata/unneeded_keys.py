"""The entries of `encryption-keys` that nothing needs any more.

    the key of a list or of a statistics file   needed by the snapshot or the file that names it
    a KEK                                       needed by the entries that are sealed under it, and for the next
                                                commit if it is the active KEK

Failed commits of Java 1.11 leave list keys that no snapshot names, and Java's expiry leaves those of expired snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealberg.metadata.statistics import needed_keys

if TYPE_CHECKING:
    from collections.abc import Collection

    from sealberg.keys.manager import EncryptionSettings
    from sealberg.metadata.table_metadata import V3TableMetadata


def unneeded_keys(metadata: V3TableMetadata, settings: EncryptionSettings, now_ms: int) -> tuple[str, ...]:
    """The ids of all entries that nothing needs: first the keys of files, then KEKs that seal no other key."""
    ring = metadata.encryption_keys
    needed = needed_keys(metadata) | {entry.encrypted_by_id for entry in ring}
    files = [entry.key_id for entry in ring if entry.timestamp is None and entry.key_id not in needed]
    return (*files, *idle_keks(metadata, settings, now_ms, dropped=files))


def idle_keks(
    metadata: V3TableMetadata, settings: EncryptionSettings, now_ms: int, *, dropped: Collection[str] = ()
) -> tuple[str, ...]:
    """The ids of the KEKs that seal no key once these entries are dropped; never the active KEK."""
    ring, gone = metadata.encryption_keys, set(dropped)
    active = ring.active_kek(now_ms, master_key_id=settings.master_key_id, lifespan_ms=settings.kek_lifespan_ms)
    sealing = {entry.encrypted_by_id for entry in ring if entry.key_id not in gone}
    idle = (entry.key_id for entry in ring if entry.timestamp is not None and entry.key_id not in sealing)
    return tuple(key_id for key_id in idle if active is None or key_id != active.key_id)
