"""`sealberg kms check`: any client, in one command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import sealberg
from kit.programs.commands import on_terminal
from kit.servers.openbao import openbao
from kit.servers.versioned_kms import VersionedKeys
from sealberg.cli.main import main
from sealberg.jobs import rotate
from sealberg.keys.keystore.jwk import Keystore, MasterKey
from sealberg.keys.keystore.kms import KeystoreFile

ROWS = pa.schema([pa.field("id", pa.int64())])
THREE = pa.table({"id": [1, 2, 3]}, schema=ROWS)
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
    assert (code, "not checked: catalog prod: its tables could not be listed: " in out) == (2, True)
    assert [line for line in out.splitlines() if line.startswith("catalog")] == [
        "catalog prod, memory, key hr",
        "catalog prod, memory, key pay",
    ]
    code, out, _ = run(capsys, "--catalog", "prod", "--json")
    told = json.loads(out)
    assert (code, told["ok"], [(key["key_id"], key["ok"]) for key in told["keys"]]) == (
        2,
        False,
        [("hr", True), ("pay", True)],
    )


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


def test_each_role_is_tried_on_a_kek_of_each_table_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = VersionedKeys(tmp_path / "kms.json")
    admin.rotate("hr")
    own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w", **admin.properties}
    for name, value in own.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name.upper().replace('-', '_').replace('.', '__')}", value)
    code, out, _ = run(capsys, "--catalog", "prod", "--role", "reader", "--key-id", "hr")
    assert (code, "not proved: no table has a KEK under this key" in out) == (2, True)
    with sealberg.load_catalog("prod") as catalog:
        catalog.create_namespace("hr")
        for name in ("a", "b"):
            catalog.create_table(f"hr.{name}", ROWS, properties={"encryption.key-id": "hr"}).append(THREE)
        admin.rotate("hr")
        rotate.plan("hr.b", catalog=catalog).execute()
    calls = {
        "reader": ["unwrap"] * 3,
        "writer": ["wrap", "unwrap", *["unwrap"] * 3],
        "rewrapper": ["newest", *["rewrap", "unwrap"] * 3],
    }
    for role, expected in calls.items():
        before = len(admin.calls)
        code, out, _ = run(capsys, "--catalog", "prod", "--role", role)
        assert (code, admin.calls[before:]) == (0, expected)
        assert "; 3 KEKs of tables opened" in out
    admin.disable("hr", 1)
    for role in calls:
        code, out, _ = run(capsys, "--catalog", "prod", "--role", role, "--json")
        (key,) = json.loads(out)["keys"]
        bad = [step["of"] for step in key["steps"] if not step["ok"]]
        assert (code, key["ok"], {each.rpartition(", ")[2] for each in bad}) == (1, False, {"version 1"})
        assert {each.partition(",")[0] for each in bad} == {"hr.a", "hr.b"}


@pytest.mark.slow
def test_the_policies_that_the_page_gives_pass_for_their_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "kms.md").read_text()
    policy = page.partition("```hcl\n# readers\n")[2].partition("```")[0]
    reader, _, more = policy.partition("# writers")
    writer, _, rewrapper = more.partition("# sealberg rewrap")
    lines = {"reader": reader, "writer": reader + "#" + writer, "rewrapper": reader + "#" + rewrapper}
    allowed = {"reader": {"reader"}, "writer": {"reader", "writer"}, "rewrapper": {"reader", "rewrapper"}}
    with openbao(tmp_path) as server:
        server.api("POST", "transit/keys/hr")
        token = tmp_path / "token"
        own = {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/c.db",
            "warehouse": f"file://{tmp_path}/w",
            "encryption.kms-type": "vault",
            "encryption.kms.vault.address": server.address,
            "encryption.kms.vault.token-file": str(token),
        }
        for name, value in own.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name.upper().replace('-', '_').replace('.', '__')}", value)
        token.write_text(server.token(lines["writer"]))
        with sealberg.load_catalog("prod") as catalog:
            catalog.create_namespace("hr")
            catalog.create_table("hr.t", ROWS, properties={"encryption.key-id": "hr"}).append(THREE)
        for has, text in lines.items():
            token.write_text(server.token(text))
            passed = {role for role in lines if run(capsys, "--catalog", "prod", "--role", role)[0] == 0}
            assert passed == allowed[has], has


def test_a_role_needs_tables(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--kms-type", "memory", "--key-id", "hr", "-p", KEY, "--role", "reader")
    assert (code, out, "name their catalog with --catalog" in err) == (2, "", True)


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
