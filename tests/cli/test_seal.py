"""`sealberg seal FILE`: what `sealberg open` opens, whole or not at all, and no file is replaced."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kit.programs.commands import on_terminal
from kit.tables.streams import BLOCK, plain
from sealberg.cli import open as opening
from sealberg.cli import seal as sealing
from sealberg.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KMS = ("--kms-type", "memory", "-p", f"encryption.kms.memory.key.hr={'ab' * 16}")
UNDER_HR = ("--key-id", "hr", *KMS)
COMMAND = (sys.executable, "-m", "sealberg.cli.main")


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with one file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_bytes(plain(BLOCK + 5))
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def opened(folder: Path, *under: str) -> bytes:
    assert run("open", "s", "--key-metadata", "@k", "-o", "again", *under) == 0
    return (folder / "again").read_bytes()


@pytest.mark.parametrize("under", [(), UNDER_HR, ("--data-key-length", "32")], ids=["clear", "kms", "long"])
@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_open_opens_what_seal_made(length: int, under: tuple[str, ...], folder: Path) -> None:
    (folder / "f").write_bytes(plain(length))
    assert run("seal", "f", "--key-metadata", "k", "-o", "s", *under) == 0
    assert opened(folder, *(under if under is UNDER_HR else ())) == plain(length)
    assert names(folder) == {"f", "k", "s", "again"}
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in ("k", "s", "again")} == {0o600}
    assert (folder / "f").read_bytes() == plain(length)


def test_a_pipe_goes_in_and_out(folder: Path) -> None:
    for length in (0, 5 * BLOCK + 3):
        (folder / "k").unlink(missing_ok=True)
        made = subprocess.run(
            [*COMMAND, "seal", "-", "--key-metadata", "k"], input=plain(length), capture_output=True, check=True
        )
        assert (made.stdout[:4], made.stderr) == (b"AGS1", b"")
        (folder / "s").write_bytes(made.stdout)
        (folder / "again").unlink(missing_ok=True)
        assert opened(folder) == plain(length)


def test_the_key_of_the_file_is_only_under_the_master_key(folder: Path) -> None:
    assert run("seal", "f", "--key-metadata", "k", "-o", "s", *UNDER_HR) == 0
    kek, sealed = json.loads((folder / "k").read_bytes())["encryption-keys"]
    assert (kek["encrypted-by-id"], sealed["encrypted-by-id"]) == ("hr", kek["key-id"])
    for arguments, words in (
        ((), "--key-id"),
        (("--key-id", "hr"), "encryption.kms-type"),
        (("--key-id", "hr", *KMS[:3], KMS[3].replace("ab", "cd")), "WrongKeyError|another"),
        (("--key-id", "pay", *KMS, "-p", f"encryption.kms.memory.key.pay={'ab' * 16}"), "expected pay"),
    ):
        made = subprocess.run(
            [*COMMAND, "open", "s", "--key-metadata", "@k", *arguments], capture_output=True, check=False
        )
        assert (made.returncode, made.stdout) == (1, b"")
        assert any(word in made.stderr.decode() for word in words.split("|")), made.stderr


@pytest.mark.parametrize("at", ["key-id", "encryption-keys", "cut", "list"])
def test_an_altered_key_file_opens_nothing(at: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("seal", "f", "--key-metadata", "k", "-o", "s", *UNDER_HR) == 0
    content = (folder / "k").read_text()
    parsed = json.loads(content)
    if at == "key-id":
        parsed["key-id"] = parsed["encryption-keys"][0]["key-id"]
    else:
        parsed["encryption-keys"][1]["encrypted-key-metadata"] = parsed["encryption-keys"][0]["encrypted-key-metadata"]
    altered = {"cut": content[:-9], "list": f"{{}}{content}"}.get(at, json.dumps(parsed))
    (folder / "k").write_text(altered)
    assert run("open", "s", "--key-metadata", "@k", "-o", "again", *UNDER_HR) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert names(folder) == {"f", "k", "s"}


def test_the_keys_of_another_file_open_nothing(folder: Path) -> None:
    for name in "st":
        assert run("seal", "f", "--key-metadata", f"k{name}", "-o", name) == 0
    assert run("open", "s", "--key-metadata", "@kt", "-o", "again") == 1
    assert not (folder / "again").exists()


@pytest.mark.parametrize("taken", ["s", "k", "s -> nowhere"])
def test_no_file_is_replaced(taken: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, _, target = taken.partition(" -> ")
    (folder / name).symlink_to(target) if target else (folder / name).write_text("mine")
    assert run("seal", "f", "--key-metadata", "k", "-o", "s") == 1
    assert f"{name} exists" in capsys.readouterr().err
    assert names(folder) == {"f", name}
    assert (folder / name).is_symlink() or (folder / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["s", "k"])
def test_nor_a_file_that_somebody_makes_meanwhile(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    meanwhile(monkeypatch, sealing, lambda: (folder / name).write_text("mine"))
    assert run("seal", "f", "--key-metadata", "k", "-o", "s") == 1
    assert "File exists" in capsys.readouterr().err
    assert names(folder) == {"f", name}
    assert (folder / name).read_text() == "mine"


def meanwhile(monkeypatch: pytest.MonkeyPatch, module: object, act: Callable[[], object]) -> None:
    """Do something after each piece that a command has sealed or opened."""

    @contextlib.contextmanager
    def progress(_label: str, _total: int | None) -> Iterator[Callable[[int], None]]:
        def done(_count: int) -> None:
            act()

        yield done

    monkeypatch.setattr(module, "progress", progress)


@pytest.fixture
def python_handles_ctrl_c() -> Iterator[None]:
    """A Spark session of this worker's other tests has left a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_handles_ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, code = signal.getsignal(signal.SIGTERM), {signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    with monkeypatch.context() as patch:
        meanwhile(patch, sealing, lambda: os.kill(os.getpid(), number))
        assert run("seal", "f", "--key-metadata", "k", "-o", "s") == code
    assert names(folder) == {"f"}
    assert run("seal", "f", "--key-metadata", "k", "-o", "s") == 0
    meanwhile(monkeypatch, opening, lambda: os.kill(os.getpid(), number))
    assert run("open", "s", "--key-metadata", "@k", "-o", "again") == code
    assert names(folder) == {"f", "k", "s"}
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["f", "--key-metadata", "k", "-o", "s", "--key-id", "gone", *KMS], "gone", 1),
        (["f", "--key-metadata", "k", "-o", "s", "--key-id", "hr"], "encryption.kms-type", 1),
        (["f", "--key-metadata", "k", "-o", "s", *KMS], "--key-id", 2),
        (["f", "--key-metadata", "s", "-o", "s"], "two files", 1),
        (["f", "-o", "s"], "--key-metadata", 2),
        (["f", "--key-metadata", "no/folder/k", "-o", "s"], "no/folder", 1),
        (["f", "--key-metadata", "k", "-o", "no/folder/s"], "no/folder", 1),
        ([".", "--key-metadata", "k", "-o", "s"], "directory", 2),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    arguments: list[str], words: str, code: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("seal", *arguments) == code
    assert words in capsys.readouterr().err
    assert names(folder) == {"f"}


def test_a_key_in_the_clear_is_not_taken_for_a_sealed_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("seal", "f", "--key-metadata", "k", "-o", "s") == 0
    assert run("open", "s", "--key-metadata", "@k", "-o", "again", *UNDER_HR) == 1
    assert "not sealed under hr" in capsys.readouterr().err


def test_a_terminal_shows_progress_and_gets_no_binary(folder: Path) -> None:
    code, shown = on_terminal([*COMMAND, "seal", "f", "--key-metadata", "k", "-o", "s"], "")
    assert code == 0
    assert "sealing" in shown
    assert "100%" in shown
    code, shown = on_terminal([*COMMAND, "seal", "f", "--key-metadata", "k2"], "")
    assert code == 1
    assert "standard output is a terminal" in shown
    assert names(folder) == {"f", "k", "s"}
