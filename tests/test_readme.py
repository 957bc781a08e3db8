"""The front page runs as it stands on a machine where nothing is configured, and a second time after the first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kit.programs.commands import jdk
from test_docs import Block, blocks_of, run_console

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = blocks_of((ROOT / "README.md").read_text(encoding="utf-8"))


def only(language: str) -> Block:
    (found,) = (block for block in BLOCKS if block.language == language)
    return found


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has just installed sealberg: no configuration, an empty home."""
    for name in [name for name in os.environ if name.startswith(("SEALBERG_", "PYICEBERG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def setup_commands() -> str:
    """The shell block without its first line, which installs what is installed here."""
    first, _, rest = only("sh").body.partition("\n")
    assert first == "pip install 'sealberg[spark]'"
    return rest


def run_script(home: Path, language: str) -> str:
    (home / "script.py").write_text(only(language).body)
    command = ["bash", "-ec", f"{setup_commands()}\npython script.py"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_front_page_runs_twice(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (passphrase,) = re.findall(r"^export SEALBERG_PASSPHRASE='(.+)'$", setup_commands(), re.M)
    run_script(home, "python")
    with monkeypatch.context() as exported:
        exported.setenv("SEALBERG_PASSPHRASE", passphrase)
        run_console(ROOT / "README.md", only("console"), {})
    run_script(home, "python")  # though the attack has damaged every file that the table had


@pytest.mark.slow
def test_the_spark_part_runs_twice(home: Path) -> None:
    jdk()  # or there is no Spark
    for _ in range(2):
        assert re.search(r"\| +2\| +190\|", run_script(home, "py"))
    assert {path.read_bytes()[:4] for path in (home / ".sealberg").rglob("*.parquet")} == {b"PARE"}
