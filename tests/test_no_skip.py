"""In CI a skip is a failure, with its reason; elsewhere it stays a skip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = """
import pytest

def test_good(): pass

def test_in_the_test(): pytest.skip("no age here")

@pytest.fixture
def server(): pytest.skip("no server here")

def test_in_a_fixture(server): pass

@pytest.mark.skipif(True, reason="not on this system")
def test_by_mark(): pass

@pytest.mark.xfail(reason="known", strict=True)
def test_known(): assert False
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ci", "words"),
    [("true", "1 failed, 1 passed, 1 xfailed, 3 errors"), ("", "1 passed, 4 skipped, 1 xfailed")],
)
def test_a_skip_in_ci_is_a_failure(tmp_path: Path, ci: str, words: str) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_package', reason='no pkg')\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    command += ["-p", "kit.no_skips"]
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(ci)
    assert words in done.stdout, done.stdout
    if ci:
        for reason in ("no age here", "no server here", "not on this system", "no pkg"):
            assert f"in CI nothing is: Skipped: {reason}" in done.stdout
