"""A hostile REST server: its responses have everything that a client must not obey, follow, show or keep.

    server.config    answers GET /v1/config        server.table    answers GET /v1/.../tables/t
    server.answer    answers every request instead, with a status, headers and a body

The client must run no code, connect to no other host, and send its credentials nowhere else.
"""

from __future__ import annotations

import http.server
import json
import socket
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import sealberg
from sealberg.metadata import storage_properties as rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KMS: Final = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
ROWS: Final = pa.table({"name": ["Ada"], "salary": [12]})
TOKEN: Final = "sesame-open-0123456789"
Answer = tuple[int, dict[str, str], bytes]
called: list[Any] = []


def canary(*args: Any, **_: Any) -> Any:
    """The code that the server names."""
    called.append(args)
    raise AssertionError("code that the server names was run")


CODE: Final = f"{__name__}.canary"


class Server:
    """A REST server with one table, whose responses the test sets."""

    def __init__(self, metadata: dict[str, Any], location: str) -> None:
        self.config: dict[str, Any] = {"defaults": {}, "overrides": {}}
        self.table: dict[str, Any] = {"metadata-location": location, "metadata": metadata, "config": {}}
        self.answer: Callable[[str], Answer | None] = lambda _: None
        self.refuse: tuple[bytes, int] | None = None
        self.alter: Callable[[dict[str, Any]], Any] = lambda answer: answer
        self.headers: list[dict[str, str]] = []
        self.uri = ""
        self.opened = ExitStack()

    def respond(self, path: str, posted: bytes = b"") -> Answer:
        body = self.config if path.startswith("/v1/config") else self.table
        if posted and self.refuse is not None:
            return self.refuse[1], {"Content-Type": "application/json"}, self.refuse[0]
        if posted:
            body = self.alter(committed(self.table, json.loads(posted)["updates"]))
        return self.answer(path) or (200, {"Content-Type": "application/json"}, json.dumps(body).encode())


def committed(table: dict[str, Any], updates: list[dict[str, Any]]) -> dict[str, Any]:
    """The response of an honest server to the commit of an append."""
    after: dict[str, Any] = json.loads(json.dumps(table))
    metadata = after["metadata"]
    for update in updates:
        if update["action"] == "add-encryption-key":
            metadata["encryption-keys"].append(update["encryption-key"])
        elif update["action"] == "add-snapshot":
            snapshot = update["snapshot"]
            metadata["snapshots"].append(snapshot)
            metadata["last-sequence-number"] = snapshot["sequence-number"]
            metadata["last-updated-ms"] = snapshot["timestamp-ms"]
            metadata["next-row-id"] += snapshot["added-rows"]
        elif update["action"] == "set-snapshot-ref":
            metadata["refs"]["main"]["snapshot-id"] = metadata["current-snapshot-id"] = update["snapshot-id"]
    after["metadata-location"] += ".next"
    return after


@contextmanager
def listening(respond: Callable[..., Answer], headers: list[dict[str, str]]) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            headers.append(dict(self.headers))
            posted = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, more, body = respond(self.path, posted) if posted else respond(self.path)
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(body)), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # the client has had enough

        do_POST = do_HEAD = do_DELETE = do_GET

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def decoy() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Another server, which records its requests."""
    got: list[dict[str, str]] = []
    with listening(lambda _: (200, {}, b"{}"), got) as port:
        yield f"http://127.0.0.1:{port}", got


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The metadata locations of tables of each kind."""
    folder = tmp_path_factory.mktemp("tables")
    catalog = sealberg.load_catalog(
        "t", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/w", **KMS
    )
    catalog.create_namespace("db")
    kinds = {"encrypted": {"encryption.key-id": "hr"}, "v3": {"format-version": "3"}, "v2": {"format-version": "2"}}
    found = {}
    for kind, properties in kinds.items():
        table = catalog.create_table(f"db.{kind}", ROWS.schema, properties=properties)
        table.append(ROWS)
        found[kind] = table.metadata_location
    catalog.close()
    return found


@pytest.fixture(params=["encrypted", "v3", "v2"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(
    kind: str, tables: dict[str, str], monkeypatch: pytest.MonkeyPatch, decoy: tuple[str, Any]
) -> Iterator[Server]:
    found = Server(json.loads(Path(tables[kind][7:]).read_text()), tables[kind])
    called.clear()
    rules._warned.clear()
    with listening(found.respond, found.headers) as port, found.opened:
        found.uri = f"http://127.0.0.1:{port}"
        tried: list[Any] = []
        connect = socket.socket.connect

        def guarded(self: socket.socket, address: Any) -> None:
            if self.family != socket.AF_UNIX and address[1] != port:
                tried.append(address)
                raise OSError(f"a connection to {address}")
            connect(self, address)

        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "connect", guarded)
            yield found
    assert called == []
    assert tried == []
    assert decoy[1] == []


def client(server: Server, **more: str) -> Any:
    given = {"type": "rest", "uri": server.uri, "token": TOKEN, "header.X-Api-Key": "key-0123456789", **KMS, **more}
    return server.opened.enter_context(sealberg.load_catalog("r", **given))


def rows(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return found


HOSTILE: Final = f"\x1b]0;owned\x07\x1b[2J\x9b31m\u202eBearer {TOKEN} key-0123456789 "


def evil(there: str) -> dict[str, Any]:
    """All properties about storage, code and credentials that a server could send."""
    return {
        **dict.fromkeys(("py-io-impl", "py-catalog-impl", "s3.retry-strategy-impl", rules.PROVIDER), CODE),
        **dict.fromkeys(("s3.proxy-uri", "s3.signer.uri", "hf.endpoint", "adls.account-host"), there),
        "s3.signer": "S3V4RestSigner",
        "s3.role-arn": "arn:aws:iam::1:role/x",
        "hdfs.host": "127.0.0.1",
        "header.Authorization": "theirs",
        "oauth2-server-uri": there,
        "credential": "a:b",
        "rest.sigv4-enabled": "true",
        "encryption.kms-type": "theirs",
        "encryption.allow-plaintext-files": "true",
        "sealberg.storage.locations": "hdfs://127.0.0.1",
        "sealberg.rest.storage-endpoints": there,
        "sealberg.metadata.max-bytes": "99999999999",
    }
