"""A SoftHSM token with good and bad keys, and a client of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pkcs11
import pytest
from pkcs11 import MechanismFlag

from kit.servers.pkcs11_kms import HURRY, IMPORTED
from kit.servers.softhsm import SoftHsm, softhsm
from sealberg.keys.kms.pkcs11 import Pkcs11Kms

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def hsm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftHsm]:
    with softhsm(tmp_path_factory.mktemp("softhsm")) as hsm:
        for label in ("hr", "other"):
            hsm.make_key(label)
        hsm.make_key("imported", value=IMPORTED)
        hsm.make_key("extractable", extractable=True)
        hsm.make_key("decrypts", capabilities=MechanismFlag.DECRYPT)
        hsm.make_key("encrypts", capabilities=MechanismFlag.ENCRYPT)
        hsm.make_key("twin")
        hsm.make_key("twin")
        with hsm.owner() as session:
            session.generate_keypair(pkcs11.KeyType.RSA, 1024, label="pair", store=True)
            session.create_object(
                {
                    pkcs11.Attribute.CLASS: pkcs11.ObjectClass.DATA,
                    pkcs11.Attribute.TOKEN: True,
                    pkcs11.Attribute.LABEL: "note",
                    pkcs11.Attribute.VALUE: b"not a key",
                }
            )
        yield hsm


@pytest.fixture
def client(hsm: SoftHsm) -> Iterator[Pkcs11Kms]:
    with Pkcs11Kms.from_properties(hsm.properties | HURRY) as client:
        yield client
