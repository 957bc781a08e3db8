"""The Vault client against a real OpenBao server, alone and behind a proxy that fails on demand."""

from __future__ import annotations

import base64
import pickle
import re
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kit.servers.fault_proxy import FaultProxy, fault_proxy
from kit.servers.kms import KEY, KmsConformance, Provoked, Rig
from kit.servers.openbao import ROOT, OpenBao, openbao
from kit.servers.ports import free_port
from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyDestroyedError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsThrottledError,
    KmsUnavailableError,
    SealbergError,
    WrongKeyError,
)
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.kms.retry_policy import RetryPolicy
from sealberg.keys.kms.vault.client import VaultKms
from sealberg.keys.kms.vault.config import VaultSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow  # a server is started

HURRY = RetryPolicy(
    connect_timeout_s=0.5, read_timeout_s=0.8, total_timeout_s=5, max_attempts=2, backoff_s=0.01, max_backoff_s=0.02
)
CALM = RetryPolicy(backoff_s=0.01, max_backoff_s=0.02)

READER = 'path "transit/decrypt/*" { capabilities = ["update"] }'
WRITER = READER + ' path "transit/encrypt/*" { capabilities = ["update"] }'
# Encrypts, and creates what it does not find.
CREATOR = 'path "transit/encrypt/*" { capabilities = ["create", "update"] }'
KEYS = 'path "transit/keys/*" { capabilities = ["read"] }'


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


def client_of(address: str, folder: Path, token: str, retry_policy: RetryPolicy = CALM) -> VaultKms:
    file = folder / f"token-{uuid.uuid4().hex}"
    file.write_text(token + "\n")
    return VaultKms(VaultSettings(address=address, token_file=str(file)), retry_policy)


def new_key(server: OpenBao, **options: object) -> str:
    name = f"k-{uuid.uuid4().hex}"
    server.api("POST", f"transit/keys/{name}", dict(options))
    return name


@pytest.fixture
def root(server: OpenBao, tmp_path: Path) -> Iterator[VaultKms]:
    with client_of(server.address, tmp_path, ROOT) as client:
        yield client


class VaultRig(Rig):
    key_id = "hr"

    def __init__(self, server: OpenBao, proxy: FaultProxy, folder: Path) -> None:
        self.server, self.proxy, self.folder = server, proxy, folder
        everything = 'path "transit/*" { capabilities = ["read", "update"] }'
        self.client = client_of(server.address, folder, server.token(everything))

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        wrapped = self.client.wrap(KEY, "hr")
        hasty = client_of(self.proxy.address, self.folder, ROOT, HURRY)
        if failure == "not_found":
            yield Provoked(self.client, "nobody", wrapped)
        elif failure == "denied":
            denied = self.server.token('path "transit/decrypt/other" { capabilities = ["update"] }')
            yield Provoked(client_of(self.server.address, self.folder, denied), "hr", wrapped)
        elif failure == "disabled":
            self.server.api("DELETE", "transit/keys/hr/soft-delete")
            try:
                yield Provoked(self.client, "hr", wrapped)
            finally:
                self.server.api("POST", "transit/keys/hr/soft-delete-restore")
        elif failure == "destroyed":
            name = new_key(self.server)
            wrapped = self.client.wrap(KEY, name)
            self.server.api("POST", f"transit/keys/{name}/rotate")
            only_new = {"min_decryption_version": 2, "min_encryption_version": 2}
            self.server.api("POST", f"transit/keys/{name}/config", only_new)
            self.server.api("POST", f"transit/keys/{name}/trim", {"min_available_version": 2})
            yield Provoked(self.client, name, wrapped)
        elif failure == "wrong_key":
            yield Provoked(self.client, "other", wrapped)
        elif failure == "corrupt":
            at = len(wrapped) // 2
            yield Provoked(self.client, "hr", wrapped[:at] + (b"A" if wrapped[at] != 65 else b"B") + wrapped[at + 1 :])
        elif failure == "throttled":
            with self.server.quota("transit/"):
                yield Provoked(client_of(self.server.address, self.folder, ROOT, HURRY), "hr", wrapped)
        elif failure == "server_error":
            with self.proxy.failing(503):
                yield Provoked(hasty, "hr", wrapped)
        elif failure == "timeout":
            with self.proxy.failing("hang"):
                yield Provoked(hasty, "hr", wrapped)
        elif failure == "refused":
            yield Provoked(client_of(f"http://127.0.0.1:{free_port()}", self.folder, ROOT, HURRY), "hr", wrapped)
        elif failure == "misconfigured":
            yield Provoked(self.client, "../sys/seal", wrapped)


