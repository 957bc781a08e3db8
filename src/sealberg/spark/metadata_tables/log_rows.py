"""The rows of `snapshots`, `history`, `refs`, `metadata_log_entries` and `keys`: all out of the table's metadata.

`keys` has one row for each snapshot, with the ids of the keys above it; no key itself, not even a wrapped one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from pyiceberg.table import Table

Row = dict[str, Any]


def log_rows(table: Table, kind: str) -> list[Row]:
    """The rows of one of these tables; PyIceberg has all of them but `keys`."""
    if kind == "keys":
        return _keys(table)
    rows: list[Row] = getattr(table.inspect, kind)().to_pylist()
    return rows


def _keys(table: Table) -> list[Row]:
    metadata = table.metadata
    if not isinstance(table, EncryptedTable) or not isinstance(metadata, V3TableMetadata):
        return []
    ring, rows = metadata.encryption_keys, []
    for snapshot in metadata.snapshots:
        entry = ring.get(snapshot.key_id) if snapshot.key_id else None
        kek = ring.get(entry.encrypted_by_id) if entry is not None and entry.encrypted_by_id else None
        made = int(kek.timestamp) * 1000 if kek is not None and kek.timestamp else None
        rows.append(
            {
                "snapshot_id": snapshot.snapshot_id,
                "key_id": snapshot.key_id,
                "kek_id": kek.key_id if kek else None,
                "kek_made_at": made,
                "master_key_id": kek.encrypted_by_id if kek else None,
            }
        )
    return rows
