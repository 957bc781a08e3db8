"""A user's mistake is one line that names it, and never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from sealberg.cli.main import main

CATALOGS = """
catalog:
  prod:
    type: sql
    uri: "sqlite:////nowhere/at/all.db"
  server:
    uri: http://127.0.0.1:1/
    retry.max-attempts: "1"
  files:
    type: sql
    uri: not a uri
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("PYICEBERG_", "SEALBERG_"))]:
        monkeypatch.delenv(name)
    for name in ("HOME", "PYICEBERG_HOME", "SEALBERG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:  # any other exception would be a traceback
        main(list(arguments))
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("catalog:\n  prod: [\n", "cannot be read: While scanning"),
        ("just words\n", "cannot be read: it holds no mapping of names to values"),
        ("catalog:\n  - prod\n", "Catalog configurations needs to be an object"),
        ("catalog:\n  prod: here\n", "catalogs.prod needs to be an object"),
        ("default-catalog: prod\n", "no catalog prod is configured, though default-catalog names it"),
    ],
)
def test_a_broken_configuration(home: Path, capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    (home / ".pyiceberg.yaml").write_text(text)
    code, err = run(capsys, "trust", "db.t", *(["--catalog", "prod"] if "default" not in text else []))
    assert code == 1
    assert err.startswith("error: ")
    assert words in err
    if "cannot be read" in err:
        assert str(home / ".pyiceberg.yaml") in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trust", "db.t", "--catalog", "prodd"], "the configured catalogs are files, prod, server"),
        (["trust", "db.t"], "no table db.t in the catalog local"),
        (["trust", "t"], "must be NAMESPACE.TABLE"),
        (["trust", "db.t", "--catalog", "prod"], "nowhere/at/all.db"),
        (["trust", "db.t", "--catalog", "server"], "127.0.0.1"),
        (["trust", "db.t", "--catalog", "files"], "files"),
        (["inspect", "nothing"], "does not exist"),
        (["open", ".", "--key-metadata", "01"], "is a directory"),
        (["inspect", "bytes"], "not a file of an Iceberg table"),
        (["open", "text", "--key-metadata", "zz"], "not hexadecimal"),
        (["open", "text", "--key-metadata", "@nothing"], "No such file"),
        (["open", "text", "--key-metadata", "01"], "error: "),
        (["keystore", "list"], "no passphrase"),
        (["keystore", "list", "--passphrase-file", "nothing"], "nothing"),
        (["keystore", "add", "hr", "--passphrase-file", "text"], "keystore"),
        (["kms", "check", "--key-id", "hr"], "encryption.kms-type"),
        (["kms", "check", "--key-id", "hr", "-p", "encryption.kms-type=abacus"], "known: aws, azure"),
        (["kms", "check", "--key-id", "hr", "-p", "nothing"], "NAME=VALUE"),
        (["kms", "check", "--key-id", "hr", "-p", "encryption.kms-impl=no.Such"], "cannot import"),
        (["melt"], "No such command"),
        (["inspect", "--nothing"], "No such option"),
    ],
)
def test_a_mistake_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".pyiceberg.yaml").write_text(CATALOGS)
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__SQL__RETRY__TOTAL_TIMEOUT_MS", "100")
    (home / "text").write_text("words\n")
    (home / "bytes").write_bytes(bytes(9))
    (home / "text").chmod(0o600)
    code, err = run(capsys, *arguments)
    assert code in (1, 2)
    assert words in err


def test_a_wrong_passphrase(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALBERG_PASSPHRASE", "the right passphrase")
    assert run(capsys, "keystore", "create", "--key", "hr")[0] == 0
    monkeypatch.setenv("SEALBERG_PASSPHRASE", "another")
    code, err = run(capsys, "keystore", "list")
    assert code == 1
    assert err.startswith("error: wrong passphrase")


def test_a_file_that_may_not_be_read(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:  # root, as which these tests may run, may read everything
        raise PermissionError(13, "Permission denied", "secret")

    (home / "secret").write_text("x")
    monkeypatch.setattr("sealberg.jobs.inspect.identify", refuse)
    assert run(capsys, "inspect", "secret") == (2, "error: [Errno 13] Permission denied: 'secret'\n")


def test_a_closed_pipe_is_no_error_to_talk_about(home: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "sealberg.cli.main", "--help"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, cwd=home)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode in (1, 141)


def test_an_interrupt_ends_the_command_without_a_traceback(home: Path) -> None:
    (home / "text").write_text("words\n")
    command = [sys.executable, "-m", "sealberg.cli.main", "open", "text", "--key-metadata", "@-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home) as child:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not _waits_for_input(child.pid):
            time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        assert child.stderr.read().strip() == "aborted"
    assert child.returncode == 130


def _waits_for_input(pid: int) -> bool:
    try:
        return "pipe" in Path(f"/proc/{pid}/wchan").read_text(encoding="ascii")
    except OSError:  # not Linux
        time.sleep(3)
        return True


@pytest.mark.parametrize("where", ["salry = 3", "id ==", "true", "id = 'x'"])
def test_an_erase_that_searched_nothing_does_not_end_as_if_rows_were_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    import sealberg

    with sealberg.load_catalog() as catalog:
        catalog.create_namespace("hr")
        catalog.create_table("hr.plain", pa.schema([("id", pa.int64())]))
    for table in ("hr.plain", "hr.none"):
        code, err = run(capsys, "erase", table, "--where", where, "--yes")
        assert code == 2, err
        assert err.startswith("error: ")
