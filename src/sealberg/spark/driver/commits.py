"""INSERT, DELETE, UPDATE and MERGE before and after Spark's tasks.

    begin    WriteRequest ──> WritePlan                                             no key among it
    commit   WrittenFile with its key ──footer read back──> DataFileV3 with metrics ──> FileChanges ──> one snapshot

Every new file is opened with its key before it is committed, so a file that cannot be read is never committed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.utils.concurrent import ExecutorFactory
from pyroaring import BitMap

from sealberg.errors import ConfigError, ConflictError, UnsupportedError
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.spark.driver import any_schema
from sealberg.spark.driver.descriptions import accepts_any_schema
from sealberg.spark.driver.write_options import WriteOptions
from sealberg.spark.driver.write_planning import write_plan
from sealberg.spark.driver.written_files import data_file
from sealberg.spark.filters import exact, inclusive
from sealberg.spark.streaming.epochs import Epoch, EpochCommittedError
from sealberg.table.catalog_table import CatalogTable
from sealberg.write import row_changes
from sealberg.write.row_changes import COPY_ON_WRITE, MERGE_ON_READ, RowWork
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sealberg.metadata.manifest import DataFileV3
    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.spark.driver.tables import Tables
    from sealberg.spark.protocol.handles import TableHandle
    from sealberg.spark.protocol.writes import (
        BeginWrite,
        CanDeleteWhere,
        CommitRequest,
        DeleteWhere,
        WriteMode,
        WritePlan,
        WriteRequest,
        WrittenFile,
    )
    from sealberg.table.transaction import EncryptedTransaction

ROW_LEVEL: Final = (COPY_ON_WRITE, MERGE_ON_READ)  # modes of commands that change rows which their query has read


@dataclass(frozen=True)
class _Commit:
    """A commit under way: what Spark asked for, and what was decided about it once."""

    change: EncryptedTransaction
    request: CommitRequest
    options: WriteOptions
    branch: str

    @property
    def write(self) -> WriteRequest:
        return self.request.write

    @property
    def mode(self) -> WriteMode:
        """An option of the write can turn an overwrite of all rows into one of the partitions that get rows."""
        mode = self.write.mode
        if mode == "overwrite" and self.options.overwrites_partitions:
            row_filter = exact(self.write.filters or (), self.change.table_metadata.schema())
            return "overwrite-partitions" if isinstance(row_filter, AlwaysTrue) else mode
        return mode


@dataclass(frozen=True)
class Writes:
    """The writes to the tables of one catalog."""

    tables: Tables

    def _transaction(self, handle: TableHandle, *, as_named: bool = False) -> EncryptedTransaction:
        """A change of the table as it is now, or as the query has named it, which needs no look at the catalog."""
        if handle.staged is not None:
            return self.tables.staged[handle.staged]
        table = self.tables.named(handle) if as_named else self.tables.found(handle)
        if not isinstance(table, CatalogTable):
            raise UnsupportedError(
                f"{'.'.join(table.name())} is of format version {table.format_version}, and Spark writes version 3 here"
            )
        if handle.past:
            raise ConfigError(f"{'.'.join(table.name())} cannot be written to at a point in the past")
        return table.transaction()

    # -- before the tasks -------------------------------------------------------------------------

    def begin(self, request: BeginWrite) -> WritePlan:
        write = request.write
        # The commit refuses files for columns or partitions that the table no longer has.
        change = self._transaction(write.handle, as_named=True)
        options = WriteOptions.of(write, change.table_metadata)
        if write.handle.staged is not None and (options.wap_id is not None or options.branch is not None):
            raise ConfigError(
                f"{write.handle.name}: AS SELECT cannot be staged for spark.wap.id or "
                "spark.wap.branch, because the table and its rows come in one commit. Create the table, then INSERT"
            )
        positions = None
        if accepts_any_schema(change.table_metadata) and write.query_schema is not None:
            positions, change = self._column_positions(change, write, options)
        return write_plan(change, write, options, positions)

    def _column_positions(
        self, change: EncryptedTransaction, write: WriteRequest, options: WriteOptions
    ) -> tuple[tuple[int, ...], EncryptedTransaction]:
        """Where the columns of the table are in a row of the query, after the option merge-schema has added columns."""
        assert write.query_schema is not None, "an INSERT has rows"
        if options.merge_schema and write.handle.staged is None:
            change = self._transaction(write.handle)  # a table that a query has named must not change
            any_schema.merge(change.target, write.query_schema, case_sensitive=write.case_sensitive)
            change = self._transaction(write.handle)
        schema = change.table_metadata.schema()
        positions = any_schema.positions(
            write.handle.name, schema, write.query_schema, options, case_sensitive=write.case_sensitive
        )
        return tuple(positions), change

    # -- after the tasks --------------------------------------------------------------------------

    def commit(self, request: CommitRequest) -> None:
        handle = request.write.handle
        locations = [file.location for file in request.files]
        with StagedFiles(self.tables.storage(handle), locations):
            change = self._transaction(handle)
        epoch = None if request.epoch is None else Epoch(request.epoch.query_id, request.epoch.epoch_id)
        try:
            with StagedFiles(change.io, locations):
                metadata = change.table_metadata
                if (metadata.current_schema_id, metadata.default_spec_id) != (request.schema_id, request.spec_id):
                    raise ConflictError(f"the columns or partitions of {handle.name} were changed meanwhile")
                options = WriteOptions.of(request.write, metadata)
                commit = _Commit(change, request, options, _branch(change, handle, options))
                if epoch is not None:
                    epoch.check(metadata, commit.branch, staged=options.wap_id is not None)
                files = self._data_files(change, request.files, request.sort_order_id)
                mode = commit.mode
                changes = {
                    "append": self._append,
                    "overwrite": self._overwrite,
                    "overwrite-partitions": self._overwrite_partitions,
                    COPY_ON_WRITE: self._copy_on_write,
                    MERGE_ON_READ: self._merge_on_read,
                }[mode](commit, files)
        except EpochCommittedError:
            return
        if changes is None or (epoch is not None and epoch.is_empty(changes)):
            return
        changes = options.finished(changes)
        if epoch is not None:
            changes = epoch.marked(changes)
        if mode not in ROW_LEVEL:
            # As in Java, an isolation level without a snapshot to validate from looks at the whole history.
            read_at = ... if options.isolation is None and options.validate_from is None else options.validate_from
            change.commit_changes(changes, read_at=read_at)  # deletes the files itself if it fails for certain
        elif Epoch.is_empty(changes):
            change.expect_unmatched(changes, read_at=handle.snapshot_id)
        else:
            # The rows were found in the snapshot that the query has read, which need not be the newest any more.
            change.commit_changes(changes, read_at=handle.snapshot_id)
        if handle.staged is not None:
            self.tables.filled.add(handle.staged)
            return
        with contextlib.suppress(EpochCommittedError):  # by another run of the same query, a moment ago
            change.commit_transaction()

    def _append(self, commit: _Commit, files: list[DataFileV3]) -> FileChanges:
        if commit.write.handle.staged is not None:
            return self._replaced(commit.change, files)
        return FileChanges(added=tuple(files), operation=Operation.APPEND, branch=commit.branch)

    def _replaced(self, change: EncryptedTransaction, files: list[DataFileV3]) -> FileChanges:
        """The first rows of a table, or all rows of a table that is replaced."""
        gone = FileChanges()
        if change.table_metadata.snapshot_by_name(MAIN_BRANCH) is not None:
            gone = row_changes.deletion(change.context, AlwaysTrue(), branch=MAIN_BRANCH, in_place=False)
        # Rows that others add meanwhile have the old columns: they must not get into the new table.
        return replace(gone, added=tuple(files), conflict_filter=AlwaysTrue() if gone.removed else None)

    def _overwrite(self, commit: _Commit, files: list[DataFileV3]) -> FileChanges:
        context, isolation = commit.change.context, commit.options.isolation
        row_filter = exact(commit.write.filters or (), commit.change.table_metadata.schema())
        gone = row_changes.deletion(context, row_filter, branch=commit.branch, in_place=False)
        return replace(
            gone,
            added=(*gone.added, *files),
            operation=Operation.OVERWRITE,
            conflict_filter=row_changes.conflict_filter(context.metadata, row_filter, "overwrite", isolation),
            deletes_filter=row_filter if isolation is not None else gone.deletes_filter,
            removals_filter=row_filter if isolation is not None else gone.removals_filter,
        )

    def _overwrite_partitions(self, commit: _Commit, files: list[DataFileV3]) -> FileChanges | None:
        if not files:
            return None
        gone = row_changes.partitions_of(commit.change.context, files, commit.branch)
        isolation = commit.options.isolation
        return replace(
            gone,
            added=tuple(files),
            operation=Operation.OVERWRITE,
            # As in Java, an overwrite of partitions replaces rows that others have added meanwhile, unless the option
            # isolation-level asks for more.
            conflict_filter=gone.replaces if isolation == row_changes.SERIALIZABLE else None,
            deletes_filter=gone.replaces if isolation is not None else None,
            removals_filter=gone.replaces if isolation is not None else None,
        )

    def _copy_on_write(self, commit: _Commit, files: list[DataFileV3]) -> FileChanges:
        """Files that were read whole are removed; their remaining rows are in new files."""
        if commit.request.replaced is None:
            raise ConflictError("internal error: Spark did not say which files it has read, so none was replaced")
        work = RowWork.on(commit.change.context, commit.branch)
        gone = row_changes.removal([task for _, task in _found(work, commit.request.replaced)], work.branch)
        metadata = commit.change.table_metadata
        read = inclusive(commit.request.scan_filters or (), metadata.schema())
        conflicts = row_changes.conflict_filter(metadata, read, commit.write.command or "")
        return replace(gone, added=tuple(files), conflict_filter=conflicts)

    def _merge_on_read(self, commit: _Commit, files: list[DataFileV3]) -> FileChanges:
        """Deleted rows are marked in deletion vectors, by file and position; new rows are in new files."""
        gone: dict[str, BitMap] = {}
        for deleted in commit.request.deleted:
            gone.setdefault(deleted.location, BitMap()).update(BitMap.deserialize(deleted.positions))
        work = RowWork.on(commit.change.context, commit.branch)
        hits: list[tuple[EncryptedFileScanTask, DeletionVector | None]] = [
            (task, DeletionVector.of(gone[location])) for location, task in _found(work, gone)
        ]
        changes = work.without(hits, MERGE_ON_READ)
        metadata, command = commit.change.table_metadata, commit.write.command or ""
        read = inclusive(commit.request.scan_filters or (), metadata.schema())
        return replace(
            changes,
            added=(*changes.added, *files),
            conflict_filter=row_changes.conflict_filter(metadata, read, command),
            # As in Java: an UPDATE or MERGE depends on rows that it has read and not changed.
            deletes_filter=read if command in ("update", "merge") else None,
        )

    # -- DELETE of whole files, which needs no task -------------------------------------------------

    def can_delete(self, request: CanDeleteWhere) -> bool:
        """Do the filters match all rows of every file that has a matching row, as the partitions tell?"""
        change = self._transaction(request.handle)
        try:
            row_filter = exact(request.filters, change.table_metadata.schema())
        except (ValueError, TypeError, KeyError, NotImplementedError):
            return False
        options = WriteOptions.of_statement(request.handle, request.settings, change.table_metadata)
        branch = _branch(change, request.handle, options)
        tasks = RowWork.on(change.context, branch).tasks(row_filter)
        return all(isinstance(task.residual, AlwaysTrue) for task in tasks)

    def delete(self, request: DeleteWhere) -> None:
        change = self._transaction(request.handle)
        options = WriteOptions.of_statement(request.handle, request.settings, change.table_metadata)
        branch = _branch(change, request.handle, options)
        row_filter = exact(request.filters, change.table_metadata.schema())
        gone = row_changes.deletion(change.context, row_filter, branch=branch, in_place=False)
        if gone.removed:
            conflicts = row_changes.conflict_filter(change.context.metadata, row_filter, "delete")
            change.commit_changes(options.finished(replace(gone, conflict_filter=conflicts)))
            change.commit_transaction()

    # -- files ------------------------------------------------------------------------------------

    def _data_files(
        self, change: EncryptedTransaction, written: Sequence[WrittenFile], order_id: int
    ) -> list[DataFileV3]:
        metadata, io = change.table_metadata, change.io

        def checked(file: WrittenFile) -> DataFileV3:
            return data_file(file, metadata, io, order_id)

        return list(ExecutorFactory.get_or_create().map(checked, written))


def _branch(change: EncryptedTransaction, handle: TableHandle, options: WriteOptions) -> str:
    """The branch of a write. A branch of spark.wap.branch that does not exist is created.

    As in Iceberg Java, a new branch begins at the current snapshot of the table.
    """
    if options.branch is None:
        return handle.branch or MAIN_BRANCH
    metadata = change.table_metadata
    head = metadata.current_snapshot()
    if options.branch not in metadata.refs and head is not None:
        begin = {"ref-name": options.branch, "type": "branch", "snapshot-id": head.snapshot_id}
        missing = AssertRefSnapshotId.model_validate({"ref": options.branch, "snapshot-id": None})
        change.stage((SetSnapshotRefUpdate.model_validate(begin),), (missing,))
    return options.branch


def _found(work: RowWork, locations: Collection[str]) -> list[tuple[str, EncryptedFileScanTask]]:
    """The files at these locations; all of them must still be in the table."""
    tasks = {str(task.file.file_path): task for task in work.tasks(AlwaysTrue())} if locations else {}
    if missing := sorted(set(locations) - tasks.keys()):
        raise ValidationException(f"Missing required files to delete: {', '.join(missing)}")
    return [(location, tasks[location]) for location in locations]
