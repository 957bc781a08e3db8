"""Writes the entries of many manifests into few, clustered by partition: Java's rewrite_manifests.

    manifests of one spec, data or deletes ──live entries, by partition──> manifests of about the target size

No file is added, removed or touched; entries keep their sequence numbers, row ids and keys. A scan with a filter on
partitions then reads few manifests, because each has few partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyiceberg.manifest import ManifestEntry

    from sealberg.metadata.manifest import ManifestFileV3

    Write = Callable[[ManifestFileV3, Sequence[ManifestEntry]], ManifestFileV3]


@dataclass(frozen=True)
class ManifestRewrite:
    """Which manifests are written anew.

    Args:
        target_size: of a manifest, in bytes.
        spec_id: only manifests of this partition spec; None: of every spec.
        only_fewer: leave manifests alone whose number would stay the same.
    """

    target_size: int
    spec_id: int | None = None
    only_fewer: bool = False

    def choose(self, manifests: Iterable[ManifestFileV3]) -> list[list[ManifestFileV3]]:
        """The manifests that are written anew, in groups of one spec and one content."""
        groups: dict[tuple[int, int], list[ManifestFileV3]] = {}
        for manifest in manifests:
            if self.spec_id in (None, manifest.partition_spec_id):
                groups.setdefault((manifest.partition_spec_id, int(manifest.content)), []).append(manifest)
        return [group for group in groups.values() if self._is_worth_it(group)]

    def count(self, group: Sequence[ManifestFileV3]) -> int:
        """How many manifests a group becomes."""
        return max(1, -(-sum(manifest.manifest_length for manifest in group) // self.target_size))

    def _is_worth_it(self, group: Sequence[ManifestFileV3]) -> bool:
        return len(group) > self.count(group) if self.only_fewer else len(group) > 1 or self.count(group) > 1


@dataclass(frozen=True)
class Regrouped:
    """The manifests of the new snapshot, and what was done."""

    manifests: list[ManifestFileV3]
    replaced: int
    entries: int


def regroup(
    rewrite: ManifestRewrite,
    manifests: Sequence[ManifestFileV3],
    read: Callable[[ManifestFileV3], Sequence[ManifestEntry]],
    write: Write,
) -> Regrouped:
    """Write the chosen manifests anew.

    Args:
        read: the live entries of a manifest.
        write: a manifest with these entries, of the spec and the content of the given manifest.
    """
    chosen = rewrite.choose(manifests)
    gone = {str(manifest.manifest_path) for group in chosen for manifest in group}
    made: list[ManifestFileV3] = []
    entries_processed = 0
    for group in chosen:
        entries = [entry for manifest in group for entry in read(manifest)]
        entries.sort(key=_partition)
        entries_processed += len(entries)
        per_manifest = max(1, -(-len(entries) // rewrite.count(group)))
        made += [
            write(group[0], entries[start : start + per_manifest]) for start in range(0, len(entries), per_manifest)
        ]
    kept = [manifest for manifest in manifests if str(manifest.manifest_path) not in gone]
    return Regrouped([*made, *kept], len(gone), entries_processed)


def _partition(entry: ManifestEntry) -> tuple[tuple[bool, Any], ...]:
    """Null first; all values of one partition field have one type."""
    partition = entry.data_file.partition
    values = (partition[at] for at in range(len(partition)))
    return tuple((value is not None, 0 if value is None else value) for value in values)
