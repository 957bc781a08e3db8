"""The command itself: cheap to start, and honest in its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import sealberg
from sealberg.cli import main as command

HEAVY = {"pyiceberg", "pyspark", "pyarrow", "boto3", "rich", "numpy"}


def modules_after(code: str) -> set[str]:
    listing = f"{code}\nimport sys, json; print(json.dumps(sorted(m.partition('.')[0] for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import sealberg",
        "import sealberg; sealberg.SealbergError",
        "import sealberg.cli.main as m\ntry: m.main(['--help'])\nexcept SystemExit: pass",
    ],
)
def test_importing_and_asking_for_help_load_nothing_heavy(code: str) -> None:
    assert not modules_after(code) & HEAVY


@pytest.mark.slow
def test_every_name_of_the_package_is_there_after_a_plain_import() -> None:
    names = sorted({*sealberg.__all__, *sealberg._MODULES})
    modules = modules_after(f"import sealberg\nassert all(getattr(sealberg, name) for name in {names!r})")
    assert "pyspark" not in modules


def test_inspecting_a_file_loads_no_table_machinery(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("i") / "f"
    path.write_bytes(b"Obj\x01")
    code = f"import sealberg.cli.main as m\ntry: m.main(['inspect', {str(path)!r}])\nexcept SystemExit: pass"
    assert not modules_after(code) & HEAVY


def best_of(count: int, *arguments: str) -> float:
    """Seconds of processor time: other people's work on the machine must not decide this."""

    def once() -> float:
        with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL) as child:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        return used.ru_utime + used.ru_stime

    return min(once() for _ in range(count))


@pytest.mark.slow
def test_help_takes_less_than_300_ms_more_than_bare_python() -> None:
    bare = best_of(5, "-c", "pass")
    assert best_of(5, "-c", "import sealberg") - bare < 0.3
    assert best_of(5, "-m", "sealberg.cli.main", "--help") - bare < 0.3


def test_every_command_in_the_list_exists_and_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name in command.COMMANDS:
        with pytest.raises(SystemExit) as ended:
            command.main([name, "--help"])
        assert ended.value.code == 0
        assert "Usage: sealberg" in capsys.readouterr().out


def test_the_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--version"])
    assert sealberg.__version__ in capsys.readouterr().out


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["melt"])
    assert ended.value.code == 2
    assert "melt" in capsys.readouterr().err


def test_public_names_are_just_these() -> None:
    assert sorted(sealberg.__all__) == dir(sealberg)
    for name in sealberg.__all__:
        assert getattr(sealberg, name) is not None
    with pytest.raises(AttributeError):
        sealberg.melt  # type: ignore[attr-defined]  # noqa: B018
