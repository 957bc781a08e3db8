"""A client of Iceberg's REST server behind a proxy that drops keys, responses and commits on demand.

lake, proxy, catalog      fixtures: the server, the proxy, and a client behind the proxy

with proxy.answering(editing(drop_keys)): ...    a server that drops keys
with proxy.answering(failing_after(504)): ...    a server that commits and does not confirm it
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import requests

from kit.servers.fault_proxy import FaultProxy, fault_proxy
from kit.tables import catalogs
from sealberg.catalogs.rest import commits as ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kit.servers.fault_proxy import Request
    from kit.tables.catalogs import Lake

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
ENCRYPTED = {"encryption.key-id": "hr"}
TABLE = "/v1/namespaces/db/tables/t"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """The server itself."""
    with catalogs.rest(tmp_path) as found, found.opened:
        found.connect().create_namespace("db")
        yield found


@pytest.fixture
def proxy(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    monkeypatch.setattr(ours, "LOOKS_AFTER_S", (0.0, 0.01))
    with fault_proxy(lake.properties["uri"]) as between:
        yield between


@pytest.fixture
def catalog(lake: Lake, proxy: FaultProxy) -> Any:
    """A client behind the proxy."""
    return lake.connect(uri=proxy.address)


def make(catalog: Any, **properties: str) -> Any:
    return catalog.create_table("db.t", ROWS.schema, properties={**ENCRYPTED, **properties})


def rows_of(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def stored(lake: Lake) -> dict[str, Any]:
    """The metadata on the server."""
    answer = requests.get(lake.properties["uri"] + TABLE, timeout=60)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()["metadata"]
    return found


def update(lake: Lake, *updates: dict[str, Any]) -> None:
    """Commit updates as a client that does not know encryption."""
    body = {"identifier": {"namespace": ["db"], "name": "t"}, "requirements": [], "updates": list(updates)}
    requests.post(lake.properties["uri"] + TABLE, json=body, timeout=60).raise_for_status()


def is_commit(request: Request) -> bool:
    return request.method == "POST" and request.path.startswith(TABLE)


def editing(edit: Callable[[dict[str, Any]], object]) -> Callable[[Request, int, bytes], tuple[int, bytes]]:
    """Change the metadata in every response that has metadata."""

    def change(_: Request, status: int, body: bytes) -> tuple[int, bytes]:
        answer = json.loads(body) if body else {}
        if "metadata" in answer:
            edit(answer["metadata"])
            body = json.dumps(answer).encode()
        return status, body

    return change


def drop_keys(metadata: dict[str, Any]) -> None:
    metadata.pop("encryption-keys", None)


def drop_key_ids(metadata: dict[str, Any]) -> None:
    for snapshot in metadata.get("snapshots", []):
        snapshot.pop("key-id", None)


def failing_after(status: int | None, times: int = 1) -> Callable[[Request, int, bytes], tuple[int, bytes] | None]:
    """Commit, and then return this status instead; None cuts the connection."""
    left = times

    def change(request: Request, found: int, body: bytes) -> tuple[int, bytes] | None:
        nonlocal left
        if not is_commit(request) or left == 0:
            return found, body
        left -= 1
        error = {"error": {"message": "injected", "type": "Injected", "code": status}}
        return None if status is None else (status, json.dumps(error).encode() if status != 200 else b'{"meta')

    return change
