"""rotate, rewrap, prune-keys and keys: what they change, what they leave, and what they say."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sealberg
from kit.servers.versioned_kms import SILENT, VersionedKeys, VersionedKms
from kit.tables.commits import ROWS, make, rows_of
from sealberg.cli.main import cli
from sealberg.errors import AccessDeniedError, ConfigError, KeyDestroyedError
from sealberg.jobs import keys, prune_keys, rewrap, rotate
from sealberg.jobs.report.keys_page import keys_page
from sealberg.jobs.runner import Threads
from sealberg.keys.keyring import EncryptedKey
from sealberg.keys.keystore.jwk import Keystore, MasterKey
from sealberg.keys.keystore.kms import KeystoreFile
from sealberg.keys.manager import LIFESPAN_PROPERTY
from sealberg.metadata.updates import AddEncryptionKeyUpdate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def admin(tmp_path: Path) -> VersionedKeys:
    made = VersionedKeys(tmp_path / "kms.json")
    made.rotate("hr")
    return made


@pytest.fixture
def connect(tmp_path: Path, admin: VersionedKeys, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A client of the catalog, with a cache of KEKs of its own."""

    def open_catalog(**more: str) -> Any:
        own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
        catalog = sealberg.load_catalog("test", **{**own, **admin.properties, **more})
        request.addfinalizer(catalog.close)
        return catalog

    return open_catalog


@pytest.fixture
def catalog(connect: Callable[..., Any]) -> Any:
    opened = connect()
    opened.create_namespace("db")
    return opened


@pytest.fixture
def table(catalog: Any) -> Any:
    made = make(catalog)
    made.append(ROWS)
    return made


def kek_of_newest(table: Any) -> str:
    found: str = table.metadata.encryption_keys.get(table.metadata.snapshots[-1].key_id).encrypted_by_id
    return found


def all_rows(table: Any) -> list[int]:
    return [len(rows_of(table, each.snapshot_id)) for each in table.metadata.snapshots]


# -- rotate ---------------------------------------------------------------------------------------


def test_rotate_adds_a_kek_by_one_commit_and_two_calls(table: Any, catalog: Any, admin: VersionedKeys) -> None:
    plan = rotate.plan("db.t", catalog=catalog)
    assert (plan.changes, plan.steps[0].kms_calls) == (True, 2)
    calls, log = len(admin.calls), len(table.metadata.metadata_log)
    result = plan.execute()
    assert (result.exit_code, result.outcomes[0].status) == (0, "done")
    after = catalog.load_table("db.t")
    assert admin.calls[calls:] == ["wrap", "unwrap"]
    assert len(after.metadata.metadata_log) == log + 1
    after.append(ROWS)
    assert kek_of_newest(after) == result.outcomes[0].facts["kek_id"]
    assert all_rows(after) == [3, 6]


@pytest.mark.parametrize(
    ("conditions", "due"),
    [
        ({}, True),
        ({"older_than": timedelta(days=365)}, False),
        ({"older_than": timedelta(0)}, True),
        ({"wraps": 1}, False),
        ({"wraps": 0}, True),
        ({"wraps": 0, "older_than": timedelta(days=365)}, True),
    ],
)
def test_rotate_waits_for_age_or_number_of_wraps(
    table: Any, catalog: Any, conditions: dict[str, Any], due: bool
) -> None:
    plan = rotate.plan(table, **conditions)
    assert plan.changes == due
    assert len(catalog.load_table("db.t").metadata.encryption_keys.keks("hr")) == 1
    plan.execute()
    assert len(catalog.load_table("db.t").metadata.encryption_keys.keks("hr")) == 1 + due


def test_wraps_are_counted_from_the_rotation_on_also_when_snapshots_have_expired(table: Any, catalog: Any) -> None:
    for _ in range(4):
        table.append(ROWS)
    rotate.plan(table).execute()
    table = catalog.load_table("db.t")
    for _ in range(3):
        table.append(ROWS)
    gone = [each.snapshot_id for each in table.metadata.snapshots][:-1]
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    assert not rotate.plan(table, wraps=3).changes
    assert rotate.plan(table, wraps=2).changes


