"""The Azure client against a vault of ours, over TLS and with the SDK's own challenge."""

from __future__ import annotations

import base64
import logging
import pickle
import socket
import subprocess
import sys
import traceback
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import pytest
from azure.keyvault.keys.crypto import CryptographyClient, KeyWrapAlgorithm

from kit.servers.fake_azure import FakeAzure, Key, StaticToken, Version
from kit.servers.kms import KEY, KmsConformance, Provoked, Rig
from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyAccessError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsThrottledError,
    KmsUnavailableError,
    WrongKeyError,
)
from sealberg.keys.kms.azure import AzureKms, AzureSettings
from sealberg.keys.kms.client import WrappedKey, client_from_properties
from sealberg.keys.kms.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

QUICK = RetryPolicy(connect_timeout_s=1, read_timeout_s=0.3, total_timeout_s=5, max_attempts=2, backoff_s=0.001)
PATIENT = RetryPolicy(read_timeout_s=2, backoff_s=0.001)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeAzure]:
    with FakeAzure(tmp_path_factory.mktemp("vault")) as fake:
        fake.create("hr")
        fake.create("other")
        yield fake


@pytest.fixture
def fake(server: FakeAzure) -> FakeAzure:
    server.seen.clear()
    server.faults.clear()
    server.denied.clear()
    for key in server.keys.values():
        del key.versions[1:]
        key.versions[0].enabled = True
    return server


def client_of(fake: FakeAzure, retry_policy: RetryPolicy = PATIENT, algorithm: str = "RSA-OAEP-256") -> AzureKms:
    return _client(fake.url, str(fake.ca_file), retry_policy, algorithm)


@cache
def _client(url: str, ca_file: str, retry_policy: RetryPolicy, algorithm: str) -> AzureKms:
    settings = AzureSettings(url, algorithm=algorithm, ca_file=ca_file)
    return AzureKms(settings, credential=StaticToken(), retry_policy=retry_policy)


class AzureRig(Rig):
    key_id = "hr"
    impossible = {
        "destroyed": "for a deleted key the service answers 404 KeyNotFound, as for one that never was",
    }

    def __init__(self, fake: FakeAzure) -> None:
        self.fake = fake
        self.client = client_of(fake)

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        fake = self.fake
        wrapped = self.client.wrap(KEY, "hr")
        world = Provoked(client_of(fake, QUICK), "hr", wrapped)
        if failure == "not_found":
            world.key_id = "nobody"
        elif failure == "denied":
            fake.denied.add("unwrapkey")
        elif failure == "disabled":
            fake.keys["hr"].versions[0].enabled = False
        elif failure == "wrong_key":
            world.key_id, world.wrapped = "other", bytes(wrapped)
        elif failure == "corrupt":
            world.wrapped = wrapped[:-1] + bytes([wrapped[-1] ^ 1])
        elif failure == "throttled":
            fake.fail(429, "Throttled", 99)
        elif failure == "server_error":
            fake.fail(503, "ServiceUnavailable", 99)
        elif failure == "timeout":
            fake.hang.set()
        elif failure == "refused":
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
            nobody = AzureSettings(f"https://127.0.0.1:{port}", ca_file=str(fake.ca_file))
            world.client = AzureKms(nobody, credential=StaticToken(), retry_policy=QUICK)
        elif failure == "misconfigured":
            world.key_id = f"{fake.url}/keys/hr"
        try:
            yield world
        finally:
            fake.hang.clear()


class TestAzureKms(KmsConformance):
    @pytest.fixture
    def rig(self, fake: FakeAzure) -> AzureRig:
        return AzureRig(fake)


def rotated(key: Key, times: int = 1) -> None:
    # Keys take a tenth of a second to make, and the versions in between need none of their own.
    for _ in range(times):
        key.versions.append(Version(key.versions[-1].created + 60, secret=spare()))


@cache
def spare() -> RSAPrivateKey:
    return Version(0).secret


# -- what is sent


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


# -- rotation


