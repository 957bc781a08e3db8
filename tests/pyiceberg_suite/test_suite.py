"""PyIceberg's own tests, of the source distribution of the pinned release, on sealberg's catalogs.

    pip brings the sdist once ──> its tests/ in a cache ──> pytest with `plugin.py`, on encrypted and on plain tables

On encrypted tables all tests run; on plain ones those that encrypted tables refuse, and all of them in `make deep`.

A test that fails and is not in `expected.toml` fails the run, and so does a listed test that passes. To look at one
test: SEALBERG_SUITE=encrypted PYTHONPATH=tests, and in the folder of the cache
python -m pytest -p pyiceberg_suite.plugin tests/table/test_upsert.py
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from kit.programs.commands import alone

HERE: Final = Path(__file__).resolve().parent
VERSION: Final = "0.12.0"
SHA256: Final = "19f165d298054f9436108691098b60fa0fa99d0eff5fb884700c43b29334a39d"
PARTS: Final = {
    # What is run, and how many tests pass at least: a run that collects nothing is no success.
    "catalogs": (
        "tests/catalog/test_base.py tests/catalog/test_catalog_behaviors.py tests/catalog/test_glue.py "
        "tests/catalog/test_rest.py tests/catalog/test_sql.py tests/cli/test_console.py tests/utils/test_manifest.py",
        800,
    ),
    "integration": ("tests/integration", 400),
    "tables": ("tests/table tests/io/test_pyarrow.py --ignore tests/table/test_datafusion.py", 90),
}


@pytest.fixture(scope="module")
def sources() -> Path:
    """A folder with the tests of the installed PyIceberg."""
    assert version("pyiceberg") == VERSION, "another PyIceberg: change VERSION and SHA256, and look at expected.toml"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sealberg"
    folder = cache / f"pyiceberg-{VERSION}-tests"
    with alone(folder.name):
        if not folder.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as made:
                _download(Path(made)).rename(folder)
    return folder


def _download(into: Path) -> Path:
    """From the index that pip is configured for; nothing is installed."""
    wanted = ["--no-deps", "--no-binary", "pyiceberg", f"pyiceberg=={VERSION}"]
    command = [sys.executable, "-m", "pip", "download", "-q", "-d", str(into), *wanted]
    free = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    done = subprocess.run(command, capture_output=True, text=True, env=free, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"pip cannot bring the source distribution of PyIceberg {VERSION}: {done.stderr.strip()[-300:]}")
    (archive,) = into.glob("*.tar.gz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256, f"{archive.name} has another content"
    chosen = into / "chosen"
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            member.name = member.name.partition("/")[2]
            if member.name == "pyproject.toml" or member.name.startswith("tests/"):
                packed.extract(member, chosen, filter="data")
    return chosen


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", ["encrypted", pytest.param("plain", marks=pytest.mark.deep)])
@pytest.mark.parametrize("part", PARTS)
def test_pyiceberg_itself_is_content(sources: Path, tmp_path: Path, part: str, mode: str) -> None:
    run(mode, sources, tmp_path, *PARTS[part])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_what_encrypted_tables_refuse_plain_ones_do(sources: Path, tmp_path: Path) -> None:
    run("differing", sources, tmp_path, " ".join(paths for paths, _ in PARTS.values()), 50)


def run(mode: str, sources: Path, tmp_path: Path, paths: str, least: int) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "pyiceberg_suite.plugin",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    command += ["-q", "-rfE", "--tb=short", "-o", "timeout=120", f"--basetemp={tmp_path / 'pytest'}", *paths.split()]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYICEBERG_"))}
    here = {**clean, "SEALBERG_SUITE": mode, "PYTHONPATH": str(HERE.parent), "TZ": "UTC", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=sources, env=here, capture_output=True, text=True, check=False)
    report = done.stdout[-20_000:]
    assert done.returncode == 0, report
    passed = re.search(r"(\d+) passed", report.splitlines()[-1])
    assert passed is not None, report
    assert int(passed[1]) >= least, report
