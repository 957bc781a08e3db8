"""The AWS client passes the table of failures of all KMS clients, and on moto the part that moto can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.aws_kms import AwsRig, MotoRig
from kit.servers.kms import KmsConformance

if TYPE_CHECKING:
    from kit.servers.fake_aws import FakeAws


class TestAwsKms(KmsConformance):
    @pytest.fixture
    def rig(self, fake: FakeAws) -> AwsRig:
        return AwsRig(fake)


class TestAwsKmsOnMoto(KmsConformance):
    @pytest.fixture
    def rig(self, moto: MotoRig) -> MotoRig:
        return moto
