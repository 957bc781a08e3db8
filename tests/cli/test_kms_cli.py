"""`sealberg kms check`: any client, in one command."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from kit.programs.commands import on_terminal
from sealberg.cli.main import main
from sealberg.keys.keystore.jwk import Keystore, MasterKey
from sealberg.keys.keystore.kms import KeystoreFile

if TYPE_CHECKING:
    from pathlib import Path

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
    assert told["steps"][0]["error"] == "KeyNotFoundError"
    assert told["steps"][0]["milliseconds"] >= 0


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


def test_a_keystore_asks_for_its_passphrase_at_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "keys.age"
    KeystoreFile(path).create(Keystore((MasterKey("hr", bytes(range(32))),)), "open sesame", work_factor=10)
    command = [sys.executable, "-m", "sealberg.cli.main", "kms", "check", "--kms-type", "keystore", "--key-id", "hr"]
    code, shown = on_terminal([*command, "-p", f"encryption.kms.keystore.path={path}"], "open sesame")
    assert code == 0
    assert "ready for readers and writers" in shown
    assert "open sesame" not in shown
