"""Collects what the checks of one table find.

FileReport   of one file, made by the runner, maybe in another process
Outcome      of one table, in the process that runs the job
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from sealberg.errors import SealbergError
from sealberg.jobs.codes import code_of, severity_of
from sealberg.jobs.findings import Finding, KindFacts, NotChecked

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS: Final = (
    "metadata",
    "manifest-list",
    "manifest",
    "data",
    "position-deletes",
    "equality-deletes",
    "deletion-vectors",
    "statistics",
    "unreferenced",
)


class Problem(NamedTuple):
    """A finding about one file, before it is known in which table and snapshot the file is."""

    code: str
    message: str


class Skipped(NamedTuple):
    """Something in a file that could not be checked, and why; nothing in it names the file."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was found in one file.

    Attributes:
        units: AGS1 blocks and Parquet modules.
        failure: why the file was not checked.
        skipped: what was not checked in a file of which the rest was checked.
        again: the file was checked before, against another entry.
    """

    table: str
    kind: str
    location: str
    snapshot_id: int | None
    stored_bytes: int
    checked_bytes: int = 0
    units: int = 0
    problems: tuple[Problem, ...] = ()
    failure: str | None = None
    again: bool = False
    skipped: tuple[Skipped, ...] = ()


def problem_of(error: BaseException, where: str = "") -> Problem | None:
    """The finding that an error is; None if the error says nothing about the table."""
    code = code_of(error)
    if code is None:
        return None
    message = "the file does not exist" if code == "missing" else str(error)
    return Problem(code, message.removeprefix(f"{where}: "))


def reason_of(error: BaseException) -> str:
    """An error that prevents a check, as text."""
    return str(error) if isinstance(error, SealbergError) else f"{type(error).__name__}: {error}"


@dataclass
class Outcome:
    """All findings about one table."""

    table: str
    findings: list[Finding] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)
    skipped: Counter[Skipped] = field(default_factory=Counter)
    kinds: dict[str, KindFacts] = field(default_factory=dict)

    def find(self, code: str, message: str, file: str | None = None, snapshot_id: int | None = None) -> None:
        plain = None if file is None else str(file)
        self.findings.append(Finding(code, severity_of(code), self.table, message, plain, snapshot_id))

    def skip(self, what: str, why: str) -> None:
        self.not_checked.append(NotChecked(self.table, what, why))

    @contextmanager
    def catching(self, what: str, file: str | None = None, snapshot_id: int | None = None) -> Iterator[None]:
        """An error in the block becomes a finding, or the reason why `what` was not checked."""
        try:
            yield
        except (SealbergError, OSError) as error:
            problem = problem_of(error, str(file))
            if problem is None:
                self.skip(what, reason_of(error))
            else:
                self.find(problem.code, f"{what}: {problem.message}", file, snapshot_id)

    def count(self, kind: str, *, stored: int, checked: int | None = None, units: int = 0) -> None:
        """One more file; `checked` are the bytes that were authenticated, None if the file was not checked."""
        old = self.kinds.get(kind) or KindFacts(kind)
        self.kinds[kind] = replace(
            old,
            files=old.files + 1,
            bytes=old.bytes + stored,
            checked_files=old.checked_files + (checked is not None),
            checked_bytes=old.checked_bytes + (checked or 0),
            units=old.units + units,
        )

    def add(self, report: FileReport) -> None:
        done = None if report.failure is not None else report.checked_bytes
        if not report.again:
            self.count(report.kind, stored=report.stored_bytes, checked=done, units=report.units)
        for problem in report.problems:
            self.find(problem.code, problem.message, report.location, report.snapshot_id)
        if report.failure is not None:
            self.skip(report.location, report.failure)
        self.skipped.update(report.skipped)

    def all_not_checked(self) -> tuple[NotChecked, ...]:
        """What was not checked; the same in many files is one entry."""
        in_files = (
            NotChecked(self.table, f"{skipped.what}, in {files} file{'' if files == 1 else 's'}", skipped.why)
            for skipped, files in sorted(self.skipped.items())
        )
        return (*self.not_checked, *in_files)

    def facts(self) -> tuple[KindFacts, ...]:
        return tuple(self.kinds[kind] for kind in KINDS if kind in self.kinds)
