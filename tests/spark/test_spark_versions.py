"""Statements of each kind on the oldest and the newest Spark 4, with the jar that was compiled against 4.1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.programs.spark_versions import NEWEST, OLDEST, bring_spark

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.timeout(1200)  # pip fetches 450 MB and makes a wheel of them
@pytest.mark.slow
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_statements_run_on_other_releases_of_spark_with_the_same_jar(version: str, tmp_path: Path) -> None:
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(bring_spark(version)), str(TESTS), *sys.path])}
    here.pop("SPARK_HOME", None)
    command = [sys.executable, "-m", "kit.programs.spark_release", str(tmp_path), version]
    done = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
