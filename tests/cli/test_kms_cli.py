"""`sealberg kms check`: any client, in one command."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sealberg
from kit.programs.commands import on_terminal
from sealberg.cli.main import main
from sealberg.keys.keystore.jwk import Keystore, MasterKey
from sealberg.keys.keystore.kms import KeystoreFile

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.schema([pa.field("id", pa.int64())])
KEY = "encryption.kms.memory.key.hr=" + "ab" * 16


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["kms", "check", *arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_a_good_key_is_wrapped_and_unwrapped_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--kms-type", "memory", "--key-id", "hr", "-p", KEY)
    assert code == 0
    assert "wrap      ok" in out
    assert "unwrap    ok" in out
    assert " ms" in out
    assert "ready for readers and writers" in out


def test_json_carries_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--kms-type", "memory", "--key-id", "nobody", "-p", KEY, "--json")
    told = json.loads(out)
    assert (code, told["ok"], told["provider"]) == (1, False, "memory")
    (key,) = told["keys"]
    assert (key["key_id"], key["steps"][0]["error"]) == ("nobody", "KeyNotFoundError")
    assert key["steps"][0]["milliseconds"] >= 0


def test_the_class_names_of_java_work(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = run(capsys, "--kms-impl", "org.apache.iceberg.encryption.UnitestKMS", "--key-id", "keyA")
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--key-id", "hr"], "Cannot create encryption manager without a key management client"),
        (["--key-id", "hr", "--kms-type", "memory", "--kms-impl", "a.B"], "Cannot set both KMS type"),
        (["--key-id", "hr", "--kms-type", "abacus"], "Unsupported KMS type: abacus"),
        (["--key-id", "hr", "--kms-type", "memory", "-p", "secret"], "NAME=VALUE"),
    ],
)
def test_a_bad_configuration_is_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (1, "")
    assert words in err


def configure(monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    """The catalog `prod` in PyIceberg's configuration, with a server that nobody can reach."""
    described = {"type": "rest", "uri": "http://127.0.0.1:9/", "encryption__kms_type": "memory"}
    keys = {f"encryption__kms__memory__key__{name}": "ab" * 16 for name in ("hr", "pay")}
    for name, value in {**described, **keys, **more}.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name.upper()}", value)


def test_a_catalog_is_checked_with_its_own_kms_and_every_key_that_its_configuration_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(
        monkeypatch,
        encryption__default_key_id="hr",
        encryption__default_key_id__finance="pay",
        encryption__expected_key_id__hr__salaries="hr",
    )
    code, out, _ = run(capsys, "--catalog", "prod")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("catalog")] == [
        "catalog prod, memory, key hr",
        "catalog prod, memory, key pay",
    ]
    code, out, _ = run(capsys, "--catalog", "prod", "--json")
    assert (code, [key["key_id"] for key in json.loads(out)["keys"]]) == (0, ["hr", "pay"])


def test_one_key_of_a_catalog_that_fails_makes_the_check_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(monkeypatch)
    code, out, _ = run(capsys, "--catalog", "prod", "--key-id", "hr", "--key-id", "lost", "--json")
    told = json.loads(out)
    assert (code, told["ok"], [key["ok"] for key in told["keys"]]) == (1, False, [True, False])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "Missing option '--key-id' or '--catalog'"),
        (
            ["--catalog", "prod"],
            1,
            "names no master key (encryption.default-key-id, encryption.expected-key-id.TABLE), ",
        ),
        (["--catalog", "prod"], 1, "and its tables could not be listed: "),
        (["--catalog", "prod", "--kms-type", "vault", "--key-id", "hr"], 2, "leave out --kms-type"),
        (["--catalog", "test", "--key-id", "hr"], 1, "no catalog test is configured"),
    ],
)
def test_what_cannot_be_checked_is_said(
    arguments: list[str],
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(monkeypatch)
    ended, out, err = run(capsys, *arguments)
    assert (ended, out) == (code, "")
    assert words in err


def test_without_a_configured_key_every_key_of_a_table_is_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(monkeypatch, type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    assert "no table of it is encrypted" in run(capsys, "--catalog", "prod")[2]
    with sealberg.load_catalog("prod") as catalog:
        for namespace in ("hr", "pay"):
            catalog.create_namespace(namespace)
            for name in ("a", "b"):
                catalog.create_table(f"{namespace}.{name}", ROWS, properties={"encryption.key-id": namespace})
        catalog.create_table("hr.open", ROWS)
    code, out, _ = run(capsys, "--catalog", "prod")
    assert (code, [line for line in out.splitlines() if line.startswith("catalog")]) == (
        0,
        ["catalog prod, memory, key hr", "catalog prod, memory, key pay"],
    )
    monkeypatch.delenv("PYICEBERG_CATALOG__PROD__ENCRYPTION__KMS__MEMORY__KEY__PAY")
    code, out, _ = run(capsys, "--catalog", "prod", "--json")
    assert (code, [(key["key_id"], key["ok"]) for key in json.loads(out)["keys"]]) == (
        1,
        [("hr", True), ("pay", False)],
    )


def test_a_catalog_without_a_kms_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__PLAIN__URI", "http://127.0.0.1:9/")
    code, _, err = run(capsys, "--catalog", "plain", "--key-id", "hr")
    assert code == 1
    assert "catalog plain has no KMS" in err


def test_a_keystore_asks_for_its_passphrase_at_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "keys.age"
    KeystoreFile(path).create(Keystore((MasterKey("hr", bytes(range(32))),)), "open sesame", work_factor=10)
    command = [sys.executable, "-m", "sealberg.cli.main", "kms", "check", "--kms-type", "keystore", "--key-id", "hr"]
    code, shown = on_terminal([*command, "-p", f"encryption.kms.keystore.path={path}"], "open sesame")
    assert code == 0
    assert "ready for readers and writers" in shown
    assert "open sesame" not in shown
