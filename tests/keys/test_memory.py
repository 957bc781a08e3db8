"""The memory client against the bytes of Java's test KMS, and the table of failures."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kit.servers.kms import KEY, KmsConformance, Provoked, Rig
from sealberg.errors import ConfigError
from sealberg.format import aes_gcm
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.kms.memory import MemoryKms, UnitestKms

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_SERVER = "there is no server"


class MemoryRig(Rig):
    key_id = "hr"
    impossible = {
        "denied": "whoever holds the object may use it",
        "disabled": "a dictionary has no switch",
        "destroyed": "a removed key is simply not found",
        "throttled": NO_SERVER,
        "server_error": NO_SERVER,
        "timeout": NO_SERVER,
        "refused": NO_SERVER,
    }

    def __init__(self) -> None:
        self.client = MemoryKms({"hr": bytes(32), "other": bytes(16)})

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        wrapped = self.client.wrap(KEY, "hr")
        if failure == "not_found":
            yield Provoked(self.client, "nobody", wrapped)
        elif failure == "wrong_key":
            yield Provoked(self.client, "other", wrapped)
        elif failure == "corrupt":
            yield Provoked(self.client, "hr", wrapped[:-1] + bytes([wrapped[-1] ^ 1]))
        elif failure == "misconfigured":
            client_from_properties({"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "not hex"})


class TestMemoryKms(KmsConformance):
    @pytest.fixture
    def rig(self) -> MemoryRig:
        return MemoryRig()


def test_wraps_exactly_as_the_test_kms_of_java() -> None:
    """The golden chain: keyA wraps 10..1f under the nonce 00..0b."""
    wrapped = base64.b64decode("AAECAwQFBgcICQoLsOUOyy8P+L6l57ZE4oPEyYRa3kej5osMjhiFklvxu0k=")
    kek = bytes(range(0x10, 0x20))
    assert UnitestKms.from_properties({}).unwrap(wrapped, "keyA") == kek
    assert aes_gcm._seal(b"0123456789012345", kek, None, bytes(range(12))) == wrapped


def test_property_with_a_key_of_another_length_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError, match="15") as caught:
        MemoryKms.from_properties({"encryption.kms.memory.key.hr": "ab" * 15})
    assert "abab" not in str(caught.value)


def test_repr_names_keys_and_shows_none() -> None:
    assert repr(MemoryKms({"hr": b"0123456789012345"})) == "MemoryKms(hr)"
