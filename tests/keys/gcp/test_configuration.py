"""Properties, credentials, TLS, secrets that nothing shows, and clients in other processes."""

from __future__ import annotations

import base64
import json
import logging
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kit.servers.fake_azure import self_signed
from kit.servers.fake_gcp import FakeGcp
from kit.servers.gcp_kms import HR, client_of
from kit.servers.kms import KEY, TWICE
from sealberg.errors import ConfigError
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.kms.gcp import GcpKms, GcpSettings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"endpoint": "kms.example.com:443", "insecure-channel": "true"}, "loopback addresses only"),
        ({"insecure-channel": "true"}, "loopback addresses only"),
        ({"endpoint": "https://kms.example.com"}, "must be host or host:port"),
        ({"endpoint": "127.0.0.1:1", "insecure-channel": "maybe"}, "true or false"),
    ],
)
def test_property_that_cannot_be_right_is_refused_at_once(properties: dict[str, str], said: str) -> None:
    named = {f"encryption.kms.gcp.{name}": value for name, value in properties.items()}
    with pytest.raises(ConfigError, match=said):
        client_from_properties({"encryption.kms-type": "gcp", **named})


def test_java_class_name_finds_this_client_and_its_token() -> None:
    client = client_from_properties(
        {"encryption.kms-impl": "org.apache.iceberg.gcp.GcpKeyManagementClient", "gcs.oauth2.token": "ya29.secret"}
    )
    assert isinstance(client, GcpKms)
    assert client.settings.credentials().token == "ya29.secret"
    assert "ya29" not in repr(client)


@pytest.mark.parametrize("content", [None, "no json: -----BEGIN PRIVATE KEY-----", '{"type": "service_account"}'])
def test_bad_credentials_file_is_named_and_not_shown(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "kms.json"
    if content is not None:
        file.write_text(content)
    client = GcpKms.from_properties({"encryption.kms.gcp.credentials-file": str(file)})
    with pytest.raises(ConfigError, match=r"credentials-file .*kms\.json") as caught:
        client.wrap(KEY, HR)
    assert caught.value.__cause__ is None
    assert "PRIVATE" not in str(caught.value)


def test_credentials_file_goes_before_a_token_that_may_be_for_storage_only(tmp_path: Path) -> None:
    account = {
        "type": "service_account",
        "client_email": "kms@lake.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
        "private_key": self_signed()[0].decode(),
    }
    file = tmp_path / "kms.json"
    file.write_text(json.dumps(account))
    settings = GcpSettings(token="ya29.storage", credentials_file=str(file))
    made = settings.credentials()
    assert made.service_account_email == "kms@lake.iam.gserviceaccount.com"
    assert made.scopes == ["https://www.googleapis.com/auth/cloudkms"]


def test_no_default_credentials_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match=r"DefaultCredentialsError.*none\.json"):
        GcpKms(retry_policy=TWICE).wrap(KEY, HR)


def test_debug_log_of_the_sdk_tells_no_key(fake: FakeGcp, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    google = logging.getLogger("google")
    spoken = logging.getLogger("google.cloud.kms_v1.services.key_management_service.transports.grpc")
    told: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = told.append  # type: ignore[method-assign, assignment]
    propagates, level = google.propagate, google.level
    google.addHandler(handler)
    google.setLevel(logging.DEBUG)
    try:
        assert spoken.isEnabledFor(logging.DEBUG)
        client = client_of(fake)
        client.unwrap(client.wrap(KEY, HR), HR)
    finally:
        google.removeHandler(handler)
        google.setLevel(level)
        google.propagate = propagates
    logged = "".join(record.getMessage() + repr(record.__dict__) for record in [*told, *caplog.records])
    for secret in (KEY.hex(), base64.b64encode(KEY).decode(), repr(KEY), repr(KEY)[2:-1].replace("\\", "\\\\")):
        assert secret not in logged


def test_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud.kms_v1", None)
    monkeypatch.delitem(sys.modules, "sealberg.keys.kms.gcp")
    monkeypatch.delattr("google.cloud.kms_v1")  # `from google.cloud import` looks there first
    with pytest.raises(ConfigError, match=r"pip install 'sealberg\[gcp\]'"):
        client_from_properties({"encryption.kms-type": "gcp"})


def test_pickle_carries_settings_and_no_channel(fake: FakeGcp) -> None:
    client = client_of(fake)
    client.wrap(KEY, HR)
    again = pickle.loads(pickle.dumps(client))
    assert (again.settings, again.retry_policy) == (client.settings, client.retry_policy)
    assert b"grpc" not in pickle.dumps(client)


def run(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_token_is_sent_over_tls(tmp_path: Path) -> None:
    key, certificate = self_signed()
    (tmp_path / "ca.pem").write_bytes(certificate)
    script = (
        "import sys; from sealberg.keys.kms.gcp import *; name = sys.argv[2]\n"
        "kms = GcpKms.from_properties({ENDPOINT: sys.argv[1], TOKEN: 'ya29.secret'})\n"
        "assert kms.unwrap(kms.wrap(b'k' * 16, name), name) == b'k' * 16\n"
    )
    with FakeGcp(certificate=(key, certificate)) as fake:
        fake.create("hr")
        run(script, f"localhost:{fake.port}", HR, GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=str(tmp_path / "ca.pem"))
        assert [seen.metadata["authorization"] for seen in fake.seen] == ["Bearer ya29.secret"] * 2


def test_forked_child_makes_a_channel_of_its_own(fake: FakeGcp) -> None:
    script = (
        "import os, sys; from sealberg.keys.kms.gcp import *; name = sys.argv[2]\n"
        "kms = GcpKms.from_properties({ENDPOINT: sys.argv[1], INSECURE: 'true'})\n"
        "wrapped = kms.wrap(b'k' * 16, name); parent = kms.connection; child = os.fork()\n"
        "assert kms.unwrap(wrapped, name) == b'k' * 16\n"
        "assert (kms.connection is parent) == bool(child)\n"
        "if not child: os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    run(script, fake.endpoint, HR)
    assert [seen.method for seen in fake.seen] == ["Encrypt", "Decrypt", "Decrypt"]


@pytest.mark.slow
def test_sdk_is_imported_only_when_its_client_is_named() -> None:
    run(
        "import sys, sealberg.keys.kms.client as k; assert 'google.cloud.kms_v1' not in sys.modules\n"
        "k.client_from_properties({'encryption.kms-type': 'gcp'}); assert 'google.cloud.kms_v1' in sys.modules\n"
    )
