"""Statements of each kind on the newest Spark 4, with the jar that was compiled against 4.1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.programs.spark_versions import NEWEST, bring_spark

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.timeout(1200)  # pip fetches 450 MB and makes a wheel of them
@pytest.mark.slow
def test_statements_run_on_the_newest_spark_with_the_same_jar(tmp_path: Path) -> None:
    newest = bring_spark(NEWEST)
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(newest), str(TESTS), *sys.path])}
    here.pop("SPARK_HOME", None)
    command = [sys.executable, "-m", "kit.programs.spark_newest", str(tmp_path), NEWEST]
    done = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
