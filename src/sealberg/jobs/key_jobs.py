"""The shape of jobs that change the keys of tables and no file: one commit of metadata for each table.

    selected(names) ──> tables ──TableWork: step, run──> KeyPlan ──execute()──> KeyResult
                                                                                 one KeyOutcome for each table

One table after the other, in this process: the work is a few requests to the KMS and one commit. A table that fails is
an outcome, and the other tables go on. A job that was killed can be run again: each table is changed whole or not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from pyiceberg.exceptions import CommitStateUnknownException, NoSuchTableError, RESTError, ValidationException

from sealberg.errors import ConfigError, SealbergError
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED, Plan, PlanStep, Progress
from sealberg.jobs.selection import selected_tables, shown
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.jobs.core import Tables
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.keys.manager import EncryptionManager
    from sealberg.table.key_changes import KeyChange

# done: changed. nothing: there was nothing to do. due: something is left to do. unproved: the KMS does not tell whether
# something is left. failed: an error.
Status: TypeAlias = Literal["done", "nothing", "due", "unproved", "failed"]

ERRORS = (SealbergError, OSError, RESTError, CommitStateUnknownException, NoSuchTableError, ValidationException)


@dataclass(frozen=True)
class KeyOutcome:
    """What became of one table."""

    table: str
    status: Status
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        mark = {"due": "due: ", "unproved": "not proved: ", "failed": "failed: "}.get(self.status, "")
        return f"{self.table}: {mark}{self.message}"


@dataclass(frozen=True)
class KeyResult:
    """What became of all tables, and what follows from it."""

    job: str
    catalog: str
    outcomes: tuple[KeyOutcome, ...]
    conclusions: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        statuses = {outcome.status for outcome in self.outcomes}
        if statuses & {"failed", "unproved"}:
            return NOT_CHECKED
        return FINDINGS if "due" in statuses else FINE

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "exit_code": self.exit_code}

    def __str__(self) -> str:
        return "\n".join((*map(str, self.outcomes), *self.conclusions))


class TableWork(ABC):
    """What a job does with one table."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    @abstractmethod
    def step(self) -> PlanStep:
        """For the plan."""

    @abstractmethod
    def run(self) -> KeyOutcome:
        """Do it; an error of the table, the catalog or the KMS is raised."""


class Nothing(TableWork):
    """A table with which the job does nothing, with the reason."""

    def __init__(self, name: str, reason: str, status: Status = "nothing") -> None:
        super().__init__(name)
        self.reason, self.status = reason, status

    @property
    def step(self) -> PlanStep:
        return PlanStep(self.name, "-", note=self.reason)

    def run(self) -> KeyOutcome:
        return KeyOutcome(self.name, self.status, self.reason)


@dataclass(frozen=True)
class KeyPlan(Plan[KeyResult]):
    """The tables, and what will be done with each."""

    name: str
    catalog: str
    work: tuple[TableWork, ...] = field(repr=False)

    @classmethod
    def of(cls, name: str, options: Tables, work: Callable[[CatalogTable], TableWork]) -> Self:
        """The plan of a job for the tables that were asked for."""
        label, found = selected(options.tables, options.catalog, every=options.every)
        return cls(name, label, tuple(each.nothing if each.table is None else work(each.table) for each in found))

    @property
    def job(self) -> str:
        return self.name

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        return tuple(each.step for each in self.work)

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> KeyResult:
        outcomes = tuple(self.outcomes(progress, runner))
        return KeyResult(self.name, self.catalog, outcomes, self.conclusions(outcomes))

    def outcomes(self, progress: ProgressListener | None, runner: Runner | None) -> Iterator[KeyOutcome]:
        if runner is not None:
            raise ConfigError(f"{self.name} changes keys and no file, so it runs in this process, without a runner")
        for number, each in enumerate(self.work, 1):
            try:
                yield each.run()
            except ERRORS as error:
                yield KeyOutcome(each.name, "failed", str(error), {"error": type(error).__name__})
            if progress is not None:
                progress(Progress(number, len(self.work)))

    def conclusions(self, outcomes: Sequence[KeyOutcome]) -> tuple[str, ...]:  # noqa: ARG002 (for jobs that have some)
        """What follows from all outcomes."""
        return ()


@dataclass(frozen=True)
class Selected:
    """A table by its name: an encrypted table, or the reason why there is none to work on."""

    name: str
    table: CatalogTable | None
    reason: str = ""
    status: Status = "nothing"

    @property
    def nothing(self) -> Nothing:
        return Nothing(self.name, self.reason, self.status)


def selected(
    tables: Sequence[TableName], catalog: Catalog | str | None, *, every: bool
) -> tuple[str, tuple[Selected, ...]]:
    """The name of the catalog, and the tables that were asked for."""
    names = [table for table in tables if isinstance(table, (str, tuple))]
    given = [_of(table) for table in tables if not isinstance(table, (str, tuple))]
    label = ", ".join(dict.fromkeys(each.table.catalog.name for each in given if each.table is not None))
    if names or every:
        with selected_tables(catalog, names, every=every) as (opened, identifiers):
            given += [_loaded(opened, identifier) for identifier in identifiers]
            label = opened.name
    return label, tuple(given)


def _loaded(catalog: Catalog, identifier: Identifier) -> Selected:
    try:
        return _of(catalog.load_table(identifier))
    except ERRORS as error:
        return Selected(shown(identifier), None, f"the table could not be loaded: {error}", "failed")


def _of(table: Table) -> Selected:
    name = shown(table.name())
    if isinstance(table, CatalogTable) and table.encryption is not None:
        return Selected(name, table)
    if isinstance(table, CatalogTable) or not hasattr(table.io, "open_list_key"):
        return Selected(name, None, "the table is not encrypted, so it has no keys")
    raise ConfigError(f"{name} was opened without a catalog, so it cannot be changed; name the table of a catalog")


def manager_of(table: CatalogTable) -> EncryptionManager:
    assert table.encryption is not None, "only encrypted tables are selected"
    return table.encryption


def commit(table: CatalogTable, change: KeyChange) -> None:
    """Commit a change of keys; it is decided on the newest metadata, and nothing is committed if it is empty."""
    begun = table.transaction()
    begun.commit_keys(change)
    begun.commit_transaction()
