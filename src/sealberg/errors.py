"""Every error that sealberg raises on purpose.

    SealbergError                     the one to catch
    ├── ConfigError                   a property, an option or an argument that cannot be right
    │   └── EncryptionRequiredError   a table that is not encrypted, where the configuration demands it
    ├── UnsupportedError              fine elsewhere, not here (yet)
    ├── ConflictError                 somebody else committed first: load again and retry
    ├── ClockSkewError                the clock is far behind the last change of the table
    ├── PurgeError                    a table that was not purged, or not wholly
    │   ├── PurgeRefusedError         nothing was dropped: not every file of the table is known, or others use them
    │   └── LeftoverFilesError        the table is dropped, and files of it are still in storage
    ├── CatalogError                  the database of a catalog refused a statement
    │   └── CatalogUnavailableError   it did not answer, or stayed locked; worth another try later
    ├── StorageError                  an object could not be read or written, for what its store says or does not say
    │   └── StorageAccessError        not for these credentials
    ├── PoisonedError                 a writer whose sink failed; nothing more may be written
    ├── IntegrityError                storage does not hold what was written there
    │   ├── FormatError               bytes that cannot be what they should be
    │   │   ├── BadMagicError         they begin as something else
    │   │   ├── BlockSizeError        an AGS1 stream cut in other blocks than 1 MiB
    │   │   ├── HeaderOnlyError       an AGS1 stream without a single whole block
    │   │   ├── CutBlockError         a last block too short to hold a nonce and a tag
    │   │   ├── EmptyBlockError       an empty block after full ones
    │   │   ├── TooManyBlocksError    more blocks than an index can name
    │   │   ├── KeyMetadataError      a key-metadata blob that does not parse
    │   │   │   └── KeyMetadataVersionError   its version is not 1
    │   │   └── KeyringError          an `encryption-keys` list that makes no sense
    │   ├── PlaintextFileError        a file of an encrypted table that is not encrypted
    │   ├── MissingLengthError        no trusted length: a cut file could not be told from a whole one
    │   ├── TruncatedError            shorter than its trusted length
    │   ├── TrailingBytesError        longer than its trusted length
    │   ├── AuthenticationError       a tag failed: altered bytes, another key, another AAD, another place
    │   └── TrustError                metadata that the catalog does not vouch for
    └── KeyAccessError                the key that opens it could not be had
        ├── KeyNotFoundError          no such key
        ├── AccessDeniedError         not for these credentials
        ├── KeyDisabledError          switched off, and could be switched on again
        ├── KeyDestroyedError         gone, or about to be
        ├── WrongKeyError             it does not open this: another key, or altered bytes
        └── KmsUnavailableError       no answer; worth another try later
            └── KmsThrottledError     too many requests

A message says what was found, what was expected and where; it never carries a byte of a key.
The library explains; advice on what to type next belongs to the command line.
"""

from __future__ import annotations

from typing import Any, Self


class SealbergError(Exception):
    """Never raised itself: catch it to catch everything below."""


class ConfigError(SealbergError, ValueError):
    """A property, an option or an argument that cannot be right."""


class EncryptionRequiredError(ConfigError):
    """A plaintext table would be created or written, and `encryption.required` of the catalog forbids that."""


class UnsupportedError(SealbergError):
    """Valid somewhere, and not supported here."""


class ConflictError(SealbergError):
    """Another writer committed first."""


class ClockSkewError(SealbergError):
    """The clock of this machine is further behind the last change of the table than is allowed."""


class PurgeError(SealbergError):
    """A table that was not purged, or not wholly; `files` are those in question, all of them."""

    def __init__(self, message: str, files: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.files = files

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.files)


class PurgeRefusedError(PurgeError):
    """Nothing was dropped. `files` are the manifest lists and manifests that could not be read."""


class LeftoverFilesError(PurgeError):
    """The table is dropped, and `files` are still in storage."""


