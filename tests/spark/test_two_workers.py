"""On two machines, or what Spark takes for two: a slow task is overtaken, and Python works beside the tasks of both."""

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


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    jdk()  # or there is no Spark
    folder = tmp_path_factory.mktemp("two")
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "kit.programs.two_workers", str(folder)]
    done = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / "outcomes.json").read_text())
    return found


@pytest.mark.parametrize("what", ["straggler", "straggler_beside"])
def test_of_two_attempts_at_once_one_is_in_the_table(outcomes: dict[str, Any], what: str) -> None:
    outcome = outcomes[what]
    assert outcome["attempts"] == 2, "both met the row that the first was slow with"
    assert outcome["speculative"] >= 1, "and the first had not failed: Spark grew tired of it"
    assert outcome["rows"] == [1 + ROWS, 1 + ROWS, sum(range(-1, ROWS))]
    assert outcome["files"] == 3, "one of the first row, one of each task"
    assert outcome["discarded"] >= 1, "what the slow one had written by then"
    assert outcome["orphans"] == []
    assert outcome["later"] == 1


def test_python_works_beside_tasks_on_both_machines(outcomes: dict[str, Any]) -> None:
    left = [one for one in range(1000) if one % 10 != 3]
    beside = outcomes["beside"]
    assert beside["avro"] == [len(left), sum(left), "n999"]
    assert beside["magics"] == ["AGS1"]
    assert beside["equal"] == [16, 2 * (45 - 7)]
    assert beside["hosts"] == ["127.0.0.1", "127.0.0.2"]


def test_verify_goes_on_when_one_of_two_workers_is_killed(outcomes: dict[str, Any]) -> None:
    verified = outcomes["verified"]
    assert verified["failed"] >= 1, "the executor was killed while it worked"
    assert verified["found"] == [["missing", verified["lost"]]]
    assert verified["not_checked"] == []
    assert verified["data"] == 60


def test_compact_goes_on_when_one_of_two_workers_is_killed(outcomes: dict[str, Any]) -> None:
    compacted = outcomes["compacted"]
    assert compacted["failed"] >= 1, "the executor was killed while it worked"
    assert compacted["same"], "rows and row ids"
    left = [one for one in range(4800) if one % 100 != 5]
    assert compacted["spark"] == [2 * len(left), 2 * sum(left), 12]
    assert (compacted["failed_groups"], compacted["files"], compacted["findings"]) == (0, 12, [])
    assert compacted["hosts"] == ["127.0.0.1", "127.0.0.2"]


def test_a_call_goes_on_when_one_of_two_workers_is_killed(outcomes: dict[str, Any]) -> None:
    called = outcomes["called"]
    assert called["failed"] >= 1, "the executor was killed while it worked"
    assert called["counts"] == [[24, 12, 0], [12, 12, 0]], "of files rewritten, added and failed, in both calls"
    assert called["snapshots"] == 3, "two of the rows, one of the call whose executor was killed"
    assert called["same"], "rows and row ids"
    assert called["findings"] == []


def test_a_plan_goes_on_when_one_of_two_workers_is_killed(outcomes: dict[str, Any]) -> None:
    planned = outcomes["planned"]
    assert planned["rows"] == len([one for one in range(5, 120) if one % 10 != 3])
    assert planned["same"] == [True, True]
    assert planned["hosts"] == ["127.0.0.1", "127.0.0.2"]
    assert planned["failed"] >= 1, "the executor was killed while it worked"


def test_keys_are_changed_by_tasks_of_two_workers_of_which_one_is_killed(outcomes: dict[str, Any]) -> None:
    moved = outcomes["moved"]
    left = [one for one in range(4000) if one % 10 != 3]
    assert moved["rows"] == [len(left), sum(left), "n999"]
    assert (moved["manifests"] >= 3, moved["files"]) == (True, 40)
    assert moved["failed"] >= 1, "the executor was killed while it worked"
    assert moved["found"] == []


def test_encrypt_copies_files_on_both_machines(outcomes: dict[str, Any]) -> None:
    encrypted = outcomes["encrypted"]
    assert encrypted["files"] == 12
    assert encrypted["sum"] == sum(range(120))
    assert encrypted["findings"] == []
    assert encrypted["hosts"] == ["127.0.0.1", "127.0.0.2"]
