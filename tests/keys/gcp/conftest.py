"""A gRPC server that speaks the messages of google-cloud-kms, with the key `hr`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.fake_gcp import FakeGcp

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[FakeGcp]:
    with FakeGcp() as fake:
        yield fake


@pytest.fixture
def fake(server: FakeGcp) -> FakeGcp:
    server.keys.clear()
    server.seen.clear()
    server.faults.clear()
    server.garble.clear()
    server.denied.clear()
    server.create("hr")
    return server
