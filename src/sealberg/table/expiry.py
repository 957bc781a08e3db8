"""Expires snapshots, and removes the keys that only they used.

    by_id, by_ids, older_than ──> the ids ──commit: the table is loaded again──> those that exist and have no ref

As in Iceberg Java, refs are checked when the expiry is committed, not when it was planned: a snapshot that another
process has tagged or branched meanwhile stays. A snapshot that another process has expired meanwhile is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import ValidationException
from pyiceberg.table.update import RemoveSnapshotsUpdate
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.utils.datetime import datetime_to_millis

from sealberg.metadata.needed_keys import idle_keks, named_keys
from sealberg.metadata.updates import RemoveEncryptionKeyUpdate

if TYPE_CHECKING:
    from datetime import datetime

    from sealberg.keys.manager import EncryptionManager
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.table.transaction import EncryptedTransaction


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
    """The updates, plus the removal of the keys of expired manifest lists and of KEKs that wrap no key any more.

    Java keeps such KEKs. Here only the active KEK stays, since the next commit would have to create another one.
    Keys that no snapshot names are left alone, with their KEKs.
    """
    gone = expired_by(updates)
    if not gone or manager is None:
        return updates
    ring = metadata.encryption_keys
    still = named_keys(metadata, without=gone)
    dropped = dict.fromkeys(
        snapshot.key_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id in gone and snapshot.key_id is not None
        if snapshot.key_id in ring and snapshot.key_id not in still
    )
    dropped |= dict.fromkeys(idle_keks(metadata, manager.settings, now_ms, dropped=dropped))
    return (*updates, *(RemoveEncryptionKeyUpdate.model_validate({"key-id": key_id}) for key_id in dropped))


def expired_by(updates: tuple[Any, ...]) -> set[int]:
    return {each for update in updates if isinstance(update, RemoveSnapshotsUpdate) for each in update.snapshot_ids}
