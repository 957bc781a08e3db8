"""What the Azure client sends."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from azure.keyvault.keys.crypto import CryptographyClient, KeyWrapAlgorithm

from kit.servers.azure_kms import client_of, rotated
from kit.servers.kms import KEY
from sealberg.errors import KeyDisabledError

if TYPE_CHECKING:
    from kit.servers.fake_azure import FakeAzure


def test_sends_what_java_sends_and_nothing_else(fake: FakeAzure) -> None:
    client = client_of(fake)
    wrapped = client.wrap(KEY, "hr")
    client.unwrap(bytes(wrapped), "hr")
    encoded = [base64.urlsafe_b64encode(value).decode().rstrip("=") for value in (KEY, wrapped)]
    assert [(seen.method, seen.path, seen.query, seen.body) for seen in fake.seen] == [
        ("POST", "/keys/hr//wrapkey", {"api-version": ["7.4"]}, {"alg": "RSA-OAEP-256", "value": encoded[0]}),
        ("POST", "/keys/hr//unwrapkey", {"api-version": ["7.4"]}, {"alg": "RSA-OAEP-256", "value": encoded[1]}),
    ]
    assert len(wrapped) == 256
    assert "sealberg/" in fake.seen[0].agent


def test_key_id_may_name_a_version(fake: FakeAzure) -> None:
    key = fake.keys["hr"]
    rotated(key)
    client, key_id = client_of(fake), f"hr/{key.versions[0].name}"
    wrapped = client.wrap(KEY, key_id)
    assert client.unwrap(bytes(wrapped), key_id) == KEY
    assert {seen.path.rpartition("/")[0] for seen in fake.seen} == {f"/keys/{key_id}"}


def test_algorithm_is_the_one_that_was_configured(fake: FakeAzure) -> None:
    client = client_of(fake, algorithm="RSA-OAEP")
    assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY
    assert {seen.body["alg"] for seen in fake.seen} == {"RSA-OAEP"}


def test_opens_what_the_sdk_wraps_locally(fake: FakeAzure) -> None:
    """The SDK's own RSA-OAEP-256, of other hands, is what the service's bytes look like."""
    version = fake.keys["hr"].versions[0]
    numbers = version.secret.public_key().public_numbers()
    local = CryptographyClient.from_jwk(
        {
            "kid": f"{fake.url}/keys/hr/{version.name}",
            "kty": "RSA",
            "n": numbers.n.to_bytes(256, "big"),
            "e": numbers.e.to_bytes(3, "big"),
            "key_ops": ["wrapKey"],
        }
    )
    wrapped = local.wrap_key(KeyWrapAlgorithm.rsa_oaep_256, KEY).encrypted_key
    assert client_of(fake).unwrap(wrapped, "hr") == KEY


def test_wrap_asks_the_service_even_for_a_disabled_key(fake: FakeAzure) -> None:
    """The SDK's CryptographyClient would fetch the public key once and go on wrapping by itself."""
    client = client_of(fake)
    client.wrap(KEY, "hr")
    fake.keys["hr"].versions[0].enabled = False
    with pytest.raises(KeyDisabledError, match="disabled key"):
        client.wrap(KEY, "hr")
    assert {seen.method for seen in fake.seen} == {"POST"}


def test_describe_tells_version_and_state(fake: FakeAzure) -> None:
    fake.keys["hr"].versions[0].enabled = False
    facts = client_of(fake).describe("hr")
    assert facts["id"].endswith(fake.keys["hr"].versions[0].name)
    assert (facts["type"], facts["enabled"]) == ("RSA", "false")
