"""Faults of the network and of the server, redirects, TLS, and secrets that no error shows."""

from __future__ import annotations

import base64
import pickle
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kit.servers.fault_proxy import FaultProxy, fault_proxy
from kit.servers.kms import HASTY, KEY, PATIENT, TWICE
from kit.servers.openbao import ROOT, OpenBao, openbao
from kit.servers.vault_kms import AppRole, client_of
from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyNotFoundError,
    KmsThrottledError,
    KmsUnavailableError,
    SealbergError,
)
from sealberg.keys.kms.vault.client import VaultKms
from sealberg.keys.kms.vault.config import VaultSettings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow  # a server is started


@pytest.mark.parametrize("fault", [500, 502, 503, 429, 412, 473, "drop", "hang"])
def test_a_fault_that_passes_is_outlived(server: OpenBao, proxy: FaultProxy, tmp_path: Path, fault: int | str) -> None:
    # After a while without an answer the call is made again, and that time the server answers.
    policy = replace(TWICE, read_timeout_s=3) if fault == "hang" else TWICE
    with client_of(proxy.address, tmp_path, ROOT, policy) as client:
        wrapped = client.wrap(KEY, "hr")
        before = proxy.requests
        with proxy.failing(fault, times=1):
            assert client.unwrap(wrapped, "hr") == KEY
    assert proxy.requests == before + 2


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (500, KmsUnavailableError),
        (503, KmsUnavailableError),
        ("drop", KmsUnavailableError),
        (429, KmsThrottledError),
        (200, KmsUnavailableError),  # somebody else answers
    ],
)
def test_a_fault_that_stays_ends_with_patience(
    proxy: FaultProxy, tmp_path: Path, fault: int | str, error: type[SealbergError]
) -> None:
    with (
        client_of(proxy.address, tmp_path, ROOT, TWICE) as client,
        proxy.failing(fault),
        pytest.raises(error, match="attempts 2") as caught,
    ):
        client.unwrap(b"vault:v1:AAAA", "hr")
    assert type(caught.value) is error
    assert proxy.requests == 2


@pytest.mark.parametrize(("fault", "error"), [(400, ConfigError), (403, AccessDeniedError), (404, KeyNotFoundError)])
def test_an_answer_is_not_asked_for_twice(
    proxy: FaultProxy, tmp_path: Path, fault: int, error: type[SealbergError]
) -> None:
    with client_of(proxy.address, tmp_path, ROOT, PATIENT) as client, proxy.failing(fault), pytest.raises(error):
        client.unwrap(b"vault:v1:AAAA", "hr")
    decrypting = [path for path in proxy.paths if "/decrypt/" in path]
    assert len(decrypting) == 1
    # A key that is not found is told with the names of the keys that are there, in one request more.
    assert proxy.requests == (2 if error is KeyNotFoundError else 1)


def test_a_hanging_server_costs_the_read_timeout_and_no_more(proxy: FaultProxy, tmp_path: Path) -> None:
    begun = time.monotonic()
    with (
        client_of(proxy.address, tmp_path, ROOT, HASTY) as client,
        proxy.failing("hang"),
        pytest.raises(KmsUnavailableError, match="the response timed out"),
    ):
        client.unwrap(b"vault:v1:AAAA", "hr")
    assert 2 * HASTY.read_timeout_s <= time.monotonic() - begun < 30, "the server hangs for 30 s"


def test_a_redirect_is_not_followed(server: OpenBao, proxy: FaultProxy, tmp_path: Path) -> None:
    with fault_proxy(server.address) as elsewhere, client_of(proxy.address, tmp_path, ROOT, TWICE) as client:
        proxy.headers["Location"] = f"{elsewhere.address}/v1/transit/decrypt/hr"
        with proxy.failing(307), pytest.raises(ConfigError, match="redirects"):
            client.unwrap(b"vault:v1:AAAA", "hr")
    assert elsewhere.requests == 0


def test_the_request_id_is_named_where_the_server_gives_one(proxy: FaultProxy, tmp_path: Path) -> None:
    proxy.headers["X-Request-Id"] = "req-7"
    with (
        client_of(proxy.address, tmp_path, ROOT, TWICE) as client,
        proxy.failing(403),
        pytest.raises(AccessDeniedError, match="request id req-7") as caught,
    ):
        client.unwrap(b"vault:v1:AAAA", "hr")
    assert caught.value.context["request_id"] == "req-7"


@pytest.mark.parametrize("fault", [503, "hang", "drop"])
def test_no_exception_holds_the_token_or_the_key(proxy: FaultProxy, tmp_path: Path, fault: int | str) -> None:
    """Exceptions of requests hold the request, and error reporters collect what exceptions hold."""
    with (
        client_of(proxy.address, tmp_path, ROOT, HASTY if fault == "hang" else TWICE) as client,
        proxy.failing(fault),
        pytest.raises(KmsUnavailableError) as caught,
    ):
        client.wrap(KEY, "hr")
    link: BaseException | None = caught.value
    while link is not None:
        assert type(link).__module__.startswith("sealberg.")
        assert ROOT not in repr(vars(link)) + str(link)
        assert base64.b64encode(KEY).decode() not in repr(vars(link)) + str(link)
        link = link.__cause__ or link.__context__


def test_a_connected_client_shows_no_secret_in_repr_or_pickle(
    server: OpenBao, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = AppRole(server, tmp_path)
    with role.client(server.address) as client:
        client.wrap(KEY, "hr")
        shown = repr(client).encode() + pickle.dumps(client)
        assert client.connection.token.encode() not in shown
        assert role.secret.read_bytes() not in shown
    monkeypatch.setenv("VAULT_TOKEN", ROOT)
    with VaultKms(VaultSettings(address=server.address)) as client:
        client.wrap(KEY, "hr")
        assert ROOT.encode() not in repr(client).encode() + pickle.dumps(client)


def test_tls_is_verified_against_the_given_authority(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(ROOT)
    with openbao(tmp_path, tls=True) as server:
        server.api("POST", "transit/keys/hr")
        properties = {
            "encryption.kms.vault.address": server.address,
            "encryption.kms.vault.token-file": str(token),
            "encryption.kms.vault.ca-file": str(server.ca_file),
        }
        with VaultKms.from_properties(properties) as client:
            assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY
        del properties["encryption.kms.vault.ca-file"]
        with VaultKms.from_properties(properties) as client, pytest.raises(ConfigError, match="not trusted"):
            client.wrap(KEY, "hr")
        properties["encryption.kms.vault.ca-file"] = str(tmp_path / "nothing")
        with VaultKms.from_properties(properties) as client, pytest.raises(ConfigError, match="is not a file"):
            client.wrap(KEY, "hr")
