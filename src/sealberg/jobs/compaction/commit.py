"""Commits rewritten groups; a conflict costs only the groups that it hits.

    groups and their new files ──checked one by one──> without conflict ──> one snapshot, operation replace
                                        └─ conflict ──> new files deleted; the group is rewritten again, or reported

The rules are those of Java's RewriteFiles: a delete file for a rewritten file, or the removal of the file by others,
is a conflict. An append never is. An equality delete is none either: new files keep the sequence number of the
snapshot that was read, so later equality deletes still apply to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationException
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation

from sealberg.write.conflicts import validate
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import StagedFiles, discard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType

    from sealberg.jobs.compaction.selection import FileGroup
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.table.catalog_table import CatalogTable


@dataclass(frozen=True)
class DoneGroup:
    """A group and its new files, which no snapshot has yet."""

    group: FileGroup
    files: tuple[DataFileV3, ...] = field(repr=False)

    @property
    def locations(self) -> list[str]:
        return [str(file.file_path) for file in self.files]


@dataclass(frozen=True)
class Outcome:
    """What became of some groups.

    Attributes:
        conflicts: groups that others have changed meanwhile, with the reason; their new files are deleted.
        removed_deletes: how many deletion vectors went with their files.
    """

    committed: tuple[DoneGroup, ...] = ()
    conflicts: tuple[tuple[FileGroup, str], ...] = ()
    snapshot_id: int | None = None
    removed_deletes: int = 0


def commit_groups(
    table: CatalogTable, done: Sequence[DoneGroup], *, branch: str, keep_sequence_number: bool
) -> Outcome:
    """Commit these groups as one snapshot, without those that conflict with what others committed meanwhile.

    All groups were read from the same snapshot. An error that is no conflict is raised; the new files are deleted
    first, unless the commit may have been applied.
    """
    left, conflicts = _checked(table, done, branch, keep_sequence_number)
    if not left:
        return Outcome(conflicts=tuple(conflicts))
    changes = _changes(left, branch, keep_sequence_number)
    try:
        snapshot_id = publish(table, changes, read_at=left[0].group.snapshot_id)
    except ValidationException as error:  # since the check; the transaction has deleted the new files
        return Outcome(conflicts=(*conflicts, *((each.group, str(error)) for each in left)))
    return Outcome(tuple(left), tuple(conflicts), snapshot_id, len(changes.removed_deletes))


def publish(table: CatalogTable, changes: FileChanges, *, read_at: int | EllipsisType = ...) -> int:
    """Commit one change of files; returns the new snapshot. `read_at`: the snapshot that the change was planned on."""
    transaction = table.transaction()
    with transaction:
        transaction.commit_changes(changes, read_at=read_at)
    head = table.metadata.snapshot_by_name(changes.branch or MAIN_BRANCH)
    assert head is not None, "a commit leaves a snapshot"
    return head.snapshot_id


def _checked(
    table: CatalogTable, done: Sequence[DoneGroup], branch: str, keep_sequence_number: bool
) -> tuple[list[DoneGroup], list[tuple[FileGroup, str]]]:
    """The groups without a conflict, and the others. A commit with a conflict would lose the files of all groups."""
    left, conflicts = [], []
    with StagedFiles(table.io, (place for each in done for place in each.locations)):
        table.refresh()
        for each in done:
            start = each.group.snapshot_id
            changes = replace(_changes([each], branch, keep_sequence_number), starting_snapshot_id=start)
            try:
                validate(changes, table.metadata, table.io, table=".".join(table.name()))
            except ValidationException as error:
                discard(table.io, each.locations)
                conflicts.append((each.group, str(error)))
            else:
                left.append(each)
    return left, conflicts


def _changes(done: Sequence[DoneGroup], branch: str, keep_sequence_number: bool) -> FileChanges:
    files = [file for each in done for file in each.group.files]
    return FileChanges(
        added=tuple(file for each in done for file in each.files),
        removed=tuple(file.file for file in files),
        removed_deletes=tuple(vector for file in files for vector in file.vectors),
        operation=Operation.REPLACE,
        branch=branch,
        keep_sequence_numbers={
            file.identity: each.group.sequence_number for each in done for file in each.files if keep_sequence_number
        },
    )
