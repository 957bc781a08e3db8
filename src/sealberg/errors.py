"""Every error that sealberg raises on purpose.

    SealbergError                     the base class: catches every error below
    ├── ConfigError                   an invalid property, option or argument
    │   ├── EncryptionRequiredError   a table is not encrypted, and the catalog requires encryption
    │   ├── NothingThereError         what was named does not exist, or is empty: nothing was looked at
    │   └── LocationError             a location that readers understand differently, or that is not empty
    ├── UnsupportedError              valid in Iceberg, but not supported by sealberg
    ├── ConflictError                 another writer committed first: load the table again and retry
    ├── ClockSkewError                this machine's clock is far behind the last change of the table
    ├── PurgeError                    a table was not purged, or only in part
    │   ├── PurgeRefusedError         nothing was dropped: some files of the table are unknown or used by others
    │   └── LeftoverFilesError        the table was dropped, but some of its files are still in storage
    ├── RemovalRefusedError           files were not removed: it is not known which files the table needs
    ├── CatalogError                  the catalog's database refused a statement
    │   ├── CatalogUnavailableError   the catalog's server did not answer, or its database stayed locked: retry later
    │   └── UnfinishedSwapError       the names of two tables are exchanged only in part: exchange them again
    ├── StorageError                  the store failed to read or write an object
    │   ├── StorageAccessError        these credentials may not access the object
    │   └── MissingFileError          there is no such object
    ├── PoisonedError                 an earlier write to the sink failed: the writer accepts no more bytes
    ├── IntegrityError                storage does not hold what was written there
    │   ├── FormatError               the bytes do not follow their format
    │   │   ├── BadMagicError         the first bytes are those of another format
    │   │   ├── BlockSizeError        an AGS1 stream with a block size other than 1 MiB
    │   │   ├── HeaderOnlyError       an AGS1 stream too short for a header and one block
    │   │   ├── CutBlockError         a last block too short to hold a nonce and a tag
    │   │   ├── EmptyBlockError       an empty block after full blocks
    │   │   ├── TooManyBlocksError    more than 2**31 - 1 blocks
    │   │   ├── KeyMetadataError      a key-metadata blob that does not parse
    │   │   │   └── KeyMetadataVersionError   a key-metadata version other than 1
    │   │   └── KeyringError          an `encryption-keys` list that is invalid or contradicts itself
    │   ├── PlaintextFileError        a file of an encrypted table is not encrypted
    │   ├── MissingLengthError        no trusted file length, so truncation could not be detected
    │   ├── TruncatedError            a file is shorter than its trusted length
    │   ├── TrailingBytesError        a file is longer than its trusted length
    │   ├── AuthenticationError       a GCM tag failed: altered bytes, wrong key, wrong AAD or wrong position
    │   └── TrustError                the catalog does not vouch for this metadata
    └── KeyAccessError                a key could not be obtained
        ├── KeyNotFoundError          the key does not exist
        ├── AccessDeniedError         these credentials may not use the key
        ├── KeyDisabledError          the key is disabled and can be enabled again
        ├── KeyDestroyedError         the key is destroyed or scheduled for destruction
        ├── WrongKeyError             the key does not decrypt these bytes: wrong key, or altered bytes
        │   └── WrongPassphraseError  the passphrase does not open the keystore
        └── KmsUnavailableError       the KMS did not answer: retry later
            └── KmsThrottledError     the KMS received too many requests

A message says what failed, what was found, what was expected and, where that is known, what to do next.
No message carries a byte of a key.
"""

from __future__ import annotations

from typing import Any, Self


class SealbergError(Exception):
    """The base class of all errors of sealberg; never raised itself."""


class ConfigError(SealbergError, ValueError):
    """An invalid property, option or argument."""


class EncryptionRequiredError(ConfigError):
    """A plaintext table would be created or written, and `encryption.required` of the catalog forbids that."""


class NothingThereError(ConfigError):
    """What was named does not exist, or is empty, so nothing was looked at: tables, a namespace, a file, a keystore."""


class LocationError(ConfigError):
    """A location that does not name one object for every reader, or that is already in use."""


class UnsupportedError(SealbergError):
    """Valid in Iceberg, but not supported by sealberg."""


class ConflictError(SealbergError):
    """Another writer committed first."""


class ClockSkewError(SealbergError):
    """The clock of this machine is further behind the last change of the table than is allowed."""


class PurgeError(SealbergError):
    """A table was not purged, or only in part; `files` lists every file concerned."""

    def __init__(self, message: str, files: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.files = files

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.files)


