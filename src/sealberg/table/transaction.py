"""Changes to a version 3 table, staged and then committed as one.

    append, overwrite, delete, ... ──> Changes ──build──> updates ─┐
    schema, spec, properties, refs ──────────────────────> updates ─┴──> one commit

What is staged is kept as a list of steps. When somebody else commits first, the table is loaded again
and the steps are taken anew on top of it: snapshots are validated against what happened and rebuilt
with everybody's keys, metadata updates must still have their requirements met.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import (
    AssertTableUUID,
    update_table_metadata,
)

from sealberg.errors import CatalogError, ConfigError, UnsupportedError
from sealberg.table import clock, row_changes
from sealberg.table.commit import Changes, build, discard, not_committed, surely_not_committed
from sealberg.table.conflicts import head_of, validate
from sealberg.table.expiry import with_unneeded_keys
from sealberg.table.metadata import V3TableMetadata
from sealberg.table.pyiceberg_0_12 import TransactionSeams, UpdateSpecV3
from sealberg.table.retry import COMMIT, STATUS_CHECK, RetryPolicy
from sealberg.table.write import RowWriter

if TYPE_CHECKING:
    from types import EllipsisType

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table, Transaction, UpsertResult
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.table.update.spec import UpdateSpec

    from sealberg.table.catalog_table import CatalogTable

MAIN: Final = "main"


@dataclass(frozen=True)
class _MetadataStep:
    """Updates that are the same whatever others did."""

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]


@dataclass(frozen=True)
class _UnmatchedStep:
    """An operation that found no row to change. It commits nothing, but the rows it looked for must not have come."""

    changes: Changes


Step = _MetadataStep | _UnmatchedStep | Changes


class SealedTransaction(TransactionSeams):
    """PyIceberg's Transaction on a version 3 table, encrypted or not."""

    def __init__(self, table: Table, autocommit: bool = False) -> None:
        super().__init__(table, autocommit)
        self._steps: list[Step] = []
        self._pending: tuple[TableUpdate, ...] = ()
        self._needs: tuple[TableRequirement, ...] = ()
        self._attempt_files: list[str] = []
        self._staged: V3TableMetadata | None = None
        self._dead = False

    # -- state --------------------------------------------------------------------------------

    @property
    def sealed(self) -> CatalogTable:
        from sealberg.table.catalog_table import CatalogTable

        assert isinstance(self.target, CatalogTable)
        return self.target

    @property
    def table_metadata(self) -> V3TableMetadata:
        """The table as it would be if this were committed now."""
        if not self._pending:
            return self.sealed.metadata  # frozen, so there is no need for the copy that an update makes
        if self._staged is None:
            before = self.sealed.metadata
            staged = update_table_metadata(before, self._pending)
            assert isinstance(staged, V3TableMetadata)
            self._staged = clock.in_order(before, staged, self._max_skew_ms())
        return self._staged

    @property
    def staged_updates(self) -> tuple[TableUpdate, ...]:
        """What leads from the table to `table_metadata`."""
        return self._pending

    @property
    def io(self) -> FileIO:
        """Opens staged snapshots too, whose keys no catalog knows yet."""
        return self.sealed.io_for(self.table_metadata)

    def apply(self, updates: tuple[Any, ...], requirements: tuple[Any, ...] = ()) -> None:
        self.stage(updates, requirements)
        if self.commits_at_once:
            self.commit_transaction()

    def stage(self, updates: tuple[Any, ...], requirements: tuple[Any, ...] = ()) -> None:
        self._take(_MetadataStep(updates, requirements))

    def commit_changes(self, changes: Changes, *, read_at: int | EllipsisType | None = ...) -> None:
        """Stage a snapshot; the way in for everything that writes files itself.

        `read_at` is the snapshot that the changes were planned on, where that is not the head of the branch as this
        transaction sees it: a query may have read an older one. The changes are then validated at once.
        """
        try:
            self._refuse_tag(changes.branch)
            step = replace(self._planned(changes, read_at), snapshot_id=self.table_metadata.new_snapshot_id())
            if read_at is not ...:
                self._validate(step)
        except BaseException:
            discard(self.io, changes.written)
            raise
        self._take(step)
        if self.commits_at_once:
            self.commit_transaction()

    def expect_unmatched(self, changes: Changes, *, read_at: int | EllipsisType | None = ...) -> None:
        """Stage a check in place of changes that turned out to be empty: it is validated like them."""
        self.refuse_if_dead()
        self._steps.append(_UnmatchedStep(self._planned(changes, read_at)))
        if self.commits_at_once:
            self.commit_transaction()

    def _planned(self, changes: Changes, read_at: int | EllipsisType | None) -> Changes:
        """The changes with what their validation needs to know about the time when they were planned."""
        return replace(
            changes,
            starting_snapshot_id=self._last_of_others(changes.branch) if read_at is ... else read_at,
            schema=changes.schema or self.table_metadata.schema(),
        )

    def _last_of_others(self, branch: str | None) -> int | None:
        """The newest snapshot of a branch that is not of this transaction: a retry puts ours on top of newer ones."""
        own = self._own_snapshots()
        at = head_of(self.table_metadata, branch)
        while at is not None and at.snapshot_id in own:
            at = self.table_metadata.snapshot_by_id(at.parent_snapshot_id or -1)
        return at.snapshot_id if at else None

    def _own_snapshots(self) -> set[int]:
        return {step.snapshot_id for step in self._steps if isinstance(step, Changes) and step.snapshot_id is not None}

    def _refuse_tag(self, branch: str | None) -> None:
        ref = self.table_metadata.refs.get(branch) if branch is not None else None
        if ref is not None and ref.snapshot_ref_type != SnapshotRefType.BRANCH:
            raise ConfigError(f"{branch} is a tag, not a branch. Tags cannot be targets for producing snapshots")

    def _validate(self, changes: Changes) -> None:
        name = ".".join(self.target.name())
        validate(changes, self.table_metadata, self.io, table=name, own=self._own_snapshots())

    def _take(self, step: _MetadataStep | Changes) -> None:
        try:
            self.refuse_if_dead()
            self._stage_step(step)
        except BaseException:
            if isinstance(step, Changes):
                discard(self.io, step.written)
            raise
        self._steps.append(step)

    def _stage_step(self, step: _MetadataStep | Changes) -> None:
        updates, requirements = (
            (self._with_unneeded_keys(step.updates), step.requirements)
            if isinstance(step, _MetadataStep)
            else self._built(step)
        )
        for requirement in requirements:
            requirement.validate(self.table_metadata)
        self._pending += updates
        # Only the first requirement about a branch speaks of what the catalog has; later ones speak of our own steps.
        known = {(type(need), getattr(need, "ref", None)) for need in self._needs}
        self._needs += tuple(need for need in requirements if (type(need), getattr(need, "ref", None)) not in known)
        self._staged = None

    def _with_unneeded_keys(self, updates: tuple[Any, ...]) -> tuple[Any, ...]:
        return with_unneeded_keys(updates, self.table_metadata, self.sealed.encryption, self._now_ms())

    def _now_ms(self) -> int:
        return clock.next_ms(self.table_metadata, self._max_skew_ms())

    def _max_skew_ms(self) -> int:
        return clock.max_skew_ms(self.sealed.catalog.properties, self.sealed.metadata.properties)

    def _built(self, changes: Changes) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
        built = build(
            changes,
            self.table_metadata,
            self.io,
            self.sealed.encryption,
            self.target.location_provider(),
            timestamp_ms=self._now_ms(),
        )
        self._attempt_files += built.written
        return built.updates, built.requirements

    # -- commit -------------------------------------------------------------------------------

    def commit_transaction(self) -> Table:
        self.refuse_if_dead()
        try:
            if self._pending:
                self._commit_with_retries()
            elif any(isinstance(step, _UnmatchedStep) for step in self._steps):
                self.target.refresh()
                self._take_again()
        except BaseException:
            self._dead = True
            raise
        self._steps, self._pending, self._needs, self._attempt_files = [], (), (), []
        self._staged = None
        return self.target

    def _commit_with_retries(self) -> None:
        try:
            with not_committed():
                policy = RetryPolicy.from_properties(self.sealed.metadata.properties, "commit.retry.", COMMIT)
                RetryPolicy.from_properties(self.sealed.metadata.properties, "commit.status-check.", STATUS_CHECK)
            offered = getattr(self.sealed.catalog, "turn", None)
            with policy.start() as attempts, contextlib.ExitStack() as stack:
                turn = offered() if offered is not None else None
                if turn is not None:
                    stack.callback(turn.close)
                while True:
                    try:
                        needs = (*self._needs, AssertTableUUID(uuid=self.sealed.metadata.table_uuid))
                        self.commit_to_catalog(self._pending, needs)
                    except CommitFailedException as error:
                        with not_committed():
                            # A database that is away, or refuses: the catalog has tried again already.
                            if isinstance(error, CatalogError) or not attempts.wait(turn):
                                raise
                    else:
                        return
                    with not_committed():
                        if self._again():
                            return
        except BaseException as error:
            if surely_not_committed(error):
                self._forget_files()
            raise

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if kind is None:
            self.commit_transaction()
        elif not self._dead:
            self.end(forget=True)

    def refuse_if_dead(self) -> None:
        if self._dead:
            raise RuntimeError("This transaction failed to commit and cannot be reused; create a new transaction.")

    def end(self, *, forget: bool) -> None:
        """Never to be used again; `forget` deletes its files, which nothing names."""
        self._dead = True
        if forget:
            self._forget_files()

    def _again(self) -> bool:
        """Take all steps anew on the newest metadata; True if an earlier attempt had landed after all."""
        self.target.refresh()
        mine = [step.snapshot_id for step in self._steps if isinstance(step, Changes)]
        if mine and all(self.sealed.metadata.snapshot_by_id(each or 0) is not None for each in mine):
            return True
        self._refuse_moved_row_ids()
        stale, self._attempt_files = self._attempt_files, []
        discard(self.target.io, stale)
        self._pending, self._needs, self._staged = (), (), None
        self._take_again()
        return False

    def _take_again(self) -> None:
        """Take every step on the newest metadata, after looking at what others did since it was planned."""
        for at, step in enumerate(self._steps):
            match step:
                case _UnmatchedStep():
                    self._validate(step.changes)
                case Changes():
                    self._validate(step)
                    anew = self._steps[at] = row_changes.found_anew(self, step)
                    self._stage_step(anew)
                case _MetadataStep():
                    self._stage_step(step)

    def _refuse_moved_row_ids(self) -> None:
        """Rows that one step added and a later one moved have row ids in their new file, which are others' by now."""
        ours: set[str] = set()
        for step in self._steps:
            if isinstance(step, Changes):
                if step.added and any(str(file.file_path) in ours for file in step.removed):
                    raise CommitFailedException(
                        "the table has been updated by another process, and this transaction has rewritten rows of "
                        "its own: their row ids are taken; take it again from the start"
                    )
                ours.update(str(file.file_path) for file in step.added)

    def _forget_files(self) -> None:
        """The commit did not land, for certain: nothing names these files."""
        written = [path for step in self._steps if isinstance(step, Changes) for path in step.written]
        discard(self.target.io, [*self._attempt_files, *written])

    # -- rows ---------------------------------------------------------------------------------

    def _writer(self) -> RowWriter:
        return RowWriter(self.table_metadata, self.io, self.sealed.encryption, self.target.location_provider())

    def append(
        self,
        df: pa.Table | pa.RecordBatchReader,
        snapshot_properties: dict[str, str] | None = None,
        branch: str | None = MAIN,
    ) -> None:
        writer = self._checked_writer(df)
        files = writer.write(df)
        self.commit_changes(
            Changes(
                added=tuple(files),
                operation=Operation.APPEND,
                branch=branch,
                properties=snapshot_properties or {},
            )
        )

    def overwrite(
        self,
        df: pa.Table | pa.RecordBatchReader,
        overwrite_filter: BooleanExpression | str | None = None,
        snapshot_properties: dict[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str | None = MAIN,
    ) -> None:
        writer = self._checked_writer(df)
        row_filter = AlwaysTrue() if overwrite_filter is None else row_changes.parse(overwrite_filter)
        gone = (
            Changes(branch=branch)
            if isinstance(row_filter, AlwaysFalse)
            else row_changes.deletion(self, row_filter, branch=branch, case_sensitive=case_sensitive, in_place=False)
        )
        try:
            files = writer.write(df)
        except BaseException:
            discard(self.io, gone.written)
            raise
        self.commit_changes(
            replace(
                gone,
                added=(*gone.added, *files),
                properties=snapshot_properties or {},
                case_sensitive=case_sensitive,
                conflict_filter=row_changes.conflict_filter(self, row_filter, "overwrite"),
                deletes_filter=row_filter,
                removals_filter=row_filter,
            )
        )

    def dynamic_partition_overwrite(
        self, df: pa.Table, snapshot_properties: dict[str, str] | None = None, branch: str | None = MAIN
    ) -> None:
        if not isinstance(df, pa.Table):
            raise ValueError(f"Expected PyArrow table, got: {df}")  # noqa: TRY004 (PyIceberg's own)
        writer = self._checked_writer(df)
        if self.table_metadata.spec().is_unpartitioned():
            raise ValueError("Cannot apply dynamic overwrite on an unpartitioned table.")
        if df.num_rows == 0:
            return
        files = writer.write(df)
        try:
            gone = row_changes.partitions_of(self, files, branch)
        except BaseException:
            discard(self.io, (str(file.file_path) for file in files))
            raise
        self.commit_changes(
            replace(
                gone,
                added=tuple(files),
                properties=snapshot_properties or {},
                operation=Operation.OVERWRITE,
                conflict_filter=row_changes.conflict_filter(self, gone.replaces, "overwrite"),
                deletes_filter=gone.replaces,
                removals_filter=gone.replaces,
            )
        )

    def delete(
        self,
        delete_filter: str | BooleanExpression,
        snapshot_properties: dict[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str | None = MAIN,
        _isolation_operation: Any = None,
    ) -> None:
        row_filter = row_changes.parse(delete_filter)
        gone = replace(
            row_changes.deletion(self, row_filter, branch=branch, case_sensitive=case_sensitive),
            properties=snapshot_properties or {},
            case_sensitive=case_sensitive,
            conflict_filter=row_changes.conflict_filter(self, row_filter, "delete"),
        )
        if gone.removed or gone.added_deletes:
            self.commit_changes(gone)
        else:
            warnings.warn("Delete operation did not match any records", stacklevel=2)
            self.expect_unmatched(gone)

    def upsert(
        self,
        df: pa.Table,
        join_cols: list[str] | None = None,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        case_sensitive: bool = True,
        branch: str | None = MAIN,
        snapshot_properties: dict[str, str] | None = None,
    ) -> UpsertResult:
        self._checked_writer(df)
        if branch not in (None, MAIN) and branch not in self.table_metadata.refs:
            raise ConfigError(
                f"Cannot upsert into branch {branch} of {'.'.join(self.target.name())}: there is no such branch. "
                "Create it with manage_snapshots().create_branch(...)"
            )
        changes, result = row_changes.upsertion(
            self,
            df,
            join_cols,
            update=when_matched_update_all,
            insert=when_not_matched_insert_all,
            case_sensitive=case_sensitive,
            branch=branch,
        )
        if result.rows_updated or result.rows_inserted:
            self.commit_changes(replace(changes, properties=snapshot_properties or {}))
        else:
            self.expect_unmatched(changes)
        return result

    def add_files(
        self,
        file_paths: list[str],
        snapshot_properties: dict[str, str] | None = None,
        check_duplicate_files: bool = True,
        branch: str | None = MAIN,
    ) -> None:
        if len(file_paths) != len(set(file_paths)):
            raise ValueError("File paths must be unique")
        files = row_changes.foreign_files(self, file_paths, branch, check_duplicates=check_duplicate_files)
        self.commit_changes(
            Changes(
                added=tuple(files),
                operation=Operation.APPEND,
                branch=branch,
                properties=snapshot_properties or {},
                foreign=True,
            )
        )

    def _checked_writer(self, df: object) -> RowWriter:
        if not isinstance(df, pa.Table | pa.RecordBatchReader):
            raise ValueError(f"Expected pa.Table or pa.RecordBatchReader, got: {df}")  # noqa: TRY004
        writer = self._writer()
        writer.check(df.schema)
        return writer

    def update_spec(self, case_sensitive: bool = True) -> UpdateSpec:
        return UpdateSpecV3(self, case_sensitive=case_sensitive)

    # -- what is not offered ------------------------------------------------------------------

    def update_snapshot(self, *_: Any, **__: Any) -> Any:
        raise UnsupportedError(
            "PyIceberg's snapshot producers cannot write version 3; use append, overwrite, delete, upsert or add_files"
        )

    def update_statistics(self) -> Any:
        if self.sealed.encryption is not None:
            raise UnsupportedError("statistics files have no encrypted form, so an encrypted table gets none")
        return super().update_statistics()

    def upgrade_table_version(self, format_version: Any) -> Transaction:
        if format_version != self.table_metadata.format_version:
            raise UnsupportedError(f"a version 3 table cannot be made a version {format_version} table")
        return self
