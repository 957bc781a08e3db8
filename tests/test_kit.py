"""What other tests rely on: ports that two processes cannot both get, and nothing left by those before."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kit import leftovers
from kit.servers.ports import free_port

HERE = Path(__file__).parent


def test_a_port_that_one_process_got_is_given_to_no_other() -> None:
    """Although nothing listens there yet: its server may still be starting."""
    port = free_port()
    code = f"from kit.servers.ports import _reserve; print(_reserve({port}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# -- a test that leaves something behind fails ------------------------------------------------------

CONFTEST = "from kit import leftovers\nleftovers.PATIENCE_S = 0.5\npytest_configure = leftovers.watch\n"
LEAVES = {
    "a process": (
        "import subprocess; KEPT = subprocess.Popen(['sleep', '60'])",
        r"process \d+ \(sleep 60\), since .*test_1"),
    "what a process started": (
        "import subprocess; subprocess.run(['sh', '-c', 'sleep 60 &'])",
        r"process \d+ \(sleep 60\)"),
    "a port": ("import socket; KEPT.append(socket.create_server(('127.0.0.1', 0)))", r"port \d+"),
    "nothing": ("import subprocess; subprocess.run(['true'])", "2 passed"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEAVES)
def test_a_test_that_leaves_something_behind_fails(kind: str, tmp_path: Path) -> None:
    code, said = LEAVES[kind]
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_1.py").write_text(
        f"KEPT = []\ndef test_leaves():\n    {code.replace('KEPT =', 'global KEPT; KEPT =')}\n"
    )
    (tmp_path / "test_2.py").write_text("def test_other(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", str(tmp_path)]
    done = subprocess.run(
        command, cwd=HERE, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(HERE)}
    )
    for pid in re.findall(r"process (\d+) \(sleep 60\)", done.stdout):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    assert re.search(said, done.stdout), done.stdout
    assert (done.returncode == 0) == (kind == "nothing")


def test_a_file_in_the_checkout_is_told_with_the_tests_that_ran_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("ignored\n")
    monkeypatch.setattr(leftovers, "CHECKOUT", tmp_path)
    watched = leftovers.Checkout()
    (tmp_path / "left").touch()
    (tmp_path / "ignored").touch()
    at = (tmp_path / "left").stat().st_mtime
    watched.times = [(at - 1, at + 1, "test_leaves"), (at - 9, at - 8, "test_before")]
    assert list(map(watched.told, watched.status() - watched.before)) == [
        "?? left (changed while these ran: test_leaves)"
    ]


def test_workers_know_the_groups_of_tests(tmp_path: Path) -> None:
    """A pytest whose names of tests pytest-xdist cannot change runs each test anywhere, with an engine of its own."""
    (tmp_path / "test_a.py").write_text("import pytest\n@pytest.mark.xdist_group('g')\ndef test_a(): pass\n")
    command = [sys.executable, "-m", "pytest", "-v", "-n1", "--dist=loadgroup", "-p", "no:cacheprovider", "test_a.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "test_a.py::test_a@g" in done.stdout
