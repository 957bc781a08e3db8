"""`sealberg kms check`: any client, in one command."""

from __future__ import annotations

import json

import pytest

from sealberg.cli.main import main

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
