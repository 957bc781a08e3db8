"""The codes of findings: what each means, how bad it is, and the code of an error that a file caused.

`error`     the table is damaged, altered, or readable without its keys
`warning`   the table is sound, but something should be tidied up
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.errors import (
    AuthenticationError,
    BadMagicError,
    IntegrityError,
    KeyMetadataError,
    KeyNotFoundError,
    KeyringError,
    MissingLengthError,
    PlaintextFileError,
    StorageError,
    TrailingBytesError,
    TruncatedError,
    TrustError,
    WrongKeyError,
)
from sealberg.files.identify import PLAINTEXT

if TYPE_CHECKING:
    from sealberg.jobs.findings import Severity

CODES: Final[dict[str, tuple[Severity, str]]] = {
    # -- the catalog and metadata.json
    "catalog": ("error", "the metadata file is not the one that the catalog vouches for"),
    "no-hash": ("warning", "the catalog has no hash of the metadata file"),
    "metadata": ("error", "the metadata file does not parse or contradicts itself"),
    "snapshot": ("error", "a snapshot, branch or tag contradicts the rest of the metadata"),
    "past": ("error", "an older metadata file says something else under the same id"),
    "catalog-behind": ("error", "storage has newer metadata than the catalog"),
    "unlogged": ("warning", "a metadata file that nobody vouches for says what the newest does not"),
    "elsewhere": ("error", "the table names files that are in none of its folders"),
    # -- keys
    "key-missing": ("error", "a key that a snapshot needs is not in encryption-keys"),
    "key-altered": ("error", "a key does not decrypt: its entry was altered, or it is sealed under another key"),
    "key-master": ("error", "a KEK is wrapped by another master key than the table's"),
    "key-time": ("error", "a KEK has no timestamp, or one in the future"),
    "key-weak": ("error", "a key is one byte repeated, too short, or has no AAD prefix of 16 bytes"),
    "key-reused": ("error", "two files have the same key"),
    "key-exposed": ("error", "a key lies in the clear in table metadata"),
    "key-unused": ("warning", "a key that nothing needs"),
    "kek-age": ("warning", "the active KEK is near the end of its life, or past it"),
    "old-keys": ("warning", "an older metadata file still holds keys of snapshots that have expired"),
    # -- files
    "missing": ("error", "a file does not exist"),
    "altered": ("error", "a part of a file failed authentication"),
    "length": ("error", "a file is longer or shorter than its trusted length"),
    "malformed": ("error", "a file does not follow its format"),
    "plaintext": ("error", "a file or a part of it is not encrypted"),
    "no-key": ("error", "an encrypted file has no key, or malformed key metadata"),
    "no-length": ("warning", "the key of a file has no length, so missing blocks at its end are not detected"),
    "orphan": ("warning", "an encrypted file that no metadata names"),
    "foreign": ("error", "a file that is not a file of an Iceberg table"),
    # -- what metadata say of files
    "count": ("error", "a number of rows, values or files is wrong"),
    "size": ("error", "a size or offset is wrong"),
    "bounds": ("error", "values are outside of the bounds of their column"),
    "partition": ("error", "a partition value does not fit the rows of its file"),
    "row-ids": ("error", "row ids overlap or are out of sequence"),
    "sequence": ("error", "a sequence number is wrong"),
    "entry": ("error", "an entry of a manifest or manifest list contradicts the rest of the metadata"),
}

_BY_ERROR: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (FileNotFoundError, "missing"),
    (TrustError, "catalog"),
    (PlaintextFileError, "plaintext"),
    (MissingLengthError, "no-length"),
    (TruncatedError, "length"),
    (TrailingBytesError, "length"),
    (AuthenticationError, "altered"),
    (WrongKeyError, "key-altered"),
    (KeyNotFoundError, "key-missing"),
    (KeyMetadataError, "no-key"),
    (KeyringError, "metadata"),
    (IntegrityError, "malformed"),
)


def severity_of(code: str) -> Severity:
    return CODES[code][0]


def code_of(error: BaseException) -> str | None:
    """The code of a finding that this error is; None if the error says nothing about the table, as a lost network."""
    if isinstance(error, BadMagicError) and any(f"found magic {magic.hex()}" in str(error) for magic in PLAINTEXT):
        return "plaintext"
    if isinstance(error, BadMagicError) and "plaintext" in str(error):
        return "plaintext"
    if isinstance(error, StorageError) and isinstance(error.__cause__, FileNotFoundError):
        return "missing"  # stores of fsspec say so without an errno
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), None)
