"""Master keys in memory, for tests and demonstrations: byte-compatible with the test KMS of Iceberg Java.

encryption.kms.memory.key.<master key id> = hex of 16, 24 or 32 bytes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Self

from sealberg.errors import ConfigError
from sealberg.format import aes_gcm
from sealberg.keys.kms.local import LocalKms

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_PREFIX: Final = "encryption.kms.memory.key."


class MemoryKms(LocalKms):
    """Master keys given by value or by property."""

    provider = "memory"
    property_names: ClassVar[tuple[str, ...]] = (KEY_PREFIX,)

    def __init__(self, master_keys: Mapping[str, bytes]) -> None:
        for key in master_keys.values():
            aes_gcm.check_key_length(len(key))
        self._master_keys = {name: bytes(key) for name, key in master_keys.items()}

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        keys = {}
        for name, value in properties.items():
            if name.startswith(KEY_PREFIX):
                try:
                    keys[name.removeprefix(KEY_PREFIX)] = bytes.fromhex(value)
                except ValueError:
                    # Neither cause nor value is shown: the malformed value may still hold a key.
                    raise ConfigError(f"{name} is not hexadecimal, expected 32, 48 or 64 hexadecimal digits") from None
        return cls(keys)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(sorted(self._master_keys))})"

    def master_key(self, master_key_id: str) -> bytes | None:
        return self._master_keys.get(master_key_id)

    def key_ids(self, most: int) -> tuple[str, ...]:
        return tuple(sorted(self._master_keys))[:most]

    def close(self) -> None:
        self._master_keys = {}


class UnitestKms(MemoryKms):
    """The two keys of `org.apache.iceberg.encryption.UnitestKMS`, which are public and protect nothing."""

    property_names = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:  # noqa: ARG003 (it takes none)
        return cls({"keyA": b"0123456789012345", "keyB": b"1123456789012345"})