def test_a_table_that_fails_does_not_stop_the_others(catalog: Any, table: Any, tmp_path: Path) -> None:
    other = make(catalog, "db.other")
    for path in (tmp_path / "w" / "db" / "other" / "metadata").iterdir():
        path.write_text("{}")
    plan = rotate.plan(catalog=catalog, every=True)
    result = plan.execute()
    assert [(each.table, each.status) for each in result.outcomes] == [("db.other", "failed"), ("db.t", "done")]
    assert result.exit_code == 2
    assert other.name() == ("db", "other")


# -- rewrap ---------------------------------------------------------------------------------------


def test_rewrap_makes_two_calls_and_one_commit_where_needed_and_none_elsewhere(
    table: Any, catalog: Any, connect: Callable[..., Any], admin: VersionedKeys
) -> None:
    admin.rotate("hr")
    current = make(catalog, "db.current")
    current.append(ROWS)
    before, calls = current.metadata_location, len(admin.calls)
    fresh = connect()
    result = rewrap.plan(catalog=fresh, every=True).execute()
    assert [(each.table, each.status) for each in result.outcomes] == [("db.current", "nothing"), ("db.t", "done")]
    assert result.exit_code == 0
    assert admin.calls[calls:] == ["newest", "rewrap", "unwrap"]
    assert fresh.load_table("db.current").metadata_location == before
    assert len(fresh.load_table("db.t").metadata.metadata_log) == len(table.metadata.metadata_log) + 1
    assert "no KEK of these 2 tables needs a version other than 2" in str(result)


def test_after_rewrap_the_old_version_can_be_disabled(
    table: Any, catalog: Any, connect: Callable[..., Any], admin: VersionedKeys
) -> None:
    rotate.plan(table).execute()
    catalog.load_table("db.t").append(ROWS)
    before = catalog.load_table("db.t").metadata.encryption_keys
    admin.rotate("hr")
    assert rewrap.plan("db", catalog=catalog).execute().exit_code == 0
    admin.disable("hr", 1)
    after = connect().load_table("db.t")
    assert all_rows(after) == [3, 6]
    ring = after.metadata.encryption_keys
    assert [(key.key_id, key.timestamp, key.encrypted_by_id) for key in ring.keks("hr")] == [
        (key.key_id, key.timestamp, key.encrypted_by_id) for key in before.keks("hr")
    ]
    assert {key for key in ring if key.timestamp is None} == {key for key in before if key.timestamp is None}
    assert rewrap.plan("db.t", catalog=connect()).changes is False


def test_rewrap_does_not_claim_what_the_kms_does_not_tell(table: Any, connect: Callable[..., Any]) -> None:
    assert len(table.metadata.snapshots) == 1
    silent = connect(**{"encryption.kms-impl": SILENT})
    result = rewrap.plan("db.t", catalog=silent).execute()
    assert (result.exit_code, result.outcomes[0].status) == (2, "unproved")
    assert "do NOT disable older versions" in str(result)
    assert all_rows(connect().load_table("db.t")) == [3]


def test_rewrap_and_a_commit_of_somebody_else_are_both_done(
    table: Any, catalog: Any, connect: Callable[..., Any], admin: VersionedKeys
) -> None:
    admin.rotate("hr")
    plan = rewrap.plan("db.t", catalog=connect())
    catalog.load_table("db.t").append(ROWS)
    assert plan.execute().exit_code == 0
    admin.disable("hr", 1)
    assert all_rows(connect().load_table("db.t")) == [3, 6]


