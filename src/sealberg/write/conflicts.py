"""Validates a change against the snapshots that others committed since the change was planned.

    start ── B ── C ── head        start: the snapshot that the change was planned on
             └─────────┘           window: every snapshot after it, up to the head of the branch

The window is read as Iceberg Java reads it: the manifests that each snapshot of the window wrote, and in them the
files that this snapshot added or removed. If C later replaced the deletion vector of a file of B, removed or compacted
the file, or merged its manifest, B's own manifests still name the file. A window that does not reach the start is
refused, because the changes of the missing snapshots are unknown.

    check here           | refused when the window has                               | Iceberg Java
    _added_data          | a data file that may hold rows of `conflict_filter`       | validateAddedDataFiles
    _deletes_on_touched  | deletes for a file that the change removes or marks       | validateNoNewDeletesForDataFiles
                         |                                                           | and validateAddedDVs
    _deletes_in_region   | a delete file that may apply to rows of `deletes_filter`  | validateNoNewDeleteFiles
    _removed_touched     | the removal of a file that the change removes or marks    | validateDataFilesExist
                         |                                                           | and failMissingDeletePaths
    _removed_in_region   | the removal of a data file with rows of `removals_filter` | validateDeletedDataFiles
    history              | an end before it reaches the start                        | validationHistory

docs/decisions/0020-conflicts.md lists the checks of each operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import bind, extract_field_ids
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.table.snapshots import Operation

from sealberg.metadata.manifest import ManifestFileV3
from sealberg.metadata.manifest_column_reader import read_columns
from sealberg.scan.delete_index import is_unpartitioned, only_path
from sealberg.scan.filter_literals import fitted
from sealberg.scan.planner import Planner
from sealberg.write.snapshot_summary import partition_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.manifest_columns import ManifestColumns
    from sealberg.metadata.packed_column import Rows
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.write.snapshot_builder import FileChanges, PartitionKey, Region

ADDED: Final = ManifestEntryStatus.ADDED
DELETED: Final = ManifestEntryStatus.DELETED


def validate(
    changes: FileChanges, metadata: V3TableMetadata, io: FileIO, *, table: str, own: Collection[int] = ()
) -> None:
    """Refuse changes that conflict with commits made since the changes were planned.

    Args:
        changes: planned on `changes.starting_snapshot_id`.
        metadata: the newest metadata, with the earlier steps of the same transaction on top.
        table: the name of the table, for errors.
        own: the snapshots of those earlier steps, which the changes were planned on and cannot conflict with.

    Raises:
        ValidationException: a conflict, or the history does not reach the starting snapshot.
    """
    if changes.guard is not None:
        changes.guard(metadata)
    head = head_of(metadata, changes.branch)
    if head is None and changes.starting_snapshot_id is not None:
        raise ValidationException(
            f"Cannot commit to branch {changes.branch} of {table}: another process has removed the branch since this "
            "change was planned. Nothing was committed; create the branch again, or write to another one"
        )
    if head is None or not _needs_validation(changes):
        return
    checks = _Checks(changes, metadata, io)
    for snapshot in history(metadata, head, changes.starting_snapshot_id):
        if snapshot.snapshot_id not in own:
            checks.check(snapshot)


def head_of(metadata: V3TableMetadata, branch: str | None) -> Snapshot | None:
    """The head of the branch that a change builds on; without a branch, the current snapshot."""
    return metadata.snapshot_by_name(branch) if branch is not None else metadata.current_snapshot()


def history(metadata: V3TableMetadata, head: Snapshot, start: int | None) -> list[Snapshot]:
    """The snapshots after `start`, up to `head`, newest first. Refused if `start` is not an ancestor of `head`."""
    window: list[Snapshot] = []
    at: Snapshot | None = head
    while at is not None and at.snapshot_id != start:
        window.append(at)
        at = metadata.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
    if window and window[-1].parent_snapshot_id != start:
        raise ValidationException(
            f"Cannot determine history between starting snapshot {start} and the last known ancestor "
            f"{window[-1].snapshot_id}: snapshots in between were expired, or the branch was moved to another "
            "history. Nothing was committed; load the table again and repeat the operation"
        )
    return window


def _needs_validation(changes: FileChanges) -> bool:
    return bool(
        changes.removed
        or changes.added_deletes
        or any(
            region is not None for region in (changes.conflict_filter, changes.deletes_filter, changes.removals_filter)
        )
    )


@dataclass(frozen=True)
class _Checks:
    """The checks that one change needs, run on each snapshot of the window."""

    changes: FileChanges
    metadata: V3TableMetadata
    io: FileIO

    def check(self, snapshot: Snapshot) -> None:
        for columns, added, removed in self._files_of(snapshot):
            is_data = columns.content.numpy() == int(DataFileContent.DATA)
            gone = removed[is_data[removed]]
            self._removed_touched(columns, gone)
            self._removed_in_region(columns, gone)
            if not _only_rearranges(snapshot):
                self._added_data(columns, added[is_data[added]])
            deletes = added[~is_data[added]]
            for file in columns.files(deletes) if self._touched else ():
                self._deletes_on_touched(file)
            self._deletes_in_region(columns, deletes)

    def _files_of(self, snapshot: Snapshot) -> Iterator[tuple[ManifestColumns, Rows, Rows]]:
        """The manifests that this snapshot wrote, and in each the rows of the files that it added and removed."""
        deletes_matter = bool(self._touched) or self.changes.deletes_filter is not None
        for manifest in snapshot.manifests(self.io):
            assert isinstance(manifest, ManifestFileV3)
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            if manifest.content == ManifestContent.DELETES and not deletes_matter:
                continue
            columns = read_columns(manifest, self.io)
            own, status = columns.snapshot_id.numpy() == snapshot.snapshot_id, columns.status.numpy()
            yield columns, np.flatnonzero(own & (status == ADDED)), np.flatnonzero(own & (status == DELETED))

    # -- the checks ---------------------------------------------------------------------------

    def _added_data(self, columns: ManifestColumns, rows: Rows) -> None:
        region = self.changes.conflict_filter
        if region is not None and (hit := _first(columns, self._conflict_rows.held_by(columns, rows))):
            raise ValidationException(
                f"Found conflicting files that can contain records matching {self._describe(region)}: {hit}"
            )

    def _deletes_on_touched(self, file: DataFileV3) -> None:
        if file.content == DataFileContent.EQUALITY_DELETES:
            # A rewrite that keeps sequence numbers makes files older than these deletes, so the deletes still apply.
            if not self.changes.keep_sequence_numbers and (hit := self._touched_in_partition_of(file)):
                raise ValidationException(f"Cannot commit, found new delete for replaced data file: {hit}")
        elif (path := only_path(file)) is None:
            if hit := self._touched_in_partition_of(file):
                raise ValidationException(f"Cannot commit, found new delete for replaced data file: {hit}")
        elif path in self._touched:
            raise ValidationException(f"Found concurrently added deletes for {path}: {file.file_path!s}")

    def _deletes_in_region(self, columns: ManifestColumns, rows: Rows) -> None:
        region = self.changes.deletes_filter
        if region is not None and (hit := _first(columns, self._delete_rows.concerned_by(columns, rows))):
            raise ValidationException(
                f"Found new conflicting delete files that can apply to records matching {self._describe(region)}: {hit}"
            )

    def _removed_touched(self, columns: ManifestColumns, rows: Rows) -> None:
        for path in columns.file_path.texts(rows).to_pylist() if self._touched else ():
            if path in self._touched:
                raise ValidationException(f"Cannot commit, missing data files: {path}")

    def _removed_in_region(self, columns: ManifestColumns, rows: Rows) -> None:
        region = self.changes.removals_filter
        if region is not None and (hit := _first(columns, self._removal_rows.held_by(columns, rows))):
            raise ValidationException(
                f"Found conflicting deleted files that can contain records matching {self._describe(region)}: {hit}"
            )

    # -- files and rows of the change ---------------------------------------------------------

    @cached_property
    def _touched(self) -> dict[str, PartitionKey]:
        """The data files that must be unchanged: those that the change removes, and those that get deletes.

        A change that replaces whole partitions removes whatever files it finds there, so none must be unchanged.
        """
        removed = () if self.changes.replaces is not None else self.changes.removed
        return {str(file.file_path): partition_of(file) for file in removed} | {
            file.referenced_data_file: partition_of(file)
            for file in self.changes.added_deletes
            if file.referenced_data_file is not None
        }

    def _touched_in_partition_of(self, file: DataFileV3) -> str | None:
        """A touched file in the partition of a delete file; deletes of an unpartitioned spec apply to every file."""
        everywhere = is_unpartitioned(self.metadata.specs()[file.spec_id])
        where = partition_of(file)
        return next((path for path, partition in self._touched.items() if everywhere or partition == where), None)

    @cached_property
    def _conflict_rows(self) -> _Rows:
        return self._rows(self.changes.conflict_filter)

    @cached_property
    def _delete_rows(self) -> _Rows:
        return self._rows(self.changes.deletes_filter)

    @cached_property
    def _removal_rows(self) -> _Rows:
        return self._rows(self.changes.removals_filter)

    def _describe(self, region: Region) -> str:
        return _describe(region, self.changes, self.metadata)

    def _rows(self, region: Region | None) -> _Rows:
        assert region is not None
        return _Rows.of(region, self.changes, self.metadata, self.io)


@dataclass(frozen=True)
class _Rows:
    """The rows that a check covers: those matching a filter, or those of some partitions."""

    partitions: Collection[PartitionKey] | None
    planner: Planner | None
    metadata: V3TableMetadata

    @classmethod
    def of(cls, region: Region, changes: FileChanges, metadata: V3TableMetadata, io: FileIO) -> _Rows:
        if isinstance(region, frozenset):
            return cls(region, None, metadata)
        # With the schema that the filter was written for: columns may have been renamed since.
        schema = changes.schema or metadata.schema()
        return cls(None, Planner(metadata, io, schema, region, case_sensitive=changes.case_sensitive), metadata)

    def held_by(self, columns: ManifestColumns, rows: Rows) -> Rows:
        """Of these data files, those that may hold such a row."""
        if self.partitions is not None:
            return self._in_partitions(columns, rows)
        assert self.planner is not None
        try:
            return self.planner.may_match_rows(columns, rows)
        except (ValueError, KeyError):  # a partition field whose column the filter's schema lacks
            return rows

    def concerned_by(self, columns: ManifestColumns, rows: Rows) -> Rows:
        """Of these delete files, those that may apply to such a row, by partition: their bounds are of the deletes."""
        if is_unpartitioned(self.metadata.specs()[columns.spec_id]):
            return rows
        if self.partitions is not None:
            return self._in_partitions(columns, rows)
        assert self.planner is not None
        try:
            return self.planner.partition_may_match_rows(columns, rows)
        except (ValueError, KeyError):
            return rows

    def _in_partitions(self, columns: ManifestColumns, rows: Rows) -> Rows:
        assert self.partitions is not None
        found = (partition_of(file) in self.partitions for file in columns.files(rows))
        return rows[np.fromiter(found, np.bool_, len(rows))]


def _first(columns: ManifestColumns, rows: Rows) -> str | None:
    """The path of the first of these files."""
    return None if not len(rows) else str(columns.file_path.texts(rows[:1])[0].as_py())


def _only_rearranges(snapshot: Snapshot) -> bool:
    """Whether the snapshot only rewrote files: their rows were checked in the snapshot that first added them."""
    return snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE


def _describe(region: Region, changes: FileChanges, metadata: V3TableMetadata) -> str:
    """The region for an error: the columns of a filter without its values, which are data of an encrypted table."""
    if isinstance(region, frozenset):
        return f"{len(region)} replaced partitions"
    if isinstance(region, AlwaysTrue):
        return "true"
    schema = changes.schema or metadata.schema()
    found = fitted(region, schema, case_sensitive=changes.case_sensitive)
    ids = extract_field_ids(bind(schema, found, changes.case_sensitive))
    return "the filter on " + ", ".join(sorted(schema.find_column_name(field_id) or "?" for field_id in ids))
