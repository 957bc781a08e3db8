"""Expires snapshots, and removes the keys that only they and their statistics files used.

    by_id, by_ids, older_than ──> the ids ──commit: the table is loaded again──> those that exist and have no ref

As in Iceberg Java, refs are checked when the expiry is committed, not when it was planned: a snapshot that another
process has tagged or branched meanwhile stays. A snapshot that another process has expired meanwhile is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import ValidationException
from pyiceberg.table.update import (
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetPartitionStatisticsUpdate,
    SetStatisticsUpdate,
)
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.utils.datetime import datetime_to_millis

from sealberg.metadata.statistics import needed_keys
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.metadata.unneeded_keys import idle_keks
from sealberg.metadata.updates import RemoveEncryptionKeyUpdate, applied

if TYPE_CHECKING:
    from datetime import datetime

    from sealberg.keys.manager import EncryptionManager
    from sealberg.table.transaction import EncryptedTransaction

# The updates after which a key may be needless. A new statistics file replaces the one that its snapshot had.
REMOVALS: Final = (
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    RemovePartitionStatisticsUpdate,
    SetStatisticsUpdate,
    SetPartitionStatisticsUpdate,
)


class EncryptedExpireSnapshots(ExpireSnapshots):
    """PyIceberg's ExpireSnapshots, decided on the newest metadata."""

    def __init__(self, transaction: EncryptedTransaction) -> None:
        super().__init__(transaction)
        self._change = transaction
        self._older_than_ms: int | None = None

    def older_than(self, dt: datetime) -> ExpireSnapshots:
        given = datetime_to_millis(dt)
        self._older_than_ms = given if self._older_than_ms is None else max(given, self._older_than_ms)
        return self

    def _commit(self) -> Any:
        if not self._change.staged_updates:
            self._change.target.refresh()
        metadata = self._change.table_metadata
        kept = self._get_protected_snapshot_ids()
        named = self._snapshot_ids_to_expire & {snapshot.snapshot_id for snapshot in metadata.snapshots}
        for snapshot_id in named & kept:
            names = sorted(name for name, ref in metadata.refs.items() if ref.snapshot_id == snapshot_id)
            raise ValidationException(f"Cannot expire {snapshot_id}. Still referenced by refs: [{', '.join(names)}]")
        aged = {
            snapshot.snapshot_id
            for snapshot in metadata.snapshots
            if self._older_than_ms is not None and snapshot.timestamp_ms < self._older_than_ms
        }
        expired = sorted(named | (aged - kept))
        return ((RemoveSnapshotsUpdate.model_validate({"snapshot-ids": expired}),) if expired else ()), ()


def with_unneeded_keys(
    updates: tuple[Any, ...], metadata: V3TableMetadata, manager: EncryptionManager | None, now_ms: int
) -> tuple[Any, ...]:
    """The updates, plus the removal of keys that they make needless: keys of expired manifest lists and of removed
    statistics files, and KEKs that wrap no key any more.

    Java keeps such KEKs. Here only the active KEK stays, since the next commit would have to create another one.
    Keys that nothing names are left alone, with their KEKs.
    """
    if manager is None or not any(isinstance(update, REMOVALS) for update in updates):
        return updates
    after = applied(metadata, updates)
    assert isinstance(after, V3TableMetadata)
    ring = after.encryption_keys
    still = needed_keys(after)
    needless = needed_keys(metadata) - still
    dropped = dict.fromkeys(entry.key_id for entry in ring if entry.key_id in needless)
    if not dropped and not expired_by(updates):
        return updates
    dropped |= dict.fromkeys(idle_keks(after, manager.settings, now_ms, dropped=dropped))
    return (*updates, *(RemoveEncryptionKeyUpdate.model_validate({"key-id": key_id}) for key_id in dropped))


def expired_by(updates: tuple[Any, ...]) -> set[int]:
    return {each for update in updates if isinstance(update, RemoveSnapshotsUpdate) for each in update.snapshot_ids}
