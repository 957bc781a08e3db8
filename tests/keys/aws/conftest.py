"""The fake of AWS KMS and moto, without the AWS configuration of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from moto.server import ThreadedMotoServer

from kit.servers.aws_kms import MotoRig
from kit.servers.fake_aws import FakeAws

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoRig]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield MotoRig(f"http://{host}:{port}")
    server.stop()
