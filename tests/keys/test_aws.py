"""The AWS client against moto, and against a fake that is strict where moto is not."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from kit.servers.fake_aws import FakeAws
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
from sealberg.keys.kms.aws import AwsKms, AwsSettings
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.kms.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SECRET = "wJalrXUtnFEMI-very-secret"
WHO = {
    "client.region": "eu-central-1",
    "client.access-key-id": "AKIDEXAMPLE",
    "client.secret-access-key": SECRET,
}
QUICK = RetryPolicy(connect_timeout_s=1, read_timeout_s=0.3, total_timeout_s=5, max_attempts=2, backoff_s=0.001)
PATIENT = RetryPolicy(read_timeout_s=2, backoff_s=0.001)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeAws]:
    with FakeAws() as fake:
        yield fake


@pytest.fixture
def fake(server: FakeAws) -> FakeAws:
    server.seen.clear()
    server.faults.clear()
    server.denied.clear()
    return server


@pytest.fixture(autouse=True)
def no_configuration_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def client_of(fake: FakeAws, retry_policy: RetryPolicy = PATIENT, more: Mapping[str, str] | None = None) -> AwsKms:
    return _client(retry_policy, tuple({"kms.endpoint": fake.url, **WHO, **(more or {})}.items()))


@cache  # a client of boto3 takes a tenth of a second to make
def _client(retry_policy: RetryPolicy, properties: tuple[tuple[str, str], ...]) -> AwsKms:
    return AwsKms(AwsSettings.from_properties(dict(properties)), retry_policy)


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


class AwsRig(Rig):
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        self.key = fake.create(alias="alias/hr")
        self.key_id = self.key.arn
        self.client = client_of(fake)

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        wrapped = self.client.wrap(KEY, self.key_id)
        quick = client_of(self.fake, QUICK)
        if failure == "not_found":
            yield Provoked(quick, "alias/nobody", wrapped)
        elif failure == "denied":
            self.fake.denied.add("Decrypt")
            yield Provoked(quick, self.key_id, wrapped)
        elif failure in {"disabled", "destroyed"}:
            self.key.state = "Disabled" if failure == "disabled" else "pending deletion"
            try:
                yield Provoked(quick, self.key_id, wrapped)
            finally:
                self.key.state = "Enabled"
        elif failure == "wrong_key":
            yield Provoked(quick, self.fake.create().arn, wrapped)
        elif failure == "corrupt":
            yield Provoked(quick, self.key_id, wrapped[:-1] + bytes([wrapped[-1] ^ 1]))
        elif failure == "throttled":
            self.fake.fail("ThrottlingException", 99, "Rate exceeded")
            yield Provoked(quick, self.key_id, wrapped)
        elif failure == "server_error":
            self.fake.fail("KMSInternalException", 99)
            yield Provoked(quick, self.key_id, wrapped)
        elif failure == "timeout":
            self.fake.hang.set()
            try:
                yield Provoked(quick, self.key_id, wrapped)
            finally:
                self.fake.hang.clear()
        elif failure == "refused":
            nobody = AwsSettings.from_properties({**WHO, "kms.endpoint": f"http://127.0.0.1:{unused_port()}"})
            yield Provoked(AwsKms(nobody, QUICK), self.key_id, wrapped)
        elif failure == "misconfigured":
            yield Provoked(
                client_of(self.fake, QUICK, {"kms.encryption-algorithm-spec": "RSAES_OAEP_SHA_256"}),
                self.key_id,
                wrapped,
            )


class TestAwsKms(KmsConformance):
    @pytest.fixture
    def rig(self, fake: FakeAws) -> AwsRig:
        return AwsRig(fake)


class MotoRig(Rig):
    """The happy path again, against a server of other hands."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = AwsKms.from_properties({**WHO, "kms.endpoint": url})
        admin = boto3.client(
            "kms", endpoint_url=url, region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        self.key_id = admin.create_key()["KeyMetadata"]["Arn"]

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        wrapped = self.client.wrap(KEY, self.key_id)
        if failure == "not_found":
            yield Provoked(self.client, "alias/nobody", wrapped)
        elif failure == "corrupt":
            yield Provoked(self.client, self.key_id, wrapped[:-1] + bytes([wrapped[-1] ^ 1]))

    impossible = dict.fromkeys(
        [
            "denied",
            "disabled",
            "destroyed",
            "wrong_key",
            "throttled",
            "server_error",
            "timeout",
            "refused",
            "misconfigured",
        ],
        "moto ignores it or answers otherwise than AWS; TestAwsKms covers it",
    )


class TestAwsKmsOnMoto(KmsConformance):
    @pytest.fixture
    def rig(self, moto: MotoRig) -> MotoRig:
        return moto


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoRig]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield MotoRig(f"http://{host}:{port}")
    server.stop()


