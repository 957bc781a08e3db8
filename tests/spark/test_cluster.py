"""Two executors in processes of their own: keys and rows travel, failures are survived."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_a_cluster_that_loses_tasks_and_executors_loses_no_rows(tmp_path: Path) -> None:
    here = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "kit.spark_cluster", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
