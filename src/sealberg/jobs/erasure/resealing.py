"""A fresh KEK for what stays, so that the KEK of what was erased can go.

    before    KEK 1 ── list keys of erased snapshots, list keys of kept snapshots
    after     KEK 2 ── list keys of kept snapshots        KEK 1 is in no metadata of the table

A copy of older metadata in a backup holds KEK 1, wrapped by the master key. `rewrap` wraps the same KEK again, so a
table that kept KEK 1 would still open such a copy after the old version of the master key is destroyed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sealberg.jobs.key_jobs import commit, manager_of
from sealberg.table.key_changes import AddKek, PruneKeys, ReplaceKeks, active_kek

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealberg.table.catalog_table import CatalogTable


def renew_kek(table: CatalogTable, snapshot_ids: Iterable[int]) -> bool:
    """Add a new KEK if the active one opens one of these snapshots; whether it did."""
    metadata, manager = table.metadata, manager_of(table)
    active = active_kek(metadata, manager.settings, time.time_ns() // 1_000_000)
    ring, going = metadata.encryption_keys, set(snapshot_ids)
    sealed = {
        entry.encrypted_by_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id in going and snapshot.key_id and (entry := ring.get(snapshot.key_id)) is not None
    }
    if active is None or active.key_id not in sealed:
        return False
    commit(table, AddKek(manager.new_kek(replacing=ring), active.key_id))
    return True


def reseal_all(table: CatalogTable) -> int:
    """Seal the keys of what is left under the active KEK, and drop every other KEK; how many keys were sealed."""
    table.refresh()
    metadata, manager = table.metadata, manager_of(table)
    active = active_kek(metadata, manager.settings, time.time_ns() // 1_000_000)
    ring = metadata.encryption_keys
    keks = {entry.key_id for entry in ring if entry.timestamp is not None}
    if active is None or keks == {active.key_id}:
        commit(table, PruneKeys())
        return 0
    commit(table, PruneKeys())
    ring = table.metadata.encryption_keys
    old = [entry for entry in ring if entry.timestamp is None and entry.encrypted_by_id not in (None, active.key_id)]
    pairs = tuple((entry, manager.reseal(ring, entry.key_id)) for entry in old)
    if pairs:
        commit(table, ReplaceKeks(pairs))
    commit(table, PruneKeys())
    return len(pairs)