# -- what is sent


def test_sends_what_java_sends_and_nothing_else(fake: FakeAws) -> None:
    key = fake.create()
    client = client_of(fake)
    wrapped = client.wrap(KEY, key.arn)
    client.unwrap(wrapped, key.arn)
    same = {"KeyId": key.arn, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}
    assert [(seen.operation, seen.body) for seen in fake.seen] == [
        ("Encrypt", {**same, "Plaintext": base64.b64encode(KEY).decode()}),
        ("Decrypt", {**same, "CiphertextBlob": base64.b64encode(wrapped).decode()}),
    ]
    assert "sealberg/" in fake.seen[0].agent
    assert fake.seen[0].region == "eu-central-1"


def test_key_id_goes_as_it_is_written(fake: FakeAws) -> None:
    key = fake.create(alias="alias/as-written")
    client = client_of(fake)
    for key_id in (key.id, key.arn, "alias/as-written", key.arn.replace(f"key/{key.id}", "alias/as-written")):
        client.unwrap(client.wrap(KEY, key_id), key_id)
        assert {seen.body["KeyId"] for seen in fake.seen[-2:]} == {key_id}


def test_generate_makes_the_key_here_and_asks_only_to_encrypt_it(fake: FakeAws) -> None:
    client_of(fake).generate(16, fake.create().arn)
    assert [seen.operation for seen in fake.seen] == ["Encrypt"]


def test_rewrap_asks_the_server_and_never_sees_the_key(fake: FakeAws) -> None:
    key = fake.create()
    client = client_of(fake)
    old = client.wrap(KEY, key.arn)
    key.rotate()
    fake.denied |= {"Encrypt", "Decrypt"}
    new = client.rewrap(old, key.arn)
    assert fake.seen[-1].operation == "ReEncrypt"
    fake.denied.clear()
    assert (old[36], new[36]) == (0, 1)  # the material that wrapped it
    assert client.unwrap(new, key.arn) == KEY


def test_rsa_key_wraps_with_the_algorithm_that_was_configured(fake: FakeAws) -> None:
    key = fake.create(asymmetric=True)
    client = client_of(fake, more={"kms.encryption-algorithm-spec": "RSAES_OAEP_SHA_256"})
    wrapped = client.wrap(KEY, key.arn)
    assert len(wrapped) == 256
    assert client.unwrap(wrapped, key.arn) == KEY


def test_describe_tells_the_state_of_the_key(fake: FakeAws) -> None:
    key = fake.create(alias="alias/described")
    key.state = "Disabled"
    facts = client_of(fake).describe("alias/described")
    assert (facts["Arn"], facts["KeyState"]) == (key.arn, "Disabled")


# -- rotation


def test_old_blobs_open_after_rotation(fake: FakeAws) -> None:
    key = fake.create()
    client = client_of(fake)
    old = client.wrap(KEY, key.arn)
    key.rotate()
    assert client.unwrap(old, key.arn) == KEY
    assert client.wrap(KEY, key.arn)[36] == 1


def test_retargeted_alias_is_told_as_what_it_probably_is(fake: FakeAws) -> None:
    fake.create(alias="alias/moved")
    client = client_of(fake)
    wrapped = client.wrap(KEY, "alias/moved")
    fake.create(alias="alias/moved")
    with pytest.raises(WrongKeyError, match="alias probably points at another key now") as caught:
        client.unwrap(wrapped, "alias/moved")
    assert caught.value.context == {
        "provider": "aws",
        "key_id": "alias/moved",
        "request_id": "7c2a0b6e-request",
    }


# -- failures


