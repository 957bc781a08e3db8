"""The keystore command, as a script uses it and as somebody at a terminal does."""

from __future__ import annotations

import json
import stat
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kit.programs.commands import on_terminal
from sealberg.cli.keystore import keystore_group
from sealberg.errors import ConfigError, KeyNotFoundError, SealbergError, WrongKeyError
from sealberg.keys.keystore import age, pkcs12
from sealberg.keys.keystore.jwk import Keystore, MasterKey
from sealberg.keys.keystore.kms import KeystoreFile

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

PASSPHRASE = "correct horse"
PASSWORD = "open sesame"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SEALBERG_HOME", str(tmp_path))
    monkeypatch.setenv("SEALBERG_PASSPHRASE", PASSPHRASE)
    monkeypatch.setenv("KEYSTORE_PASSWORD", PASSWORD)
    monkeypatch.setattr(pkcs12.seal, "__kwdefaults__", {"iterations": 3})
    return tmp_path


@pytest.fixture
def file(home: Path) -> KeystoreFile:
    made = KeystoreFile(home / "keystore.age")
    made.create(Keystore((MasterKey("hr", bytes(range(32))), MasterKey("Ops", bytes(16)))), PASSPHRASE, work_factor=2)
    return made


def run(*arguments: str | Path, fails: type[SealbergError] | None = None, says: str = "") -> Result:
    result = CliRunner().invoke(keystore_group, [str(argument) for argument in arguments])
    told = result.output
    if fails is None:
        assert result.exit_code == 0, (result.output, result.exception)
    else:
        assert isinstance(result.exception, fails), (result.output, result.exception)
        told = str(result.exception)
        assert "\n" not in told
    assert says in told
    for secret in (PASSPHRASE, PASSWORD, bytes(range(32)).hex(), "AAECAwQF"):
        assert secret not in result.output + told
    return result


def run_json(*arguments: str | Path) -> dict[str, Any]:
    found = json.loads(run(*arguments, "--json").stdout)
    assert isinstance(found, dict)
    return found


