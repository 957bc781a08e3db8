"""The Google Cloud client against a gRPC server that speaks google-cloud-kms's own messages."""

from __future__ import annotations

import base64
import json
import logging
import os
import pickle
import socket
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from kit.servers.fake_azure import self_signed
from kit.servers.fake_gcp import RING, FakeGcp, State
from kit.servers.kms import KEY, KmsConformance, Provoked, Rig
from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyAccessError,
    KeyDestroyedError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsThrottledError,
    KmsUnavailableError,
    WrongKeyError,
)
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.kms.gcp import GcpKms, GcpSettings, crc32c
from sealberg.keys.kms.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

QUICK = RetryPolicy(connect_timeout_s=0.1, read_timeout_s=0.2, total_timeout_s=5, max_attempts=2, backoff_s=0.001)
PATIENT = RetryPolicy(read_timeout_s=2, backoff_s=0.001)
HR = f"{RING}/hr"


@pytest.fixture(scope="module")
def server() -> Iterator[FakeGcp]:
    with FakeGcp() as fake:
        yield fake


@pytest.fixture
def fake(server: FakeGcp) -> FakeGcp:
    server.keys.clear()
    server.seen.clear()
    server.faults.clear()
    server.garble.clear()
    server.denied.clear()
    server.create("hr")
    return server


def client_of(fake: FakeGcp, retry_policy: RetryPolicy = PATIENT) -> GcpKms:
    return _client(fake.endpoint, retry_policy)


@cache
def _client(endpoint: str, retry_policy: RetryPolicy) -> GcpKms:
    return GcpKms(GcpSettings(endpoint=endpoint, insecure_channel=True), retry_policy)


class GcpRig(Rig):
    key_id = HR

    def __init__(self, fake: FakeGcp) -> None:
        self.fake = fake
        self.client = client_of(fake)

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        fake, quick = self.fake, client_of(self.fake, QUICK)
        wrapped = self.client.wrap(KEY, HR)
        world = Provoked(quick, HR, wrapped)
        if failure == "not_found":
            world.key_id = f"{RING}/nobody"
        elif failure == "denied":
            fake.denied.add("Decrypt")
        elif failure == "disabled":
            fake.keys[HR].versions[0].state = State.DISABLED
        elif failure == "destroyed":
            fake.keys[HR].versions[0].state = State.DESTROY_SCHEDULED
        elif failure == "wrong_key":
            world.key_id = fake.create("other").name
        elif failure == "corrupt":
            world.wrapped = wrapped[:-1] + bytes([wrapped[-1] ^ 1])
        elif failure == "throttled":
            fake.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, 99)
        elif failure == "server_error":
            fake.fail(grpc.StatusCode.INTERNAL, 99)
        elif failure == "timeout":
            fake.hang.set()
        elif failure == "refused":
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
            world.client = GcpKms(GcpSettings(endpoint=f"127.0.0.1:{port}", insecure_channel=True), QUICK)
        elif failure == "misconfigured":
            world.key_id = f"{HR}/cryptoKeyVersions/1"
        try:
            yield world
        finally:
            fake.hang.clear()


class TestGcpKms(KmsConformance):
    @pytest.fixture
    def rig(self, fake: FakeGcp) -> GcpRig:
        return GcpRig(fake)


# -- what is sent, and what is checked


def test_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


def test_sends_what_java_sends_and_checksums(fake: FakeGcp) -> None:
    client = client_of(fake)
    wrapped = client.wrap(KEY, HR)
    client.unwrap(wrapped, HR)
    encrypt, decrypt = fake.seen
    assert (encrypt.method, encrypt.request.name, encrypt.request.plaintext) == ("Encrypt", HR, KEY)
    assert (decrypt.method, decrypt.request.name, decrypt.request.ciphertext) == ("Decrypt", HR, wrapped)
    assert encrypt.request.plaintext_crc32c == crc32c(KEY)
    assert decrypt.request.ciphertext_crc32c == crc32c(wrapped)
    assert "sealberg/" in encrypt.metadata["x-goog-api-client"] + encrypt.metadata["user-agent"]


def _flip_ciphertext(answer: Any) -> None:
    answer.ciphertext = bytes([answer.ciphertext[0] ^ 1]) + answer.ciphertext[1:]


def _flip_plaintext(answer: Any) -> None:
    answer.plaintext = bytes([answer.plaintext[0] ^ 1]) + answer.plaintext[1:]


def _unverified(answer: Any) -> None:
    answer.verified_plaintext_crc32c = False


def _no_checksum(answer: Any) -> None:
    answer.plaintext_crc32c = None


@pytest.mark.parametrize("garble", [_flip_ciphertext, _unverified])
def test_wrapped_key_that_was_altered_on_its_way_is_asked_for_again(
    fake: FakeGcp, garble: Callable[[Any], None]
) -> None:
    fake.garble = [garble] * 2
    client = client_of(fake)
    wrapped = client.wrap(KEY, HR)
    assert len(fake.seen) == 3
    assert client.unwrap(wrapped, HR) == KEY


@pytest.mark.parametrize("garble", [_flip_plaintext, _no_checksum])
def test_key_that_was_altered_on_its_way_is_never_returned(fake: FakeGcp, garble: Callable[[Any], None]) -> None:
    client = client_of(fake, QUICK)
    wrapped = client.wrap(KEY, HR)
    fake.garble = [garble] * 99
    with pytest.raises(KmsUnavailableError, match="checksum failed"):
        client.unwrap(wrapped, HR)
    assert len(fake.seen) == 1 + QUICK.max_attempts


