"""Over nothing, every command says so with exit code 2: an empty catalog, a wrong name, a database that was lost."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sealberg.catalogs.load import load_catalog
from sealberg.cli.keystore import keystore_group
from sealberg.cli.main import COMMANDS, main
from sealberg.errors import NothingThereError
from sealberg.jobs import expire, keys, prune_keys, rewrap, rotate, verify
from sealberg.jobs.findings import Verification

if TYPE_CHECKING:
    from pathlib import Path

# The arguments of each command with which it finds nothing to work on.
OVER_NOTHING = {
    "inspect": [["hr.nothing"], ["nothing/*.parquet"], ["file:///nothing/at/all"]],
    "verify": [["--all"], ["hr"], ["hr.nothing"], ["typo"], ["--all", "--expect-tables", "3"]],
    "rekey": [["hr.nothing", "--yes"], ["hr", "--yes"]],
    "change-master": [
        ["hr.nothing", "k2", "--yes"],
        ["hr", "k2", "--yes"],
        ["", "k2", "--yes"],
        ["hr.", "k2", "--yes"],
        ["hr.nothing", "k2", "--keep-as", "hr", "--yes"],
    ],
    "compact": [["hr.nothing", "--yes"], ["hr", "--yes"]],
    "expire": [["--all", "--yes"], ["hr", "--yes"], ["hr.nothing", "--yes"], ["typo", "--yes"]],
    "keys": [[], ["--all"], ["hr"], ["hr.nothing"], ["typo"]],
    "rotate": [["--all", "--yes"], ["hr", "--yes"], ["hr.nothing", "--yes"], ["typo", "--yes"]],
    "rewrap": [["--all", "--yes"], ["hr", "--yes"], ["hr.nothing", "--yes"], ["typo", "--yes"]],
    "prune-keys": [["--all", "--yes"], ["hr", "--yes"], ["hr.nothing", "--yes"], ["typo", "--yes"]],
    "erase": [["hr.nothing", "--where", "id = 1", "--yes"], ["hr", "--where", "id = 1", "--yes"]],
    "orphans": [["hr.nothing", "--yes"], ["hr", "--yes"], ["typo", "--yes"]],
    "stats": [
        ["hr.nothing", "--columns", "a", "--yes"],
        ["hr", "--columns", "a", "--yes"],
        ["hr.nothing", "--partitions", "--yes"],
        ["hr.nothing", "--remove", "--yes"],
    ],
    "verify-record": [["nothing.json"]],
    "shred": [["hr.nothing", "--yes", "--confirm", "hr.nothing"]],
    "encrypt": [
        ["hr.nothing", "hr.new", "--key-id", "hr", "--yes"],
        ["hr", "hr.new", "--key-id", "hr", "--yes"],
        ["no/files/", "hr.new", "--key-id", "hr", "--yes"],
    ],
    "decrypt": [["hr.nothing", "hr.new", "--reason", "a test", "--yes"], ["hr", "hr.new", "--reason", "x", "--yes"]],
    "open": [["nothing", "--key-metadata", "01"]],
    "seal": [["nothing", "--key-metadata", "k"]],
    "kms": [["check", "--catalog", "local"], ["check", "--catalog", "empty"]],
    "trust": [["hr.nothing", "--yes"]],
    "keystore": [
        ["list"],
        ["add", "hr"],
        ["passwd", "--new-passphrase-env", "NEW", "--yes"],
        ["import", "nothing.p12", "--yes"],
        ["export", "store.p12", "--yes"],
    ],
}
WITHOUT_INPUT = {"spark-conf", "create"}  # they read no table and no file


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty namespace `hr` in the default catalog, and no keystore."""
    for name in [name for name in os.environ if name.startswith(("PYICEBERG_", "SEALBERG_"))]:
        monkeypatch.delenv(name)
    for name in ("HOME", "PYICEBERG_HOME", "SEALBERG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("SEALBERG_PASSPHRASE", "NEW", "KEYSTORE_PASSWORD"):
        monkeypatch.setenv(name, "a good passphrase")
    monkeypatch.chdir(tmp_path)
    with load_catalog() as catalog:
        catalog.create_namespace("hr")
    settings = f"type: sql\n    uri: sqlite:///{tmp_path}/lost.db\n    encryption.kms-type: keystore"
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  empty:\n    {settings}\n")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:  # any other exception would be a traceback
        main(list(arguments))
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_every_command_is_tried() -> None:
    assert OVER_NOTHING.keys() | WITHOUT_INPUT >= COMMANDS.keys()
    assert {first for first, *_ in OVER_NOTHING["keystore"]} | WITHOUT_INPUT >= keystore_group.commands.keys()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([command, *each], id=" ".join([command, *each]))
        for command, several in OVER_NOTHING.items()
        for each in several
    ],
)
def test_a_command_over_nothing_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "no " in err.lower() or "not exist" in err
    if "--json" in arguments or arguments[0] in ("kms", "open", "seal", "keystore"):
        return
    code, out, _ = run(capsys, *arguments, "--json")
    assert (code, json.loads(out)["error"]["type"]) == (2, "NothingThereError")


@pytest.mark.parametrize("command", ["verify", "keys", "rotate", "rewrap", "prune-keys", "expire"])
def test_a_lost_database_has_no_tables(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, command, "--all", "--catalog", "empty", *(["--yes"] if command == "rotate" else []))
    assert (code, out) == (2, "")
    assert "no tables: the catalog empty has none" in err


@pytest.mark.parametrize("job", [verify, keys, rotate, rewrap, prune_keys, expire])
def test_in_python_too(job: object) -> None:
    with load_catalog() as catalog:
        with pytest.raises(NothingThereError, match="no tables"):
            job.plan(every=True, catalog=catalog)  # type: ignore[attr-defined]
        with pytest.raises(NothingThereError, match="no tables"):
            job.plan("hr", catalog=catalog)  # type: ignore[attr-defined]


def test_a_result_without_tables_is_not_sound() -> None:
    nothing = Verification("1", "c", "full", datetime.now(UTC), datetime.now(UTC))
    assert (nothing.verdict, nothing.exit_code) == ("incomplete", 2)
    assert "no tables" in str(nothing)


def test_the_number_of_tables_is_checked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "keystore", "create", "--key", "hr")[0] == 0
    with load_catalog() as catalog:
        catalog.create_table("hr.t", pa.schema([("a", pa.int64())]), properties={"encryption.key-id": "hr"})
    assert run(capsys, "verify", "--all", "--expect-tables", "1")[0] == 0
    for expected in ("2", "7"):
        page = home / "page.html"
        code, out, _ = run(capsys, "verify", "--all", "--expect-tables", expected, "--report", str(page))
        assert code == 2
        assert f"{expected} were expected, and 1 were found" in out
        assert "Everything is sound" not in page.read_text()
    assert run(capsys, "verify", "--all", "--expect-tables", "0")[0] == 2
