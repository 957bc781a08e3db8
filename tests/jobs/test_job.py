"""The shape of all jobs: plans, runners, the progress line, and the way to `sealberg.jobs`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import sealberg
from sealberg.cli.job import progress_line
from sealberg.errors import ConfigError
from sealberg.jobs.findings import Finding, KindFacts, NotChecked, TableFacts, Verification
from sealberg.jobs.job import Amount, Plan, PlanStep, Progress
from sealberg.jobs.runner import Threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
RESULT = Verification("1", "prod", "full", NOW, NOW)
LOST = Finding("missing", "error", "hr.t", "the file does not exist", "s3://lake/t/a.parquet", 5)


@dataclass(frozen=True)
class NoPlan(Plan[Verification]):
    """A plan that does nothing."""

    given: tuple[PlanStep, ...] = field(default_factory=tuple)

    @property
    def job(self) -> str:
        return "nothing"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        return self.given

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> Verification:
        return RESULT


def test_jobs_are_reached_from_the_package_without_importing_pyiceberg() -> None:
    program = "import sys, sealberg; sealberg.jobs; assert 'jobs' in dir(sealberg); print('pyiceberg' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "False"
    with pytest.raises(AttributeError, match="no attribute 'verfy'"):
        sealberg.jobs.verfy  # type: ignore[attr-defined]  # noqa: B018


def test_a_plan_prints_as_a_table_and_as_json() -> None:
    plan = NoPlan(
        (
            PlanStep("hr.a", "verify", Amount(3, 5 << 20), kms_calls=2),
            PlanStep("hr.b", "verify", Amount(1, None), removes=Amount(2, 10), note="slow"),
        )
    )
    assert str(plan).splitlines() == [
        "table  action   reads             writes  removes            KMS calls",
        "hr.a   verify   3 files, 5.0 MiB  -       -                  up to 2",
        "hr.b   verify   1 file            -       2 files, 10 bytes  -",
        "total  nothing  4 files           -       2 files, 10 bytes  up to 2",
        "hr.b: slow",
    ]
    assert plan.changes
    assert json.loads(json.dumps(plan.to_json()))["total"]["reads"] == {"files": 4, "bytes": None}


@pytest.mark.parametrize(
    ("findings", "not_checked", "verdict", "code"),
    [
        ((), (), "sound", 0),
        ((LOST,), (), "findings", 1),
        ((), (NotChecked("hr.t", "rows", "no KMS"),), "incomplete", 2),
        ((LOST,), (NotChecked("hr.t", "rows", "no KMS"),), "incomplete", 2),
    ],
)
def test_the_exit_code_follows_the_verdict(
    findings: tuple[Finding, ...], not_checked: tuple[NotChecked, ...], verdict: str, code: int
) -> None:
    kinds = (KindFacts("data", 2, 30, 1, 10, 4), KindFacts("manifest", 1, 5, 1, 5, 1))
    table = TableFacts("hr.t", "l", "u", True, "k", 16, "m", "h", "h", "hash", None, kinds=kinds)
    result = Verification("1", "prod", "full", NOW, NOW, None, (table,), findings, not_checked)
    assert (result.verdict, result.exit_code) == (verdict, code)
    read = json.loads(json.dumps(result.to_json()))
    assert (read["verdict"], read["started"]) == (verdict, "2026-01-31T12:00:00.000+00:00")
    assert read["totals"] == {
        "kind": "total",
        "files": 3,
        "bytes": 35,
        "checked_files": 2,
        "checked_bytes": 15,
        "units": 5,
    }
    assert f"verdict: {verdict}" in str(result)


@pytest.mark.parametrize("count", [1, 3])
def test_threads_take_tasks_only_when_they_can_work_on_them(count: int) -> None:
    taken = 0

    def tasks() -> Iterator[int]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield number

    results = Threads(count).run(lambda number: number * 2, tasks())
    first = next(results)
    assert taken <= 2 * count + 2
    assert sorted([first, *results]) == [number * 2 for number in range(100)]


def test_a_caller_that_stops_ends_the_run() -> None:
    """As Ctrl-C does: the tasks that run are finished, and no other begins."""
    begun: list[int] = []
    results = Threads(2).run(begun.append, iter(range(10_000)))
    next(results)
    results.close()  # type: ignore[attr-defined]  # a generator
    count = len(begun)
    assert count <= 8
    time.sleep(0.05)
    assert len(begun) == count


def test_an_error_of_one_task_ends_the_run() -> None:
    begun = threading.Event()

    def work(number: int) -> int:
        begun.set()
        raise ValueError(number)

    with pytest.raises(ValueError, match=r"\d"):
        list(Threads(2).run(work, iter(range(10_000))))
    assert begun.is_set()
    with pytest.raises(ConfigError, match="at least 1"):
        Threads(0)


def test_the_progress_line_has_files_bytes_rate_and_time_left() -> None:
    line = progress_line(Progress(12, 40, 1 << 30, 4 << 30), 10.0)
    assert line == "12 of 40 files, 1.0 GiB of 4.0 GiB, 102.4 MiB/s, 0:30 left"