def test_version_that_wrapped_is_noted_and_asked_again_after_rotation(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = client.wrap(KEY, "hr")
    assert wrapped.properties == {"azure.key-version": key.versions[0].name}
    rotated(key)
    assert client.unwrap(wrapped, "hr") == KEY
    assert fake.seen[-1].path == f"/keys/hr/{key.versions[0].name}/unwrapkey"
    assert len(fake.seen) == 2
    newer = client.rewrap(wrapped, "hr")
    assert isinstance(newer, WrappedKey)
    assert newer.properties == {"azure.key-version": key.versions[1].name}


def test_key_of_java_is_rescued_after_rotation_from_the_newest_version_on(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = bytes(client.wrap(KEY, "hr"))
    rotated(key, times=4)
    fake.seen.clear()
    assert client.unwrap(wrapped, "hr") == KEY
    tries = [seen.path.split("/")[3] for seen in fake.seen if seen.method == "POST"]
    assert tries == ["", *(version.name for version in reversed(key.versions))]
    assert sum(seen.method == "GET" for seen in fake.seen) == 3  # pages of two


def test_rescue_passes_over_disabled_versions(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = bytes(client.wrap(KEY, "hr"))
    rotated(key, times=2)
    key.versions[1].enabled = key.versions[2].enabled = False  # the newest one too
    assert client.unwrap(wrapped, "hr") == KEY


def test_rescue_gives_up_after_fifty_versions(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = bytes(client.wrap(KEY, "hr"))
    rotated(key, times=50)
    with pytest.raises(
        WrongKeyError, match="the key has 51 versions; the newest 50 were tried and none unwraps the KEK"
    ):
        client.unwrap(wrapped, "hr")
    del key.versions[-1]
    assert client.unwrap(wrapped, "hr") == KEY


def test_failed_rescue_names_the_versions_that_are_switched_off(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = bytes(client.wrap(KEY, "hr"))
    rotated(key)
    key.versions[0].enabled = False
    with pytest.raises(WrongKeyError, match=f"disabled versions: {key.versions[0].name}"):
        client.unwrap(wrapped, "hr")


@pytest.mark.parametrize(("newest_enabled", "kind"), [(True, WrongKeyError), (False, KeyDisabledError)])
def test_without_the_permission_to_list_the_error_names_it(
    fake: FakeAzure, newest_enabled: bool, kind: type[Exception]
) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = bytes(client.wrap(KEY, "hr"))
    rotated(key)
    key.versions[1].enabled = newest_enabled
    fake.denied.add("list")
    with pytest.raises(kind, match="needs the permission keys/list"):
        client.unwrap(wrapped, "hr")


def test_noted_version_spares_the_rescue_and_its_permission(fake: FakeAzure) -> None:
    client = client_of(fake)
    wrapped = client.wrap(KEY, "hr")
    altered = WrappedKey(wrapped[:-1] + bytes([wrapped[-1] ^ 1]), wrapped.properties)
    with pytest.raises(WrongKeyError):
        client.unwrap(altered, "hr")
    assert [seen.method for seen in fake.seen] == ["POST", "POST"]


@pytest.mark.parametrize("noted", ["../other", "a/b", "", "x?y", "é"])
def test_noted_version_that_is_none_never_reaches_the_service(fake: FakeAzure, noted: str) -> None:
    """It comes from table metadata, which lie in storage."""
    with pytest.raises(WrongKeyError, match="is not a key version"):
        client_of(fake).unwrap(WrappedKey(bytes(256), {"azure.key-version": noted}), "hr")
    assert fake.seen == []


# -- failures


@pytest.mark.parametrize(("status", "code"), [(429, "Throttled"), (500, "InternalError"), (503, "Busy"), (408, "Slow")])
def test_passing_trouble_is_outwaited(fake: FakeAzure, status: int, code: str) -> None:
    fake.fail(status, code, 2)
    assert client_of(fake).wrap(KEY, "hr")
    assert len(fake.seen) == 3


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "Forbidden", AccessDeniedError),
        (404, "KeyNotFound", KeyNotFoundError),
        (400, "BadParameter", ConfigError),
        (409, "Conflict", KeyAccessError),
        (302, "Elsewhere", KeyAccessError),
    ],
)
def test_what_will_not_pass_is_tried_once(fake: FakeAzure, status: int, code: str, kind: type[Exception]) -> None:
    fake.fail(status, code, 99)
    with pytest.raises(kind, match=f"{status} {code}: because") as caught:
        client_of(fake).wrap(KEY, "hr")
    assert type(caught.value) is kind
    assert len(fake.seen) == 1


def test_disabled_version_is_tried_once_and_named_with_the_request(fake: FakeAzure) -> None:
    client = client_of(fake)
    wrapped = client.wrap(KEY, "hr")
    fake.keys["hr"].versions[0].enabled = False
    with pytest.raises(KeyDisabledError, match="disabled key") as caught:
        client.unwrap(wrapped, "hr")
    assert caught.value.context == {"provider": "azure", "key_id": "hr", "request_id": "b1946ac9-request"}
    assert len(fake.seen) == 2


def test_patience_ends_after_its_attempts_whatever_retry_after_says(fake: FakeAzure) -> None:
    fake.fail(429, "Throttled", 99)
    with pytest.raises(KmsThrottledError, match="attempts 5"):
        client_of(fake).wrap(KEY, "hr")
    assert len(fake.seen) == 5  # the SDK adds none of its own, and does not sleep the 60 s asked for


def test_silent_server_is_asked_as_often_as_patience_allows(fake: FakeAzure) -> None:
    fake.hang.set()
    try:
        with pytest.raises(KmsUnavailableError, match="Timeout"):
            client_of(fake, QUICK).wrap(KEY, "hr")
    finally:
        fake.hang.clear()
    assert len(fake.seen) == QUICK.max_attempts


def test_refused_token_is_access_denied(fake: FakeAzure) -> None:
    settings = client_of(fake).settings
    with pytest.raises(AccessDeniedError, match="the credentials were refused"):
        AzureKms(settings, credential=StaticToken("stale"), retry_policy=QUICK).wrap(KEY, "hr")


@pytest.mark.parametrize("answer", [{"value": "AAAA"}, {"kid": "x", "value": "oKGio6Slpqeoqaqr!"}, {"kid": "x"}, []])
def test_answer_that_makes_no_sense_is_no_answer_and_is_not_quoted(
    fake: FakeAzure, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setattr(fake, "answer", lambda _: answer)
    with pytest.raises(KmsUnavailableError, match="the response to unwrapkey is malformed") as caught:
        client_of(fake, QUICK).unwrap(WrappedKey(bytes(256), {"azure.key-version": "a1"}), "hr")
    assert "oKGio" not in str(caught.value)


# -- configuration


def test_untrusted_certificate_ends_the_conversation(fake: FakeAzure) -> None:
    kms = AzureKms(AzureSettings(fake.url), credential=StaticToken(), retry_policy=QUICK)
    with pytest.raises(KmsUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        kms.wrap(KEY, "hr")
    assert fake.seen == []


def test_missing_ca_file_is_a_configuration_error(fake: FakeAzure, tmp_path: Path) -> None:
    settings = AzureSettings(fake.url, ca_file=str(tmp_path / "none.pem"))
    with pytest.raises(ConfigError, match=r"none\.pem"):
        AzureKms(settings, credential=StaticToken(), retry_policy=QUICK).wrap(KEY, "hr")


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
        kms = AzureKms(AzureSettings(fake.url, ca_file=str(fake.ca_file)), credential=StaticToken(), retry_policy=QUICK)
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
    kms = AzureKms(client_of(fake).settings, credential=StaticToken("eyJ0-token\n"), retry_policy=QUICK)
    with pytest.raises(ConfigError, match="a character that an HTTP header may not hold") as caught:
        kms.wrap(KEY, "hr")
    assert "eyJ0" not in "".join(traceback.format_exception(caught.value))


def test_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.keyvault.keys", None)
    monkeypatch.delitem(sys.modules, "sealberg.keys.kms.azure")
    with pytest.raises(ConfigError, match=r"needs the package azure\.keyvault\.keys: pip install 'sealberg\[azure\]'"):
        client_from_properties({"encryption.kms-type": "azure"})


# -- processes


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