@pytest.mark.parametrize(
    "code",
    [
        "ThrottlingException",
        "LimitExceededException",
        "KMSInternalException",
        "KeyUnavailableException",
        "DependencyTimeoutException",
    ],
)
def test_passing_trouble_is_outwaited(fake: FakeAws, code: str) -> None:
    key = fake.create()
    fake.fail(code, 2)
    assert len(client_of(fake).wrap(KEY, key.arn)) > 32
    assert len(fake.seen) == 3


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("AccessDeniedException", 400, AccessDeniedError),
        ("ExpiredTokenException", 400, AccessDeniedError),
        ("UnrecognizedClientException", 400, AccessDeniedError),
        ("SomethingNewException", 403, AccessDeniedError),
        ("NotFoundException", 400, KeyNotFoundError),
        ("DisabledException", 400, KeyDisabledError),
        ("IncorrectKeyException", 400, WrongKeyError),
        ("InvalidCiphertextException", 400, WrongKeyError),
        ("InvalidKeyUsageException", 400, ConfigError),
        ("ValidationException", 400, ConfigError),
        ("SomethingNewException", 400, KeyAccessError),
    ],
)
def test_what_will_not_pass_is_tried_once(fake: FakeAws, code: str, status: int, kind: type[Exception]) -> None:
    fake.fail(code, 99, "because", status)
    with pytest.raises(kind, match=f"{code}: because") as caught:
        client_of(fake).unwrap(bytes(80), "alias/any")
    assert type(caught.value) is kind
    # Where there is no such key, it asks once which ones there are.
    assert len(fake.seen) == (2 if kind is KeyNotFoundError else 1)


def test_a_key_that_is_not_there_is_told_with_those_that_are_if_that_may_be_asked(fake: FakeAws) -> None:
    fake.create(alias="alias/hr")
    fake.create(alias="alias/finance")
    with pytest.raises(KeyNotFoundError, match=r"does not exist.*; existing keys: .*alias/finance, alias/hr"):
        client_of(fake).wrap(KEY, "alias/pay")
    fake.denied = {"ListAliases"}
    with pytest.raises(KeyNotFoundError, match="does not exist") as caught:
        client_of(fake).wrap(KEY, "alias/pay")
    assert "existing keys" not in str(caught.value)


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("pending deletion", KeyDestroyedError),
        ("pending replica deletion", KeyDestroyedError),
        ("pending import", KeyDisabledError),  # its material expired, and can be imported again
        ("unavailable", KeyDisabledError),  # its custom key store is disconnected
    ],
)
def test_invalid_state_is_told_apart_by_the_state(fake: FakeAws, state: str, kind: type[Exception]) -> None:
    key = fake.create()
    key.state = state
    with pytest.raises(kind, match=state):
        client_of(fake).wrap(KEY, key.arn)
    assert len(fake.seen) == 1


@pytest.mark.parametrize(("status", "kind"), [(503, KmsUnavailableError), (429, KmsThrottledError)])
def test_unknown_code_is_judged_by_its_http_status(fake: FakeAws, status: int, kind: type[Exception]) -> None:
    fake.fail("SomethingNewException", 99, status=status)
    with pytest.raises(kind) as caught:
        client_of(fake, QUICK).wrap(KEY, "alias/any")
    assert type(caught.value) is kind
    assert len(fake.seen) == QUICK.max_attempts


def test_patience_ends_after_its_attempts_and_says_so(fake: FakeAws) -> None:
    fake.fail("ThrottlingException", 99)
    with pytest.raises(KmsThrottledError, match="attempts 5"):
        client_of(fake).wrap(KEY, "alias/any")
    assert len(fake.seen) == 5  # the SDK adds none of its own


def test_silent_server_is_asked_as_often_as_patience_allows(fake: FakeAws) -> None:
    fake.hang.set()
    try:
        with pytest.raises(KmsUnavailableError, match="Read timeout"):
            client_of(fake, QUICK).wrap(KEY, "alias/any")
    finally:
        fake.hang.clear()
    assert len(fake.seen) == QUICK.max_attempts


def test_answer_without_a_key_is_no_answer(fake: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "answer", lambda _: {"hello": "from a proxy"})
    with pytest.raises(KmsUnavailableError, match="no CiphertextBlob"):
        client_of(fake, QUICK).wrap(KEY, "alias/any")


# -- credentials and configuration


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
        AwsKms(settings, QUICK).wrap(KEY, "alias/any")


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
        AwsKms(AwsSettings.from_properties(properties), QUICK).wrap(KEY, "alias/any")


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
