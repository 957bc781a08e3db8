"""`erase` over many tables: one person, one plan, one proof, one record.

    plan(every=True, catalog="prod", key_column="customer_id", value="7")
        each encrypted table that has, or had, the column ──erase──> Erasure
        a table that cannot be searched, or is not encrypted ──────> told; the whole is then not proved
        a table that never had the column ─────────────────────────> not concerned

One table after the other. A table that fails is told, and the others go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sealberg.errors import ConfigError
from sealberg.jobs import erase
from sealberg.jobs.erase_record import EraseRecord, HashedValue, TableErased, write_record
from sealberg.jobs.erasure.names import columns_of, equals, has_had
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED, Plan, PlanStep
from sealberg.jobs.key_jobs import ERRORS, manager_of
from sealberg.jobs.record import Sealer, check_file, this_user
from sealberg.jobs.selection import selected_tables, shown
from sealberg.table.catalog_table import CatalogTable
from sealberg.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.jobs.erasure.result import Erasure
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner

# erase: will be, or was, erased. without: never had the column, or no row of it can have the value.
# unsearched: it may have the rows, and cannot be searched. failed: an error.
Status: TypeAlias = Literal["erase", "without", "unsearched", "failed"]


@dataclass(frozen=True)
class Part:
    """One table of the plan, or of the result."""

    table: str
    uuid: str
    status: Status
    reason: str = ""
    plan: erase.ErasePlan | None = field(default=None, repr=False)
    erasure: Erasure | None = None

    @property
    def exit_code(self) -> int:
        if self.status in ("unsearched", "failed"):
            return NOT_CHECKED
        return FINE if self.erasure is None else self.erasure.exit_code

    def to_json(self) -> dict[str, Any]:
        found = {"table": self.table, "table_uuid": self.uuid, "status": self.status, "reason": self.reason}
        return found if self.erasure is None else {**found, **self.erasure.to_json()}

    def recorded(self) -> TableErased:
        """Numbers alone: a path may have the value in it, and so may the text of an error."""
        made = self.erasure
        if made is None:
            return TableErased(self.table, self.uuid, self.status, self.exit_code)
        return TableErased(
            self.table,
            self.uuid,
            self.status,
            made.exit_code,
            made.is_proved,
            made.rows,
            len(made.files),
            made.rewritten,
            len(made.snapshot_ids),
            len(made.tags),
            made.removed.count,
            len(made.still) + len(made.removed.left) + len(made.removed.kept),
        )


@dataclass(frozen=True)
class Erasures:
    """The result for all tables."""

    catalog: str
    parts: tuple[Part, ...]

    @property
    def exit_code(self) -> int:
        """0: erased and proved in all tables. 1: something still shows the rows. 2: something was not searched."""
        codes = {part.exit_code for part in self.parts}
        return NOT_CHECKED if NOT_CHECKED in codes else FINDINGS if FINDINGS in codes else FINE

    def to_json(self) -> dict[str, Any]:
        return {
            "job": "erase",
            "catalog": self.catalog,
            "exit_code": self.exit_code,
            "proved": self.exit_code == FINE,
            "tables": [part.to_json() for part in self.parts],
        }

    def __str__(self) -> str:
        lines = []
        for part in self.parts:
            mark = {"unsearched": "NOT SEARCHED: ", "failed": "FAILED: "}.get(part.status, "")
            lines.append(str(part.erasure) if part.erasure is not None else f"{part.table}: {mark}{part.reason}")
        searched = sum(part.erasure is not None for part in self.parts)
        verdict = {
            FINE: "erased and proved",
            FINDINGS: "NOT erased: something still holds the rows, see above",
            NOT_CHECKED: "NOT proved: something was not searched or not removed, see above",
        }[self.exit_code]
        return "\n".join([*lines, f"{searched} of {len(self.parts)} tables searched: {verdict}"])


@dataclass(frozen=True)
class ErasuresPlan(Plan[Erasures]):
    """What will be erased, table by table."""

    catalog: str
    parts: tuple[Part, ...]
    begun: EraseRecord | None = field(default=None, repr=False)
    record: Path | None = None
    sealer: Sealer | None = field(default=None, repr=False)

    @property
    def job(self) -> str:
        return "erase"

    @property
    def changes(self) -> bool:
        return any(part.plan is not None for part in self.parts)

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        return tuple(
            step
            for part in self.parts
            for step in (part.plan.steps if part.plan is not None else (PlanStep(part.table, "-", note=part.reason),))
        )

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> Erasures:
        self._write(self.parts, ended=False)
        done = tuple(self._erased(part, progress, runner) for part in self.parts)
        self._write(done, ended=True)
        return Erasures(self.catalog, done)

    def _erased(self, part: Part, progress: ProgressListener | None, runner: Runner | None) -> Part:
        if part.plan is None:
            return part
        try:
            return replace(part, erasure=part.plan.execute(progress=progress, runner=runner))
        except ERRORS as error:
            return replace(part, status="failed", reason=f"{type(error).__name__}: {error}")

    def _write(self, parts: Sequence[Part], *, ended: bool) -> None:
        if self.begun is None or self.record is None or self.sealer is None:
            return
        code = Erasures(self.catalog, tuple(parts)).exit_code
        record = replace(
            self.begun,
            state="finished" if ended else "begun",
            ended=datetime.now(UTC) if ended else None,
            exit_code=code if ended else NOT_CHECKED,
            tables=tuple(part.recorded() for part in parts),
        )
        write_record(record, self.record, self.sealer)


def plan(
    *tables: str | Identifier,
    catalog: Catalog | str | None = None,
    every: bool = False,
    where: str | BooleanExpression | None = None,
    key_column: str | None = None,
    value: str | None = None,
    record: str | os.PathLike[str] | None = None,
    sign_with: str | None = None,
    runner: Runner | None = None,
    delete_versions: bool = False,
) -> ErasuresPlan:
    """What `erase` will do in all of these tables. Looks into all files that may hold the rows.

    Args:
        tables: names of tables or namespaces.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        every: all tables of the catalog.
        where: the rows, as in `erase.plan`; a table that never had one of its columns is not concerned.
        key_column, value: instead of `where`: the rows with this value, in the type that the column has in each table.
        record: a JSON file for the record, with a page beside it. It has numbers and a salted hash, and no value.
        sign_with: the key of the KMS that seals the record; by default the master key of the first encrypted table.
        runner: looks into files; by default threads of this machine.
        delete_versions: as in `erase.plan`.
    """
    if (where is None) == (key_column is None) or (key_column is None) != (value is None):
        raise ConfigError("expected either a filter (--where), or a column and its value (--key-column, --value)")
    if every and tables:
        raise ConfigError("all tables of the catalog were asked for, and some by name; expected one of the two")
    if not every and not tables:
        raise ConfigError("no table was named; name tables or namespaces, or ask for all tables of the catalog")
    path = None if record is None else Path(record)
    if path is not None:
        check_file(path)
        if path.exists():
            raise ConfigError(f"--record {path}: the file exists; name another")
    columns = (str(key_column),) if where is None else columns_of(where)
    with selected_tables(catalog, tables, every=every) as (opened, identifiers):
        started = datetime.now(UTC)
        options = {"runner": runner, "delete_versions": delete_versions}
        parts = tuple(_part(opened, each, columns, where, value, options) for each in identifiers)
        sealer = None if path is None else _sealer(opened, identifiers, sign_with)
    begun = EraseRecord(
        __version__,
        "begun",
        opened.name,
        started,
        None,
        this_user(),
        columns,
        HashedValue.of("filter" if where is not None else "value", str(where if where is not None else value)),
    )
    return ErasuresPlan(opened.name, parts, begun, path, sealer)


def _part(
    catalog: Catalog,
    identifier: Identifier,
    columns: Sequence[str],
    where: str | BooleanExpression | None,
    value: str | None,
    options: dict[str, Any],
) -> Part:
    name = shown(identifier)
    try:
        table = catalog.load_table(identifier)
    except ERRORS as error:
        return Part(name, "", "failed", f"the table could not be loaded: {error}")
    return _of_table(name, table, columns, where, value, options)


def _of_table(
    name: str,
    table: Table,
    columns: Sequence[str],
    where: str | BooleanExpression | None,
    value: str | None,
    options: dict[str, Any],
) -> Part:
    uuid = str(table.metadata.table_uuid)
    had = [column for column in columns if has_had(table.metadata, column)]
    if not had:
        return Part(name, uuid, "without", f"never had a column {' or '.join(columns)}")
    if not isinstance(table, CatalogTable) or table.encryption is None:
        return Part(name, uuid, "unsearched", f"has the column {', '.join(had)}, and is not encrypted")
    if missing := [column for column in columns if column not in had]:
        return Part(name, uuid, "unsearched", f"has {', '.join(had)}, and never had {', '.join(missing)}")
    try:
        rows = where if where is not None else equals(columns[0], str(value), table.metadata)
        made = None if rows is None else erase.plan(table, where=rows, **options)
    except (*ERRORS, TypeError) as error:
        return Part(name, uuid, "failed", f"{type(error).__name__}: {error}")
    status: Status = "without" if made is None else "erase"
    return Part(name, uuid, status, "" if made else f"{columns[0]} is of a type that has no such value", made)


def _sealer(catalog: Catalog, identifiers: Sequence[Identifier], sign_with: str | None) -> Sealer:
    for identifier in identifiers:
        try:
            table = catalog.load_table(identifier)
        except ERRORS:
            continue
        if isinstance(table, CatalogTable) and table.encryption is not None:
            manager = manager_of(table)
            return Sealer(manager.kms, sign_with or manager.settings.master_key_id)
    raise ConfigError("none of the tables is encrypted, so there is no key to seal a record with")