class TestVaultKms(KmsConformance):
    @pytest.fixture
    def rig(self, server: OpenBao, proxy: FaultProxy, tmp_path: Path) -> VaultRig:
        return VaultRig(server, proxy, tmp_path)


# The server's own failures


def test_wrapped_bytes_are_the_text_of_the_server(root: VaultKms, server: OpenBao) -> None:
    wrapped = root.wrap(KEY, "hr")
    assert re.fullmatch(rb"vault:v1:[A-Za-z0-9+/=]+", wrapped)
    told = server.api("POST", "transit/decrypt/hr", {"ciphertext": wrapped.decode()})
    assert base64.b64decode(told["data"]["plaintext"]) == KEY


def test_opens_what_another_client_of_the_server_wrapped(root: VaultKms, server: OpenBao) -> None:
    made = server.api("POST", "transit/encrypt/hr", {"plaintext": base64.b64encode(KEY).decode()})
    assert root.unwrap(made["data"]["ciphertext"].encode(), "hr") == KEY


def test_rotation_leaves_old_blobs_readable_and_rewrap_brings_them_to_the_new_version(
    root: VaultKms, server: OpenBao
) -> None:
    name = new_key(server)
    old = root.wrap(KEY, name)
    server.api("POST", f"transit/keys/{name}/rotate")
    assert root.unwrap(old, name) == KEY
    assert root.wrap(KEY, name).startswith(b"vault:v2:")
    new = root.rewrap(old, name)
    assert new.startswith(b"vault:v2:")
    assert root.unwrap(new, name) == KEY


def test_rewrap_needs_no_permission_to_see_the_key(root: VaultKms, server: OpenBao, tmp_path: Path) -> None:
    token = server.token('path "transit/rewrap/hr" { capabilities = ["update"] }')
    with client_of(server.address, tmp_path, token) as client:
        new = client.rewrap(root.wrap(KEY, "hr"), "hr")
        with pytest.raises(AccessDeniedError):
            client.unwrap(new, "hr")
    assert root.unwrap(new, "hr") == KEY


def test_a_version_below_the_minimum_is_disabled_and_comes_back(root: VaultKms, server: OpenBao) -> None:
    name = new_key(server)
    old = root.wrap(KEY, name)
    server.api("POST", f"transit/keys/{name}/rotate")
    server.api("POST", f"transit/keys/{name}/config", {"min_decryption_version": 2})
    for act in (root.unwrap, root.rewrap):
        with pytest.raises(KeyDisabledError, match="min_decryption_version"):
            act(old, name)
    server.api("POST", f"transit/keys/{name}/config", {"min_decryption_version": 1})
    assert root.unwrap(old, name) == KEY


def test_a_trimmed_version_is_destroyed_for_those_who_may_read_the_key(
    root: VaultKms, server: OpenBao, tmp_path: Path
) -> None:
    name = new_key(server)
    old = root.wrap(KEY, name)
    server.api("POST", f"transit/keys/{name}/rotate")
    server.api("POST", f"transit/keys/{name}/config", {"min_decryption_version": 2, "min_encryption_version": 2})
    server.api("POST", f"transit/keys/{name}/trim", {"min_available_version": 2})
    for act in (root.unwrap, root.rewrap):
        with pytest.raises(KeyDestroyedError, match=r"version 1 .* trimmed"):
            act(old, name)
    with client_of(server.address, tmp_path, server.token(READER)) as reader, pytest.raises(KeyDisabledError):
        reader.unwrap(old, name)


def test_a_deleted_key_is_not_found(root: VaultKms, server: OpenBao) -> None:
    name = new_key(server)
    wrapped = root.wrap(KEY, name)
    server.api("POST", f"transit/keys/{name}/config", {"deletion_allowed": True})
    server.api("DELETE", f"transit/keys/{name}")
    for act in (lambda: root.unwrap(wrapped, name), lambda: root.wrap(KEY, name), lambda: root.describe(name)):
        with pytest.raises(KeyNotFoundError):
            act()
    assert not server.has_key(name)


