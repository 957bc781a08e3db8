"""The key metadata of one file of any kind, beside the file: under a master key of the KMS, or in the clear.

    {"key-id": "...", "encryption-keys": [the KEK, wrapped by the KMS; the key metadata, sealed under the KEK]}

    hexadecimal text, or the blob itself: whoever has it opens the file

The first form is what table metadata and a snapshot hold for a manifest list, and is made and opened by the same code.
The id of the master key in it is no proof, so whoever opens it names the master key, as a table does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sealberg.errors import ConfigError, KeyringError
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.keyring import Keyring

if TYPE_CHECKING:
    from sealberg.keys.manager import EncryptionManager


def seal_key(manager: EncryptionManager, ring: Keyring, key_metadata: KeyMetadata) -> bytes:
    """The content of a key file: the key metadata of a finished file, sealed under the active KEK of the ring."""
    ring, key_id = manager.seal_list_key(ring, key_metadata)
    return json.dumps({"key-id": key_id, "encryption-keys": ring.to_json()}, indent=2).encode() + b"\n"


def clear_key(key_metadata: KeyMetadata) -> bytes:
    """The content of a key file that needs no KMS, and that holds the key in the clear."""
    return key_metadata.encode().hex().encode() + b"\n"


def is_sealed(content: bytes) -> bool:
    """Whether a KMS is needed to open this key file."""
    # A blob begins with byte 1, and hex with a digit, so the three cannot be confused.
    return content.lstrip()[:1] == b"{"


def open_key(manager: EncryptionManager, content: bytes) -> KeyMetadata:
    """The key metadata in a sealed key file."""
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        raise KeyringError(f"the key file of {manager.settings.table} is not JSON; it was altered or cut") from None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("key-id"), str):
        raise KeyringError(f"the key file of {manager.settings.table} has no key-id; it was altered")
    return manager.open_list_key(Keyring.from_json(parsed.get("encryption-keys")), parsed["key-id"])


def read_clear_key(content: bytes) -> KeyMetadata:
    """The key metadata of a key file in the clear, or of hexadecimal text."""
    if content[:1] == b"\x01":
        return KeyMetadata.decode(content)
    try:
        blob = bytes.fromhex(content.decode("ascii").strip().removeprefix("0x"))
    except ValueError:
        # Without the text: it is a key, or was meant to be one.
        raise ConfigError("the key metadata are not hexadecimal") from None
    return KeyMetadata.decode(blob)
