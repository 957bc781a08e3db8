"""A test that failed beside others is run again alone if it waits for other programs; nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ONCE = """
from pathlib import Path
NEEDS = "kit.servers.postgres"

def test_once():
    seen = Path(__file__).with_suffix(".seen")
    failed = not seen.exists()
    seen.touch()
    assert not failed

def test_good(): pass
"""
ALWAYS = ONCE.replace("assert not failed", "assert False")
MODULE = """
from pathlib import Path
import pytest
NEEDS = "kit.servers.postgres"

@pytest.fixture(scope="module", autouse=True)
def server():
    seen = Path(__file__).with_suffix(".seen")
    failed = not seen.exists()
    seen.touch()
    assert not failed

@pytest.mark.parametrize("number", range(5))
def test_with_server(number): pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modules", "text", "words"),
    [
        ("test_server.py", ONCE, "1 passed"),
        ("test_server.py", ALWAYS, "1 failed"),
        ("test_server.py", MODULE, "5 passed"),
        ("test_a.py test_b.py test_c.py", ONCE, "3 passed"),
        ("test_a.py test_b.py test_c.py test_d.py", ONCE, "no second look: tests failed in 4 modules, more than 3"),
        (
            "test_pure.py",
            ONCE.replace("NEEDS", "PURE").replace("kit.servers.postgres", ""),
            "no second look: test_pure.py",
        ),
        ("chaos/test_server.py", ONCE, "no second look: chaos/test_server.py"),
    ],
)
def test_a_second_look(tmp_path: Path, modules: str, text: str, words: str) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = server\n")
    for module in modules.split():
        (tmp_path / module).parent.mkdir(exist_ok=True)
        (tmp_path / module).write_text(text)
    assert _pytest(tmp_path).returncode == 1
    again = _pytest(tmp_path, "--second-look")
    assert words in again.stdout + again.stderr
    assert (again.returncode == 0) == words.endswith("passed"), again.stdout


def _pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", *options]
    free = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(command, cwd=folder, env=free, capture_output=True, text=True, check=False)
