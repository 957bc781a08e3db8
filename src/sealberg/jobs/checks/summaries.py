"""The summary of a snapshot against its manifests: what it added and removed, what it has, and its operation.

added, deleted, removed     the entries that the snapshot itself wrote
total                       the live entries of all manifests
operation                   append adds data only; delete adds no data; replace adds no rows
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table.snapshots import Operation

from sealberg.metadata.invariants import PARTITION_LIMIT
from sealberg.write.snapshot_summary import TOTALS, count_files, partition_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.manifest import ManifestEntry

    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3Snapshot

COUNTED: Final = tuple(name for pair in TOTALS.values() for name in pair)


class Changes:
    """What each snapshot added and removed, counted by the names of its summary."""

    def __init__(self) -> None:
        self._by_snapshot: dict[int, Counter[str]] = {}

    def add(self, entry: ManifestEntry, file: DataFileV3) -> None:
        if entry.status != ManifestEntryStatus.EXISTING and entry.snapshot_id is not None:
            counted = self._by_snapshot.setdefault(entry.snapshot_id, Counter())
            count_files(counted, (file,), "removed" if entry.status == ManifestEntryStatus.DELETED else "added")

    def of(self, snapshot_id: int) -> Counter[str]:
        return self._by_snapshot.get(snapshot_id) or Counter()


def check_summary(snapshot: V3Snapshot, totals: Mapping[str, int], counted: Counter[str], outcome: Outcome) -> None:
    """Compare the summary of a snapshot, all of whose manifests were read.

    Args:
        totals: of the live entries, by the names of the summary.
        counted: of the entries that the snapshot wrote.
    """
    where, number = str(snapshot.manifest_list), snapshot.snapshot_id
    if snapshot.summary is None:
        return
    said = snapshot.summary.additional_properties
    for name, found in totals.items():
        if name in said and said[name] != str(found):
            outcome.find("count", f"the summary claims {name} {said[name]}, the snapshot has {found}", where, number)
    for name in COUNTED:
        # A writer leaves out what is zero, and some leave out all.
        if said.get(name, "0" if "total-data-files" in said else str(counted[name])) != str(counted[name]):
            text = f"the summary claims {name} {said.get(name, '0')}, the manifests have {counted[name]}"
            outcome.find("count", text, where, number)
    if (wrong := _operation(snapshot.summary.operation, counted)) is not None:
        outcome.find("snapshot", wrong, where, number)


def check_partitions(snapshot: V3Snapshot, outcome: Outcome) -> None:
    """Find partition values in a summary, which metadata.json shows to everybody."""
    shown = partition_values(snapshot.summary.additional_properties) if snapshot.summary is not None else []
    if shown:
        text = (
            f"the summary shows the values of {len(shown)} partition{'' if len(shown) == 1 else 's'} in metadata.json"
        )
        advice = f"set {PARTITION_LIMIT}=0 for other tools, and expire the snapshot"
        outcome.find("plaintext", f"{text}; {advice}", None, snapshot.snapshot_id)


def _operation(operation: Operation, counted: Counter[str]) -> str | None:
    removed = counted["deleted-data-files"]
    match operation:
        case Operation.APPEND if removed or counted["added-delete-files"]:
            return "the operation is append, and the snapshot removes or deletes rows"
        case Operation.DELETE if counted["added-data-files"]:
            return "the operation is delete, and the snapshot adds data files"
        case Operation.REPLACE if counted["added-records"] > counted["deleted-records"]:
            return "the operation is replace, and the snapshot adds rows"
    return None
