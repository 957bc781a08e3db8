"""Writes the entries of many manifests into few, clustered by partition: Java's rewrite_manifests.

    manifests of one spec, data or deletes ──live entries, by partition──> manifests of about the target size

No file is added, removed or touched; entries keep their sequence numbers, row ids and keys. A scan with a filter on
partitions then reads few manifests, because each has few partitions.

Memory is bounded: at most WINDOW entries are sorted at a time. A larger table is clustered window by window, in the
order of the lowest partitions of its manifests; without partitions the order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sealberg.metadata.encoded_entries import EncodedEntry
    from sealberg.metadata.manifest import ManifestFileV3

    Partition = tuple[tuple[bool, Any], ...]
    Write = Callable[[ManifestFileV3, Sequence[EncodedEntry]], ManifestFileV3]


WINDOW: Final = 200_000  # entries in memory, each of about 1 kB


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
    read: Callable[[ManifestFileV3], Sequence[EncodedEntry]],
    write: Write,
    lowest: Callable[[ManifestFileV3], Partition],
) -> Regrouped:
    """Write the chosen manifests anew.

    Args:
        read: the live entries of a manifest.
        write: a manifest with these entries, of the spec and the content of the given manifest.
        lowest: the lowest partition of a manifest; manifests of one spec are comparable.
    """
    chosen = rewrite.choose(manifests)
    gone = {str(manifest.manifest_path) for group in chosen for manifest in group}
    made: list[ManifestFileV3] = []
    entries_processed = 0
    for group in chosen:
        per_manifest = max(1, -(-sum(map(_live, group)) // rewrite.count(group)))
        left: list[EncodedEntry] = []
        for window in _windows(group, max(WINDOW, per_manifest), lowest):
            entries = [*left, *(entry for manifest in window for entry in read(manifest))]
            entries_processed += len(entries) - len(left)
            entries.sort(key=lambda entry: comparable(entry.partition))
            whole = len(entries) - len(entries) % per_manifest
            made += [write(group[0], entries[at : at + per_manifest]) for at in range(0, whole, per_manifest)]
            left = entries[whole:]  # the highest partitions, which are next to those of the next window
        if left:
            made.append(write(group[0], left))
    kept = [manifest for manifest in manifests if str(manifest.manifest_path) not in gone]
    return Regrouped([*made, *kept], len(gone), entries_processed)


def _windows(
    group: Sequence[ManifestFileV3], most: int, lowest: Callable[[ManifestFileV3], Partition]
) -> Iterator[list[ManifestFileV3]]:
    """The manifests in groups of so many entries, or of one manifest that has more."""
    if sum(map(_live, group)) <= most:
        yield list(group)
        return
    window: list[ManifestFileV3] = []
    for manifest in sorted(group, key=lowest):
        if window and sum(map(_live, window)) + _live(manifest) > most:
            yield window
            window = []
        window.append(manifest)
    yield window


def _live(manifest: ManifestFileV3) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def comparable(values: Iterable[Any]) -> Partition:
    """Null first; all values of one partition field have one type."""
    return tuple((value is not None, 0 if value is None else value) for value in values)
