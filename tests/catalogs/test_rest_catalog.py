"""REST catalogs: where the keys are, what pins them, and what the server has no say in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import (
    RESTError,
)
from pyiceberg.io.pyarrow import PyArrowFileIO

import sealberg
from kit.servers import rest_faults
from kit.servers.rest_faults import (
    ENCRYPTED,
    ROWS,
    editing,
    is_commit,
    make,
    rows_of,
    stored,
    update,
)
from kit.servers.rest_server import seen_by_java
from sealberg.catalogs.rest.catalog import EncryptedRestCatalog
from sealberg.errors import ConfigError, EncryptionRequiredError, PlaintextFileError, TrustError
from sealberg.keys.keyring import EncryptedKey, Keyring
from sealberg.metadata.updates import key_updates

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.servers.fault_proxy import FaultProxy, Request
    from kit.tables.catalogs import Lake

pytestmark = pytest.mark.slow  # a server is started

lake, proxy, catalog = rest_faults.lake, rest_faults.proxy, rest_faults.catalog  # the fixtures


# -- where the keys are -----------------------------------------------------------------------


def test_keys_and_snapshot_are_one_request_and_the_server_has_them(catalog: Any, lake: Lake, proxy: FaultProxy) -> None:
    table = make(catalog)
    proxy.seen.clear()
    table.append(ROWS)
    (commit,) = [json.loads(request.body) for request in proxy.seen if is_commit(request)]
    actions = [each["action"] for each in commit["updates"]]
    assert actions == ["add-encryption-key", "add-snapshot", "set-snapshot-ref"]
    assert {each["type"] for each in commit["requirements"]} == {"assert-ref-snapshot-id", "assert-table-uuid"}
    metadata = stored(lake)
    assert metadata["format-version"] == 3
    (snapshot,) = metadata["snapshots"]
    assert snapshot["key-id"] == commit["updates"][0]["encryption-key"]["key-id"]
    assert snapshot["key-id"] in {key["key-id"] for key in metadata["encryption-keys"]}
    assert metadata["encryption-keys"] == table.metadata.encryption_keys.to_json()


def test_java_finds_the_keys_too_and_refuses_to_read_without_them(catalog: Any, lake: Lake) -> None:
    table = make(catalog)
    table.append(ROWS)
    table.append(ROWS)
    keys, used, scan = seen_by_java(lake.properties["uri"], "db", "t")
    assert keys == [entry.key_id for entry in table.metadata.encryption_keys]
    assert used == [snapshot.key_id for snapshot in table.metadata.snapshots]
    assert scan.startswith("Cannot decrypt manifest list")


def test_a_table_that_another_client_wrote_in_the_clear_is_refused_when_it_is_read(
    catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # as Java's client makes it: a key id, and no key
        patch.setattr(EncryptedRestCatalog, "_first_kek", lambda *_: None)
        table = make(catalog)
    snapshot = {
        "snapshot-id": 7,
        "sequence-number": 1,
        "timestamp-ms": table.metadata.last_updated_ms,
        "manifest-list": f"{table.location()}/metadata/list.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        "first-row-id": 0,
        "added-rows": 1,
    }
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7}
    update(lake, {"action": "add-snapshot", "snapshot": snapshot}, main)
    found = catalog.load_table("db.t")
    for use in (found.scan().to_arrow, lambda: found.append(ROWS)):
        with pytest.raises(PlaintextFileError):
            use()


def test_an_expiry_takes_its_keys_out_in_one_request(catalog: Any, lake: Lake, proxy: FaultProxy) -> None:
    table = make(catalog)
    table.append(ROWS)
    table.append(ROWS)
    first = table.metadata.snapshots[0]
    proxy.seen.clear()
    table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    (commit,) = [json.loads(request.body) for request in proxy.seen if is_commit(request)]
    assert {"action": "remove-encryption-key", "key-id": first.key_id} in commit["updates"]
    assert first.key_id not in {key["key-id"] for key in stored(lake)["encryption-keys"]}
    assert len(rows_of(catalog.load_table("db.t"))) == 6


def test_a_key_that_is_wrapped_anew_keeps_its_id_and_opens_everything(catalog: Any, lake: Lake) -> None:
    table = make(catalog)
    table.append(ROWS)
    ring = table.metadata.encryption_keys
    kek = ring.entries[0]
    again = EncryptedKey(kek.key_id, kek.encrypted_key_metadata, "hr", {**kek.properties, "wrapped": "anew"})
    changed = Keyring((again, *ring.entries[1:]))
    with table.transaction() as transaction:
        transaction.stage(key_updates(changed.diff(ring)))
    assert {key["key-id"]: key for key in stored(lake)["encryption-keys"]}[kek.key_id]["properties"][
        "wrapped"
    ] == "anew"
    assert rows_of(lake.connect().load_table("db.t")) == [1, 2, 3]


def test_metadata_come_from_the_server_and_never_from_storage(
    catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(catalog).append(ROWS)
    opened: list[str] = []
    plain = PyArrowFileIO.new_input

    def watched(self: PyArrowFileIO, location: str) -> Any:
        opened.append(location)
        return plain(self, location)

    monkeypatch.setattr(PyArrowFileIO, "new_input", watched)
    table = catalog.load_table("db.t")
    table.append(ROWS)
    table.refresh()
    assert len(rows_of(table)) == 6
    assert opened
    assert not [place for place in opened if place.endswith(".json")]


def test_a_table_is_made_with_the_kek_that_its_first_snapshot_needs(catalog: Any, lake: Lake) -> None:
    make(catalog)
    (kek,) = stored(lake)["encryption-keys"]
    assert kek["encrypted-by-id"] == "hr"
    catalog.load_table("db.t").append(ROWS)
    assert stored(lake)["encryption-keys"][0] == kek
    assert len(stored(lake)["encryption-keys"]) == 2


def test_nested_namespaces_keep_their_names(catalog: Any, lake: Lake) -> None:
    catalog.create_namespace("db.inner")
    catalog.create_table("db.inner.t", ROWS.schema, properties=ENCRYPTED).append(ROWS)
    assert catalog.load_table(("db", "inner", "t")).name() == ("db", "inner", "t")
    assert rows_of(lake.connect().rename_table("db.inner.t", "db.t")) == [1, 2, 3]


# -- the key id -------------------------------------------------------------------------------

CHANGES: list[dict[str, Any]] = [
    {"action": "set-properties", "updates": {"encryption.key-id": "theirs"}},
    {"action": "remove-properties", "removals": ["encryption.key-id"]},
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("with_rows", [True, False])
def test_a_changed_key_id_is_refused_by_those_who_saw_the_first_and_by_those_who_did_not(
    catalog: Any, lake: Lake, change: dict[str, Any], with_rows: bool
) -> None:
    table = make(catalog)
    if with_rows:
        table.append(ROWS)
    before = lake.files()
    update(lake, change)
    uses: list[Callable[[], object]] = [
        lambda: catalog.load_table("db.t"),
        lambda: table.append(ROWS),
        table.refresh,
        lambda: catalog.purge_table("db.t"),
        lambda: lake.connect().load_table("db.t"),
    ]
    for use in uses:
        with pytest.raises(TrustError, match="somebody has changed"):
            use()
    assert {path for path in lake.files() if not path.endswith(".metadata.json")} <= before


def test_a_changed_key_length_is_refused_by_those_who_saw_the_first(catalog: Any, lake: Lake) -> None:
    make(catalog)
    update(lake, {"action": "set-properties", "updates": {"encryption.data-key-length": "32"}})
    with pytest.raises(TrustError, match="is hr with keys of 32 bytes, and it was hr"):
        catalog.load_table("db.t")


def test_the_key_id_can_be_pinned_by_the_configuration(catalog: Any, lake: Lake) -> None:
    make(catalog).append(ROWS)
    pin = "encryption.expected-key-id.db.t"
    assert rows_of(lake.connect(**{pin: "hr"}).load_table("db.t")) == [1, 2, 3]
    with pytest.raises(TrustError, match=r"the key id of table db.t is hr, expected finance"):
        lake.connect(**{pin: "finance"}).load_table("db.t")
    catalog.drop_table("db.t")
    for version in ("2", "3"):  # another table, not encrypted, under its name
        catalog.create_table("db.t", ROWS.schema, properties={"format-version": version})
        with pytest.raises(TrustError, match=r"is none, expected hr"):
            lake.connect(**{pin: "hr"}).load_table("db.t")
        catalog.drop_table("db.t")


def test_a_version_2_table_with_a_key_id_is_refused(catalog: Any, proxy: FaultProxy) -> None:
    catalog.create_table("db.t", ROWS.schema)

    def claim(metadata: dict[str, Any]) -> None:
        metadata["properties"].update(ENCRYPTED)

    with proxy.answering(editing(claim)), pytest.raises(PlaintextFileError, match="is not encrypted"):
        catalog.load_table("db.t")


def test_metadata_over_an_encrypted_table_are_registered_for_the_same_keys_only(catalog: Any, lake: Lake) -> None:
    table = make(catalog)
    table.append(ROWS)
    first = table.metadata_location
    table.append(ROWS)
    plain = catalog.create_table("db.plain", ROWS.schema, properties={"format-version": "3"})
    with pytest.raises(TrustError, match="is not encrypted"):
        catalog.register_table("db.t", plain.metadata_location, overwrite=True)
    # The same keys may pass; whether it takes a table over another is the server's matter, and this one never does.
    with pytest.raises(RESTError, match="overwrite is not supported"):
        catalog.register_table("db.t", first, overwrite=True)
    assert len(rows_of(catalog.load_table("db.t"))) == 6


# -- what the server configures ---------------------------------------------------------------


def test_credentials_that_the_server_vends_reach_the_storage_and_no_text(
    catalog: Any, lake: Lake, proxy: FaultProxy
) -> None:
    place = make(catalog).metadata_location.rpartition("/")[0]

    def vend(request: Request, status: int, body: bytes) -> tuple[int, bytes]:
        answer = json.loads(body) if body else {}
        if "metadata" in answer:
            answer["config"] = {"s3.region": "mars", "s3.secret-access-key": "one", "token": "table-token"}
            answer["storage-credentials"] = [{"prefix": place, "config": {"s3.secret-access-key": "sesame"}}]
            body = json.dumps(answer).encode()
        return status, body

    with proxy.answering(vend):
        table = catalog.load_table("db.t")
        assert table.io.properties["s3.region"] == "mars"
        assert table.io.properties["s3.secret-access-key"] == "sesame"
        assert "sesame" not in f"{table!r}{table}{table.io!r}{catalog!r}{table.metadata!r}"
        proxy.seen.clear()
        table.append(ROWS)
        (commit,) = [request for request in proxy.seen if is_commit(request)]
        assert commit.headers["Authorization"] == "Bearer table-token"
        assert "table-token" not in str(catalog._session.headers)
    table.refresh()
    assert "s3.region" not in table.io.properties  # the storage of the last answer, not of the first


def test_a_token_is_sent_and_shown_to_nobody(lake: Lake, proxy: FaultProxy) -> None:
    client = lake.connect(uri=proxy.address, token="sesame")
    table = make(client)
    table.append(ROWS)
    assert {request.headers.get("Authorization") for request in proxy.seen} == {"Bearer sesame"}
    assert "sesame" not in f"{client!r}{client}{table!r}{table.io!r}"


def test_a_token_that_is_over_is_renewed_and_the_commit_made_once(lake: Lake, proxy: FaultProxy) -> None:
    oauth = {"credential": "me:sesame", "oauth2-server-uri": f"{proxy.address}/v1/oauth/tokens"}
    client = lake.connect(uri=proxy.address, **oauth)
    table = make(client)
    left = [401, 419]
    tokens: list[str] = []

    def look(request: Request) -> int | None:
        if is_commit(request):
            tokens.append(request.headers["Authorization"])
        return left.pop() if is_commit(request) and left and len(tokens) % 2 else None

    with proxy.before(look):
        table.append(ROWS)
        table.append(ROWS)
    assert not left
    assert len(tokens) == 4
    assert all(token.startswith("Bearer client-credentials-token") for token in tokens)
    assert len(lake.connect().load_table("db.t").metadata.snapshots) == 2
    assert "sesame" not in f"{client!r}{client}{table!r}{table.io!r}"


def test_how_tables_are_encrypted_is_not_for_the_server_to_say(lake: Lake, proxy: FaultProxy) -> None:
    theirs = {
        "encryption.kms-type": "theirs",
        "encryption.allow-plaintext-files": "true",
        "kms.endpoint": "https://theirs",
        "owner": "them",
    }

    def configure(request: Request, status: int, body: bytes) -> tuple[int, bytes]:
        answer = json.loads(body) if body else {}
        if request.path.startswith("/v1/config"):
            answer["overrides"] = theirs
        if "metadata" in answer:
            answer["config"] = theirs
        return status, json.dumps(answer).encode() if answer else body

    with proxy.answering(configure):
        client = lake.connect(uri=proxy.address)
        assert "owner" not in client.properties
        assert client.properties["encryption.kms-type"] == "memory"
        assert "encryption.allow-plaintext-files" not in client.properties
        table = make(client)
        table.append(ROWS)
        assert rows_of(client.load_table("db.t")) == [1, 2, 3]
        assert not client.load_table("db.t").io.allow_plaintext
        assert dict(client.load_table("db.t").encryption.settings.kms_properties) == {
            **lake.properties,
            "uri": proxy.address,
        }
        (lake.warehouse / "plain.parquet").write_bytes(b"PAR1")
        with pytest.raises(PlaintextFileError):
            table.io.new_input(f"file://{lake.warehouse}/plain.parquet").open()


def test_the_server_neither_waives_encryption_nor_chooses_a_key(
    catalog: Any, lake: Lake, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = {"encryption.required": "false", "table-default.encryption.key-id": "theirs", "table-default.a": "b"}

    def configure(request: Request, status: int, body: bytes) -> tuple[int, bytes]:
        answer = json.loads(body) if body else {}
        if request.path.startswith("/v1/config"):
            answer["overrides"] = theirs
        return status, json.dumps(answer).encode() if answer else body

    version_3 = {"format-version": "3"}
    with proxy.answering(configure):
        strict = lake.connect(uri=proxy.address, **{"encryption.required": "true"})
        with pytest.raises(EncryptionRequiredError):
            strict.create_table("db.t", ROWS.schema, properties=version_3)
        made = lake.connect(uri=proxy.address).create_table("db.t", ROWS.schema, properties=version_3)
        assert {"encryption.key-id", "a"}.isdisjoint(made.properties)
    assert "encryption.required, table-default.a, table-default.encryption.key-id" in caplog.text

    def claim(metadata: dict[str, Any]) -> None:
        metadata["properties"]["encryption.key-id"] = "theirs"

    words = r"gives the new table db\.u the encryption\.key-id theirs, .* Set encryption\.default-key-id to that key"
    with proxy.answering(editing(claim)), pytest.raises(ConfigError, match=words):
        catalog.create_table("db.u", ROWS.schema, properties=version_3)
    assert not lake.connect().table_exists("db.u")


def test_an_encrypted_table_is_never_planned_by_the_server(lake: Lake, proxy: FaultProxy) -> None:
    def offer(request: Request, status: int, body: bytes) -> tuple[int, bytes]:
        if request.path.startswith("/v1/config"):
            answer = json.loads(body)
            answer["endpoints"].append("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan")
            body = json.dumps(answer).encode()
        return status, body

    with proxy.answering(offer):
        client = lake.connect(uri=proxy.address, **{"scan-planning-mode": "server"})
        assert client.supports_server_side_planning()
        table = make(client)
        table.append(ROWS)
        table.delete("id = 2")
        assert rows_of(client.load_table("db.t")) == [1, 3]
    assert not [path for path in proxy.paths if "/plan" in path]


def test_snapshots_that_no_branch_names_are_loaded_whatever_the_mode(lake: Lake) -> None:
    make(lake.connect()).append(ROWS)
    client = lake.connect(**{"snapshot-loading-mode": "refs"})
    table = client.load_table("db.t")
    table.append(ROWS)
    assert len(client.load_table("db.t").metadata.snapshots) == 2
    client.purge_table("db.t")
    assert not lake.files()


def test_purge_is_done_by_the_client_which_can_open_the_manifests(catalog: Any, lake: Lake, proxy: FaultProxy) -> None:
    for purge in (catalog.purge_table, lambda name: catalog.drop_table(name, purge_requested=True)):
        make(catalog).append(ROWS)
        purge("db.t")
        assert not lake.files()
    asked = [path for path in proxy.paths if path.startswith("DELETE")]
    assert len(asked) == 2
    assert all(path.lower().endswith("purgerequested=false") for path in asked)


def test_views_are_those_of_pyiceberg(catalog: Any) -> None:
    assert catalog.list_views("db") == []
    assert not catalog.view_exists("db.v")


def test_the_server_is_named_without_what_is_secret_in_its_address(proxy: FaultProxy) -> None:
    secret = proxy.address.replace("//", "//me:sesame@")
    with sealberg.load_catalog("x", type="rest", uri=secret) as catalog:
        assert catalog._server == f"the REST server {proxy.address}"  # type: ignore[attr-defined]