def test_a_key_that_is_not_there_is_told_with_those_that_are_if_that_may_be_asked(
    root: VaultKms, server: OpenBao, tmp_path: Path
) -> None:
    words = (
        r"there is no such transit key; .*existing keys: .*; create the key with `vault write -f transit/keys/0-none`"
    )
    new_key(server)
    with pytest.raises(KeyNotFoundError, match=words):
        root.wrap(KEY, "0-none")
    with (
        client_of(server.address, tmp_path, server.token(WRITER)) as writer,
        pytest.raises(KeyNotFoundError) as caught,
    ):
        writer.wrap(KEY, "0-none")
    assert "existing keys" not in str(caught.value)


def test_a_sealed_server_is_unavailable_and_then_answers_again(server: OpenBao, tmp_path: Path) -> None:
    with client_of(server.address, tmp_path, ROOT, HURRY) as client:
        wrapped = client.wrap(KEY, "hr")
        with server.sealed(), pytest.raises(KmsUnavailableError, match=r"503: Vault is sealed.*attempts 2"):
            client.unwrap(wrapped, "hr")
        assert client.unwrap(wrapped, "hr") == KEY


@pytest.mark.parametrize(
    "wrapped",
    [b"", b"vault:v1:", b"vault:v99:" + b"A" * 60, b"vault:v1:AAAA", b"\xff" * 60, b"vault:v1:A\n", b"{}"],
    ids=repr,
)
def test_bytes_that_vault_did_not_wrap_do_not_open(root: VaultKms, wrapped: bytes) -> None:
    with pytest.raises(WrongKeyError):
        root.unwrap(wrapped, "hr")


def test_a_second_spelling_of_wrapped_bytes_is_refused_though_the_server_takes_it(
    root: VaultKms, server: OpenBao
) -> None:
    """Two spellings would be two KEKs to whoever compares wrapped bytes."""
    wrapped = root.wrap(KEY, "hr")
    assert wrapped.endswith(b"=")
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    at = len(wrapped.rstrip(b"=")) - 1
    spare = bytes([alphabet[alphabet.index(wrapped[at]) ^ 1]])
    for again in (wrapped[:at] + spare + wrapped[at + 1 :], wrapped.replace(b":v1:", b":v01:")):
        taken = server.api("POST", "transit/decrypt/hr", {"ciphertext": again.decode()})["data"]["plaintext"]
        assert base64.b64decode(taken) == KEY
        with pytest.raises(WrongKeyError, match="not of the form"):
            root.unwrap(again, "hr")


@pytest.mark.parametrize("kind", ["aes128-gcm96", "chacha20-poly1305", "xchacha20-poly1305"])
def test_every_symmetric_type_wraps(root: VaultKms, server: OpenBao, kind: str) -> None:
    name = new_key(server, type=kind)
    wrapped = root.wrap(KEY, name)
    assert root.unwrap(wrapped, name) == KEY
    with pytest.raises(WrongKeyError):
        root.unwrap(root.wrap(KEY, "hr"), name)


@pytest.mark.parametrize(
    "options",
    [
        {"type": "ed25519"},
        {"type": "ecdsa-p256"},
        {"type": "rsa-2048"},
        {"type": "hmac", "key_size": 32},
        {"derived": True},
    ],
    ids=lambda options: str(options.get("type", "derived")),
)
def test_a_key_that_cannot_wrap_is_a_wrong_setting(
    root: VaultKms, server: OpenBao, tmp_path: Path, options: dict[str, object]
) -> None:
    name = new_key(server, **options)
    with pytest.raises(ConfigError, match=name):
        root.wrap(KEY, name)
    with client_of(server.address, tmp_path, server.token(WRITER)) as blind, pytest.raises(ConfigError, match=name):
        blind.wrap(KEY, name)


def test_a_blob_of_another_key_does_not_open_under_an_rsa_key(root: VaultKms, server: OpenBao) -> None:
    """The server answers 500 here, which must not look like an outage."""
    with pytest.raises(WrongKeyError):
        root.unwrap(root.wrap(KEY, "hr"), new_key(server, type="rsa-2048"))


def test_describe_tells_what_an_officer_asks(root: VaultKms, server: OpenBao) -> None:
    name = new_key(server, exportable=True)
    server.api("POST", f"transit/keys/{name}/rotate")
    facts = root.describe(name)
    assert facts == {
        "type": "aes256-gcm96",
        "latest_version": "2",
        "min_decryption_version": "1",
        "min_encryption_version": "0",
        "min_available_version": "0",
        "exportable": "true",
        "allow_plaintext_backup": "false",
        "deletion_allowed": "false",
        "soft_deleted": "false",
        "derived": "false",
    }


