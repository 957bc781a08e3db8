"""A real OpenBao server for the tests of the Vault client, alone and behind a proxy that fails on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.fault_proxy import FaultProxy, fault_proxy
from kit.servers.openbao import ROOT, OpenBao, openbao
from kit.servers.vault_kms import client_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.keys.kms.vault.client import VaultKms


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ADDR", "TOKEN", "NAMESPACE", "CACERT"):
        monkeypatch.delenv(f"VAULT_{name}", raising=False)
        monkeypatch.delenv(f"BAO_{name}", raising=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenBao]:
    with openbao(tmp_path_factory.mktemp("openbao")) as server:
        server.api("POST", "sys/auth/approle", {"type": "approle"})
        for name in ("hr", "other"):
            server.api("POST", f"transit/keys/{name}")
        yield server


@pytest.fixture
def proxy(server: OpenBao) -> Iterator[FaultProxy]:
    with fault_proxy(server.address) as proxy:
        yield proxy


@pytest.fixture
def root(server: OpenBao, tmp_path: Path) -> Iterator[VaultKms]:
    with client_of(server.address, tmp_path, ROOT) as client:
        yield client
