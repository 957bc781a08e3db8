"""Properties of the Vault client, and key ids that are no names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.kms import KEY
from kit.servers.openbao import ROOT
from kit.servers.vault_kms import client_of
from sealberg.errors import ConfigError
from sealberg.keys.kms.vault.client import VaultKms
from sealberg.keys.kms.vault.config import VaultSettings

if TYPE_CHECKING:
    from pathlib import Path

    from kit.servers.fault_proxy import FaultProxy

pytestmark = pytest.mark.slow  # a server is started


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
