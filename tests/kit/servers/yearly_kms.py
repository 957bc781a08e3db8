"""Java's test KMS, whose master key seems to have versions: Java can unwrap all of them, sealberg only enabled ones.

encryption.kms-impl = kit.servers.yearly_kms.YearlyKms

Which version wrapped what is kept in this process; the wrapped bytes are those of `UnitestKMS`.
"""

from __future__ import annotations

from typing import ClassVar

from sealberg.errors import KeyDisabledError
from sealberg.keys.kms.memory import UnitestKms


class YearlyKms(UnitestKms):
    newest: ClassVar[int] = 1
    oldest: ClassVar[int] = 1  # versions before it are disabled
    wrapped_by: ClassVar[dict[bytes, int]] = {}

    @classmethod
    def is_built_in(cls) -> bool:
        return False

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        wrapped = super().wrap(key, master_key_id)
        self.wrapped_by[wrapped] = self.newest
        return wrapped

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        if self.wrapped_by[bytes(wrapped)] < self.oldest:
            raise KeyDisabledError("this version is disabled", key_id=master_key_id)
        return super().unwrap(wrapped, master_key_id)

    def newest_version(self, master_key_id: str) -> str:
        return str(self.newest)

    def version_in(self, wrapped: bytes) -> str:
        return str(self.wrapped_by[bytes(wrapped)])
