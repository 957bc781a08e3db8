"""Credentials, regions, properties, secrets that nothing shows, and clients in other processes and threads."""

from __future__ import annotations

import base64
import logging
import pickle
import subprocess
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from kit.servers.aws_kms import SECRET, WHO, MotoRig, client_of
from kit.servers.kms import KEY, TWICE
from sealberg.errors import ConfigError
from sealberg.keys.kms.aws import AwsKms, AwsSettings
from sealberg.keys.kms.client import client_from_properties

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kit.servers.fake_aws import FakeAws


def test_role_is_assumed_and_its_credentials_sign(
    fake: FakeAws, moto: MotoRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto.url)
    role = {"client.role-arn": "arn:aws:iam::123456789012:role/reader", "client.role-session-name": "nightly"}
    client_of(fake, more=role).wrap(KEY, fake.create().arn)
    assert fake.seen[0].caller.startswith("ASIA")


def test_role_that_cannot_be_assumed_for_want_of_credentials_is_a_configuration_error(fake: FakeAws) -> None:
    settings = AwsSettings(endpoint=fake.url, region="eu-central-1", role_arn="arn:aws:iam::123456789012:role/reader")
    with pytest.raises(ConfigError, match="Unable to locate credentials"):
        AwsKms(settings, TWICE).wrap(KEY, "alias/any")


def test_region_and_credentials_come_from_the_environment_if_not_given(
    fake: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDFROMENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    AwsKms.from_properties({"kms.endpoint": fake.url}).wrap(KEY, fake.create().arn)
    assert (fake.seen[0].caller, fake.seen[0].region) == ("AKIDFROMENV", "ap-south-1")


@pytest.mark.slow
def test_profile_brings_region_and_credentials(fake: FakeAws, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "[profile lake]\nregion = us-west-2\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = x\n"
    )
    AwsKms(AwsSettings(endpoint=fake.url, profile_name="lake")).wrap(KEY, fake.create().arn)
    assert (fake.seen[0].caller, fake.seen[0].region) == ("AKIDPROFILE", "us-west-2")


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "region"),
        ({"client.region": "eu-central-1"}, "credentials"),
        ({"client.profile-name": "nobody", "client.region": "eu-central-1"}, "nobody"),
    ],
)
def test_missing_region_credentials_or_profile_is_a_configuration_error(
    properties: Mapping[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        AwsKms(AwsSettings.from_properties(properties), TWICE).wrap(KEY, "alias/any")


def test_empty_key_id_is_a_configuration_error(fake: FakeAws) -> None:
    with pytest.raises(ConfigError, match="KeyId"):
        client_of(fake).wrap(KEY, "")
    assert fake.seen == []


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"kms.endpoint": "http://kms.example.com"}, "must be https unless it is a loopback address"),
        ({"kms.endpoint": "kms.example.com:443"}, "https URL"),
        ({"kms.encryption-algorithm-spec": "ROT13"}, "must be one of SYMMETRIC_DEFAULT"),
        ({"client.access-key-id": "AKID"}, "expected both"),
        ({"encryption.kms.max-attempts": "none"}, "max-attempts must be"),
    ],
)
def test_property_that_cannot_be_right_is_refused_at_once(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        client_from_properties({"encryption.kms-type": "aws", **properties})


def test_java_class_name_finds_this_client(fake: FakeAws) -> None:
    client = client_from_properties(
        {**WHO, "encryption.kms-impl": "org.apache.iceberg.aws.AwsKeyManagementClient", "kms.endpoint": fake.url}
    )
    assert isinstance(client, AwsKms)
    assert client.settings.region == "eu-central-1"


def test_secret_is_shown_by_no_repr(fake: FakeAws) -> None:
    client = client_of(fake, more={"client.session-token": "FwoG-token"})
    shown = repr(client) + str(client.settings)
    assert fake.url in shown
    assert SECRET not in shown
    assert "FwoG-token" not in shown


def test_debug_log_of_the_sdk_tells_no_key(fake: FakeAws, caplog: pytest.LogCaptureFixture) -> None:
    key = fake.create()
    caplog.set_level(logging.DEBUG)
    client = client_of(fake)
    client.unwrap(client.wrap(KEY, key.arn), key.arn)
    assert any(record.name.startswith("botocore") for record in caplog.records)
    logged = "".join(record.getMessage() + repr(record.__dict__) for record in caplog.records)
    for secret in (KEY.hex(), base64.b64encode(KEY).decode(), repr(KEY), SECRET):
        assert secret not in logged


def test_token_with_a_line_end_is_refused_and_not_quoted(fake: FakeAws) -> None:
    """As when it was read from a file; the SDK's own error shows the whole header."""
    kms = client_of(fake, more={"client.session-token": "FwoG-token\n"})
    with pytest.raises(ConfigError, match="a character that an HTTP header may not hold") as caught:
        kms.wrap(KEY, "alias/any")
    assert "FwoG" not in "".join(traceback.format_exception(caught.value))


def test_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "sealberg.keys.kms.aws")
    with pytest.raises(ConfigError, match=r"needs the package boto3: pip install 'sealberg\[aws\]'"):
        client_from_properties({"encryption.kms-type": "aws"})


# -- processes and threads


def test_pickle_carries_settings_and_no_connection(fake: FakeAws) -> None:
    client = client_of(fake)
    client.wrap(KEY, fake.create().arn)
    pickled = pickle.dumps(client)
    assert b"botocore" not in pickled
    again = pickle.loads(pickled)
    assert (again.settings, again.retry_policy) == (client.settings, client.retry_policy)


def test_threads_share_one_connection(fake: FakeAws) -> None:
    key = fake.create()
    client = client_of(fake)
    found: list[Any] = []

    def work() -> None:
        found.append((client.unwrap(client.wrap(KEY, key.arn), key.arn), id(client.connection)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert {key for key, _ in found} == {KEY}
    assert len({connection for _, connection in found}) == 1


def test_sdk_is_imported_only_when_its_client_is_named() -> None:
    look = (
        "import sys, sealberg.keys.kms.client as k; assert 'boto3' not in sys.modules; "
        "k.client_from_properties({'encryption.kms-type': 'aws'}); assert 'boto3' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", look], check=True)
