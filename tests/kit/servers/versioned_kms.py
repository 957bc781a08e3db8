"""A KMS whose master keys have versions, in a file that tests change: `v2:` | nonce | ciphertext | tag.

    encryption.kms-impl = kit.servers.versioned_kms.VersionedKms
    encryption.kms.versioned.path = a JSON file: {"hr": ["hex of version 1", "hex of version 2", null]}

    keys = VersionedKeys(path); keys.rotate("hr"); keys.disable("hr", 1); keys.calls

A version that is null is disabled. Every request adds a line to PATH.log. `SilentKms` tells no version.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sealberg.errors import KeyDisabledError, KeyNotFoundError, WrongKeyError
from sealberg.format import aes_gcm
from sealberg.keys.kms.client import KmsClient

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = "encryption.kms.versioned.path"
IMPL = "kit.servers.versioned_kms.VersionedKms"
SILENT = "kit.servers.versioned_kms.SilentKms"


@dataclass(frozen=True)
class VersionedKeys:
    """The administrator of the KMS."""

    path: Path

    @property
    def properties(self) -> dict[str, str]:
        return {"encryption.kms-impl": IMPL, PATH: str(self.path)}

    @property
    def calls(self) -> list[str]:
        log = Path(f"{self.path}.log")
        return log.read_text().split() if log.exists() else []

    def rotate(self, key_id: str) -> None:
        keys = self._read()
        keys.setdefault(key_id, []).append(os.urandom(16).hex())
        self.path.write_text(json.dumps(keys))

    def versions(self, key_id: str) -> int:
        return len(self._read()[key_id])

    def disable(self, key_id: str, version: int) -> None:
        keys = self._read()
        keys[key_id][version - 1] = None
        self.path.write_text(json.dumps(keys))

    def _read(self) -> dict[str, list[str | None]]:
        return json.loads(self.path.read_text()) if self.path.exists() else {}


class VersionedKms(KmsClient):
    provider = "versioned"

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        return cls(properties[PATH])

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        return self._wrap("wrap", key, master_key_id)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        return self._unwrap("unwrap", wrapped, master_key_id)

    def rewrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        key = self._unwrap("rewrap", wrapped, master_key_id)
        return self._wrap("", key, master_key_id)

    def newest_version(self, master_key_id: str) -> str | None:
        self._log("newest")
        return str(len(self._versions(master_key_id)))

    def version_in(self, wrapped: bytes) -> str | None:
        return wrapped.partition(b":")[0].decode().removeprefix("v")

    def _wrap(self, event: str, key: bytes, master_key_id: str) -> bytes:
        self._log(event)
        versions = self._versions(master_key_id)
        return f"v{len(versions)}:".encode() + aes_gcm.seal(bytes.fromhex(versions[-1] or ""), key)

    def _unwrap(self, event: str, wrapped: bytes, master_key_id: str) -> bytes:
        self._log(event)
        version, _, sealed = wrapped.partition(b":")
        found = self._versions(master_key_id)[int(version[1:]) - 1]
        if found is None:
            raise KeyDisabledError(f"version {version.decode()} is disabled", key_id=master_key_id)
        try:
            return aes_gcm.open(bytes.fromhex(found), sealed)
        except Exception:
            raise WrongKeyError("another key wrapped this key", key_id=master_key_id) from None

    def _versions(self, master_key_id: str) -> list[str | None]:
        found: list[str | None] | None = json.loads(Path(self.path).read_text()).get(master_key_id)
        if found is None:
            raise KeyNotFoundError("no such key", key_id=master_key_id)
        return found

    def _log(self, event: str) -> None:
        if event:
            with Path(f"{self.path}.log").open("a") as log:
                log.write(f"{event}\n")


class SilentKms(VersionedKms):
    """A third party's client, which knows nothing of versions."""

    def newest_version(self, master_key_id: str) -> str | None:
        return KmsClient.newest_version(self, master_key_id)

    def version_in(self, wrapped: bytes) -> str | None:
        return KmsClient.version_in(self, wrapped)
