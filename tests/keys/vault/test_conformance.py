"""The Vault client passes the table of failures of all KMS clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.kms import KmsConformance
from kit.servers.vault_kms import VaultRig

if TYPE_CHECKING:
    from pathlib import Path

    from kit.servers.fault_proxy import FaultProxy
    from kit.servers.openbao import OpenBao

pytestmark = pytest.mark.slow  # a server is started


class TestVaultKms(KmsConformance):
    @pytest.fixture
    def rig(self, server: OpenBao, proxy: FaultProxy, tmp_path: Path) -> VaultRig:
        return VaultRig(server, proxy, tmp_path)
