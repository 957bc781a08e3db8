"""The Azure client passes the table of failures of all KMS clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.azure_kms import AzureRig
from kit.servers.kms import KmsConformance

if TYPE_CHECKING:
    from kit.servers.fake_azure import FakeAzure


class TestAzureKms(KmsConformance):
    @pytest.fixture
    def rig(self, fake: FakeAzure) -> AzureRig:
        return AzureRig(fake)
