"""Clients of OpenBao for tests: with a token, with an AppRole, and the rig of the conformance suite."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kit.servers.kms import HASTY, KEY, PATIENT, TWICE, Provoked, Rig
from kit.servers.openbao import ROOT, OpenBao
from kit.servers.ports import free_port
from sealberg.keys.kms.vault.client import VaultKms
from sealberg.keys.kms.vault.config import VaultSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.servers.fault_proxy import FaultProxy
    from sealberg.keys.kms.retry_policy import RetryPolicy

READER = 'path "transit/decrypt/*" { capabilities = ["update"] }'
WRITER = READER + ' path "transit/encrypt/*" { capabilities = ["update"] }'
# Encrypts, and creates what it does not find.
CREATOR = 'path "transit/encrypt/*" { capabilities = ["create", "update"] }'
KEYS = 'path "transit/keys/*" { capabilities = ["read"] }'


def client_of(address: str, folder: Path, token: str, retry_policy: RetryPolicy = PATIENT) -> VaultKms:
    file = folder / f"token-{uuid.uuid4().hex}"
    file.write_text(token + "\n")
    return VaultKms(VaultSettings(address=address, token_file=str(file)), retry_policy)


def new_key(server: OpenBao, **options: object) -> str:
    name = f"k-{uuid.uuid4().hex}"
    server.api("POST", f"transit/keys/{name}", dict(options))
    return name


class VaultRig(Rig):
    key_id = "hr"

    def __init__(self, server: OpenBao, proxy: FaultProxy, folder: Path) -> None:
        self.server, self.proxy, self.folder = server, proxy, folder
        everything = 'path "transit/*" { capabilities = ["read", "update"] }'
        self.client = client_of(server.address, folder, server.token(everything))

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        wrapped = self.client.wrap(KEY, "hr")
        proxied = client_of(self.proxy.address, self.folder, ROOT, TWICE)
        if failure == "not_found":
            yield Provoked(self.client, "nobody", wrapped)
        elif failure == "denied":
            denied = self.server.token('path "transit/decrypt/other" { capabilities = ["update"] }')
            yield Provoked(client_of(self.server.address, self.folder, denied), "hr", wrapped)
        elif failure == "disabled":
            self.server.api("DELETE", "transit/keys/hr/soft-delete")
            try:
                yield Provoked(self.client, "hr", wrapped)
            finally:
                self.server.api("POST", "transit/keys/hr/soft-delete-restore")
        elif failure == "destroyed":
            name = new_key(self.server)
            wrapped = self.client.wrap(KEY, name)
            self.server.api("POST", f"transit/keys/{name}/rotate")
            only_new = {"min_decryption_version": 2, "min_encryption_version": 2}
            self.server.api("POST", f"transit/keys/{name}/config", only_new)
            self.server.api("POST", f"transit/keys/{name}/trim", {"min_available_version": 2})
            yield Provoked(self.client, name, wrapped)
        elif failure == "wrong_key":
            yield Provoked(self.client, "other", wrapped)
        elif failure == "corrupt":
            at = len(wrapped) // 2
            yield Provoked(self.client, "hr", wrapped[:at] + (b"A" if wrapped[at] != 65 else b"B") + wrapped[at + 1 :])
        elif failure == "throttled":
            with self.server.quota("transit/"):
                yield Provoked(client_of(self.server.address, self.folder, ROOT, TWICE), "hr", wrapped)
        elif failure == "server_error":
            with self.proxy.failing(503):
                yield Provoked(proxied, "hr", wrapped)
        elif failure == "timeout":
            with self.proxy.failing("hang"):
                yield Provoked(client_of(self.proxy.address, self.folder, ROOT, HASTY), "hr", wrapped)
        elif failure == "refused":
            yield Provoked(client_of(f"http://127.0.0.1:{free_port()}", self.folder, ROOT, TWICE), "hr", wrapped)
        elif failure == "misconfigured":
            yield Provoked(self.client, "../sys/seal", wrapped)


class AppRole:
    """A new role, and the file with its secret id."""

    def __init__(self, server: OpenBao, folder: Path, **options: object) -> None:
        self.name = f"r-{uuid.uuid4().hex}"
        server.api("PUT", f"sys/policies/acl/{self.name}", {"policy": WRITER})
        server.api("POST", f"auth/approle/role/{self.name}", {"token_policies": [self.name], **options})
        self.role_id = server.api("GET", f"auth/approle/role/{self.name}/role-id")["data"]["role_id"]
        self.secret = folder / "secret-id"
        self.secret.write_text(server.api("POST", f"auth/approle/role/{self.name}/secret-id")["data"]["secret_id"])

    def client(self, address: str, retry_policy: RetryPolicy = PATIENT) -> VaultKms:
        settings = VaultSettings(address=address, role_id=self.role_id, secret_id_file=str(self.secret))
        return VaultKms(settings, retry_policy)


def logins(proxy: FaultProxy) -> int:
    return sum("approle/login" in path for path in proxy.paths)
