"""A fresh KEK for what stays, so that the KEK of what was erased can go.

    before    KEK 1 ── list keys of erased snapshots, list keys of kept snapshots
    after     KEK 2 ── list keys of kept snapshots        KEK 1 is in no metadata of the table

A copy of older metadata in a backup holds KEK 1, wrapped by the master key. `rewrap` wraps the same KEK again, so a
table that kept KEK 1 would still open such a copy after the old version of the master key is destroyed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sealberg.jobs.key_jobs import manager_of
from sealberg.metadata.statistics import needed_keys
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.metadata.updates import applied
from sealberg.table.key_changes import AddKek, PruneKeys, ReplaceKeks, active_kek

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealberg.table.catalog_table import CatalogTable
    from sealberg.table.transaction import EncryptedTransaction


def renewal(table: CatalogTable, snapshot_ids: Iterable[int]) -> AddKek | None:
    """A new KEK, if the active one opens one of these snapshots; it is committed with the files that it seals."""
    metadata, manager = table.metadata, manager_of(table)
    active = active_kek(metadata, manager.settings, time.time_ns() // 1_000_000)
    ring, going = metadata.encryption_keys, set(snapshot_ids)
    sealed = {
        entry.encrypted_by_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id in going and snapshot.key_id and (entry := ring.get(snapshot.key_id)) is not None
    }
    if active is None or active.key_id not in sealed:
        return None
    return AddKek(manager.new_kek(replacing=ring), active.key_id)


def reseal_all(table: CatalogTable) -> int:
    """Seal the keys of what is left under the active KEK, and drop every other KEK, in one commit; how many keys were
    sealed. Nothing is committed if an expiry has done all of this already."""
    begun = table.transaction()
    sealed = reseal_with(begun, ())
    begun.commit_transaction()
    return sealed


def reseal_with(begun: EncryptedTransaction, updates: tuple[Any, ...]) -> int:
    """Stage what `reseal_all` does, for what is left after these updates, which the transaction stages next; how many
    keys are sealed."""
    manager = manager_of(begun.sealed)
    begun.commit_keys(PruneKeys())
    metadata = begun.table_metadata
    active = active_kek(metadata, manager.settings, time.time_ns() // 1_000_000)
    if active is None:
        return 0
    ring, known = metadata.encryption_keys, active.key_id
    old = [entry for entry in ring if entry.timestamp is None and entry.encrypted_by_id not in (None, known)]
    if old and updates:
        after = applied(metadata, updates)
        assert isinstance(after, V3TableMetadata)
        going = needed_keys(metadata) - needed_keys(after)
        old = [entry for entry in old if entry.key_id not in going]
    pairs = tuple((entry, manager.reseal(ring, entry.key_id)) for entry in old)
    if pairs:
        begun.commit_keys(ReplaceKeks(pairs, all_unchanged=True))
        begun.commit_keys(PruneKeys())
    return len(pairs)
