"""Every supported release of Spark does what the pages promise, with the same jar.

The tests of this folder run on the installed release, all others run one program in one JVM.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.programs.commands import jdk
from kit.programs.spark_versions import OTHERS, bring_spark

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.timeout(1200)  # pip fetches 450 MB and makes a wheel of them
@pytest.mark.slow
@pytest.mark.xdist_group("releases")
@pytest.mark.parametrize("version", OTHERS)
def test_all_that_the_pages_promise_runs_on_this_spark(version: str, tmp_path: Path) -> None:
    jdk()  # or there is no Spark
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(bring_spark(version)), str(TESTS), *sys.path])}
    here.pop("SPARK_HOME", None)
    command = [sys.executable, "-m", "kit.programs.spark_release", str(tmp_path), version]
    done = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
