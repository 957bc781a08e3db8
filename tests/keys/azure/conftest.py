"""A fake of Azure Key Vault over TLS, with the keys `hr` and `other`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.fake_azure import FakeAzure

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeAzure]:
    with FakeAzure(tmp_path_factory.mktemp("vault")) as fake:
        fake.create("hr")
        fake.create("other")
        yield fake


@pytest.fixture
def fake(server: FakeAzure) -> FakeAzure:
    server.seen.clear()
    server.faults.clear()
    server.denied.clear()
    for key in server.keys.values():
        del key.versions[1:]
        key.versions[0].enabled = True
    return server