# A typo must not become a master key


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
        with VaultKms(settings, HURRY) as client, pytest.raises(error):
            client.wrap(KEY, "hr")
    assert "encrypt/" not in server.api("GET", "kv?list=true")["data"]["keys"]


@pytest.mark.parametrize("mount", ["nowhere", "pki"])
def test_a_mount_that_is_not_transit_is_a_wrong_setting(server: OpenBao, tmp_path: Path, mount: str) -> None:
    if mount == "pki":
        server.api("POST", "sys/mounts/pki", {"type": "pki"})
    token = tmp_path / "token"
    token.write_text(ROOT)
    with VaultKms(VaultSettings(address=server.address, mount=mount, token_file=str(token)), HURRY) as client:
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


# Credentials


class AppRole:
    """A role of its own, and the file with its secret id."""

    def __init__(self, server: OpenBao, folder: Path, **options: object) -> None:
        self.name = f"r-{uuid.uuid4().hex}"
        server.api("PUT", f"sys/policies/acl/{self.name}", {"policy": WRITER})
        server.api("POST", f"auth/approle/role/{self.name}", {"token_policies": [self.name], **options})
        self.role_id = server.api("GET", f"auth/approle/role/{self.name}/role-id")["data"]["role_id"]
        self.secret = folder / "secret-id"
        self.secret.write_text(server.api("POST", f"auth/approle/role/{self.name}/secret-id")["data"]["secret_id"])

    def client(self, address: str, retry_policy: RetryPolicy = CALM) -> VaultKms:
        settings = VaultSettings(address=address, role_id=self.role_id, secret_id_file=str(self.secret))
        return VaultKms(settings, retry_policy)


def logins(proxy: FaultProxy) -> int:
    return sum("approle/login" in path for path in proxy.paths)


def test_approle_logs_in_once_for_many_calls(server: OpenBao, proxy: FaultProxy, tmp_path: Path) -> None:
    with AppRole(server, tmp_path).client(proxy.address) as client:
        for _ in range(3):
            assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY
    assert logins(proxy) == 1


def test_approle_logs_in_again_when_its_token_expires(server: OpenBao, proxy: FaultProxy, tmp_path: Path) -> None:
    with AppRole(server, tmp_path, token_ttl="1s", token_max_ttl="1s").client(proxy.address) as client:
        wrapped = client.wrap(KEY, "hr")
        time.sleep(1.3)
        assert client.unwrap(wrapped, "hr") == KEY
    assert logins(proxy) == 2


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
    client = VaultKms(VaultSettings(address="http://127.0.0.1:1", token_file=str(file)), HURRY)
    with pytest.raises(ConfigError, match="one line of ASCII") as caught:
        client.unwrap(b"vault:v1:AAAA", "hr")
    assert not content.strip() or content.decode("utf-8", "replace").strip() not in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    client = VaultKms(VaultSettings(address="http://127.0.0.1:1", token_file=str(tmp_path / "nothing")))
    with pytest.raises(ConfigError, match=r"token-file cannot be read: .*nothing"):
        client.unwrap(b"vault:v1:AAAA", "hr")


# Settings


