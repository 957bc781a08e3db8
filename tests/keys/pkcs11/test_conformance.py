"""The PKCS#11 client passes the table of failures of all KMS clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.kms import KmsConformance
from kit.servers.pkcs11_kms import Pkcs11Rig

if TYPE_CHECKING:
    from pathlib import Path

    from kit.servers.softhsm import SoftHsm
    from sealberg.keys.kms.pkcs11 import Pkcs11Kms


class TestPkcs11Kms(KmsConformance):
    @pytest.fixture
    def rig(self, hsm: SoftHsm, client: Pkcs11Kms, tmp_path: Path) -> Pkcs11Rig:
        return Pkcs11Rig(hsm, client, tmp_path)