def test_a_kms_that_returns_another_key_changes_nothing(
    table: Any, connect: Callable[..., Any], admin: VersionedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.rotate("hr")
    monkeypatch.setattr(VersionedKms, "rewrap", lambda self, _, key_id: self.wrap(bytes(16), key_id))
    before = table.metadata_location
    result = rewrap.plan("db.t", catalog=connect()).execute()
    assert result.exit_code == 2
    assert "another key" in result.outcomes[0].message
    assert connect().load_table("db.t").metadata_location == before


# -- prune-keys, keys -----------------------------------------------------------------------------


def test_prune_keys_removes_what_nothing_needs(table: Any, catalog: Any, admin: VersionedKeys) -> None:
    kek = table.metadata.encryption_keys.keks("hr")[0].key_id
    begun = table.transaction()
    stray = EncryptedKey("stray", b"x" * 60, kek)
    begun.apply((AddEncryptionKeyUpdate.model_validate({"encryption-key": stray}),))
    begun.commit_transaction()
    plan = prune_keys.plan("db.t", catalog=catalog)
    calls = admin.calls
    assert plan.steps[0].action == "remove 1 key"
    assert plan.execute().outcomes[0].facts == {"removed": ["stray"], "left": 2}
    assert prune_keys.plan("db.t", catalog=catalog).changes is False
    assert admin.calls == calls
    assert all_rows(catalog.load_table("db.t")) == [3]


def test_keys_tells_which_master_key_opens_what_and_what_is_due(
    table: Any, catalog: Any, connect: Callable[..., Any], admin: VersionedKeys
) -> None:
    catalog.create_table("db.plain", pa.schema([("id", pa.int64())]))
    found = keys.plan(catalog=catalog).execute()
    assert found.exit_code == 0
    assert [(key.key_id, key.newest, key.tables) for key in found.master_keys] == [("hr", "1", ("db.t",))]
    admin.rotate("hr")
    found = keys.plan(catalog=connect(**{LIFESPAN_PROPERTY: "0.00000002"})).execute()
    assert found.exit_code == 1
    (due,) = [each.due for each in found.tables if each.due]
    assert [each.partition(":")[0] for each in due] == ["rotate", "rewrap"]
    assert found.tables[0].note == "the table is not encrypted, so it has no keys"
    json.dumps(found.to_json())


def test_rotate_that_was_repeated_rotates_once(table: Any, catalog: Any) -> None:
    assert rotate.plan("db.t", catalog=catalog).execute().outcomes[0].status == "done"
    again = rotate.plan("db.t", catalog=catalog)
    assert (again.changes, again.execute().outcomes[0].status) == (False, "nothing")
    assert len(catalog.load_table("db.t").metadata.encryption_keys.keks("hr")) == 2
    assert rotate.plan("db.t", catalog=catalog, older_than=timedelta(0)).changes  # who asks for it gets it
    catalog.load_table("db.t").append(ROWS)
    assert rotate.plan("db.t", catalog=catalog).changes


def test_keys_does_not_pass_over_a_kms_that_does_not_answer(
    table: Any, catalog: Any, connect: Callable[..., Any]
) -> None:
    assert table.metadata.snapshots
    found = keys.plan("db.t", catalog=connect(**{"encryption.kms.versioned.path": "/nowhere"})).execute()
    assert found.master_keys[0].newest is None
    assert found.master_keys[0].reason
    assert (found.exit_code, "not known: " in str(found)) == (2, True)
    page = keys_page(found)
    assert "1 master key not known" in page
    assert keys.plan("db.t", catalog=catalog, ask_kms=False).execute().master_keys[0].reason == "the KMS was not asked"


@pytest.mark.parametrize("lost", ["missing", "disabled", "destroyed", "wrong", "pending"])
def test_keys_tells_that_a_master_key_cannot_be_used(
    lost: str,
    table: Any,
    catalog: Any,
    connect: Callable[..., Any],
    admin: VersionedKeys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert table.scan().to_arrow().num_rows == 3  # the KEK is in the cache, which proves nothing
    assert keys.plan(catalog=catalog).execute().exit_code == 0
    if lost == "missing":
        admin.path.write_text("{}")
    elif lost == "disabled":
        admin.disable("hr", 1)
    elif lost == "wrong":
        admin.path.write_text(json.dumps({"hr": ["ab" * 16]}))
    elif lost == "destroyed":

        def destroyed(*_: object) -> bytes:
            raise KeyDestroyedError("deletion at 2026-12-24")

        monkeypatch.setattr(VersionedKms, "unwrap", destroyed)
    else:
        monkeypatch.setattr(VersionedKms, "describe", lambda *_: {"DeletionDate": "2026-12-24"})
        monkeypatch.setattr(VersionedKms, "trouble_in", lambda _, facts: f"deletion at {facts['DeletionDate']}")
    found = keys.plan(catalog=catalog).execute()
    words = {
        "missing": "the key is missing: ",
        "disabled": "the key is disabled: ",
        "wrong": "the key does not open what it wrapped: ",
        "destroyed": "2026-12-24",
        "pending": "problem: deletion at 2026-12-24",
    }[lost]
    assert found.exit_code == 1
    assert words in str(found)
    assert words.removeprefix("problem: ") in keys_page(found)
    assert "1 master key with problems" in keys_page(found)
    assert keys.plan(catalog=connect(), ask_kms=False).execute().exit_code == 0


def test_a_keystore_that_is_gone_or_does_not_open_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.age"
    monkeypatch.setenv("SEALBERG_PASSPHRASE", "right")
    KeystoreFile(path).create(Keystore((MasterKey("hr", bytes(32)),)), "right", work_factor=2)
    own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    own |= {"encryption.kms-type": "keystore", "encryption.kms.keystore.path": str(path)}
    with sealberg.load_catalog("test", **own) as catalog:
        catalog.create_namespace("db")
        make(catalog).append(ROWS)  # type: ignore[arg-type]
        assert keys.plan(catalog=catalog).execute().exit_code == 0

    def unknown() -> str:
        with sealberg.load_catalog("test", **own) as catalog:
            found = keys.plan(catalog=catalog).execute()
        assert (found.exit_code, found.master_keys[0].problems) == (2, ())
        assert "1 master key not known" in keys_page(found)
        return found.master_keys[0].unknown

    monkeypatch.setenv("SEALBERG_PASSPHRASE", "wrong")
    assert "wrong passphrase" in unknown()
    path.unlink()
    assert "no such file; restore it from a copy" in unknown()


def test_who_may_be_told_of_keys_and_not_open_tables_gets_an_answer(
    table: Any, catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> Any:
        raise AccessDeniedError("no unwrap for an auditor")

    assert table.metadata.snapshots
    monkeypatch.setattr(VersionedKms, "unwrap", denied)
    assert keys.plan(catalog=catalog).execute().exit_code == 2
    monkeypatch.setattr(VersionedKms, "describe", lambda *_: {"state": "Enabled"})
    assert keys.plan(catalog=catalog).execute().exit_code == 0
    monkeypatch.setattr(VersionedKms, "describe", denied)
    assert keys.plan(catalog=catalog).execute().exit_code == 2


# -- the command line -----------------------------------------------------------------------------


def test_the_commands_ask_show_and_speak_json(
    table: Any, tmp_path: Path, admin: VersionedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert table.metadata.snapshots
    own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w", **admin.properties}
    for name, value in own.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__TEST__{name.upper().replace('-', '_').replace('.', '__')}", value)
    admin.rotate("hr")

    def say(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli, [*arguments, "--catalog", "test"])
        return done.exit_code, done.stdout

    page = tmp_path / "keys.html"
    code, text = say("keys", "--report", str(page))
    assert (code, "due: rewrap: version 1 of hr wraps 1 KEK, the newest is 2" in text) == (1, True)
    assert "<h1" in page.read_text()
    code, text = say("rotate", "db.t", "--dry-run", "--json", "--older-than", "365d")
    assert (code, json.loads(text)["changes"]) == (0, False)
    assert say("rotate", "db.t")[0] == 1  # there is no terminal to ask
    code, text = say("rotate", "db.t", "--yes", "--json")
    assert (code, json.loads(text)["outcomes"][0]["status"]) == (0, "done")
    code, text = say("rewrap", "--all", "--yes")
    assert (code, "1 KEK rewrapped" in text) == (0, True)
    assert say("prune-keys", "db", "--yes") == (0, "db.t: every key is needed\n")
    assert say("rotate", "db.t", "--older-than", "soon")[0] == 2
    assert say("rotate")[0] == 2


def test_what_cannot_be_done_is_refused_by_name(table: Any, catalog: Any) -> None:
    with pytest.raises(ConfigError, match="`wraps` is -1"):
        rotate.plan(table, wraps=-1)
    with pytest.raises(ConfigError, match="`older_than` is -1 day"):
        rotate.plan(table, older_than=timedelta(days=-1))
    with pytest.raises(ConfigError, match="no table was named"):
        rewrap.plan(catalog=catalog)
    with pytest.raises(ConfigError, match="without a runner"):
        prune_keys.plan(table).execute(runner=Threads(1))
    static = sealberg.open_table(table.metadata_location, kms=table.encryption.kms)
    with pytest.raises(ConfigError, match="opened without a catalog"):
        rotate.plan(static)
