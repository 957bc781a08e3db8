"""Properties, key ids, TLS, secrets that nothing shows, and clients in other processes."""

from __future__ import annotations

import base64
import logging
import pickle
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING

import pytest

from kit.servers.azure_kms import client_of
from kit.servers.fake_azure import FakeAzure, StaticToken
from kit.servers.kms import KEY, TWICE
from sealberg.errors import ConfigError, KmsUnavailableError
from sealberg.keys.kms.azure import AzureKms, AzureSettings
from sealberg.keys.kms.client import client_from_properties

if TYPE_CHECKING:
    from pathlib import Path


def test_untrusted_certificate_ends_the_conversation(fake: FakeAzure) -> None:
    kms = AzureKms(AzureSettings(fake.url), credential=StaticToken(), retry_policy=TWICE)
    with pytest.raises(KmsUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        kms.wrap(KEY, "hr")
    assert fake.seen == []


def test_missing_ca_file_is_a_configuration_error(fake: FakeAzure, tmp_path: Path) -> None:
    settings = AzureSettings(fake.url, ca_file=str(tmp_path / "none.pem"))
    with pytest.raises(ConfigError, match=r"none\.pem"):
        AzureKms(settings, credential=StaticToken(), retry_policy=TWICE).wrap(KEY, "hr")


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, r"azure\.keyvault\.url is not set"),
        ({"azure.keyvault.url": "http://127.0.0.1:1"}, "must be https"),
        ({"azure.keyvault.url": "hr.vault.azure.net"}, "must be https"),
        ({"azure.keyvault.url": "https://hr.vault.azure.net/keys/hr"}, "must be https://HOST"),
        ({"azure.keyvault.url": "https://a", "azure.keyvault.key-wrap-algorithm": "ROT13"}, "one of RSA-OAEP-256"),
    ],
)
def test_property_that_cannot_be_right_is_refused_at_once(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        client_from_properties({"encryption.kms-type": "azure", **properties})


@pytest.mark.parametrize(
    "key_id", ["", "hr/", "hr/1/2", "h r", "../hr", "hr?x", "hr\n", "https://v.vault.azure.net/keys/hr"]
)
def test_anything_but_a_name_and_a_version_is_refused_unasked(fake: FakeAzure, key_id: str) -> None:
    for act in (client_of(fake).wrap, client_of(fake).unwrap):
        with pytest.raises(ConfigError, match=r"azure key id is .*, expected the name of a key or name/version"):
            act(KEY, key_id)
    assert fake.seen == []


def test_java_class_name_finds_this_client(fake: FakeAzure) -> None:
    client = client_from_properties(
        {
            "encryption.kms-impl": "org.apache.iceberg.azure.keymanagement.AzureKeyManagementClient",
            "azure.keyvault.url": "https://hr.vault.azure.net",
        }
    )
    assert isinstance(client, AzureKms)
    assert client.settings == AzureSettings("https://hr.vault.azure.net", "RSA-OAEP-256")


def test_challenge_is_checked_against_the_vault_beyond_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever stands at the vault's address could have a token for another service."""
    with FakeAzure(tmp_path) as fake:
        monkeypatch.setattr("sealberg.keys.kms.azure.is_loopback", lambda _: False)
        kms = AzureKms(AzureSettings(fake.url, ca_file=str(fake.ca_file)), credential=StaticToken(), retry_policy=TWICE)
        with pytest.raises(ConfigError, match="challenge resource"):
            kms.wrap(KEY, "hr")
        assert fake.seen == []


def test_nothing_secret_is_shown(fake: FakeAzure, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = client_of(fake)
    client.unwrap(client.wrap(KEY, "hr"), "hr")
    assert caplog.records
    logged = "".join(record.getMessage() + repr(record.__dict__) for record in caplog.records) + repr(client)
    for secret in (KEY.hex(), base64.urlsafe_b64encode(KEY).decode().rstrip("="), repr(KEY), "good-token"):
        assert secret not in logged


def test_token_with_a_line_end_is_refused_and_not_quoted(fake: FakeAzure) -> None:
    kms = AzureKms(client_of(fake).settings, credential=StaticToken("eyJ0-token\n"), retry_policy=TWICE)
    with pytest.raises(ConfigError, match="a character that an HTTP header may not hold") as caught:
        kms.wrap(KEY, "hr")
    assert "eyJ0" not in "".join(traceback.format_exception(caught.value))


def test_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.keyvault.keys", None)
    monkeypatch.delitem(sys.modules, "sealberg.keys.kms.azure")
    with pytest.raises(ConfigError, match=r"needs the package azure\.keyvault\.keys: pip install 'sealberg\[azure\]'"):
        client_from_properties({"encryption.kms-type": "azure"})


def test_pickle_carries_settings_and_no_connection(fake: FakeAzure) -> None:
    client = client_of(fake)
    client.wrap(KEY, "hr")
    again = pickle.loads(pickle.dumps(client))
    assert (again.settings, again.retry_policy) == (client.settings, client.retry_policy)
    assert b"KeyClient" not in pickle.dumps(client)


@pytest.mark.slow
def test_sdk_is_imported_only_when_named_and_identity_only_when_used() -> None:
    look = (
        "import sys, sealberg.keys.kms.client as k; assert 'azure.core' not in sys.modules\n"
        "c = k.client_from_properties({'encryption.kms-type': 'azure', 'azure.keyvault.url': 'https://v.example'})\n"
        "assert 'azure.keyvault.keys' in sys.modules and 'azure.identity' not in sys.modules\n"
        "c.connection; assert 'azure.identity' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", look], check=True)
