"""Wrapping with master keys that this process holds, as Java's local KMS clients do it.

    wrapped = nonce (12) | ciphertext | tag (16), no AAD

The same bytes as Java's MemoryMockKMS and KeyStoreKmsClient, iceberg-rust and iceberg-go.
The subclasses provide the master keys: memory.py, keystore/kms.py.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from sealberg.errors import AuthenticationError, FormatError, KeyNotFoundError, WrongKeyError
from sealberg.format import aes_gcm
from sealberg.keys.kms.client import UNVERSIONED, KmsClient
from sealberg.keys.known_keys import with_known_keys

if TYPE_CHECKING:
    from collections.abc import Mapping


class LocalKms(KmsClient):
    """A KMS without a server."""

    @abstractmethod
    def master_key(self, master_key_id: str) -> bytes | None:
        """The bytes of one master key; None if there is no such key."""

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        return aes_gcm.seal(self._found(master_key_id, "wrap"), key)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        master_key = self._found(master_key_id, "unwrap")
        try:
            return aes_gcm.open(master_key, wrapped)
        except (AuthenticationError, FormatError):
            raise WrongKeyError(
                "the wrapped key does not decrypt with this master key: another key wrapped it, or it was altered",
                provider=self.provider,
                key_id=master_key_id,
            ) from None

    def describe(self, master_key_id: str) -> Mapping[str, str]:
        return {"length": str(len(self._found(master_key_id, "use")))}

    def newest_version(self, master_key_id: str) -> str:
        self._found(master_key_id, "use")
        return UNVERSIONED

    def version_in(self, wrapped: bytes) -> str:  # noqa: ARG002 (there is but one)
        return UNVERSIONED

    def _found(self, master_key_id: str, verb: str) -> bytes:
        master_key = self.master_key(master_key_id)
        if master_key is None:
            error = KeyNotFoundError(
                f"Cannot {verb}, because wrapping key {master_key_id} is not found",
                provider=self.provider,
                key_id=master_key_id,
            )
            raise with_known_keys(error, self, master_key_id, new=verb == "wrap")
        return master_key
