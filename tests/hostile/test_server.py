"""What a hostile REST server answers to a client that reads is not obeyed, followed, shown or held."""

from __future__ import annotations

import gzip
import json
import logging
from typing import Any, Final

import pytest

from kit.servers import hostile_server
from kit.servers.hostile_server import CODE, HOSTILE, ROWS, TOKEN, Server, client, evil, rows
from sealberg.errors import FormatError, PlaintextFileError, SealbergError, TrustError, UnsupportedError
from sealberg.metadata import storage_properties as rules

decoy, tables, kind, server = (  # the fixtures
    hostile_server.decoy,
    hostile_server.tables,
    hostile_server.kind,
    hostile_server.server,
)


# -- configuration -------------------------------------------------------------------------------


@pytest.mark.parametrize("member", ["defaults", "overrides"])
def test_what_a_server_configures_is_not_obeyed(
    server: Server, decoy: tuple[str, Any], member: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = {**evil(decoy[0]), "auth": {"type": "custom", "impl": CODE}, "ssl": {"cabundle": "/nowhere"}}
    server.config[member] = told
    with caplog.at_level(logging.WARNING):
        catalog = client(server)
    assert {name for name in told if catalog.properties.get(name) == told[name]} == set()
    assert rows(catalog.load_table("db.t")) == ROWS.to_pylist()
    assert {each.get("Authorization") for each in server.headers} == {f"Bearer {TOKEN}"}
    assert "py-io-impl" in caplog.text
    assert CODE not in caplog.text


@pytest.mark.parametrize("where", ["config", "properties", "credentials"])
def test_what_a_server_says_of_a_table_is_not_obeyed(server: Server, decoy: tuple[str, Any], where: str) -> None:
    told = {name: value for name, value in evil(decoy[0]).items() if not name.startswith("encryption.")}
    if where == "config":
        server.table["config"] = told
    elif where == "properties":
        server.table["metadata"]["properties"].update(told)
    else:
        server.table["storage-credentials"] = [{"prefix": "file", "config": told}]
    table = client(server).load_table("db.t")
    assert rows(table) == ROWS.to_pylist()
    assert {name for name in told if table.io.properties.get(name) == told[name]} == set()
    table.location_provider()


def test_credentials_are_taken_and_endpoints_refused(server: Server, decoy: tuple[str, Any]) -> None:
    server.table["config"] = {"s3.access-key-id": "id", "s3.session-token": "short", "s3.region": "eu-central-1"}
    table = client(server).load_table("db.t")
    assert table.io.properties.items() >= server.table["config"].items()
    server.table["config"]["s3.endpoint"] = decoy[0]
    with pytest.raises(TrustError, match=r"sealberg\.rest\.storage-endpoints"):
        client(server).load_table("db.t")
    allowed = client(server, **{rules.ALLOWED_ENDPOINTS: decoy[0]}).load_table("db.t")
    assert allowed.io.properties["s3.endpoint"] == decoy[0]
    mine = client(server, **{"s3.endpoint": "http://mine"}).load_table("db.t")
    assert mine.io.properties["s3.endpoint"] == "http://mine"


def test_a_plain_table_with_a_property_of_encryption_is_refused(server: Server) -> None:
    properties = server.table["metadata"]["properties"]
    if "encryption.key-id" not in properties:
        properties["encryption.keyid"] = "hr"
        with pytest.raises(PlaintextFileError, match="is not encrypted"):
            client(server).load_table("db.t")


# -- other places --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["v3"], indirect=True)
def test_another_uri_is_refused_and_one_at_the_same_origin_is_not(server: Server, decoy: tuple[str, Any]) -> None:
    server.config["overrides"] = {"uri": f"{decoy[0]}/catalog"}
    with pytest.raises(TrustError, match="sends its clients to"):
        client(server)
    server.config["overrides"] = {"uri": f"{server.uri}/"}
    assert rows(client(server).load_table("db.t")) == ROWS.to_pylist()


@pytest.mark.parametrize("kind", ["v3"], indirect=True)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", ["/v1/config", "/v1/namespaces"])
def test_a_redirect_to_another_server_is_refused(
    server: Server, decoy: tuple[str, Any], status: int, path: str
) -> None:
    there = {"Location": f"{decoy[0]}/v1/x"}
    server.answer = lambda asked: (status, there, b"") if asked.startswith(path) else None
    with pytest.raises(TrustError, match="redirects its clients to another server"):
        client(server).load_table("db.t")


def test_locations_with_a_host_are_refused(server: Server, decoy: tuple[str, Any]) -> None:
    there = decoy[0].replace("http:", "hdfs:") + "/x"
    for snapshot in server.table["metadata"]["snapshots"]:
        snapshot["manifest-list"] = there
    with pytest.raises(TrustError, match="is in another store"):
        rows(client(server).load_table("db.t"))
    server.table["metadata-location"] = server.table["metadata"]["location"] = there
    with pytest.raises(TrustError, match="is in another store"):
        rows(client(server).load_table("db.t"))


# -- errors, and answers that are none -----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v3"], indirect=True)
@pytest.mark.parametrize("status", [400, 401, 404, 409, 500, 501, 599])
@pytest.mark.parametrize("shape", ["json", "text", "html", "huge", "deep", "nothing", "list"])
def test_the_text_of_an_error_can_be_shown(server: Server, status: int, shape: str) -> None:
    body = {
        "json": json.dumps({"error": {"message": HOSTILE, "type": HOSTILE, "code": status, "stack": [HOSTILE]}}),
        "text": HOSTILE,
        "html": f"<html>{HOSTILE}</html>",
        "huge": json.dumps({"error": {"message": HOSTILE * 100_000, "type": "x", "code": status}}),
        "deep": "[" * 100_000,
        "nothing": "",
        "list": f"[{json.dumps(HOSTILE)}]",
    }[shape].encode()
    catalog = client(server)
    server.answer = lambda _: (status, {"Content-Type": "application/json"}, body)
    with pytest.raises(Exception) as caught:
        catalog.load_table("db.t")
    said = str(caught.value)
    assert TOKEN not in said
    assert "key-0123456789" not in said
    assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 or each == "\u202e" for each in said)
    assert len(said) < 10_000


