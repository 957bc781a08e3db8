"""The newest Spark 4, which is not the one that is installed here: pip brings it into a folder, once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sealberg.spark.jar import find_jar

TESTS = Path(__file__).resolve().parents[1]
NEWEST = "4.3.0"


@pytest.fixture(scope="module")
def newest() -> Path:
    """A folder for PYTHONPATH; some 450 MB are fetched in CI, or where SEALBERG_FETCH_SPARK is set."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sealberg"
    folder = cache / f"pyspark-{NEWEST}"
    if folder.exists():
        return folder
    wanted = f"pip install --no-deps --target {folder} pyspark=={NEWEST}"
    if not (os.environ.get("CI") or os.environ.get("SEALBERG_FETCH_SPARK")):
        pytest.skip(f"Spark {NEWEST} is not there; {wanted} brings it, or SEALBERG_FETCH_SPARK=1")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as made:
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", made, f"pyspark=={NEWEST}"]
        free = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
        done = subprocess.run(command, capture_output=True, text=True, env=free, timeout=900, check=False)
        if done.returncode:
            pytest.skip(f"pip cannot bring Spark {NEWEST} ({done.stderr.strip()[-200:]}); {wanted}")
        if not folder.exists():  # another worker may have been faster
            shutil.move(made, folder)
            Path(made).mkdir()
    return folder


@pytest.mark.timeout(1200)  # pip fetches 450 MB and makes a wheel of them
@pytest.mark.slow
def test_statements_run_on_the_newest_spark_with_the_same_jar(newest: Path, tmp_path: Path) -> None:
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(newest), str(TESTS), *sys.path])}
    here.pop("SPARK_HOME", None)
    command = [sys.executable, "-m", "kit.programs.spark_newest", str(tmp_path), NEWEST, str(find_jar())]
    done = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
