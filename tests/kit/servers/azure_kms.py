"""Azure clients for tests, and the rig of the conformance suite."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from kit.servers.fake_azure import FakeAzure, Key, StaticToken, Version
from kit.servers.kms import HASTY, KEY, PATIENT, TWICE, Provoked, Rig
from kit.servers.ports import free_port
from sealberg.keys.kms.azure import AzureKms, AzureSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    from sealberg.keys.kms.retry_policy import RetryPolicy


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
        world = Provoked(client_of(fake, TWICE), "hr", wrapped)
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
            world.client = client_of(fake, HASTY)
        elif failure == "refused":
            port = free_port()
            nobody = AzureSettings(f"https://127.0.0.1:{port}", ca_file=str(fake.ca_file))
            world.client = AzureKms(nobody, credential=StaticToken(), retry_policy=TWICE)
        elif failure == "misconfigured":
            world.key_id = f"{fake.url}/keys/hr"
        try:
            yield world
        finally:
            fake.hang.clear()


def rotated(key: Key, times: int = 1) -> None:
    # Keys take a tenth of a second to make, and the versions in between need none of their own.
    for _ in range(times):
        key.versions.append(Version(key.versions[-1].created + 60, secret=spare()))


@cache
def spare() -> RSAPrivateKey:
    return Version(0).secret
