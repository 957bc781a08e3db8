"""The Google Cloud client passes the table of failures of all KMS clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.gcp_kms import GcpRig
from kit.servers.kms import KmsConformance

if TYPE_CHECKING:
    from kit.servers.fake_gcp import FakeGcp


class TestGcpKms(KmsConformance):
    @pytest.fixture
    def rig(self, fake: FakeGcp) -> GcpRig:
        return GcpRig(fake)
