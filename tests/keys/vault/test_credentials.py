"""Tokens, token files and AppRoles: where they come from, and when the client logs in again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kit.servers.kms import KEY, TWICE
from kit.servers.openbao import ROOT, OpenBao
from kit.servers.vault_kms import READER, AppRole, logins
from sealberg.errors import AccessDeniedError, ConfigError
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.kms.vault.client import VaultKms
from sealberg.keys.kms.vault.config import VaultSettings

if TYPE_CHECKING:
    from pathlib import Path

    from kit.servers.fault_proxy import FaultProxy

pytestmark = pytest.mark.slow  # a server is started


def test_approle_logs_in_once_for_many_calls(server: OpenBao, proxy: FaultProxy, tmp_path: Path) -> None:
    with AppRole(server, tmp_path).client(proxy.address) as client:
        for _ in range(3):
            assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY
    assert logins(proxy) == 1


def test_approle_logs_in_again_when_its_token_expires(server: OpenBao, proxy: FaultProxy, tmp_path: Path) -> None:
    with AppRole(server, tmp_path, token_ttl="2s", token_max_ttl="2s").client(proxy.address) as client:
        wrapped = client.wrap(KEY, "hr")
        before, token = logins(proxy), client.connection.token
        while server.knows(token):
            time.sleep(0.1)
        assert client.unwrap(wrapped, "hr") == KEY
    assert before >= 1
    assert logins(proxy) > before


def test_approle_logs_in_again_when_its_token_is_revoked(server: OpenBao, proxy: FaultProxy, tmp_path: Path) -> None:
    with AppRole(server, tmp_path).client(proxy.address) as client:
        wrapped = client.wrap(KEY, "hr")
        server.api("POST", "auth/token/revoke", {"token": client.connection.token})
        assert client.unwrap(wrapped, "hr") == KEY
    assert logins(proxy) == 2


def test_approle_does_not_log_in_again_for_what_its_policy_forbids(
    root: VaultKms, server: OpenBao, proxy: FaultProxy, tmp_path: Path
) -> None:
    """A secret id may be good for a few logins only."""
    with AppRole(server, tmp_path).client(proxy.address) as client:
        for _ in range(3):
            with pytest.raises(AccessDeniedError, match="policies"):
                client.rewrap(root.wrap(KEY, "hr"), "hr")
    assert logins(proxy) == 1


def test_a_login_that_is_refused_is_denied_and_not_tried_again(
    server: OpenBao, proxy: FaultProxy, tmp_path: Path
) -> None:
    role = AppRole(server, tmp_path)
    role.secret.write_text("s3cr3t-of-nobody")
    with role.client(proxy.address) as client, pytest.raises(AccessDeniedError, match="AppRole") as caught:
        client.unwrap(b"vault:v1:AAAA", "hr")
    assert logins(proxy) == 1
    assert "s3cr3t" not in str(caught.value)


def test_a_token_file_is_read_again_when_its_token_has_died(
    root: VaultKms, server: OpenBao, proxy: FaultProxy, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(server.token(READER, num_uses=1))
    wrapped = root.wrap(KEY, "hr")
    with VaultKms(VaultSettings(address=proxy.address, token_file=str(file))) as client:
        assert client.unwrap(wrapped, "hr") == KEY
        file.write_text(server.token(READER, num_uses=1))
        assert client.unwrap(wrapped, "hr") == KEY
        with pytest.raises(AccessDeniedError, match="expired or used up"):
            client.unwrap(wrapped, "hr")
    assert proxy.requests == 4


@pytest.mark.parametrize("names", [("VAULT_ADDR", "VAULT_TOKEN"), ("BAO_ADDR", "BAO_TOKEN")])
def test_address_and_token_come_from_the_environment(
    server: OpenBao, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    for name, value in zip(names, (server.address, ROOT), strict=True):
        monkeypatch.setenv(name, value)
    with client_from_properties({"encryption.kms-type": "vault"}) as client:
        assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY


def test_no_credentials_is_a_wrong_setting_and_asks_nobody(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".vault-token").write_text("left by a login on the command line")
    monkeypatch.setenv("HOME", str(tmp_path))
    with VaultKms(VaultSettings(address=proxy.address)) as client, pytest.raises(ConfigError, match="token-file"):
        client.unwrap(b"vault:v1:AAAA", "hr")
    assert proxy.requests == 0


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"two\nlines", "tökén".encode(), b"\xff\xfe"], ids=repr)
def test_a_file_without_a_token_is_refused_without_quoting_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    client = VaultKms(VaultSettings(address="http://127.0.0.1:1", token_file=str(file)), TWICE)
    with pytest.raises(ConfigError, match="one line of ASCII") as caught:
        client.unwrap(b"vault:v1:AAAA", "hr")
    assert not content.strip() or content.decode("utf-8", "replace").strip() not in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    client = VaultKms(VaultSettings(address="http://127.0.0.1:1", token_file=str(tmp_path / "nothing")))
    with pytest.raises(ConfigError, match=r"token-file cannot be read: .*nothing"):
        client.unwrap(b"vault:v1:AAAA", "hr")
