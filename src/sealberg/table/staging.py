"""The steps of a transaction on a version 3 table, staged and then committed at once.

    append, overwrite, delete, ... ──> FileChanges ──build──> updates ─┐
    schema, spec, properties, refs, keys ────────────────> updates ─┴──> one commit

The transaction keeps a list of steps. If another process commits first, the table is loaded again and the steps are
applied to the newest metadata: snapshots are validated against the other commits and rebuilt with the keys of all
writers, and the requirements of metadata updates are checked again.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertTableUUID

from sealberg.errors import CatalogError, ConfigError
from sealberg.metadata import clock
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.metadata.updates import applied, usable
from sealberg.properties.table_names import readable
from sealberg.pyiceberg_private import TransactionSeams
from sealberg.table.base import new_places
from sealberg.table.cherrypick import AssertSnapshot, CherryPick
from sealberg.table.expiry import with_unneeded_keys
from sealberg.table.key_changes import KeyChange
from sealberg.table.statistics import StatisticsChange
from sealberg.write import row_changes
from sealberg.write.commit_outcome import CommitAttempt, CommitNotApplied
from sealberg.write.conflicts import head_of, validate
from sealberg.write.context import WriteContext
from sealberg.write.retry import COMMIT, STATUS_CHECK, RetryPolicy
from sealberg.write.snapshot_builder import FileChanges, build
from sealberg.write.staged_files import StagedFiles, discard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import EllipsisType

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from sealberg.table.catalog_table import CatalogTable
    from sealberg.write.retry import Attempts, Turn


@dataclass(frozen=True)
class _MetadataStep:
    """Updates of metadata that a retry repeats unchanged."""

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]


@dataclass(frozen=True)
class _UnmatchedStep:
    """An operation that matched no row. It commits nothing, but no other commit may have added matching rows."""

    changes: FileChanges


StagedStep = _MetadataStep | FileChanges | CherryPick | StatisticsChange | KeyChange
Step = StagedStep | _UnmatchedStep


class StagedTransaction(TransactionSeams):
    """The steps of a transaction, and their commit."""

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
        """The metadata with the staged updates applied."""
        if not self._pending:
            return self.sealed.metadata  # frozen, so no copy is needed
        if self._staged is None:
            before = self.sealed.metadata
            staged = applied(before, self._pending)
            assert isinstance(staged, V3TableMetadata)
            self._staged = clock.in_order(before, staged, self._max_skew_ms())
        return self._staged

    @property
    def staged_updates(self) -> tuple[TableUpdate, ...]:
        """The updates that turn the table's metadata into `table_metadata`."""
        return self._pending

    @property
    def io(self) -> FileIO:
        """A FileIO that also opens staged snapshots, whose keys are not committed yet."""
        return self.sealed.io_for(self.table_metadata)

    @property
    def context(self) -> WriteContext:
        """The context for the writers of this transaction."""
        encryption, locations = self.sealed.encryption, new_places(self.target)
        return WriteContext(self.table_metadata, self.io, encryption, locations)

    def apply(self, updates: tuple[Any, ...], requirements: tuple[Any, ...] = ()) -> None:
        self.stage(updates, requirements)
        if self.commits_at_once:
            self.commit_transaction()

    def stage(self, updates: tuple[Any, ...], requirements: tuple[Any, ...] = ()) -> None:
        self._take(_MetadataStep(updates, requirements))

    def commit_changes(self, changes: FileChanges, *, read_at: int | EllipsisType | None = ...) -> None:
        """Stage a snapshot with these file changes.

        `read_at` is the snapshot that the changes were planned on, if that is not the head of the branch in this
        transaction: a query may have read an older snapshot. The changes are then validated at once.
        """
        with StagedFiles(self.io, changes.written):
            self._refuse_tag(changes.branch)
            step = replace(self._planned(changes, read_at), snapshot_id=self.table_metadata.new_snapshot_id())
            if read_at is not ...:
                self._validate(step)
            self._take(step)
        if self.commits_at_once:
            self.commit_transaction()

    def stage_pick(self, pick: CherryPick) -> None:
        """Stage the publication of a snapshot; `apply` commits it."""
        self._take(pick)

    def commit_keys(self, change: KeyChange) -> None:
        """Stage a change of keys alone."""
        self._take(change)
        if self.commits_at_once:
            self.commit_transaction()

    def commit_statistics(self, change: StatisticsChange) -> None:
        """Stage a statistics file with its key; the file is deleted if it is not committed."""
        with StagedFiles(self.io, [change.file.statistics_path]):
            self._take(change)
        if self.commits_at_once:
            self.commit_transaction()

    def expect_unmatched(self, changes: FileChanges, *, read_at: int | EllipsisType | None = ...) -> None:
        """Stage the validation of changes that turned out to be empty."""
        self.refuse_if_dead()
        self._steps.append(_UnmatchedStep(self._planned(changes, read_at)))
        if self.commits_at_once:
            self.commit_transaction()

    def _planned(self, changes: FileChanges, read_at: int | EllipsisType | None) -> FileChanges:
        """The changes with the starting snapshot and the schema, which their validation needs."""
        return replace(
            changes,
            starting_snapshot_id=self._last_of_others(changes.branch) if read_at is ... else read_at,
            schema=changes.schema or self.table_metadata.schema(),
        )

    def _last_of_others(self, branch: str | None) -> int | None:
        """The newest snapshot of a branch that is not of this transaction, whose own snapshots a retry rebuilds."""
        own = self._own_snapshots()
        at = head_of(self.table_metadata, branch)
        while at is not None and at.snapshot_id in own:
            at = self.table_metadata.snapshot_by_id(at.parent_snapshot_id or -1)
        return at.snapshot_id if at else None

    def _own_snapshots(self) -> set[int]:
        return {
            step.snapshot_id for step in self._steps if isinstance(step, FileChanges) and step.snapshot_id is not None
        }

    def _refuse_tag(self, branch: str | None) -> None:
        ref = self.table_metadata.refs.get(branch) if branch is not None else None
        if ref is not None and ref.snapshot_ref_type != SnapshotRefType.BRANCH:
            raise ConfigError(f"{branch} is a tag, not a branch. Tags cannot be targets for producing snapshots")

    def _validate(self, changes: FileChanges) -> None:
        name = ".".join(self.target.name())
        validate(changes, self.table_metadata, self.io, table=name, own=self._own_snapshots())

    def _take(self, step: StagedStep) -> None:
        self.refuse_if_dead()
        self._stage_step(step)
        self._steps.append(step)

    def _stage_step(self, step: StagedStep) -> None:
        if isinstance(step, KeyChange):
            assert self.sealed.encryption is not None, "only an encrypted table has keys"
            step = _MetadataStep(*step.on(self.table_metadata, self.sealed.encryption.settings, self._now_ms()))
        more: tuple[Any, ...] = ()
        if isinstance(step, CherryPick):
            more = (AssertSnapshot.of(step.snapshot_id),)
            found = step.on(self.table_metadata, self.io)
            step = found if isinstance(found, FileChanges) else _MetadataStep(*found)
        elif isinstance(step, StatisticsChange):
            assert self.sealed.encryption is not None, "a statistics file with a key is for an encrypted table"
            step = _MetadataStep(step.on(self.table_metadata, self.sealed.encryption), ())
        updates, requirements = (
            (self._with_unneeded_keys(step.updates), step.requirements)
            if isinstance(step, _MetadataStep)
            else self._built(step)
        )
        for requirement in requirements:
            requirement.validate(self.table_metadata)
        self._pending += updates
        # Only the first requirement on a branch is about the catalog's state; later ones are about earlier steps.
        known = {(need.type, getattr(need, "ref", None)) for need in self._needs}
        self._needs += tuple(need for need in requirements if (need.type, getattr(need, "ref", None)) not in known)
        self._needs += more  # a transaction may publish several snapshots, each of which must be there
        self._staged = None

    def _with_unneeded_keys(self, updates: tuple[Any, ...]) -> tuple[Any, ...]:
        return with_unneeded_keys(updates, self.table_metadata, self.sealed.encryption, self._now_ms())

    def _now_ms(self) -> int:
        return clock.next_ms(self.table_metadata, self._max_skew_ms())

    def _max_skew_ms(self) -> int:
        # The commit itself refuses a value that it cannot read, unless the commit is there to repair it.
        return clock.max_skew_ms(self.sealed.catalog.properties, readable(self.sealed.metadata.properties))

    def _built(self, changes: FileChanges) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
        built = build(changes, self.context, timestamp_ms=self._now_ms())
        self._attempt_files += built.written
        return built.updates, built.requirements

    # -- commit -------------------------------------------------------------------------------

    def commit_transaction(self) -> Table:
        self.refuse_if_dead()
        self._dead = True  # unless all of this succeeds
        if self._pending:
            self._commit_with_retries()
        elif any(isinstance(step, _UnmatchedStep) for step in self._steps):
            self.target.refresh()
            self._take_again()
        self._dead = False
        self._steps, self._pending, self._needs, self._attempt_files = [], (), (), []
        self._staged = None
        return self.target

    def _commit_with_retries(self) -> None:
        attempt = CommitAttempt()
        with self._forgetting_files(attempt), attempt.not_applied():
            properties = usable(self.sealed.metadata.properties, self._pending)
            policy = RetryPolicy.from_properties(properties, "commit.retry.", COMMIT)
            RetryPolicy.from_properties(properties, "commit.status-check.", STATUS_CHECK)
        with policy.start() as attempts, contextlib.ExitStack() as stack:
            turn = self.sealed.catalog.turn()
            if turn is not None:
                stack.callback(turn.close)
            while not self._commit_once(attempts, turn):
                pass

    def _commit_once(self, attempts: Attempts, turn: Turn | None) -> bool:
        """One request to the catalog: True if it was applied, False if the steps were rebuilt for another attempt."""
        attempt = CommitAttempt()
        with self._forgetting_files(attempt):
            try:
                needs = (*self._needs, AssertTableUUID(uuid=self.sealed.metadata.table_uuid))
                self.sealed.commit(self._pending, needs, attempt)
            except CommitFailedException as error:
                with attempt.not_applied():
                    # After a CatalogError the catalog has already retried.
                    if isinstance(error, CatalogError) or not attempts.wait(turn):
                        raise
            else:
                return True
            with attempt.not_applied():
                return self._again()

    @contextlib.contextmanager
    def _forgetting_files(self, attempt: CommitAttempt) -> Iterator[None]:
        """Delete the files of this transaction if the block fails and its commit was surely not applied."""
        try:
            yield
        except BaseException as error:
            if isinstance(attempt.outcome(error), CommitNotApplied):
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
        """End the transaction for good; `forget` deletes its files, which no metadata name."""
        self._dead = True
        if forget:
            self._forget_files()

    def _again(self) -> bool:
        """Apply all steps to the newest metadata; True if nothing is left to commit."""
        self.target.refresh()
        if self._landed():
            return True
        self._refuse_moved_row_ids()
        stale, self._attempt_files = self._attempt_files, []
        discard(self.target.io, stale)
        self._pending, self._needs, self._staged = (), (), None
        self._take_again()
        return not self._pending  # a change of keys that another process has made meanwhile

    def _landed(self) -> bool:
        """Whether the table has all that this transaction adds, though the catalog refused the commit."""
        metadata = self.sealed.metadata
        applied = [
            step.landed(metadata)
            if isinstance(step, CherryPick | StatisticsChange)
            else metadata.snapshot_by_id(step.snapshot_id or 0) is not None
            for step in self._steps
            if isinstance(step, FileChanges | CherryPick | StatisticsChange)
        ]
        return bool(applied) and all(applied)

    def _take_again(self) -> None:
        """Validate every step against the newest metadata, and stage it on top of them."""
        for at, step in enumerate(self._steps):
            match step:
                case _UnmatchedStep():
                    self._validate(step.changes)
                case FileChanges():
                    self._validate(step)
                    replanned = self._steps[at] = row_changes.replan(self.context, step)
                    self._stage_step(replanned)
                case _MetadataStep() | CherryPick() | StatisticsChange() | KeyChange():
                    self._stage_step(step)

    def _refuse_moved_row_ids(self) -> None:
        """Refuse a retry if a step rewrote rows that an earlier step added: their stored row ids are used by now."""
        added: set[str] = set()
        for step in self._steps:
            if isinstance(step, FileChanges):
                if step.added and any(str(file.file_path) in added for file in step.removed):
                    raise CommitFailedException(
                        "the table has been updated by another process, and this transaction has rewritten rows that "
                        "it added itself, whose row ids the other process has used. Run the transaction again from "
                        "the start"
                    )
                added.update(str(file.file_path) for file in step.added)

    def _forget_files(self) -> None:
        """Delete the files of a commit that was certainly not applied."""
        written = [path for step in self._steps if isinstance(step, FileChanges) for path in step.written]
        statistics = [step.file.statistics_path for step in self._steps if isinstance(step, StatisticsChange)]
        discard(self.target.io, [*self._attempt_files, *written, *statistics])
