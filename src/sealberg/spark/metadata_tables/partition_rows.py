"""The rows of `partitions`: the live files of each partition of a snapshot, counted.

Files of different partition specs are of one partition where their values in the unified struct are the same. The row
count is that of data files: rows that deletes have removed are counted, as in Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sealberg.metadata.manifest import ManifestFileV3
from sealberg.metadata.manifest_columns import ManifestColumns
from sealberg.pyiceberg_private import values_of
from sealberg.scan.partition_counts import PartitionCounts, count_manifests, partition_key
from sealberg.spark.metadata_tables.entry_rows import Partitions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata

Row = dict[str, Any]


def partition_rows(metadata: TableMetadata, io: FileIO, manifests: Iterable[ManifestFile]) -> list[Row]:
    """One row for each partition, in the order of their first files."""
    partitions = Partitions(metadata)
    found: dict[tuple[Any, ...], tuple[Row | None, PartitionCounts]] = {}
    for counts in count_manifests(metadata, io, [_of_version_3(each) for each in manifests], ManifestColumns.live_rows):
        shown = partitions.shown(counts.spec_id, counts.partition)
        key = partition_key((shown or {}).values())
        if key not in found:
            found[key] = shown, counts
            continue
        total = found[key][1]
        if counts.is_newer_than(total):
            total.spec_id = counts.spec_id
        total.add(counts)
    return [_row(*each) for each in found.values()]


def _of_version_3(manifest: ManifestFile) -> ManifestFileV3:
    """The same manifest; a table of version 1 or 2 gives none a first row id, the last field of version 3."""
    return manifest if isinstance(manifest, ManifestFileV3) else ManifestFileV3(*values_of(manifest), None)


def _row(partition: Row | None, counts: PartitionCounts) -> Row:
    micros = None if counts.last_updated_at is None else counts.last_updated_at * 1000
    return {"partition": partition, "spec_id": counts.spec_id, **counts.row(), "last_updated_at": micros}
