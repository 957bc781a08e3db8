"""A KMS that fails by seed: it does not answer, asks for patience, or drops the connection.

catalog property encryption.kms-impl = chaos.kms.ChaosKms      chaos.kms.rate, chaos.kms.seed
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, Self

from sealberg.errors import KmsThrottledError, KmsUnavailableError
from sealberg.keys.kms.memory import UnitestKms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RATE: Final = "chaos.kms.rate"
SEED: Final = "chaos.kms.seed"
FAULTS: Final[tuple[Callable[[], Exception], ...]] = (
    lambda: KmsUnavailableError("chaos: no answer"),
    lambda: KmsThrottledError("chaos: too many requests"),
    lambda: ConnectionResetError("chaos: connection reset"),  # as a client of one's own may let through
)


class ChaosKms(UnitestKms):
    """The keys of Iceberg Java's own test KMS, behind a bad line."""

    rate: float
    dice: random.Random

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        made = super().from_properties(properties)
        made.rate, made.dice = float(properties.get(RATE, "0")), random.Random(properties.get(SEED))
        return made

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        self._fail_sometimes()
        return super().wrap(key, master_key_id)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        self._fail_sometimes()
        return super().unwrap(wrapped, master_key_id)

    def _fail_sometimes(self) -> None:
        if self.dice.random() < self.rate:
            fault = self.dice.choice(FAULTS)
            raise fault()
