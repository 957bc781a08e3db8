"""`orphans`: removes what lies in the folders of a table and that no metadata names.

    plan("hr.salaries", older_than=timedelta(days=3)) ──> OrphansPlan: the list ──execute()──> OrphansResult

A writer stores files before it commits them, so a young file is never an orphan. The plan holds the list of files;
`execute` loads the table again and removes those of the list that the newest metadata do not name either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError
from sealberg.files.locations import on_one_line
from sealberg.jobs.expire_result import left_lines, removed_json, removed_text
from sealberg.jobs.job import Amount, Plan, PlanStep, Progress, readable
from sealberg.jobs.removal.deletion import Left, Removed, Unneeded, delete_in_stages
from sealberg.jobs.removal.older_metadata import in_metadata_folders, metadata_below, refuse_newer
from sealberg.jobs.removal.orphan_search import Orphans, named_files, orphan_domain, search
from sealberg.jobs.removal.removable import removable
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import selected_tables
from sealberg.jobs.task_io import storage_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog

    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.table.catalog_table import CatalogTable

AGE: Final = timedelta(days=3)
LEAST_AGE: Final = timedelta(days=1)
SHOWN: Final = 10
ORPHAN: Final = "orphan"


@dataclass(frozen=True)
class OrphansResult:
    """What was removed."""

    table: str
    removed: Removed = field(repr=False)

    @property
    def exit_code(self) -> int:
        """0: all is done. 1: files were kept. 2: files were left."""
        return self.removed.exit_code

    def to_json(self) -> dict[str, Any]:
        return {"job": "orphans", "exit_code": self.exit_code, "table": self.table, **removed_json(self.removed)}

    def __str__(self) -> str:
        return "\n".join([f"{self.table}: {removed_text(self.removed)}", *left_lines(self.removed)])


@dataclass(frozen=True)
class OrphansPlan(Plan[OrphansResult]):
    """The orphans of a table, as they were found."""

    table: CatalogTable = field(repr=False)
    found: Orphans = field(repr=False)
    older_than: timedelta
    metadata_location: str
    check_others: bool = True
    allow_newer: bool = False

    @property
    def job(self) -> str:
        return "orphans"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        found = self.found
        return (
            PlanStep(
                ".".join(self.table.name()),
                "remove files that no metadata names",
                removes=Amount(len(found.files), found.bytes),
                note="; ".join(_notes(found, self.older_than)),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        files = [
            {"file": file.location, "bytes": file.size, "modified": file.modified.isoformat()}
            for file in self.found.files
        ]
        passed = {
            "young": self.found.young,
            "undated": self.found.undated,
            "hidden": list(self.found.hidden),
            "foreign": [{"file": each.location, "reason": each.reason} for each in self.found.foreign],
            "other_tables": list(self.found.others),
            "kept": list(self.found.kept),
        }
        return {**super().to_json(), "orphans": files, "passed_over": passed}

    def __str__(self) -> str:
        files = self.found.files
        shown = [
            f"  {file.modified:%Y-%m-%d %H:%M}  {readable(file.size):>12}  {file.location}" for file in files[:SHOWN]
        ]
        more = [f"  and {len(files) - SHOWN} more; --json lists all"] if len(files) > SHOWN else []
        return "\n".join([super().__str__(), *shown, *more])

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> OrphansResult:
        """Remove the files of the plan, except those that the newest metadata name."""
        runner = runner or Threads()
        removed = Removed()
        files = self.found.files
        if files:
            self.table.refresh()
            if not self.allow_newer:
                refuse_newer(self.table, (*in_metadata_folders(self.table), *metadata_below(self.table)))
            domain = orphan_domain(self.table, check_others=self.check_others)
            if self.table.metadata_location != self.metadata_location:
                named = named_files(self.table, runner)
                files = [file for file in files if file.location not in named]
            reasons = map(domain.refusal, (file.location for file in files))
            kept = {file.location: reason for file, reason in zip(files, reasons, strict=True) if reason is not None}
            removed.kept.extend(Left(location, reason) for location, reason in kept.items())
            files = [file for file in files if file.location not in kept]

        def noted(_files: int, _bytes: int) -> None:
            if progress is not None:
                progress(Progress(removed.count, len(files), removed.bytes, self.found.bytes))

        unneeded = (Unneeded(ORPHAN, file.location, file.size, file.listed) for file in files)
        delete_in_stages(unneeded, storage_only(self.table.inner), runner, removed, noted=noted)
        return OrphansResult(".".join(self.table.name()), removed)


def plan(
    table: TableName,
    *,
    catalog: Catalog | str | None = None,
    older_than: timedelta = AGE,
    allow_recent: bool = False,
    check_others: bool = True,
    allow_newer_metadata: bool = False,
    files: Sequence[str] = (),
    runner: Runner | None = None,
) -> OrphansPlan:
    """The orphans of a table. Reads every manifest, and lists the folders of the table.

    Args:
        table: the name of a table, or an open table.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        older_than: the least age of an orphan; a file of a commit that is in progress is younger.
        allow_recent: allow an age below one day. The caller makes sure that nobody writes to the table.
        check_others: False if no other table of the catalog has files in the folders of this table.
        allow_newer_metadata: go on although storage has a newer metadata.json than the catalog.
        files: files that are removed although no writer of Iceberg has named them so.
        runner: reads manifests; by default threads of this machine.
    """
    if older_than < timedelta(0):
        raise ConfigError(f"older_than is {older_than}, expected an age of 0 or more")
    if older_than < LEAST_AGE and not allow_recent:
        raise ConfigError(
            f"older_than is {older_than}, expected at least 24 hours: a younger file may belong to a commit that "
            "is in progress, and its removal would destroy the table. If nobody writes to the table, allow it "
            "(allow_recent, --allow-recent)"
        )
    if isinstance(table, (str, tuple)):
        wanted = tuple(table.split(".")) if isinstance(table, str) else table
        with selected_tables(catalog, [table], every=False) as (opened, identifiers):
            if identifiers != [wanted]:
                raise ConfigError(f"{table} is a namespace, expected the name of a table")
            table = opened.load_table(identifiers[0])
    chosen = removable(table, "Cannot delete orphan files")
    found = search(
        chosen,
        runner or Threads(),
        older_than,
        check_others=check_others,
        allow_newer=allow_newer_metadata,
        chosen=files,
    )
    return OrphansPlan(
        chosen, found, older_than, chosen.metadata_location, check_others=check_others, allow_newer=allow_newer_metadata
    )


def _notes(found: Orphans, age: timedelta) -> list[str]:
    return [
        text
        for count, text in (
            (found.young, f"{found.young} unnamed files are younger than {age} and stay"),
            (found.undated, f"{found.undated} unnamed files stay, because the store does not tell their age"),
            (len(found.hidden), f"{len(found.hidden)} hidden files stay; --json lists them, --file removes one"),
            (len(found.foreign), f"{len(found.foreign)} files that no writer of Iceberg has left stay: {_some(found)}"),
            (found.others, f"left out, as other tables: {', '.join(found.others)}"),
            (found.kept, f"{len(found.kept)} metadata files of other tables stay"),
        )
        if count
    ]


def _some(found: Orphans) -> str:
    some = ", ".join(on_one_line(f"{each.location} {each.reason}") for each in found.foreign[:SHOWN])
    return some + (f", and {len(found.foreign) - SHOWN} more" if len(found.foreign) > SHOWN else "")
