"""The rows of `partitions`: the live files of each partition of a snapshot, counted.

Files of different partition specs are of one partition where their values in the unified struct are the same. The row
count is that of data files: rows that deletes have removed are counted, as in Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

from sealberg.spark.metadata_tables.entry_rows import Partitions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table.metadata import TableMetadata

Row = dict[str, Any]
COUNTS: Final = {
    DataFileContent.DATA: ("record_count", "file_count"),
    DataFileContent.POSITION_DELETES: ("position_delete_record_count", "position_delete_file_count"),
    DataFileContent.EQUALITY_DELETES: ("equality_delete_record_count", "equality_delete_file_count"),
}
SIZE: Final = "total_data_file_size_in_bytes"


class PartitionRows:
    """Counts files; memory grows with the number of partitions only."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._partitions = Partitions(metadata)
        self._times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
        self._rows: dict[tuple[Any, ...], Row] = {}

    @property
    def rows(self) -> list[Row]:
        return list(self._rows.values())

    def add(self, entries: Iterable[ManifestEntry]) -> None:
        for entry in entries:
            if entry.status != ManifestEntryStatus.DELETED:
                self._add(entry)

    def _add(self, entry: ManifestEntry) -> None:
        file = entry.data_file
        partition = self._partitions.of(file)
        # NaN is not equal to itself, and 0.0 is equal to -0.0, which are two partitions.
        key = tuple(repr(value) if isinstance(value, float) else value for value in (partition or {}).values())
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _empty(partition, file.spec_id)
        made_at = self._times.get(entry.snapshot_id) if entry.snapshot_id is not None else None
        if made_at is not None and (row["last_updated_at"] is None or made_at * 1000 > row["last_updated_at"]):
            row.update(spec_id=file.spec_id, last_updated_at=made_at * 1000, last_updated_snapshot_id=entry.snapshot_id)
        records, files = COUNTS[file.content]
        row[records] += file.record_count
        row[files] += 1
        if file.content == DataFileContent.DATA:
            row[SIZE] += file.file_size_in_bytes


def _empty(partition: Row | None, spec_id: int) -> Row:
    counts = dict.fromkeys((SIZE, *(name for names in COUNTS.values() for name in names)), 0)
    unknown = {"last_updated_at": None, "last_updated_snapshot_id": None}
    return {"partition": partition, "spec_id": spec_id, **counts, **unknown}