BAD: Final = {
    "nothing": b"",
    "no JSON": b"<html>",
    "a list": b"[]",
    "deep": b'{"metadata":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "no metadata": b"{}",
    "metadata null": b'{"metadata":null}',
    "metadata a list": b'{"metadata":[]}',
    "metadata empty": b'{"metadata":{}}',
    "version 3 and no more": b'{"metadata":{"format-version":3}}',
    "version 2 and no more": b'{"metadata":{"format-version":2}}',
    "version 9": b'{"metadata":{"format-version":9}}',
    "not UTF-8": b'{"metadata":"\xff"}',
    "NaN": b'{"metadata":{"format-version":NaN}}',
}


@pytest.mark.parametrize("kind", ["v3"], indirect=True)
@pytest.mark.parametrize("content_type", ["application/json", "text/html", "application/octet-stream; charset=utf-16"])
def test_an_answer_that_is_no_table_is_named(server: Server, content_type: str) -> None:
    catalog = client(server)
    for body in BAD.values():
        server.answer = lambda _, body=body: (200, {"Content-Type": content_type}, body)  # type: ignore[misc]
        with pytest.raises(FormatError) as caught:
            catalog.load_table("db.t")
        assert len(str(caught.value)) < 1000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v3"], indirect=True)
def test_answers_are_bounded_also_when_compressed(server: Server) -> None:
    catalog = client(server, **{"sealberg.metadata.max-bytes": str(1 << 20)})
    server.answer = lambda _: (200, {}, b" " * (2 << 20))
    with pytest.raises(FormatError, match="is more than 1048576 bytes"):
        catalog.load_table("db.t")
    server.answer = lambda _: (200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(64 << 20)))
    with pytest.raises(FormatError, match="is more than 1048576 bytes"):
        catalog.load_table("db.t")
    with pytest.raises(FormatError, match="is more than 1048576 bytes"):
        catalog.list_namespaces()


@pytest.mark.parametrize("config", [1, "x", [], {"a": {"b": 1}}, {"s3.access-key-id": 5}])
def test_a_config_of_another_shape_is_an_error_with_a_name(server: Server, config: Any) -> None:
    server.table["config"] = config
    try:
        found = rows(client(server).load_table("db.t"))
    except SealbergError:
        return
    assert found == ROWS.to_pylist()


@pytest.mark.parametrize(
    "restrictions",
    [
        {"required-row-filter": {"type": "eq", "term": "id", "value": 1}},
        {"required-row-filter": False},
        {"required-column-projections": [{"field-id": 1, "action": {"action": "mask-alphanum"}}]},
        {"a-restriction-of-tomorrow": "x"},
        "none",
        0,
    ],
)
def test_a_table_whose_rows_the_server_restricts_is_refused(server: Server, restrictions: Any) -> None:
    catalog = client(server)
    empty: list[Any] = [None, {}, {"required-row-filter": None, "required-column-projections": []}]
    for nothing in empty:
        server.table["read-restrictions"] = nothing
        assert rows(catalog.load_table("db.t")) == ROWS.to_pylist()
    server.table["read-restrictions"] = restrictions
    with pytest.raises(UnsupportedError, match=r"restricts what a reader may see of table db\.t \(read-restrictions"):
        catalog.load_table("db.t")
