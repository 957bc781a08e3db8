"""The shape of every job: options in, a plan, a result.

    plan = sealberg.jobs.verify.plan("hr.salaries")    reads table metadata, changes nothing
    print(plan)                                        a table: what will be read, written, removed; KMS calls
    plan.to_json()                                     the same as JSON
    result = plan.execute(progress=print)              does it
    result.exit_code                                   0: fine   1: findings   2: something could not be checked
                                                       130: stopped by Ctrl-C

A job defines its own options and result, and inherits `Plan`. A plan is a frozen value: the command line shows it,
asks, and executes exactly this plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealberg.jobs.runner import Runner

FINE: Final = 0
FINDINGS: Final = 1
NOT_CHECKED: Final = 2
STOPPED: Final = 130  # as shells report a program that SIGINT ended


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of files and their stored bytes; None where the bytes are not known before the job runs."""

    files: int = 0
    bytes: int | None = 0

    def __add__(self, other: Amount) -> Amount:
        unknown = self.bytes is None or other.bytes is None
        return Amount(self.files + other.files, None if unknown else (self.bytes or 0) + (other.bytes or 0))

    def __str__(self) -> str:
        if not self.files:
            return "-"
        files = f"{self.files} file{'' if self.files == 1 else 's'}"
        return files if self.bytes is None else f"{files}, {readable(self.bytes)}"


NOTHING: Final = Amount()


@dataclass(frozen=True, slots=True)
class PlanStep:
    """What a job will do with one table.

    Attributes:
        table: the name of the table.
        action: what is done, in a few words.
        reads: what is read beyond the table's metadata.json. The counts come from snapshot summaries, so they are
            close, not exact.
        writes: what is written.
        removes: what is deleted.
        kms_calls: the most calls to the KMS.
        note: anything else that a person must know before the job runs.
    """

    table: str
    action: str
    reads: Amount = NOTHING
    writes: Amount = NOTHING
    removes: Amount = NOTHING
    kms_calls: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is. The totals may grow while manifests are read."""

    files_done: int = 0
    files_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0


ProgressListener: TypeAlias = "Callable[[Progress], None]"


class JobResult(Protocol):
    """What every job returns."""

    @property
    def exit_code(self) -> int:
        """0: done, no findings. 1: findings. 2: something could not be checked or done. 130: stopped."""

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values."""

    def __str__(self) -> str:
        """The result as text for a terminal."""


class JobStopped(KeyboardInterrupt):
    """Ctrl-C stopped a job, and this is the result so far."""

    def __init__(self, result: JobResult) -> None:
        super().__init__("the job was stopped")
        self.result = result


R_co = TypeVar("R_co", bound=JobResult, covariant=True)


class Plan(ABC, Generic[R_co]):
    """What a job will do. Subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def job(self) -> str:
        """The name of the job, as on the command line."""

    @property
    @abstractmethod
    def steps(self) -> tuple[PlanStep, ...]:
        """One step per table."""

    @abstractmethod
    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> R_co:
        """Do it; by default on threads of this machine."""

    @property
    def changes(self) -> bool:
        """Whether the job writes or removes anything, so that the command line must ask."""
        return any(step.writes.files or step.removes.files for step in self.steps)

    @property
    def total(self) -> PlanStep:
        """All steps together."""
        reads, writes, removes, calls = NOTHING, NOTHING, NOTHING, 0
        for step in self.steps:
            reads, writes, removes = reads + step.reads, writes + step.writes, removes + step.removes
            calls += step.kms_calls
        return PlanStep("total", self.job, reads, writes, removes, calls)

    def to_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "changes": self.changes,
            "steps": [asdict(step) for step in self.steps],
            "total": asdict(self.total),
        }

    def __str__(self) -> str:
        head = ("table", "action", "reads", "writes", "removes", "KMS calls")
        steps = (*self.steps, self.total) if len(self.steps) > 1 else self.steps
        lines = [head, *(_line(step) for step in steps)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
        shown = ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines]
        notes = [f"{step.table}: {step.note}" for step in self.steps if step.note]
        return "\n".join(line.rstrip() for line in (*shown, *notes))


def _line(step: PlanStep) -> tuple[str, ...]:
    amounts = (str(step.reads), str(step.writes), str(step.removes))
    return (step.table, step.action, *amounts, f"up to {step.kms_calls}" if step.kms_calls else "-")


def readable(count: int) -> str:
    """1536 -> '1.5 KiB'."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} byte{'' if count == 1 else 's'}" if unit == "bytes" else f"{value:.1f} {unit}"
