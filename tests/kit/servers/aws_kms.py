"""AWS clients for tests, and the rigs of the conformance suite: a strict fake, and moto."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import boto3

from kit.servers.kms import HASTY, KEY, PATIENT, TWICE, Provoked, Rig
from kit.servers.ports import free_port
from sealberg.keys.kms.aws import AwsKms, AwsSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kit.servers.fake_aws import FakeAws
    from sealberg.keys.kms.retry_policy import RetryPolicy

SECRET = "wJalrXUtnFEMI-very-secret"
WHO = {
    "client.region": "eu-central-1",
    "client.access-key-id": "AKIDEXAMPLE",
    "client.secret-access-key": SECRET,
}


def client_of(fake: FakeAws, retry_policy: RetryPolicy = PATIENT, more: Mapping[str, str] | None = None) -> AwsKms:
    return _client(retry_policy, tuple({"kms.endpoint": fake.url, **WHO, **(more or {})}.items()))


@cache  # a client of boto3 takes a tenth of a second to make
def _client(retry_policy: RetryPolicy, properties: tuple[tuple[str, str], ...]) -> AwsKms:
    return AwsKms(AwsSettings.from_properties(dict(properties)), retry_policy)


class AwsRig(Rig):
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        self.key = fake.create(alias="alias/hr")
        self.key_id = self.key.arn
        self.client = client_of(fake)

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        wrapped = self.client.wrap(KEY, self.key_id)
        twice = client_of(self.fake, TWICE)
        if failure == "not_found":
            yield Provoked(twice, "alias/nobody", wrapped)
        elif failure == "denied":
            self.fake.denied.add("Decrypt")
            yield Provoked(twice, self.key_id, wrapped)
        elif failure in {"disabled", "destroyed"}:
            self.key.state = "Disabled" if failure == "disabled" else "pending deletion"
            try:
                yield Provoked(twice, self.key_id, wrapped)
            finally:
                self.key.state = "Enabled"
        elif failure == "wrong_key":
            yield Provoked(twice, self.fake.create().arn, wrapped)
        elif failure == "corrupt":
            yield Provoked(twice, self.key_id, wrapped[:-1] + bytes([wrapped[-1] ^ 1]))
        elif failure == "throttled":
            self.fake.fail("ThrottlingException", 99, "Rate exceeded")
            yield Provoked(twice, self.key_id, wrapped)
        elif failure == "server_error":
            self.fake.fail("KMSInternalException", 99)
            yield Provoked(twice, self.key_id, wrapped)
        elif failure == "timeout":
            self.fake.hang.set()
            try:
                yield Provoked(client_of(self.fake, HASTY), self.key_id, wrapped)
            finally:
                self.fake.hang.clear()
        elif failure == "refused":
            nobody = AwsSettings.from_properties({**WHO, "kms.endpoint": f"http://127.0.0.1:{free_port()}"})
            yield Provoked(AwsKms(nobody, TWICE), self.key_id, wrapped)
        elif failure == "misconfigured":
            yield Provoked(
                client_of(self.fake, TWICE, {"kms.encryption-algorithm-spec": "RSAES_OAEP_SHA_256"}),
                self.key_id,
                wrapped,
            )


class MotoRig(Rig):
    """Calls that succeed, against an independent server."""

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
