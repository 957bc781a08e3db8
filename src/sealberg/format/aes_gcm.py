"""AES-GCM as Iceberg uses it, for a 16-byte key and for a 1 MiB block alike.

    sealed = nonce (12) | ciphertext (as long as the plaintext) | tag (16)

Stream blocks, manifest-list keys in table metadata and keys wrapped by a local keystore all have
this layout; only their AADs differ. No AAD and an empty AAD are the same.
Nonces are random (NIST SP 800-38D, 8.2.2). This module does no I/O.
"""

from __future__ import annotations

import os
from typing import Final, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sealberg.errors import AuthenticationError, ConfigError, FormatError

Bytes: TypeAlias = bytes | bytearray | memoryview

NONCE_LENGTH: Final = 12
TAG_LENGTH: Final = 16
OVERHEAD: Final = NONCE_LENGTH + TAG_LENGTH
KEY_LENGTHS: Final = (16, 24, 32)


def check_key_length(length: int) -> None:
    """AES has three key lengths; the message is the one of Iceberg Java."""
    if length not in KEY_LENGTHS:
        raise ConfigError(f"Invalid key length: {length} (must be 16, 24, or 32 bytes)")


def seal(key: Bytes, plain: Bytes, aad: Bytes | None = None) -> bytes:
    """Encrypt a small secret under a fresh random nonce."""
    return _seal(key, plain, aad, os.urandom(NONCE_LENGTH))


def open(key: Bytes, sealed: Bytes, aad: Bytes | None = None) -> bytes:  # noqa: A001 (the pair of seal)
    """Authenticate and decrypt bytes that `seal` returned."""
    check_key_length(len(key))
    if len(sealed) < OVERHEAD:
        raise FormatError(f"sealed bytes hold a nonce and a tag, at least {OVERHEAD} bytes; found {len(sealed)} bytes")
    view = memoryview(sealed)
    try:
        return AESGCM(key).decrypt(view[:NONCE_LENGTH], view[NONCE_LENGTH:], aad)
    except InvalidTag:
        # `from None`: the traceback of the cause would hold the frame with the key.
        raise AuthenticationError("GCM tag check failed: wrong key or AAD, or altered bytes") from None


def _seal(key: Bytes, plain: Bytes, aad: Bytes | None, nonce: bytes) -> bytes:
    # Only known-answer tests may choose the nonce.
    check_key_length(len(key))
    return nonce + AESGCM(key).encrypt(nonce, plain, aad)
