"""Keys of a real OpenBao server: versions, types, deletion, a sealed server, bytes that Vault did not wrap."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import pytest

from kit.servers.kms import KEY, TWICE
from kit.servers.openbao import ROOT, OpenBao
from kit.servers.vault_kms import READER, WRITER, client_of, new_key
from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyDestroyedError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsUnavailableError,
    WrongKeyError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sealberg.keys.kms.vault.client import VaultKms

pytestmark = pytest.mark.slow  # a server is started


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
    words = r"there is no such transit key; .*existing keys: .*; restore the key from a backup"
    new_key(server)
    with pytest.raises(KeyNotFoundError, match=f"{words}.*never was, `vault write -f transit/keys/0-none`"):
        root.wrap(KEY, "0-none")
    with pytest.raises(KeyNotFoundError, match=words) as lost:
        root.describe("0-none")
    assert "vault write" not in str(lost.value)
    with (
        client_of(server.address, tmp_path, server.token(WRITER)) as writer,
        pytest.raises(KeyNotFoundError) as caught,
    ):
        writer.wrap(KEY, "0-none")
    assert "existing keys" not in str(caught.value)


def test_a_sealed_server_is_unavailable_and_then_answers_again(server: OpenBao, tmp_path: Path) -> None:
    with client_of(server.address, tmp_path, ROOT, TWICE) as client:
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


def test_the_version_is_read_from_the_wrapped_text_and_from_the_server(root: VaultKms, server: OpenBao) -> None:
    name = new_key(server)
    old = root.wrap(KEY, name)
    server.api("POST", f"transit/keys/{name}/rotate")
    newest = root.newest_version(name)
    assert (root.version_in(old), newest) == ("1", "2")
    assert root.unwrap_by(old, name, newest) == (KEY, False)
    assert root.unwrap_by(root.rewrap(old, name), name, newest) == (KEY, True)


def test_deletion_is_at_once_and_allowed_first(root: VaultKms, server: OpenBao) -> None:
    name = new_key(server)
    assert root.deletion_days(name) == range(1)
    for _ in range(2):
        assert root.schedule_deletion(name, 0) == {"name": name, "state": "deleted"}
    assert not server.has_key(name)
