"""Google Cloud clients for tests, and the rig of the conformance suite."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import grpc

from kit.servers.fake_gcp import RING, FakeGcp, State
from kit.servers.kms import HASTY, KEY, PATIENT, TWICE, Provoked, Rig
from kit.servers.ports import free_port
from sealberg.keys.kms.gcp import GcpKms, GcpSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.keys.kms.retry_policy import RetryPolicy

HR = f"{RING}/hr"


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
        fake, twice = self.fake, client_of(self.fake, TWICE)
        wrapped = self.client.wrap(KEY, HR)
        world = Provoked(twice, HR, wrapped)
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
            world.client = client_of(fake, HASTY)
        elif failure == "refused":
            port = free_port()
            world.client = GcpKms(GcpSettings(endpoint=f"127.0.0.1:{port}", insecure_channel=True), TWICE)
        elif failure == "misconfigured":
            world.key_id = f"{HR}/cryptoKeyVersions/1"
        try:
            yield world
        finally:
            fake.hang.clear()