class PurgeRefusedError(PurgeError):
    """Nothing was dropped. `files` lists the manifest lists and manifests that could not be read."""


class LeftoverFilesError(PurgeError):
    """The table was dropped, but `files` are still in storage."""


class RemovalRefusedError(SealbergError):
    """Files were not removed: it is not known which files the table needs, or other tables may need them."""


class CatalogError(SealbergError):
    """The database of a catalog refused a statement, or failed while it ran."""


class CatalogUnavailableError(CatalogError):
    """The database of a catalog was unreachable, or locked by others, until the time limit."""


class UnfinishedSwapError(CatalogError):
    """The names of two tables were exchanged only in part; the message says which name each table has now."""


class StorageError(SealbergError, OSError):
    """An object store refused or aborted a request, after all retries; the message names the object."""


class StorageAccessError(StorageError, PermissionError):
    """These credentials may not read or write the object."""


class MissingFileError(StorageError, FileNotFoundError):
    """There is no such object, though metadata of a table or the caller named it."""


class PoisonedError(SealbergError, OSError):
    """An earlier write to the sink failed, so the file is incomplete and the writer accepts no more bytes."""


class IntegrityError(SealbergError):
    """Storage does not hold what was written there."""


class FormatError(IntegrityError, ValueError):
    """The bytes do not follow their format."""


class BadMagicError(FormatError):
    """The first bytes are those of another format."""


class BlockSizeError(FormatError, UnsupportedError):
    """An AGS1 header that names a block size other than 1 MiB, which Java refuses too."""


class HeaderOnlyError(FormatError):
    """Too short for a header and one block; even an empty stream has one block and 36 bytes."""


class CutBlockError(FormatError):
    """The last block has no room for its nonce and tag."""


class EmptyBlockError(FormatError):
    """An empty block after full blocks; only an empty stream has an empty block."""


class TooManyBlocksError(FormatError):
    """More than 2**31 - 1 blocks."""


class KeyMetadataError(FormatError):
    """A key-metadata blob that does not parse."""


class KeyMetadataVersionError(KeyMetadataError, UnsupportedError):
    """A key-metadata blob of a version other than 1."""


class KeyringError(FormatError):
    """An `encryption-keys` list that does not parse, or whose entries contradict each other."""


class PlaintextFileError(IntegrityError):
    """A file of an encrypted table has no key, so its content would be read or written as plaintext."""


class MissingLengthError(IntegrityError):
    """The key metadata hold no file length, so the removal of whole blocks could not be detected."""


class TruncatedError(IntegrityError):
    """The file is shorter than its trusted length."""


class TrailingBytesError(IntegrityError):
    """The file is longer than its trusted length."""


class AuthenticationError(IntegrityError):
    """A GCM tag did not match. The cause may be altered bytes, a wrong key, a wrong AAD or a wrong position."""


class TrustError(IntegrityError):
    """The metadata of an encrypted table differ from the metadata that its catalog vouches for."""


class KeyAccessError(SealbergError):
    """A key could not be obtained.

    The KMS client that failed knows the provider, the master key and the request. The caller
    of that client adds the table and the KEK with `about`.
    """

    def __init__(self, reason: str, **about: str | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.context: dict[str, str] = {name: value for name, value in about.items() if value}

    def about(self, **more: str | None) -> Self:
        """A copy of this error with more context: `raise error.about(table=...) from error`."""
        return type(self)(self.reason, **{**self.context, **more})

    def __str__(self) -> str:
        if not self.context:
            return self.reason
        facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.context.items())
        return f"{self.reason} ({facts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.reason, self.context)


def _rebuild(kind: type[KeyAccessError], reason: str, context: dict[str, str]) -> KeyAccessError:
    # Exceptions pickle by positional arguments, but the context is keywords. Spark workers pickle errors.
    return kind(reason, **context)


class KeyNotFoundError(KeyAccessError):
    """The KMS or the keyring has no such key."""


class AccessDeniedError(KeyAccessError):
    """These credentials may not use the key."""


class KeyDisabledError(KeyAccessError):
    """The key is disabled; its owner can enable the key again."""


class KeyDestroyedError(KeyAccessError):
    """The key is destroyed, or scheduled for destruction."""


class WrongKeyError(KeyAccessError):
    """The key does not decrypt these bytes: it is the wrong key, or the bytes were altered."""


class WrongPassphraseError(WrongKeyError):
    """The passphrase does not open the keystore, so nothing is known of the keys in it."""


class KmsUnavailableError(KeyAccessError):
    """The KMS did not answer in time."""


class KmsThrottledError(KmsUnavailableError):
    """The KMS received too many requests and asks to slow down."""