class TestCreate:
    def test_makes_the_file_and_reminds_of_a_copy(self, home: Path) -> None:
        result = run("create", "--work-factor", "10", "--key", "hr", "--key", "ops", "--length", "16")
        assert "loses this file loses every table under its keys" in result.stdout
        place = home / "keystore.age"
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert [(key.id, len(key.key)) for key in KeystoreFile(place).read(PASSPHRASE).keys] == [
            ("hr", 16),
            ("ops", 16),
        ]
        assert age.work_factor(place.read_bytes()) == 10

    def test_of_an_empty_one_hints_at_the_next_step(self, home: Path) -> None:
        assert "encryption.key-id=ID: sealberg keystore add ID" in run("create", "--work-factor", "10").stderr

    def test_refuses_to_overwrite(self, file: KeystoreFile) -> None:
        before = file.path.read_bytes()
        run("create", fails=ConfigError, says="exists already")
        assert file.path.read_bytes() == before

    def test_if_not_exists_keeps_the_keystore_and_makes_the_keys_that_it_lacks(self, file: KeystoreFile) -> None:
        before = file.path.read_bytes()
        run("create", "--if-not-exists", "--key", "hr", says="is kept")
        assert file.path.read_bytes() == before
        assert run_json("create", "--if-not-exists", "--key", "hr", "--key", "new")["keys"][0]["id"] == "new"
        keys = {key.id: key.key for key in file.read(PASSPHRASE).keys}
        assert keys.keys() == {"hr", "Ops", "new"}
        assert keys["hr"] == bytes(range(32))

    def test_if_not_exists_with_another_passphrase_is_refused(
        self, file: KeystoreFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SEALBERG_PASSPHRASE", "another")
        run("create", "--if-not-exists", "--key", "new", fails=WrongKeyError)

    def test_without_a_passphrase_names_the_three_ways(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SEALBERG_PASSPHRASE")
        result = run("create", fails=ConfigError, says="--passphrase-file")
        assert "SEALBERG_PASSPHRASE" in str(result.exception)
        assert "terminal" in str(result.exception)
        assert list(home.iterdir()) == []

    def test_speaks_json(self, home: Path) -> None:
        found = run_json("create", "--work-factor", "10", "--key", "hr", "--path", home / "b.age")
        assert found["path"] == str(home / "b.age")
        assert [(key["id"], key["length"]) for key in found["keys"]] == [("hr", 32)]

    @pytest.mark.parametrize("factor", ["9", "23"])
    def test_refuses_absurd_work_factors(self, home: Path, factor: str) -> None:
        assert CliRunner().invoke(keystore_group, ["create", "--work-factor", factor]).exit_code == 2


class TestAdd:
    @pytest.mark.parametrize(("given", "length"), [([], 32), (["--length", "16"], 16), (["--length", "24"], 24)])
    def test_makes_a_random_key(self, file: KeystoreFile, given: list[str], length: int) -> None:
        run("add", "new", *given, says="loses this file")
        key = file.read(PASSPHRASE).get("new")
        assert key is not None
        assert len(key.key) == length
        assert key.created is not None

    def test_refuses_a_duplicate(self, file: KeystoreFile) -> None:
        run("add", "hr", fails=ConfigError, says="hr is already")

    def test_refuses_other_lengths(self, file: KeystoreFile) -> None:
        assert CliRunner().invoke(keystore_group, ["add", "new", "--length", "33"]).exit_code == 2

    def test_tells_where_the_previous_file_is(self, file: KeystoreFile) -> None:
        assert run_json("add", "new")["previous"] == str(file.previous)

    def test_takes_path_and_passphrase_from_elsewhere(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SEALBERG_PASSPHRASE")
        monkeypatch.setenv("ELSEWHERE", "another")
        (home / "secret").write_text("another\n")
        (home / "secret").chmod(0o600)
        place = home / "b.age"
        run("create", "--path", place, "--passphrase-env", "ELSEWHERE", "--work-factor", "10")
        run("add", "hr", "--path", place, "--passphrase-file", home / "secret")
        assert KeystoreFile(place).read("another").get("hr")


class TestList:
    def test_shows_ids_sizes_and_times_and_no_key(self, file: KeystoreFile) -> None:
        run("add", "new")
        lines = run("list").stdout.splitlines()
        assert lines[0] == f"{file.path}, 3 master keys"
        assert lines[1:3] == ["  hr   32 bytes  creation time unknown", "  Ops  16 bytes  creation time unknown"]
        assert lines[3].startswith("  new  32 bytes  20")

    def test_speaks_json(self, file: KeystoreFile) -> None:
        assert run_json("list") == {
            "path": str(file.path),
            "keys": [{"id": "hr", "length": 32, "created": None}, {"id": "Ops", "length": 16, "created": None}],
        }

    def test_refuses_a_wrong_passphrase(self, file: KeystoreFile, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SEALBERG_PASSPHRASE", "hunter2")
        result = run("list", fails=WrongKeyError, says="wrong passphrase")
        assert "hunter2" not in str(result.exception)

    def test_of_nothing_says_so(self, home: Path) -> None:
        run("list", fails=ConfigError, says="no such file")


class TestPasswd:
    def test_changes_the_passphrase(self, file: KeystoreFile, home: Path) -> None:
        (home / "new").write_text("new one\n")
        (home / "new").chmod(0o600)
        result = run("passwd", "--new-passphrase-file", home / "new", "--yes")
        assert "2 master keys" in result.stderr
        assert f"hint: the old passphrase still opens {file.previous}" in result.stderr
        assert len(file.read("new one").keys) == 2
        assert len(KeystoreFile(file.previous).read(PASSPHRASE).keys) == 2

    def test_unconfirmed_changes_nothing(self, file: KeystoreFile, home: Path) -> None:
        (home / "new").write_text("new one\n")
        (home / "new").chmod(0o600)
        run("passwd", "--new-passphrase-file", home / "new", fails=ConfigError, says="--yes")
        assert file.read(PASSPHRASE)

    def test_does_not_take_the_old_one_for_the_new(self, file: KeystoreFile) -> None:
        run("passwd", "--yes", fails=ConfigError, says="--new-passphrase-file")

    def test_takes_the_new_one_from_a_variable(self, file: KeystoreFile, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NEW", "new one")
        assert run_json("passwd", "--new-passphrase-env", "NEW", "--yes")["previous"] == str(file.previous)
        assert file.read("new one")


class TestJavaStore:
    def test_exported_keys_come_back(self, file: KeystoreFile, home: Path) -> None:
        result = run("export", home / "java.p12")
        assert f"hint: in Java: set kms.client.keystore.path={home / 'java.p12'}" in result.stderr
        assert "hint: Java compares key ids in lower case" in result.stderr
        assert stat.S_IMODE((home / "java.p12").stat().st_mode) == 0o600
        other = home / "other.age"
        run("create", "--work-factor", "10", "--path", other)
        run("import", home / "java.p12", "--rename", "ops=Ops", "--yes", "--path", other)
        keys = {key.id: key.key for key in KeystoreFile(other).read(PASSPHRASE).keys}
        assert keys == {"hr": bytes(range(32)), "Ops": bytes(16)}

    def test_export_takes_only_the_keys_that_are_named(self, file: KeystoreFile, home: Path) -> None:
        found = run_json("export", home / "java.p12", "--key", "hr")
        assert found["store"] == str(home / "java.p12")
        assert [key.id for key in pkcs12.open((home / "java.p12").read_bytes(), PASSWORD)] == ["hr"]
        run("export", home / "b.p12", "--key", "nobody", fails=KeyNotFoundError, says="nobody")

    def test_export_replaces_only_when_confirmed(self, file: KeystoreFile, home: Path) -> None:
        store = home / "java.p12"
        store.write_bytes(b"old")
        run("export", store, fails=ConfigError, says="--yes")
        assert store.read_bytes() == b"old"
        assert run_json("export", store, "--yes")["previous"] == f"{store}.previous"
        assert (home / "java.p12.previous").read_bytes() == b"old"
        assert pkcs12.open(store.read_bytes(), PASSWORD)

    def test_export_never_replaces_the_keystore(self, file: KeystoreFile) -> None:
        run("export", file.path, "--yes", fails=ConfigError, says="keystore itself")
        assert file.read(PASSPHRASE)

    def test_import_shows_its_plan_and_waits(self, file: KeystoreFile, home: Path) -> None:
        store = home / "java.p12"
        store.write_bytes(pkcs12.seal([MasterKey("new", bytes(16))], PASSWORD))
        before = file.path.read_bytes()
        result = run("import", store, fails=ConfigError, says="--yes")
        assert "1 master key" in result.stderr
        assert "  new\n" in result.stderr
        assert file.path.read_bytes() == before

    def test_import_of_keys_that_are_here_changes_nothing(self, file: KeystoreFile, home: Path) -> None:
        store = home / "java.p12"
        store.write_bytes(pkcs12.seal([MasterKey("hr", bytes(range(32)))], PASSWORD))
        before = file.path.read_bytes()
        assert run_json("import", store)["keys"] == []
        assert file.path.read_bytes() == before

    def test_import_never_replaces_a_key(self, file: KeystoreFile, home: Path) -> None:
        store = home / "java.p12"
        store.write_bytes(pkcs12.seal([MasterKey("hr", bytes(32))], PASSWORD))
        run("import", store, "--yes", fails=ConfigError, says="cannot import hr")
        run("import", store, "--yes", "--rename", "hr=hr-java")
        assert {key.id: key.key for key in file.read(PASSPHRASE).keys}["hr-java"] == bytes(32)

    @pytest.mark.parametrize(
        ("rename", "kind"), [("hr", ConfigError), ("=x", ConfigError), ("hr=", ConfigError), ("no=x", KeyNotFoundError)]
    )
    def test_import_refuses_a_rename_of_nothing(
        self, file: KeystoreFile, home: Path, rename: str, kind: type[SealbergError]
    ) -> None:
        store = home / "java.p12"
        store.write_bytes(pkcs12.seal([MasterKey("hr", bytes(range(32)))], PASSWORD))
        run("import", store, "--yes", "--rename", rename, fails=kind, says="rename")

    def test_wrong_password_is_refused(self, file: KeystoreFile, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = home / "java.p12"
        store.write_bytes(pkcs12.seal([MasterKey("new", bytes(16))], "another"))
        run("import", store, "--yes", fails=WrongKeyError, says="wrong password")
        (home / "secret").write_text("another")
        (home / "secret").chmod(0o600)
        run("import", store, "--yes", "--password-file", home / "secret")
        assert file.read(PASSPHRASE).get("new")


def test_terminal_is_asked_twice_for_a_new_passphrase_and_shows_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SEALBERG_PASSPHRASE")
    program = [sys.executable, "-c", "from sealberg.cli.keystore import keystore_group; keystore_group()"]
    code, said = on_terminal([*program, "create", "--key", "hr", "--work-factor", "10"], PASSPHRASE)
    assert code == 0, said
    assert "New passphrase again:" in said
    code, more = on_terminal([*program, "list"], PASSPHRASE)
    assert code == 0, more
    assert "hr  32 bytes" in more
    assert PASSPHRASE not in said + more
