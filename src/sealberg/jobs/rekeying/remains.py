"""What still opens with old keys when all files of all branches have new ones.

    older snapshots, tags ──> manifests with old keys ──> old files
    older metadata files  ──> the keys of those snapshots' lists

Only when these are gone, and the old files with them, the old keys open nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import SnapshotRefType

if TYPE_CHECKING:
    from sealberg.jobs.rekeying.units import KeyRange
    from sealberg.metadata.table_metadata import V3TableMetadata


@dataclass(frozen=True, slots=True)
class Remains:
    """What must be expired and removed.

    Attributes:
        snapshots: the snapshots that name files with old keys.
        tags: the tags that keep such a snapshot.
        metadata_files: how many older metadata files hold the keys of such snapshots.
    """

    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    metadata_files: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def remains(metadata: V3TableMetadata, keys: KeyRange) -> Remains:
    """Snapshots from before the range never had its files, and the heads of branches no longer have them."""
    heads = {ref.snapshot_id for ref in metadata.refs.values() if ref.snapshot_ref_type == SnapshotRefType.BRANCH}
    old = [
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in heads and (snapshot.sequence_number or 0) >= keys.first
    ]
    tags = sorted(name for name, ref in metadata.refs.items() if ref.snapshot_id in old)
    return Remains(tuple(old), tuple(tags), len(metadata.metadata_log))
