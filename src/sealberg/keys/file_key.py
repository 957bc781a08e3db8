"""The key of one file: random, used for one file only, never derived.

Every file of an encrypted table has its own key (16 bytes unless the table sets 24 or 32) and its
own 16-byte AAD prefix. The prefix stops an attacker from replacing one file by another: the prefix
is stored in the file's parent (manifest, manifest list or table metadata), not in the file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sealberg.errors import ConfigError
from sealberg.format.aes_gcm import KEY_LENGTHS
from sealberg.format.key_metadata import KeyMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

KEY_LENGTH_PROPERTY: Final = "encryption.data-key-length"
DEFAULT_KEY_LENGTH: Final = 16
AAD_PREFIX_LENGTH: Final = 16


def new_file_key(length: int = DEFAULT_KEY_LENGTH, *, randomness: Callable[[int], bytes] = os.urandom) -> KeyMetadata:
    """A key for a file that is about to be written; the file length is added when the file is finished."""
    if length not in KEY_LENGTHS:
        raise ConfigError(f"Invalid data key length: {length} (must be 16, 24, or 32)")
    return KeyMetadata(randomness(length), randomness(AAD_PREFIX_LENGTH))
