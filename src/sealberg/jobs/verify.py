"""`verify`: proves that tables are whole, sealed and consistent, or says what is not.

    plan("hr.salaries", catalog="prod") ──> VerifyPlan ──execute()──> Verification

    catalog ── metadata.json ── keys ── manifest lists ── manifests ──> one task per file ──runner──> FileReport
                                                                └──> what lies in storage and nothing names

The process that runs the job opens the KEKs and reads metadata, lists and manifests. The runner checks files: every
AGS1 block and every Parquet module. Nothing is written, and no row or key is in the result.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from sealberg.errors import ConfigError, SealbergError
from sealberg.files.locations import Locations
from sealberg.jobs.checks import table_state
from sealberg.jobs.checks.files import check_file
from sealberg.jobs.checks.history import check_history
from sealberg.jobs.checks.key_use import check_exposed
from sealberg.jobs.checks.keys import check_keys, kek_facts
from sealberg.jobs.checks.manifests import ManifestChecks
from sealberg.jobs.checks.outcome import Outcome, problem_of, reason_of
from sealberg.jobs.checks.past import Past, Places, check_place, log_locations
from sealberg.jobs.checks.snapshots import check_files, check_metadata, read_list
from sealberg.jobs.checks.statistics import check_statistics
from sealberg.jobs.checks.storage import Unnamed, check_older_metadata, check_storage
from sealberg.jobs.findings import NotChecked, Verification
from sealberg.jobs.job import Amount, JobStopped, Plan, PlanStep, Progress
from sealberg.jobs.removal.former_folders import former_folders, others_inside
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import selected_tables
from sealberg.metadata.statistics import statistics_files
from sealberg.table.catalog_table import CatalogTable
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog

    from sealberg.jobs.checks.files import FileTask
    from sealberg.jobs.checks.outcome import FileReport
    from sealberg.jobs.checks.table_state import TableState
    from sealberg.jobs.findings import Level, TableFacts
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.metadata.table_metadata import V3Snapshot

LEVELS: Final = ("fast", "full", "deep")
ORPHAN_AGE: Final = timedelta(days=1)
TRIES: Final = 3  # how often a table that is being changed is checked again


@dataclass(frozen=True)
class VerifyOptions:
    """What is checked, and how thoroughly.

    Args:
        level: `full` authenticates every byte; `deep` also decodes every row; `fast` reads headers and footers only.
        snapshot: check the files of this snapshot only; storage is then not searched for orphans.
        orphan_age: a file that no metadata names is an orphan if it is at least this old. A younger file may belong
            to a commit that is in progress.
        expect_tables: how many tables there must be; with another number the answer is incomplete.
        strict: files in flight make the answer incomplete, too.
    """

    level: Level = "full"
    snapshot: int | None = None
    orphan_age: timedelta = ORPHAN_AGE
    expect_tables: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ConfigError(f"the level of verify is {self.level!r}, expected one of {', '.join(LEVELS)}")
        if self.orphan_age < timedelta(0):
            raise ConfigError(f"the orphan age is {self.orphan_age}, expected 0 or more")
        if self.expect_tables is not None and self.expect_tables < 1:
            raise ConfigError(f"the number of expected tables is {self.expect_tables}, expected at least 1")


@dataclass(frozen=True)
class VerifyPlan(Plan[Verification]):
    """The tables that will be verified, as the catalog has them now."""

    options: VerifyOptions
    catalog: str
    states: tuple[TableState, ...] = field(repr=False)

    @property
    def job(self) -> str:
        return "verify"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        return tuple(_step(state, self.options) for state in self.states)

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> Verification:
        """Verify the tables; errors of tables, files and the KMS are part of the result.

        Raises:
            JobStopped: Ctrl-C was pressed; it has the result so far. Files that are being checked are finished first.
        """
        started = datetime.now(UTC)
        checks = [TableCheck(state, self.options) for state in self.states]
        by_name = {check.state.name: check for check in checks}
        counter = _Counter(progress)
        tasks = (counter.begun(task) for check in checks for task in check.tasks())
        try:
            for report in (runner or Threads()).run(check_file, tasks):
                by_name[report.table].add(report)
                counter.done(report.stored_bytes)
            checks = [self._settled(check, runner or Threads(), counter) for check in checks]
        except KeyboardInterrupt:
            for check in checks:
                check.stop()
            raise JobStopped(self._result(started, checks, stopped=True)) from None
        return self._result(started, checks)

    def _settled(self, check: TableCheck, runner: Runner, counter: _Counter) -> TableCheck:
        """The check of the table as it is now, if somebody has committed meanwhile and something was found.

        A file that an expiry has removed meanwhile is no damage, and a catalog is not behind a commit of just now.
        """
        for _ in range(TRIES):
            outcome = check.outcome
            if not (outcome.findings or outcome.not_checked) or (newer := table_state.reloaded(check.state)) is None:
                return check
            check = TableCheck(newer, self.options)
            for report in runner.run(check_file, (counter.begun(task) for task in check.tasks())):
                check.add(report)
                counter.done(report.stored_bytes)
        return check

    def _result(self, started: datetime, checks: list[TableCheck], *, stopped: bool = False) -> Verification:
        findings = sorted(
            (finding for check in checks for finding in check.outcome.findings),
            key=lambda finding: (finding.severity, finding.table, finding.file or "", finding.code, finding.message),
        )
        return Verification(
            __version__,
            self.catalog,
            self.options.level,
            started,
            datetime.now(UTC),
            self.options.snapshot,
            tuple(check.facts() for check in checks),
            tuple(findings),
            (*self._not_there(), *(each for check in checks for each in check.outcome.all_not_checked())),
            stopped,
        )

    def _not_there(self) -> Iterator[NotChecked]:
        expected, found = self.options.expect_tables, len(self.states)
        if expected is not None and found != expected:
            yield NotChecked(self.catalog, "all tables", f"{expected} were expected, and {found} were found")


def plan(
    *tables: TableName,
    catalog: Catalog | str | None = None,
    every: bool = False,
    level: Level = "full",
    snapshot: int | None = None,
    orphan_age: timedelta = ORPHAN_AGE,
    expect_tables: int | None = None,
    strict: bool = False,
) -> VerifyPlan:
    """What `verify` will check. Reads the metadata of the tables, and asks no KMS.

    Args:
        tables: names of tables or namespaces, or open tables.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        every: all tables of the catalog.
        level, snapshot, orphan_age, expect_tables, strict: see `VerifyOptions`.
    """
    options = VerifyOptions(level, snapshot, orphan_age, expect_tables, strict)
    open_tables = [table for table in tables if not isinstance(table, (str, tuple))]
    names = [table for table in tables if isinstance(table, (str, tuple))]
    if every and tables:
        raise ConfigError("all tables of the catalog were asked for, and some by name; expected one of the two")
    if not every and not tables:
        raise ConfigError("no table was named; name tables or namespaces, or ask for all tables of the catalog")
    states = [table_state.of_table(table) for table in open_tables]
    label = ", ".join(dict.fromkeys(table.catalog.name for table in open_tables))
    if names or every:
        with selected_tables(catalog, names, every=every) as (opened, identifiers):
            states += [table_state.load(opened, identifier) for identifier in identifiers]
            label = opened.name
    states = _once(states)
    known = {snapshot.snapshot_id for state in states if state.table for snapshot in state.table.metadata.snapshots}
    if snapshot is not None and snapshot not in known:
        raise ConfigError(f"no table has the snapshot {snapshot}")
    return VerifyPlan(options, label, tuple(states))


def _once(states: list[TableState]) -> list[TableState]:
    """Each table once; findings are told by the name of a table, so two tables may not have the same name."""
    found: dict[str, TableState] = {}
    for state in states:
        known = found.setdefault(state.name, state)
        if _location(known) != _location(state):
            raise ConfigError(
                f"two tables of different catalogs have the name {state.name}; verify one after the other"
            )
    return list(found.values())


def _location(state: TableState) -> str | None:
    return None if state.table is None else state.table.metadata.location


class TableCheck:
    """Checks one table: what must be done once is done while its tasks are taken."""

    def __init__(self, state: TableState, options: VerifyOptions) -> None:
        self.state = state
        self.options = options
        self.outcome = Outcome(state.name)
        self.named = Locations()  # the files that the metadata name, when all tasks were taken
        self._checked: set[int] = set()
        self._facts: TableFacts | None = None
        self._all_begun = False
        self._running = 0

    def tasks(self) -> Iterator[FileTask]:
        """Check all but the files, and yield a task for each file."""
        if (error := self.state.error) is not None:
            self._not_loaded(error)
        elif self.state.encrypted is None:
            self.outcome.find("plaintext", "the table is not encrypted, so there is nothing else to check")
        else:
            for task in self._encrypted():
                self._running += 1
                yield task
        self._all_begun = True

    def add(self, report: FileReport) -> None:
        """The report of a task."""
        self._running -= 1
        self.outcome.add(report)

    def stop(self) -> None:
        """No report follows; what is left of the table was not checked."""
        if self._running or not self._all_begun:
            self.outcome.skip("the rest of the table", "verify was stopped")

    def facts(self) -> TableFacts:
        found = self._facts if self._facts is not None else self.state.facts()
        return replace(found, kinds=self.outcome.facts())

    def _not_loaded(self, error: Exception) -> None:
        found = problem_of(error)
        if found is None:
            self.outcome.skip("the table", reason_of(error))
        else:
            code = found.code if found.code == "catalog" else "metadata"
            self.outcome.find(code, f"the table could not be loaded, and nothing else was checked: {found.message}")

    def _encrypted(self) -> Iterator[FileTask]:
        state, outcome, options = self.state, self.outcome, self.options
        now_ms = time.time_ns() // 1_000_000
        self._check_catalog()
        check_metadata(state.metadata, outcome)
        check_history(state.metadata, outcome, now_ms)
        check_place(state, outcome)
        past = Past(state)
        places = Places(state, past)
        for location in log_locations(state):
            places.add(location)
        snapshots = [
            snapshot
            for snapshot in state.metadata.snapshots
            if options.snapshot is None or snapshot.snapshot_id == options.snapshot
        ]
        keys = check_keys(state, snapshots, outcome, now_ms)
        keks = kek_facts(state, keys, outcome, now_ms)
        check_exposed(state.metadata, keys.by_snapshot.values(), outcome)
        manifests = ManifestChecks(state, outcome, options.level, places)
        complete = True
        for snapshot in snapshots:
            key = keys.by_snapshot.get(snapshot.snapshot_id)
            manifests.named.add(snapshot.manifest_list)
            places.add(snapshot.manifest_list, snapshot.snapshot_id)
            if key is None and snapshot.key_id is not None:
                complete = False  # why is told already
                continue
            if key is not None:
                number, where = snapshot.snapshot_id, str(snapshot.manifest_list)
                manifests.keys.add_once(key, where, number, of=("list", snapshot.sequence_number))
            lines = read_list(state, snapshot, key, outcome)
            if lines is None:
                complete = False
                continue
            for line in lines:
                yield from manifests.read(line, snapshot.snapshot_id)
            digests = [digest for line in lines if (digest := manifests.digest(line)) is not None]
            if len(digests) == len(lines):
                check_files(snapshot, digests, manifests.changes, outcome)
                self._checked.add(snapshot.snapshot_id)
        yield from manifests.vectors()
        manifests.keys.finish(lambda: past.shortest_key)
        for file in statistics_files(state.metadata):
            places.add(file.statistics_path, file.snapshot_id)
        places.finish(outcome)
        self.named = manifests.named
        unnamed = Unnamed()
        if options.snapshot is None:
            unnamed = self._check_storage(manifests.named, complete=complete and manifests.complete)
        self._facts = state.facts(
            frozenset(self._checked), keks=keks, unreferenced_recent=len(unnamed.in_flight), **asdict(unnamed)
        )

    def _check_catalog(self) -> None:
        state, outcome = self.state, self.outcome
        assert state.table is not None
        where = state.table.metadata_location
        size = self._metadata_size()
        hashed = state.trusted is not None and state.digest == state.trusted.metadata_hash
        outcome.count("metadata", stored=size, checked=size if hashed else 0)
        if state.vouched_by == "location":
            outcome.find("no-hash", "the catalog has no hash of the metadata file, so a change goes unnoticed", where)
        elif state.vouched_by == "hash" and state.trusted is not None and state.digest != state.trusted.metadata_hash:
            outcome.find("catalog", "the hash of the metadata file differs from the hash in the catalog", where)

    def _metadata_size(self) -> int:
        assert self.state.table is not None
        try:
            return len(self.state.storage.new_input(self.state.table.metadata_location))
        except OSError:
            return 0  # a REST server need not keep the file

    def _check_storage(self, named: Locations, *, complete: bool) -> Unnamed:
        state, outcome = self.state, self.outcome
        assert state.table is not None
        check_older_metadata(state, outcome, named)
        check_statistics(state, outcome, named)
        named.add(state.table.metadata_location)
        try:
            more = former_folders(state.table, state.storage)
            leave = others_inside(state.table, more) if isinstance(state.table, CatalogTable) else []
        except (SealbergError, OSError) as error:
            outcome.skip("the folders that the table has had", reason_of(error))
            more, leave = (), []
        age = self.options.orphan_age
        found = check_storage(state, named, outcome, age, names_complete=complete, more=more, leave=leave)
        for location in found.in_flight if self.options.strict else ():
            outcome.skip(location, "a file in flight: no metadata names it, so no key opens it")
        return found


class _Counter:
    """Counts files and bytes for the progress."""

    def __init__(self, listener: ProgressListener | None) -> None:
        self._listener = listener
        self._files = self._bytes = self._total_files = self._total_bytes = 0

    def begun(self, task: FileTask) -> FileTask:
        self._total_files += 1
        self._total_bytes += task.stored_bytes
        return task

    def done(self, stored_bytes: int) -> None:
        self._files += 1
        self._bytes += stored_bytes
        if self._listener is not None:
            self._listener(Progress(self._files, self._total_files, self._bytes, self._total_bytes))


def _step(state: TableState, options: VerifyOptions) -> PlanStep:
    if state.error is not None:
        return PlanStep(state.name, "verify", note=f"the table could not be loaded: {state.error}")
    if state.encrypted is None:
        return PlanStep(state.name, "verify", note="the table is not encrypted, so there is nothing to verify")
    metadata = state.metadata
    chosen = [snapshot for snapshot in metadata.snapshots if options.snapshot in (None, snapshot.snapshot_id)]
    ring = metadata.encryption_keys
    keks = {entry.encrypted_by_id for each in chosen if each.key_id and (entry := ring.get(each.key_id)) is not None}
    return PlanStep(state.name, f"verify ({options.level})", _amount(chosen), kms_calls=len(keks))


def _amount(snapshots: list[V3Snapshot]) -> Amount:
    """The files of the newest snapshot and one manifest list per snapshot; older files are not counted by metadata."""
    if not snapshots:
        return Amount()
    newest = max(snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    said = {} if newest.summary is None else newest.summary.additional_properties

    def number(name: str) -> int | None:
        text = said.get(name, "")
        return int(text) if text.isdigit() else None

    files = (number("total-data-files") or 0) + (number("total-delete-files") or 0)
    return Amount(len(snapshots) + files, number("total-files-size"))
