"""Every release of Spark that is supported: the installed one, and those that pip downloads into a folder, once each.

    RELEASES                one of each series that pyproject.toml allows
    bring_spark("4.3.0")    a folder for PYTHONPATH
    jars("4.3.0")           the folder of its jars

About 450 MB are downloaded, in CI or if SEALBERG_FETCH_SPARK is set; otherwise the test is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

import pytest

INSTALLED = installed_version("pyspark")  # Iceberg's own connector is made for its series; most tests run on it
OLDEST = "4.0.5"
NEWEST = "4.3.0"
OTHERS = (OLDEST, "4.2.1", NEWEST)
RELEASES = (OLDEST, INSTALLED, *OTHERS[1:])


def jars(version: str) -> Path:
    return bring_spark(version) / "pyspark" / "jars"


def bring_spark(version: str) -> Path:
    """The folder; the test is skipped if pip cannot download the release."""
    if version == INSTALLED:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        return Path(spec.origin).parents[1]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sealberg"
    folder = cache / f"pyspark-{version}"
    if folder.exists():
        return folder
    wanted = f"pip install --no-deps --target {folder} pyspark=={version}"
    if not (os.environ.get("CI") or os.environ.get("SEALBERG_FETCH_SPARK")):
        pytest.skip(f"Spark {version} is not there; {wanted} brings it, or SEALBERG_FETCH_SPARK=1")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as made:
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", made, f"pyspark=={version}"]
        free = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
        done = subprocess.run(command, capture_output=True, text=True, env=free, timeout=900, check=False)
        if done.returncode:
            pytest.skip(f"pip cannot bring Spark {version} ({done.stderr.strip()[-200:]}); {wanted}")
        if not folder.exists():  # another worker may have been faster
            shutil.move(made, folder)
            Path(made).mkdir()
    return folder
