"""`expire`: removes old snapshots, the files that only they used, and every copy of their keys.

    plan("hr.salaries", older_than=timedelta(days=5), retain_last=3) ──> ExpirePlan ──execute()──> ExpireResult

    a journal, sealed under the table's KEK ──> commit: snapshots, refs and keys out of the metadata
        ──> the table is loaded again ──> data files ─> manifests ─> manifest lists ─> statistics
        ─> older metadata.json that hold keys of expired snapshots ─> the journal

The order makes the job safe to kill: until the last file of an expired snapshot is deleted, the journal holds its keys,
and the next run finds the snapshot there. What is removed is decided after the commit, on the newest metadata.
See docs/decisions/0058-expiry-removes-older-metadata.md and 0088-one-gate-for-deletions.md.

Of several tables, one that fails is part of the result, and the others go on. The error of a single table is raised.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table.update import RemoveSnapshotRefUpdate, RemoveSnapshotsUpdate

from sealberg.errors import ConfigError, KmsUnavailableError
from sealberg.files.locations import normal
from sealberg.jobs.expire_result import ExpireResult, TableExpiry, TableFailure
from sealberg.jobs.job import Amount, Plan, PlanStep, Progress
from sealberg.jobs.key_jobs import ERRORS
from sealberg.jobs.removal import journal
from sealberg.jobs.removal.deletion import Left, Removed, Unneeded, delete_in_stages
from sealberg.jobs.removal.former_folders import metadata_places
from sealberg.jobs.removal.older_metadata import in_metadata_folders, metadata_below, older_metadata, refuse_newer
from sealberg.jobs.removal.removable import removable
from sealberg.jobs.removal.unreachable import Gone, Unreachable
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import selected_tables, shown
from sealberg.jobs.task_io import storage_only
from sealberg.table.own_folders import Domain, neighbours
from sealberg.table.retention import Expiry, Retention, expiry
from sealberg.write.staged_files import discard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyiceberg.catalog import Catalog

    from sealberg.files.listing import Listed
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.removal.older_metadata import OlderMetadata
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.table.catalog_table import CatalogTable
    from sealberg.table.own_folders import Neighbour
    from sealberg.table.transaction import EncryptedTransaction

METADATA: Final = "metadata"
TRIES: Final = 5
REFUSAL: Final = "Cannot expire snapshots"
UNPROVED: Final = "no metadata log names it, and no key of the table opens a key in it: anybody may have put it there"


@dataclass(frozen=True)
class ExpirePlan(Plan[ExpireResult]):
    """The tables whose snapshots will be expired, and what goes as the metadata are now."""

    asked: Retention
    tables: tuple[CatalogTable, ...] = field(repr=False)
    now_ms: int
    failures: tuple[TableFailure, ...] = ()

    @property
    def job(self) -> str:
        return "expire"

    @property
    def expiries(self) -> tuple[Expiry, ...]:
        """Per table: the snapshots and refs that go."""
        return tuple(expiry(table.metadata, self.asked, self.now_ms) for table in self.tables)

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        failed = (PlanStep(each.table, "-", note=f"failed: {each.message}") for each in self.failures)
        return (*(_step(table, gone) for table, gone in zip(self.tables, self.expiries, strict=True)), *failed)

    @property
    def changes(self) -> bool:
        return bool(self.tables)  # also without an expiry, files of an earlier expiry may be left

    def to_json(self) -> dict[str, Any]:
        expiries = [
            {
                "table": _name(table),
                "snapshots": list(gone.snapshot_ids),
                "refs": list(gone.refs),
            }
            for table, gone in zip(self.tables, self.expiries, strict=True)
        ]
        return {**super().to_json(), "expiries": expiries, "failures": [each.to_json() for each in self.failures]}

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> ExpireResult:
        """Expire and remove, table by table."""
        runner = runner or Threads()
        counter = _Counter(progress)
        done, failures = [], list(self.failures)
        catalogs = {id(table.catalog): table.catalog for table in self.tables}
        others = {number: neighbours(catalog) for number, catalog in catalogs.items()}
        for table in self.tables:
            try:
                done.append(expire_table(table, self.asked, runner, counter.done, others=others[id(table.catalog)]))
            except ERRORS as error:
                if len(self.tables) + len(self.failures) == 1:
                    raise
                failures.append(TableFailure.of(_name(table), error))
        return ExpireResult(tuple(done), tuple(failures))


def plan(
    *tables: TableName,
    catalog: Catalog | str | None = None,
    every: bool = False,
    older_than: timedelta | datetime | None = None,
    retain_last: int | None = None,
    snapshots: Iterable[int] = (),
    refs: Iterable[str] = (),
) -> ExpirePlan:
    """What `expire` will remove. Reads the metadata of the tables, and asks no KMS.

    Args:
        tables: names of tables or namespaces, or open tables.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        every: all tables of the catalog.
        older_than: an age or a moment; by default `history.expire.max-snapshot-age-ms` of the table, or 5 days.
        retain_last: snapshots of each branch that stay; by default `history.expire.min-snapshots-to-keep`, or 1.
        snapshots: these snapshots go, whatever their age.
        refs: these branches and tags go, whatever their age.
    """
    if every and tables:
        raise ConfigError("all tables of the catalog were asked for, and some by name; expected one of the two")
    if not every and not tables:
        raise ConfigError("no table was named; name tables or namespaces, or ask for all tables of the catalog")
    now_ms = time.time_ns() // 1_000_000
    limit = None if older_than is None else moment_ms(older_than, now_ms, "older_than")
    asked = Retention(limit, retain_last, frozenset(snapshots), frozenset(refs))
    found = [removable(table, REFUSAL) for table in tables if not isinstance(table, (str, tuple))]
    names = [table for table in tables if isinstance(table, (str, tuple))]
    failures: list[TableFailure] = []
    if names or every:
        with selected_tables(catalog, names, every=every) as (opened, identifiers):
            alone = len(found) + len(identifiers) == 1
            for identifier in identifiers:
                try:
                    found.append(removable(opened.load_table(identifier), REFUSAL))
                except ERRORS as error:
                    if alone:
                        raise
                    failures.append(TableFailure.of(shown(identifier), error))
    _refuse_unknown(found, asked)
    return ExpirePlan(asked, tuple(found), now_ms, tuple(failures))


def moment_ms(given: timedelta | datetime, now_ms: int, name: str) -> int:
    """The moment in milliseconds since the epoch; an age counts back from now."""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ConfigError(f"{name} is {given.isoformat()} without a time zone, expected a datetime with one")
        return round(given.timestamp() * 1000)
    if given < timedelta(0):
        raise ConfigError(f"{name} is {given}, expected an age of 0 or more")
    return now_ms - given // timedelta(milliseconds=1)


def _refuse_unknown(tables: list[CatalogTable], asked: Retention) -> None:
    known = {snapshot.snapshot_id for table in tables for snapshot in table.metadata.snapshots}
    if unknown := sorted(asked.snapshot_ids - known):
        raise ConfigError(f"no table has the snapshot {', '.join(map(str, unknown))}")
    refs = {name for table in tables for name in table.metadata.refs}
    if missing := sorted(asked.refs - refs):
        raise ConfigError(f"no table has the branch or tag {', '.join(missing)}")


# -- one table --------------------------------------------------------------------------------------


def expire_table(
    table: CatalogTable,
    asked: Retention,
    runner: Runner,
    noted: Callable[[int, int], None] = lambda _files, _bytes: None,
    *,
    before_expiry: Callable[[EncryptedTransaction, tuple[Any, ...]], None] | None = None,
    is_newest: bool = False,
    others: Sequence[Neighbour] | None = None,
    keks: bool = False,
) -> TableExpiry:
    """Expire snapshots of one table, and remove what only they used.

    Args:
        before_expiry: stages more changes in the transaction of the expiry, and is told the updates that follow; called
            again if the expiry is decided again.
        is_newest: the table is the answer to a commit of just now, so it is not loaded again. Neither is it after the
            expiry, whose commit answers with the table: later commits of others build on what that commit left.
        others: the tables of the catalog, if the caller has them.
        keks: remove older metadata files that hold a KEK which the table has no more, too.
    """
    if not is_newest:
        table.refresh()
    files = in_metadata_folders(table)
    refuse_newer(table, (*files, *metadata_below(table)), but_shorter=True)
    before = table.metadata
    gone = _commit(table, asked, before_expiry)
    removed, unopened = remove_expired(
        table, gone.parts, runner, noted, is_newest=is_newest, journals=gone.journals, others=others, keks=keks
    )
    keys = len(before.encryption_keys.diff(table.metadata.encryption_keys).added)
    return TableExpiry(_name(table), gone.expiry.snapshot_ids, gone.expiry.refs, keys, removed, unopened)


class _Committed(NamedTuple):
    """An expiry that was committed, with what the metadata before it say about its snapshots."""

    expiry: Expiry
    parts: list[Gone]
    journals: list[str]


def _commit(
    table: CatalogTable,
    asked: Retention,
    before_expiry: Callable[[EncryptedTransaction, tuple[Any, ...]], None] | None = None,
) -> _Committed:
    """Commit the expiry, decided on the newest metadata; a ref that appears meanwhile makes it decide again."""
    for left in reversed(range(TRIES)):
        before = table.metadata
        found = expiry(before, asked, time.time_ns() // 1_000_000)
        if not found:
            return _Committed(found, [], [])
        expired = set(found.snapshot_ids)
        part = Gone(before, tuple(each for each in before.snapshots if each.snapshot_id in expired))
        journals = [written] if expired and table.encryption and (written := journal.write(table, part)) else []
        updates = tuple(_updates(found))
        try:
            transaction = table.transaction()
            with transaction:
                if before_expiry is not None:
                    before_expiry(transaction, updates)
                transaction.stage(updates)
        except (ValidationException, CommitFailedException):
            discard(table.inner, journals)
            if not left:
                raise
            table.refresh()
        else:
            return _Committed(found, [part] if expired else [], journals)
    raise AssertionError


def _updates(gone: Expiry) -> Iterator[Any]:
    for name in gone.refs:
        yield RemoveSnapshotRefUpdate.model_validate({"ref-name": name})
    if gone.snapshot_ids:
        yield RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(gone.snapshot_ids)})


def remove_expired(
    table: CatalogTable,
    gone: list[Gone],
    runner: Runner,
    noted: Callable[[int, int], None],
    *,
    is_newest: bool = False,
    journals: Iterable[str] = (),
    others: Sequence[Neighbour] | None = None,
    keks: bool = False,
) -> tuple[Removed, int]:
    """Remove the files of expired snapshots, and older metadata files that hold their keys.

    Snapshots that an earlier run expired are found in the journals of an encrypted table.

    Args:
        is_newest: the table was loaded, or committed, after the expiry.
        journals: those of this run.
        others: the tables of the catalog, if the caller has them.
        keks: as for `expire_table`.
    """
    if not is_newest:
        table.refresh()
    removed = Removed()
    files = in_metadata_folders(table, _places(gone))
    written = list(journals)
    begun = [each.location for each in files if each.location.endswith(journal.SUFFIX) and each.location not in written]
    for location in begun:
        try:
            gone = [*gone, journal.read(table, location)]
            written.append(location)
        except KmsUnavailableError:
            raise
        except journal.NoJournalError:
            written.append(location)  # of a run that was killed before its commit, or before an erase
        except ERRORS as error:
            removed.kept.append(Left(location, f"no journal of this table: {type(error).__name__}: {error}"))
    if begun:
        files = in_metadata_folders(table, _places(gone))  # a journal names snapshots, which name their folders
    older: list[OlderMetadata] = []
    if table.encryption is not None:
        older = list(older_metadata(table, *(each.metadata for each in gone), listed=files, keks=keks))
    held = [each for each in older if (each.expired_keys and not each.in_progress) or each.error is not None]
    if not (gone or held):
        discard(table.inner, written)
        return removed, 0
    domain = Domain.of(
        table,
        neighbours(table.catalog) if others is None else others,
        vouched=table.catalog.vouches(table),
        former=(*metadata_places(table.metadata), *_places(gone)),
    )
    work = Unreachable(table, gone, domain, runner, removed)
    storage = storage_only(table.inner)
    if delete_in_stages(work.files(), storage, runner, removed, noted=noted) and delete_in_stages(
        _with_expired_keys(table, held, domain, files, removed), storage, runner, removed, noted=noted
    ):
        discard(table.inner, written)
    return removed, len(work.unopened)


def _places(gone: Iterable[Gone]) -> list[str]:
    """The folders that the metadata before an expiry name."""
    return list(dict.fromkeys(place for each in gone for place in metadata_places(each.metadata)))


def _with_expired_keys(
    table: CatalogTable, held: list[OlderMetadata], domain: Domain, files: Iterable[Listed], removed: Removed
) -> Iterator[Unneeded]:
    """The older metadata files that hold keys of expired snapshots; never the one that the catalog points at now."""
    removed.left += [Left(each.location, each.error) for each in held if each.error is not None]
    unneeded = [each for each in held if each.error is None]
    if unneeded:
        table.refresh()
    listed = {normal(each.location): each for each in files}
    for each in unneeded:
        place = normal(each.location)
        if place == normal(table.metadata_location):
            continue
        reason = UNPROVED if each.unproved else domain.refusal(each.location, place)
        if reason is not None:
            removed.kept.append(Left(each.location, reason))
        else:
            yield Unneeded(METADATA, each.location, each.size, listed.get(place))


# -- the plan ---------------------------------------------------------------------------------------


def _step(table: CatalogTable, gone: Expiry) -> PlanStep:
    metadata = table.metadata
    refs = f", refs {', '.join(gone.refs)}" if gone.refs else ""
    left = len(metadata.snapshots) - len(gone.snapshot_ids)
    action = f"expire {len(gone.snapshot_ids)} of {len(metadata.snapshots)} snapshots{refs}"
    expired = set(gone.snapshot_ids)
    keks = {
        entry.encrypted_by_id
        for each in metadata.snapshots
        if each.key_id and (entry := metadata.encryption_keys.get(each.key_id)) is not None
    }
    older = len(metadata.metadata_log) if gone and table.encryption is not None else 0
    removes = Amount(len(expired) + _deleted_files(metadata, expired) + older, None) if gone else Amount()
    note = "the number of files comes from snapshot summaries; files that a kept snapshot needs are never removed"
    if not gone:
        note = "nothing is old enough to expire; files that an earlier expiry left behind are removed"
    return PlanStep(
        _name(table),
        action,
        reads=Amount(len(metadata.snapshots), None),
        writes=Amount(1 if gone else 0, None),
        removes=removes,
        kms_calls=len(keks) if left or gone else 0,
        note=note,
    )


def _deleted_files(metadata: V3TableMetadata, expired: set[int]) -> int:
    """The files that the children of expired snapshots removed, so that no later snapshot has them."""
    count = 0
    for snapshot in metadata.snapshots:
        if snapshot.parent_snapshot_id in expired and snapshot.summary is not None:
            said = snapshot.summary.additional_properties
            for name in ("deleted-data-files", "removed-delete-files"):
                text = said.get(name, "")
                count += int(text) if text.isdigit() else 0
    return count


def _name(table: CatalogTable) -> str:
    return ".".join(table.name())


class _Counter:
    def __init__(self, listener: ProgressListener | None) -> None:
        self._listener = listener
        self._files = self._bytes = 0

    def done(self, files: int, stored: int) -> None:
        self._files += files
        self._bytes += stored
        if self._listener is not None:
            self._listener(Progress(self._files, self._files, self._bytes, self._bytes))