@pytest.mark.parametrize("name", ["token", "secret-id"])
def test_a_secret_by_value_is_refused_with_the_safe_ways(name: str) -> None:
    properties = {"encryption.kms.vault.address": "https://vault:8200", f"encryption.kms.vault.{name}": "s3cr3t"}
    with pytest.raises(ConfigError, match=r"token-file.*VAULT_TOKEN.*secret-id-file") as caught:
        VaultKms.from_properties(properties)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no address"),
        ({"address": "vault:8200"}, "https URL"),
        ({"address": "https://"}, "https URL"),
        ({"address": "https://[bad"}, "https URL"),
        ({"address": "http://vault.example:8200"}, "allow-http"),
        ({"address": "https://vault", "mount": "../sys"}, "mount"),
        ({"address": "https://vault", "mount": ""}, "mount"),
        ({"address": "https://vault", "role-id": "x"}, "expected both"),
        ({"address": "https://vault", "secret-id-file": "x"}, "expected both"),
        ({"address": "https://vault", "role-id": "x", "secret-id-file": "y", "token-file": "z"}, "set only one"),
        ({"address": "https://vault", "adress": "x"}, "unknown property encryption.kms.vault.adress"),
        ({"address": "https://vault", "allow-http": "yes"}, "true or false"),
    ],
)
def test_a_setting_that_cannot_be_right_is_refused_at_once(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        VaultKms.from_properties({f"encryption.kms.vault.{name}": value for name, value in given.items()})


def test_a_password_in_the_address_is_refused_without_quoting_it() -> None:
    with pytest.raises(ConfigError, match="password") as caught:
        VaultSettings(address="https://me:s3cr3t@vault")
    assert "s3cr3t" not in str(caught.value)


def test_http_beyond_this_machine_needs_to_be_asked_for() -> None:
    properties = {
        "encryption.kms.vault.address": "http://vault.example:8200",
        "encryption.kms.vault.allow-http": "true",
        "encryption.kms.read-timeout-s": "9",
    }
    client = VaultKms.from_properties(properties)
    assert client.settings.address == "http://vault.example:8200"
    assert client.retry_policy.read_timeout_s == 9


@pytest.mark.parametrize("key_id", ["", "a/b", "..", "../hr", "a/../hr", ".a", "a b", "ü", "hr?x", "hr%2f", "hr\n"])
def test_a_key_id_that_is_no_name_never_reaches_the_server(proxy: FaultProxy, tmp_path: Path, key_id: str) -> None:
    with client_of(proxy.address, tmp_path, ROOT) as client:
        for act in (
            lambda: client.wrap(KEY, key_id),
            lambda: client.unwrap(b"vault:v1:AAAA", key_id),
            lambda: client.rewrap(b"vault:v1:AAAA", key_id),
            lambda: client.describe(key_id),
        ):
            with pytest.raises(ConfigError, match="name of a transit key"):
                act()
    assert proxy.requests == 0


# The network


@pytest.mark.parametrize("fault", [500, 502, 503, 429, 412, 473, "drop", "hang"])
def test_a_fault_that_passes_is_outlived(server: OpenBao, proxy: FaultProxy, tmp_path: Path, fault: int | str) -> None:
    with client_of(proxy.address, tmp_path, ROOT, HURRY) as client:
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
        client_of(proxy.address, tmp_path, ROOT, HURRY) as client,
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
    with client_of(proxy.address, tmp_path, ROOT, HURRY) as client, proxy.failing(fault), pytest.raises(error):
        client.unwrap(b"vault:v1:AAAA", "hr")
    decrypting = [path for path in proxy.paths if "/decrypt/" in path]
    assert len(decrypting) == 1
    # A key that is not found is told with the names of the keys that are there, in one request more.
    assert proxy.requests == (2 if error is KeyNotFoundError else 1)


def test_a_hanging_server_costs_the_read_timeout_and_no_more(proxy: FaultProxy, tmp_path: Path) -> None:
    begun = time.monotonic()
    with (
        client_of(proxy.address, tmp_path, ROOT, HURRY) as client,
        proxy.failing("hang"),
        pytest.raises(KmsUnavailableError, match="the response timed out"),
    ):
        client.unwrap(b"vault:v1:AAAA", "hr")
    assert 2 * HURRY.read_timeout_s <= time.monotonic() - begun < 5


def test_a_redirect_is_not_followed(server: OpenBao, proxy: FaultProxy, tmp_path: Path) -> None:
    with fault_proxy(server.address) as elsewhere, client_of(proxy.address, tmp_path, ROOT, HURRY) as client:
        proxy.headers["Location"] = f"{elsewhere.address}/v1/transit/decrypt/hr"
        with proxy.failing(307), pytest.raises(ConfigError, match="redirects"):
            client.unwrap(b"vault:v1:AAAA", "hr")
    assert elsewhere.requests == 0


def test_the_request_id_is_named_where_the_server_gives_one(proxy: FaultProxy, tmp_path: Path) -> None:
    proxy.headers["X-Request-Id"] = "req-7"
    with (
        client_of(proxy.address, tmp_path, ROOT, HURRY) as client,
        proxy.failing(403),
        pytest.raises(AccessDeniedError, match="request id req-7") as caught,
    ):
        client.unwrap(b"vault:v1:AAAA", "hr")
    assert caught.value.context["request_id"] == "req-7"


@pytest.mark.parametrize("fault", [503, "hang", "drop"])
def test_no_exception_holds_the_token_or_the_key(proxy: FaultProxy, tmp_path: Path, fault: int | str) -> None:
    """Exceptions of requests hold the request, and error reporters collect what exceptions hold."""
    with (
        client_of(proxy.address, tmp_path, ROOT, HURRY) as client,
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
