"""Credentials that a REST catalog hands out for each table: used, renewed before they end, chosen by prefix.

S3 stands behind a proxy that lets only one session token in. The REST server is the one of kit.hostile_server, which
answers as a test has it answer.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import RESTError
from pyiceberg.io import load_file_io

import sealberg
from kit.servers import store_servers
from kit.servers.hostile_server import KMS, Server, listening
from kit.servers.store_proxy import store_proxy
from sealberg.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.servers.store_proxy import StoreProxy
    from kit.servers.store_servers import Store

pytestmark = pytest.mark.slow  # object stores and servers, or many small tables

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
SIGNATURE = "AWS4-HMAC-SHA256 Credential=of-the-server/20260101/us-east-1/s3/aws4_request, Signature=x"
CREDENTIALS = "/v1/namespaces/db/tables/t/credentials"


@pytest.fixture(scope="module")
def store() -> Store:
    return store_servers.s3()


@pytest.fixture
def proxy(store: Store) -> Iterator[StoreProxy]:
    with store_proxy(store.address) as found:
        yield found


@pytest.fixture
def server(store: Store, tmp_path: Path) -> Iterator[Server]:
    """A REST server of one table with five files, in the store."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": store.warehouse + tmp_path.name}
    with sealberg.load_catalog("own", **properties, **store.properties, **KMS) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"})
        for _ in range(5):
            table.append(ROWS)
        location = table.metadata_location
    with load_file_io(store.properties).new_input(location).open() as stream:
        found = Server(json.loads(stream.read()), location)
    found.paths = []  # type: ignore[attr-defined]
    paths: list[str] = found.paths  # type: ignore[attr-defined]

    def respond(path: str, posted: bytes = b"") -> Any:
        paths.append(path)
        if path == "/sign":
            signed = {"uri": json.loads(posted)["uri"], "headers": {"Authorization": [SIGNATURE]}}
            return 200, {"Content-Type": "application/json"}, json.dumps(signed).encode()
        return found.respond(path, posted)

    with listening(respond, found.headers) as port, found.opened:
        found.uri = f"http://127.0.0.1:{port}"
        yield found


def vended(token: str, lives_s: float | None = None) -> dict[str, str]:
    found = {"s3.access-key-id": "short", "s3.secret-access-key": "lived", "s3.session-token": token}
    if lives_s is not None:
        found["s3.session-token-expires-at-ms"] = str(int((time.time() + lives_s) * 1000))
    return found


def load(server: Server, proxy: StoreProxy, **more: str) -> Any:
    given = {"type": "rest", "uri": server.uri, "s3.endpoint": proxy.address, "s3.region": "us-east-1", **KMS, **more}
    return server.opened.enter_context(sealberg.load_catalog("r", **given)).load_table("db.t")


def renewing(server: Server, proxy: StoreProxy, token: str, lives_s: float = 3600) -> None:
    """Let the endpoint for credentials give another token, and the store take that one only from then on."""
    server.config["endpoints"] = [
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    ]

    def answer(path: str) -> Any:
        if path != CREDENTIALS:
            return None
        proxy.need_token(token)
        body = {"storage-credentials": [{"prefix": "s3://", "config": vended(token, lives_s)}]}
        return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()

    server.answer = answer


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


ALL = sorted(list(range(10)) * 5)


def test_vended_credentials_open_the_table_and_those_for_a_prefix_go_first(server: Server, proxy: StoreProxy) -> None:
    proxy.need_token("right")
    server.table["config"] = vended("wrong")
    server.table["storage-credentials"] = [
        {"prefix": "s3://elsewhere", "config": vended("wrong")},
        {"prefix": "s3a://lake-", "config": vended("right")},  # another name of the same scheme
    ]
    assert ids(load(server, proxy)) == ALL


def test_credentials_are_renewed_before_they_end(server: Server, proxy: StoreProxy) -> None:
    proxy.need_token("first")
    server.table["config"] = vended("first", lives_s=-1)  # at the end of their life
    renewing(server, proxy, "second")
    table = load(server, proxy)
    assert ids(table) == ALL
    assert server.paths.count(CREDENTIALS) == 1  # type: ignore[attr-defined]
    table.append(ROWS)  # and a write has them too


def test_a_scan_goes_on_when_credentials_end_in_its_middle(server: Server, proxy: StoreProxy) -> None:
    proxy.need_token("first")
    server.table["config"] = vended("first", lives_s=3600)
    renewing(server, proxy, "second")
    table = load(server, proxy)
    tasks = table.scan().plan_files()
    inner = table.inner.inner
    found = [rows_of(table, tasks[0])]
    object.__setattr__(inner._lease, "ends_s", time.time())  # an hour goes by
    found += [rows_of(table, task) for task in tasks[1:]]
    assert [len(rows) for rows in found] == [10] * 5
    assert server.paths.count(CREDENTIALS) == 1  # type: ignore[attr-defined]


def rows_of(table: Any, task: Any) -> list[Any]:
    from sealberg.scan.task_reader import TaskReader

    reader = TaskReader(table.metadata, table.io, table.schema(), table.schema())
    return [row for batch in reader.batches(task) for row in batch.to_pylist()]


def test_a_server_without_the_endpoint_is_asked_for_the_table_again(server: Server, proxy: StoreProxy) -> None:
    proxy.need_token("second")
    server.table["config"] = vended("first", lives_s=-1)
    table = load(server, proxy)
    server.table["config"] = vended("second", lives_s=3600)
    assert ids(table) == ALL


def test_a_server_that_gives_none_is_an_error_only_when_the_old_ones_have_ended(
    server: Server, proxy: StoreProxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.need_token("first")
    server.table["config"] = vended("first", lives_s=3600)
    table = load(server, proxy)
    lease = table.inner.inner._lease
    server.answer = lambda _: (500, {}, b"{}")
    object.__setattr__(lease, "begins_s", time.time() - 3600)
    object.__setattr__(lease, "ends_s", time.time() + 60)  # in the last tenth of their life
    with caplog.at_level(logging.WARNING):
        assert ids(table) == ALL
    assert "end soon" in caplog.text
    object.__setattr__(lease, "ends_s", time.time() - 1)
    with pytest.raises(RESTError):
        table.append(ROWS)


def test_remote_signing_is_refused_where_it_cannot_be_had(server: Server, proxy: StoreProxy) -> None:
    server.table["config"] = {"s3.signer": "S3V4RestSigner", "s3.remote-signing-enabled": "true"}
    with pytest.raises(UnsupportedError, match=r"requires remote signing for the storage of table db\.t"):
        load(server, proxy)


@pytest.mark.slow
def test_fsspec_asks_the_server_for_signatures(server: Server, proxy: StoreProxy) -> None:
    server.table["config"] = {"s3.signer": "S3V4RestSigner", "s3.signer.endpoint": "sign"}
    table = load(server, proxy, **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"})
    with proxy.counting() as seen:
        assert ids(table) == ALL
    assert {request.headers.get("Authorization") for request in seen.requests} == {SIGNATURE}