class CatalogError(SealbergError):
    """The database of a catalog refused a statement, or failed in it."""


class CatalogUnavailableError(CatalogError):
    """The database of a catalog could not be reached, or stayed locked by others, for the time that it was given."""


class StorageError(SealbergError, OSError):
    """An object store refused or broke off a request, and its client has given up; the message names the object."""


class StorageAccessError(StorageError, PermissionError):
    """The store does not let these credentials read or write the object."""


class PoisonedError(SealbergError, OSError):
    """A write to the sink failed earlier; what is there is not a whole file."""


class IntegrityError(SealbergError):
    """Storage does not hold what was written there."""


class FormatError(IntegrityError, ValueError):
    """Bytes that cannot be what they should be."""


class BadMagicError(FormatError):
    """The first bytes belong to another kind of file."""


class BlockSizeError(FormatError, UnsupportedError):
    """An AGS1 header that names a block size other than 1 MiB, which Java refuses too."""


class HeaderOnlyError(FormatError):
    """Too short for a header and one block; even an empty stream has one, of 36 bytes in all."""


class CutBlockError(FormatError):
    """The last block has no room for its nonce and tag."""


class EmptyBlockError(FormatError):
    """An empty block after full ones; only an empty stream has an empty block."""


class TooManyBlocksError(FormatError):
    """More than 2**31 - 1 blocks."""


class KeyMetadataError(FormatError):
    """A key-metadata blob that does not parse."""


class KeyMetadataVersionError(KeyMetadataError, UnsupportedError):
    """A key-metadata blob of a version other than 1."""


class KeyringError(FormatError):
    """An `encryption-keys` list that does not parse or contradicts itself."""


class PlaintextFileError(IntegrityError):
    """A file of an encrypted table without a key: read or written, it would be in the clear."""


class MissingLengthError(IntegrityError):
    """The key metadata carry no file length, so whole blocks could have been cut off unseen."""


class TruncatedError(IntegrityError):
    """Fewer bytes than the trusted length promises."""


class TrailingBytesError(IntegrityError):
    """More bytes than the trusted length promises."""


class AuthenticationError(IntegrityError):
    """AES-GCM refused a block. It cannot tell altered bytes from a wrong key, AAD or place."""


class TrustError(IntegrityError):
    """The metadata of an encrypted table are not those that its catalog vouches for."""


class KeyAccessError(SealbergError):
    """The key that opens it could not be had.

    The client that failed knows the provider, the master key and the request; whoever
    called it adds the table and the KEK with `about`.
    """

    def __init__(self, reason: str, **about: str | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.context: dict[str, str] = {name: value for name, value in about.items() if value}

    def about(self, **more: str | None) -> Self:
        """The same error, knowing more: `raise error.about(table=...) from error`."""
        return type(self)(self.reason, **{**self.context, **more})

    def __str__(self) -> str:
        if not self.context:
            return self.reason
        facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.context.items())
        return f"{self.reason} ({facts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.reason, self.context)


def _rebuild(kind: type[KeyAccessError], reason: str, context: dict[str, str]) -> KeyAccessError:
    # Exceptions pickle by positional arguments; the context is keywords (Spark workers pickle errors).
    return kind(reason, **context)


class KeyNotFoundError(KeyAccessError):
    """The KMS or the keyring has no such key."""


class AccessDeniedError(KeyAccessError):
    """These credentials may not use the key."""


class KeyDisabledError(KeyAccessError):
    """The key is switched off; its owner can switch it on again."""


class KeyDestroyedError(KeyAccessError):
    """The key is destroyed, or scheduled to be."""


class WrongKeyError(KeyAccessError):
    """The key does not open this: it is another key, or the bytes were altered."""


class KmsUnavailableError(KeyAccessError):
    """The KMS did not answer, in time or at all."""


class KmsThrottledError(KmsUnavailableError):
    """The KMS asked for fewer requests."""
