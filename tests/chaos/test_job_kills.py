"""One kill of jobs that move a table, on threads and on Spark: `python -m chaos --jobs 20` kills all for an hour.

CHAOS_SEED chooses other operations at which drivers are killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.job_cells import JOBS, KINDS
from chaos.job_kills import chosen, wrong_in
from kit.programs.commands import jdk

SEED = os.environ.get("CHAOS_SEED", "1")
TESTS = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("where", "jobs"), [("threads", JOBS), ("spark", ("encrypt", "rekey"))])
def test_jobs_whose_driver_was_killed_are_finished_by_the_next_run(
    where: str, jobs: tuple[str, ...], tmp_path: Path
) -> None:
    if where == "spark":
        jdk()
    report = tmp_path / "report.json"
    what = ("--kills", "1", "--only", where, "--jobs", ",".join(jobs), "--seed", SEED)
    files = ("--json", str(report), "--folder", str(tmp_path / "jobs"))
    command = [sys.executable, "-m", "chaos.job_kills", *what, *files]
    here = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, cwd=TESTS, env=here, capture_output=True, text=True, timeout=850, check=False)
    assert report.exists(), done.stderr[-3000:]
    found = json.loads(report.read_text())
    assert wrong_in(found) == [], f"seed {SEED}"
    assert done.returncode == 0
    assert found[where]["killed"] + found[where]["finished"] == len(jobs) * len(KINDS)
    assert found[where]["killed"] >= len(jobs), "the process was killed while most of its jobs ran"


def test_kills_meet_every_kind_of_operation() -> None:
    operations = ["open"] * 50 + ["create", "commit"] + ["open"] * 50 + ["running"]
    points = chosen(operations, 20, 1, "a cell")
    assert {operations[at] for at in points} == {"open", "create", "commit", "running"}
    assert len(points) == 20
    assert {0, len(operations) - 1} <= set(points)
