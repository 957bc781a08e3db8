"""Master keys in memory, for tests and demonstrations: byte-compatible with the test KMS of Iceberg Java.

    encryption.kms.memory.key.<master key id> = hex of 16, 24 or 32 bytes

Wrapped keys are nonce | ciphertext | tag without AAD, as Java, iceberg-rust and iceberg-go have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from sealberg.errors import AuthenticationError, ConfigError, FormatError, KeyNotFoundError, WrongKeyError
from sealberg.format import aes_gcm
from sealberg.keys.kms import KmsClient

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_PREFIX: Final = "encryption.kms.memory.key."


class LocalKms(KmsClient):
    """Wraps with master keys that this process holds."""

    provider = "memory"

    def __init__(self, master_keys: Mapping[str, bytes]) -> None:
        for key in master_keys.values():
            aes_gcm.check_key_length(len(key))
        self._master_keys = {name: bytes(key) for name, key in master_keys.items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(sorted(self._master_keys))})"

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        return aes_gcm.seal(self._master_key(master_key_id, "wrap"), key)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        master_key = self._master_key(master_key_id, "unwrap")
        try:
            return aes_gcm.open(master_key, wrapped)
        except (AuthenticationError, FormatError):
            raise WrongKeyError(
                "the wrapped key does not open under this master key",
                provider=self.provider,
                key_id=master_key_id,
            ) from None

    def close(self) -> None:
        self._master_keys = {}

    def _master_key(self, master_key_id: str, verb: str) -> bytes:
        try:
            return self._master_keys[master_key_id]
        except KeyError:
            raise KeyNotFoundError(
                f"Cannot {verb}, because wrapping key {master_key_id} is not found",
                provider=self.provider,
                key_id=master_key_id,
            ) from None


class MemoryKms(LocalKms):
    """Master keys given by value or by property."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        keys = {}
        for name, value in properties.items():
            if name.startswith(KEY_PREFIX):
                try:
                    keys[name.removeprefix(KEY_PREFIX)] = bytes.fromhex(value)
                except ValueError:
                    # No cause and no value: what was meant as hex may be a key all the same.
                    raise ConfigError(f"{name} is not hexadecimal") from None
        return cls(keys)


class UnitestKms(LocalKms):
    """The two published keys of `org.apache.iceberg.encryption.UnitestKMS`. They protect nothing."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:  # noqa: ARG003 (it takes none)
        return cls({"keyA": b"0123456789012345", "keyB": b"1123456789012345"})
