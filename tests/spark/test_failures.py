"""Whatever goes wrong in the middle of a write: no row is lost or doubled, no file is left over, the table is fine.

In one process, and on two executors in processes of their own with an encrypted network between them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit.programs.commands import jdk
from kit.programs.spark_failures import ROWS

pytestmark = pytest.mark.timeout(900)

TESTS = Path(__file__).resolve().parents[1]
BEFORE = [1, 1, -1]  # one row, no other, and their sum
WHOLE = [1 + ROWS, 1 + ROWS, sum(range(-1, ROWS))]


@pytest.fixture(scope="module", params=["cluster", pytest.param("local", marks=pytest.mark.deep)])
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    jdk()  # or there is no Spark
    folder: Path = tmp_path_factory.mktemp(request.param)
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "kit.programs.spark_failures", str(folder), request.param]
    done = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return {"where": request.param, **json.loads((folder / "outcomes.json").read_text())}


def test_statements_give_what_they_must(outcomes: dict[str, Any]) -> None:
    left = [one for one in range(10_000) if one % 7 != 1]
    assert outcomes["statements"] == [len(left), sum(left), sum(9 if one < 100 else one % 3 for one in left)]


@pytest.mark.parametrize("what", ["fails", "python_killed", "executor_killed", "executor_of_a_stream_killed"])
def test_a_second_attempt_takes_the_place_of_the_first(outcomes: dict[str, Any], what: str) -> None:
    if what.startswith("executor") and outcomes["where"] == "local":
        assert what not in outcomes, "one process has no executors to lose"
        return
    outcome = outcomes[what]
    assert outcome["attempts"] >= 2, "it did go wrong"
    assert outcome["rows"] == WHOLE
    # One of each task, and one of the first row, which a stream reads with the others.
    assert outcome["files"] == (2 if "stream" in what else 3)
    assert outcome["discarded"] >= 1, "what had been written by then"
    assert outcome["orphans"] == []
    assert outcome["later"] == 1


@pytest.mark.parametrize(("what", "text"), [("cancelled", "cancelled"), ("conflict", "were changed meanwhile")])
def test_a_statement_that_is_given_up_changes_nothing(outcomes: dict[str, Any], what: str, text: str) -> None:
    outcome = outcomes[what]
    assert text in outcome["error"]
    assert outcome["rows"] == BEFORE
    assert outcome["discarded"] >= 2, "both tasks had begun their files"
    assert outcome["orphans"] == []
    assert outcome["later"] == 1
