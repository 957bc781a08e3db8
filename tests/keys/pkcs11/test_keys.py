"""Wrapped bytes, and the objects of a token that can and cannot be a master key."""

from __future__ import annotations

import os
import pickle
import threading
from typing import Any

import pytest

from kit.servers.kms import KEY
from kit.servers.pkcs11_kms import IMPORTED
from kit.servers.softhsm import LABEL, SoftHsm
from sealberg.errors import (
    AuthenticationError,
    ConfigError,
    KeyNotFoundError,
    KmsUnavailableError,
    UnsupportedError,
    WrongKeyError,
)
from sealberg.format import aes_gcm
from sealberg.keys.kms import pkcs11 as ours
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.kms.pkcs11 import Pkcs11Kms


def test_the_layout_is_that_of_the_local_keystore(client: Pkcs11Kms) -> None:
    assert client.unwrap(aes_gcm.seal(IMPORTED, KEY), "imported") == KEY
    assert aes_gcm.open(IMPORTED, client.wrap(KEY, "imported")) == KEY


@pytest.mark.parametrize("length", [0, 1, 12, 28])
def test_too_short_to_hold_a_key_is_the_wrong_key(client: Pkcs11Kms, length: int) -> None:
    with pytest.raises(WrongKeyError):
        client.unwrap(bytes(length), "hr")


@pytest.mark.parametrize("at", [0, 11, 12, 27, 28, 43])
def test_a_changed_byte_anywhere_does_not_open(client: Pkcs11Kms, at: int) -> None:
    wrapped = bytearray(client.wrap(KEY, "hr"))
    wrapped[at] ^= 0x80
    with pytest.raises(WrongKeyError):
        client.unwrap(bytes(wrapped), "hr")
    assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY


class ChoosingToken:
    """Chooses the nonce itself, and may write it where the caller's was."""

    def __init__(self, *, writes: bool) -> None:
        self.writes = writes

    def encrypt(self, key: bytes, *, mechanism: object, mechanism_param: Any) -> bytes:
        nonce = os.urandom(12)
        if self.writes:
            mechanism_param.nonce = nonce
        return aes_gcm._seal(IMPORTED, key, None, nonce)[12:]

    def decrypt(self, sealed: bytes, *, mechanism: object, mechanism_param: Any) -> bytes:
        return aes_gcm.open(IMPORTED, mechanism_param.nonce + sealed)


def test_a_nonce_that_the_token_chose_is_stored() -> None:
    token = ChoosingToken(writes=True)
    assert ours._open(token, ours._seal(token, KEY)) == KEY
    silent = ChoosingToken(writes=False)
    with pytest.raises(AuthenticationError):
        ours._open(silent, ours._seal(silent, KEY))


def test_a_wrap_that_does_not_open_again_is_never_given_away(
    client: Pkcs11Kms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "_open", lambda *_: b"something else")
    with pytest.raises(UnsupportedError, match="does not decrypt what it encrypted"):
        client.wrap(KEY, "hr")


# Keys


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("twin", "2 objects of the token have this label, expected one"),
        ("pair", "2 objects"),
        ("note", "not a secret AES key"),
        ("decrypts", "not allowed to encrypt and decrypt, expected both"),
        ("encrypts", "not allowed to encrypt and decrypt, expected both"),
        ("extractable", "allow-extractable"),
    ],
)
def test_an_object_that_cannot_serve_is_a_wrong_setting(client: Pkcs11Kms, label: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        client.wrap(KEY, label)
    with pytest.raises(ConfigError, match=words):
        client.unwrap(bytes(44), label)


def test_an_extractable_key_serves_when_that_was_asked_for(hsm: SoftHsm) -> None:
    allowed = {"encryption.kms.pkcs11.allow-extractable": "true"}
    with client_from_properties(hsm.properties | allowed) as client:
        assert client.unwrap(client.wrap(KEY, "extractable"), "extractable") == KEY


def test_a_library_that_hangs_is_given_up(hsm: SoftHsm, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"encryption.kms.total-timeout-s": "0.3"}
    go_on = threading.Event()
    with client_from_properties(hsm.properties | quick) as client:
        wrapped = client.wrap(KEY, "hr")
        monkeypatch.setattr(Pkcs11Kms, "_find_and_run", lambda *_: go_on.wait(30))
        with pytest.raises(
            KmsUnavailableError, match=r"Pkcs11Kms did not return within 0.3 s \(provider pkcs11, key id hr"
        ):
            client.unwrap(wrapped, "hr")
        monkeypatch.undo()
        go_on.set()
        with pickle.loads(pickle.dumps(client)) as again:
            assert again.unwrap(wrapped, "hr") == KEY


def test_a_deleted_key_is_not_found_by_a_client_that_has_used_it(hsm: SoftHsm, client: Pkcs11Kms) -> None:
    hsm.make_key("short-lived")
    wrapped = client.wrap(KEY, "short-lived")
    hsm.delete("short-lived")
    with pytest.raises(KeyNotFoundError, match=r"has no object with this label; existing keys: (.*, )?hr\b"):
        client.unwrap(wrapped, "short-lived")


def test_describe_tells_what_an_officer_asks(client: Pkcs11Kms) -> None:
    facts = dict(client.describe("hr"))
    assert facts.pop("serial")
    assert facts == {
        "token": LABEL,
        "manufacturer": "SoftHSM project",
        "model": "SoftHSM v2",
        "class": "SECRET_KEY",
        "type": "AES",
        "bits": "256",
        "encrypt": "true",
        "decrypt": "true",
        "extractable": "false",
        "never_extractable": "true",
        "sensitive": "true",
        "generated_in_token": "true",
    }
    assert client.describe("extractable")["extractable"] == "true"
    assert client.describe("imported")["generated_in_token"] == "false"
