"""PKCS#11 clients for tests, and the rig of the conformance suite on SoftHSM."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kit.servers.kms import KEY, Provoked, Rig
from sealberg.keys.kms.pkcs11 import Pkcs11Kms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.servers.softhsm import SoftHsm

HURRY = {"encryption.kms.max-attempts": "2", "encryption.kms.backoff-s": "0.01"}
LOCAL = "a library in this process: there is no network between"
IMPORTED = bytes(range(32))


def with_pin(hsm: SoftHsm, file: Path, pin: str) -> Pkcs11Kms:
    file.write_text(pin)
    return Pkcs11Kms.from_properties(hsm.properties | HURRY | {"encryption.kms.pkcs11.pin-file": str(file)})


class Pkcs11Rig(Rig):
    key_id = "hr"
    impossible = {
        "disabled": "an object of a token has no switch",
        "destroyed": "a destroyed object is simply not found",
        "throttled": "PKCS#11 has no such answer",
        "timeout": "a call into the library cannot be given up",
        "refused": LOCAL,
    }

    def __init__(self, hsm: SoftHsm, client: Pkcs11Kms, folder: Path) -> None:
        self.hsm, self.client, self.folder = hsm, client, folder

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        wrapped = self.client.wrap(KEY, "hr")
        if failure == "not_found":
            yield Provoked(self.client, "nobody", wrapped)
        elif failure == "denied":
            yield Provoked(with_pin(self.hsm, self.folder / "pin", "wrong"), "hr", wrapped)
        elif failure == "wrong_key":
            yield Provoked(self.client, "other", wrapped)
        elif failure == "corrupt":
            yield Provoked(self.client, "hr", wrapped[:-1] + bytes([wrapped[-1] ^ 1]))
        elif failure == "server_error":
            with self.hsm.removed():
                yield Provoked(self.client, "hr", wrapped)
        elif failure == "misconfigured":
            yield Provoked(self.client, "extractable", wrapped)
