"""A typo in a key id must not become a master key: Vault creates a key that it does not know."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from kit.servers.kms import KEY, TWICE
from kit.servers.openbao import ROOT, OpenBao
from kit.servers.vault_kms import CREATOR, KEYS, READER, WRITER, client_of, new_key
from sealberg.errors import AccessDeniedError, ConfigError, KeyNotFoundError, SealbergError
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.kms.vault.client import VaultKms
from sealberg.keys.kms.vault.config import VaultSettings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow  # a server is started


def test_the_server_really_creates_a_key_that_it_does_not_know(server: OpenBao) -> None:
    """If this fails, the server has become kinder and the care below can go."""
    server.api("POST", "transit/encrypt/made-by-a-typo", {"plaintext": ""})
    assert server.has_key("made-by-a-typo")


@pytest.mark.parametrize(
    ("policy", "options", "error"),
    [
        (CREATOR + KEYS, {}, KeyNotFoundError),  # may read
        (CREATOR + READER, {}, KeyNotFoundError),  # may try a dummy
        (CREATOR, {}, AccessDeniedError),  # may do neither, nor ask what it may do
        (CREATOR, {"no_default_policy": False}, AccessDeniedError),  # may ask, and learns that it could create
        (WRITER, {}, KeyNotFoundError),
        (CREATOR.replace('"create",', ""), {"no_default_policy": False}, AccessDeniedError),
    ],
    ids=["read", "dummy", "blind", "could create", "writer", "cannot create"],
)
def test_a_typo_creates_no_key(
    server: OpenBao, tmp_path: Path, policy: str, options: dict[str, bool], error: type[SealbergError]
) -> None:
    name = f"typo-{uuid.uuid4().hex}"
    with (
        client_of(server.address, tmp_path, server.token(policy, **options)) as client,
        pytest.raises(error, match=name),
    ):
        client.wrap(KEY, name)
    assert not server.has_key(name)


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        (CREATOR + KEYS, {}),
        (CREATOR + READER, {}),
        (WRITER, {}),
        (CREATOR.replace('"create",', ""), {"no_default_policy": False}),
    ],
    ids=["read", "dummy", "writer", "cannot create"],
)
def test_each_way_to_make_sure_lets_a_wrap_through(
    root: VaultKms, server: OpenBao, tmp_path: Path, policy: str, options: dict[str, bool]
) -> None:
    with client_of(server.address, tmp_path, server.token(policy, **options)) as client:
        assert root.unwrap(client.wrap(KEY, "hr"), "hr") == KEY


def test_a_dummy_finds_a_key_whose_first_version_is_retired(root: VaultKms, server: OpenBao, tmp_path: Path) -> None:
    name = new_key(server)
    server.api("POST", f"transit/keys/{name}/rotate")
    server.api("POST", f"transit/keys/{name}/config", {"min_decryption_version": 2})
    with client_of(server.address, tmp_path, server.token(WRITER)) as client:
        assert root.unwrap(client.wrap(KEY, name), name) == KEY


def test_a_key_deleted_after_a_wrap_does_not_come_back_by_the_next(server: OpenBao, tmp_path: Path) -> None:
    name = new_key(server)
    with client_of(server.address, tmp_path, server.token(CREATOR + READER)) as client:
        client.wrap(KEY, name)
        server.api("POST", f"transit/keys/{name}/config", {"deletion_allowed": True})
        server.api("DELETE", f"transit/keys/{name}")
        with pytest.raises(KeyNotFoundError):
            client.wrap(KEY, name)
    assert not server.has_key(name)


def test_a_mount_of_another_kind_gets_no_key(server: OpenBao, tmp_path: Path) -> None:
    """A KV engine takes a post to any path, and would store the plaintext key."""
    server.api("POST", "sys/mounts/kv", {"type": "kv"})
    policies = (
        'path "kv/*" { capabilities = ["create", "read", "update"] }',
        'path "kv/*" { capabilities = ["create", "update"] }',
    )
    for policy, error in zip(policies, (KeyNotFoundError, ConfigError), strict=True):
        token = tmp_path / "token"
        token.write_text(server.token(policy))
        settings = VaultSettings(address=server.address, mount="kv", token_file=str(token))
        with VaultKms(settings, TWICE) as client, pytest.raises(error):
            client.wrap(KEY, "hr")
    assert "encrypt/" not in server.api("GET", "kv?list=true")["data"]["keys"]


@pytest.mark.parametrize("mount", ["nowhere", "pki"])
def test_a_mount_that_is_not_transit_is_a_wrong_setting(server: OpenBao, tmp_path: Path, mount: str) -> None:
    if mount == "pki":
        server.api("POST", "sys/mounts/pki", {"type": "pki"})
    token = tmp_path / "token"
    token.write_text(ROOT)
    with VaultKms(VaultSettings(address=server.address, mount=mount, token_file=str(token)), TWICE) as client:
        with pytest.raises(ConfigError, match="mount"):
            client.wrap(KEY, "hr")
        with pytest.raises(ConfigError, match="mount"):
            client.unwrap(b"vault:v1:AAAA", "hr")


def test_keys_may_live_in_another_mount_and_namespace(server: OpenBao, tmp_path: Path) -> None:
    server.api("POST", "sys/namespaces/team")
    server.api("POST", "sys/mounts/deep/transit", {"type": "transit"}, namespace="team")
    server.api("POST", "deep/transit/keys/pay", namespace="team")
    token = tmp_path / "token"
    token.write_text(ROOT)
    properties = {
        "encryption.kms-type": "vault",
        "encryption.kms.vault.address": server.address + "/",
        "encryption.kms.vault.mount": "/deep/transit/",
        "encryption.kms.vault.namespace": "team",
        "encryption.kms.vault.token-file": str(token),
    }
    with client_from_properties(properties) as client:
        assert client.unwrap(client.wrap(KEY, "pay"), "pay") == KEY