@pytest.mark.parametrize("field", ["plaintext_crc32c", "ciphertext_crc32c"])
def test_request_that_was_altered_on_its_way_is_sent_again(fake: FakeGcp, field: str) -> None:
    client = client_of(fake)
    wrapped = client.wrap(KEY, HR)
    fake.fail(grpc.StatusCode.INVALID_ARGUMENT, 2, f"The checksum in field {field} did not match the data.")
    if field == "ciphertext_crc32c":
        assert client.unwrap(wrapped, HR) == KEY
    else:
        client.wrap(KEY, HR)
    assert len(fake.seen) == 4


def test_describe_tells_the_state_of_the_primary_version(fake: FakeGcp) -> None:
    fake.keys[HR].rotate()
    facts = client_of(fake).describe(HR)
    assert (facts["purpose"], facts["primary version"], facts["primary state"]) == ("ENCRYPT_DECRYPT", "2", "ENABLED")


# -- key ids


@pytest.mark.parametrize(
    "key_id",
    [
        "hr",
        "",
        f"{HR}/cryptoKeyVersions/1",
        f"/{HR}",
        f"{HR}/",
        f"//cloudkms.googleapis.com/{HR}",
        f"{HR}\n",
        "projects//locations/x/keyRings/y/cryptoKeys/z",
    ],
)
def test_anything_but_a_full_crypto_key_name_is_refused_unasked(fake: FakeGcp, key_id: str) -> None:
    client = client_of(fake)
    for act in (lambda: client.wrap(KEY, key_id), lambda: client.unwrap(KEY, key_id), lambda: client.describe(key_id)):
        with pytest.raises(ConfigError, match=r"gcp key id is .*, expected projects/"):
            act()
    assert fake.seen == []


def test_version_name_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="leave out the version"):
        GcpKms().wrap(KEY, f"{HR}/cryptoKeyVersions/7")


# -- rotation


def test_old_blobs_open_after_rotation_until_their_version_is_gone(fake: FakeGcp) -> None:
    client, key = client_of(fake), fake.keys[HR]
    old = client.wrap(KEY, HR)
    key.rotate()
    new = client.rewrap(old, HR)
    assert (old[0], new[0]) == (1, 2)
    assert client.unwrap(old, HR) == KEY
    key.versions[0].state = State.DISABLED
    with pytest.raises(KeyDisabledError, match="cryptoKeyVersions/1 is not enabled"):
        client.unwrap(old, HR)
    key.versions[0].state = State.DESTROYED
    with pytest.raises(KeyDestroyedError, match="DESTROYED"):
        client.unwrap(old, HR)
    assert client.unwrap(new, HR) == KEY


# -- failures


@pytest.mark.parametrize(
    "code",
    ["RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "ABORTED", "CANCELLED"],
)
def test_passing_trouble_is_outwaited(fake: FakeGcp, code: str) -> None:
    fake.fail(grpc.StatusCode[code], 2)
    assert client_of(fake).wrap(KEY, HR)
    assert len(fake.seen) == 3


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("NOT_FOUND", KeyNotFoundError),
        ("PERMISSION_DENIED", AccessDeniedError),
        ("UNAUTHENTICATED", AccessDeniedError),
        ("FAILED_PRECONDITION", KeyDisabledError),
        ("INVALID_ARGUMENT", WrongKeyError),
        ("UNIMPLEMENTED", ConfigError),
        ("OUT_OF_RANGE", KeyAccessError),
    ],
)
def test_what_will_not_pass_is_tried_once(fake: FakeGcp, code: str, kind: type[Exception]) -> None:
    fake.fail(grpc.StatusCode[code], 99)
    with pytest.raises(kind, match="because") as caught:
        client_of(fake).unwrap(bytes(50), HR)
    assert type(caught.value) is kind
    assert len(fake.seen) == 1


def test_invalid_argument_of_wrap_is_a_configuration_error(fake: FakeGcp) -> None:
    fake.fail(grpc.StatusCode.INVALID_ARGUMENT, 1)
    with pytest.raises(ConfigError, match=f"{HR}.*because"):
        client_of(fake).wrap(KEY, HR)


def test_denial_says_that_the_key_may_not_exist(fake: FakeGcp) -> None:
    fake.denied.add("Encrypt")
    with pytest.raises(AccessDeniedError, match="denied, or no such key") as caught:
        client_of(fake).wrap(KEY, HR)
    assert caught.value.context == {"provider": "gcp", "key_id": HR, "request_id": "4711-request"}


def test_patience_ends_after_its_attempts_and_says_so(fake: FakeGcp) -> None:
    fake.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, 99)
    with pytest.raises(KmsThrottledError, match="attempts 5"):
        client_of(fake).wrap(KEY, HR)
    assert len(fake.seen) == 5  # the SDK adds none of its own


def test_silent_server_is_asked_as_often_as_patience_allows(fake: FakeGcp) -> None:
    fake.hang.set()
    try:
        with pytest.raises(KmsUnavailableError, match="DeadlineExceeded"):
            client_of(fake, QUICK).wrap(KEY, HR)
    finally:
        fake.hang.clear()
    assert len(fake.seen) == QUICK.max_attempts


# -- configuration


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
        GcpKms(retry_policy=QUICK).wrap(KEY, HR)


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


# -- processes


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
