"""PyIceberg's FileIO for one encrypted table: it opens what carries its key and refuses the rest.

    KeyedLocation   a location that carries the key of what lies there; equal to the plain text of it
    EncryptingFileIO    new_input(keyed) -> plaintext of an AGS1 file     new_input(plain)  -> metadata.json only
                    new_output(keyed) -> an AGS1 file                 new_output(plain) -> metadata.json only

Keys travel with the thing that they open. There is no map from paths to keys, so there is nothing to
keep in step, to evict or to leak, and no way to write a file of the table in the clear.
"""

from __future__ import annotations

import contextlib
import os
from errno import ENOENT
from typing import TYPE_CHECKING, Any, Final, Self

from pyiceberg.io import FileIO, InputFile, OutputFile

from sealberg.errors import (
    FormatError,
    IntegrityError,
    KeyNotFoundError,
    MissingFileError,
    MissingLengthError,
    PlaintextFileError,
    SealbergError,
    StorageError,
    UnsupportedError,
)
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.confined_io import store
from sealberg.files.store_errors import is_denied, is_of_region, storage_error
from sealberg.format.ags1 import Layout
from sealberg.format.key_metadata import KeyMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")
ALLOW_PLAINTEXT: Final = "encryption.allow-plaintext-files"
ALLOW_MISSING_LENGTH: Final = "encryption.allow-missing-length"
ENCRYPTED_MAGICS: Final = (b"AGS1", b"PARE")
MALFORMED: Final = "deserialize thrift"  # what Parquet's reader says of a footer that is none
READ_BY_SCAN: Final = "table.scan().to_arrow(), to_arrow_batch_reader(), to_pandas(), to_polars() or to_duckdb()"
NO_KEYS: Final = (
    "the FileIO at hand has no keys: pl.scan_iceberg(table) and other engines that make a FileIO of their own cannot "
    f"read an encrypted table; use table.to_polars(), {READ_BY_SCAN}"
)


def allowances(properties: Mapping[str, str]) -> dict[str, bool]:
    """What a catalog's properties allow beyond the rules, as arguments of `EncryptingFileIO`; by default nothing."""

    def is_on(name: str) -> bool:
        return properties.get(name, "false").lower() == "true"

    return {"allow_plaintext": is_on(ALLOW_PLAINTEXT), "allow_missing_length": is_on(ALLOW_MISSING_LENGTH)}


class KeyedLocation(str):
    """A location and the key metadata of the file there. Prints, hashes and compares as the location alone."""

    __slots__ = ("key_metadata",)
    key_metadata: bytes

    def __new__(cls, location: str, key_metadata: bytes) -> Self:
        self = super().__new__(cls, location)
        self.key_metadata = key_metadata
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.key_metadata)

    @property
    def keys(self) -> KeyMetadata:
        return KeyMetadata.decode(self.key_metadata)

    def __str__(self) -> str:
        return self[:]  # the plain text, without the key


def keyed(location: str, key_metadata: bytes | None) -> str:
    """The location with its key, or as it is where there is none."""
    return location if key_metadata is None else KeyedLocation(location, key_metadata)


class EncryptingFileIO(FileIO):
    """Reads and writes the files of one encrypted table over another FileIO.

    Args:
        inner: where the bytes are.
        open_list_key: from a snapshot's `key-id` to the key metadata of its manifest list.
        allow_plaintext: read files that have no key, for tables where another writer left some.
        allow_missing_length: read AGS1 files whose keys carry no length, for tables of writers that record none.
            Whoever can write to the storage may then cut whole blocks off their ends unseen.
    """

    def __init__(
        self,
        inner: FileIO,
        open_list_key: Callable[[str], KeyMetadata],
        *,
        allow_plaintext: bool = False,
        allow_missing_length: bool = False,
    ) -> None:
        super().__init__(inner.properties)
        self.inner = inner
        self.open_list_key = open_list_key
        self.allow_plaintext = allow_plaintext
        self.allow_missing_length = allow_missing_length

    def new_input(self, location: str) -> InputFile:
        raw = self.inner.new_input(str(location))
        if isinstance(location, KeyedLocation):
            return EncryptedInputFile(raw, location.keys, allow_missing_length=self.allow_missing_length)
        return raw if _is_metadata(location) else _KeylessInput(raw, allowed=self.allow_plaintext)

    def new_output(self, location: str) -> OutputFile:
        raw = self.inner.new_output(str(location))
        if isinstance(location, KeyedLocation):
            return EncryptedOutputFile(raw, location.keys)
        if _is_metadata(location):
            return raw
        return _RefusedOutput(raw)

    def raw_input(self, location: str) -> InputFile:
        """The stored bytes, for formats that carry their own encryption."""
        return self.inner.new_input(str(location))

    def raw_output(self, location: str) -> OutputFile:
        """The same for writing; whoever asks has a key, and a writer that uses it."""
        return self.inner.new_output(str(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.inner.delete(location if isinstance(location, InputFile | OutputFile) else str(location))


class EncryptedInputFile(InputFile):
    """An AGS1 file seen as its plaintext. What is wrong with it is told with its name."""

    def __init__(self, raw: InputFile, keys: KeyMetadata, *, allow_missing_length: bool = False) -> None:
        super().__init__(raw.location)
        self._raw = raw
        self._keys = keys
        self._allow_missing_length = allow_missing_length

    def __len__(self) -> int:
        return Layout(self._keys.file_length or len(self._raw)).plain_length

    def exists(self) -> bool:
        return self._raw.exists()

    def open(self, seekable: bool = True) -> Ags1Reader:  # noqa: ARG002 (it always is)
        if self._keys.file_length is None and not self._allow_missing_length:
            raise MissingLengthError(
                f"{self.location}: the key metadata carry no file length, so blocks cut off its end would go unseen; "
                f"{ALLOW_MISSING_LENGTH}=true reads such files"
            )
        if self.location.endswith(".parquet"):
            raise UnsupportedError(
                f"{self.location} is an encrypted Parquet file, and PyIceberg's own readers (ArrowScan) cannot read "
                f"encrypted Parquet files; use {READ_BY_SCAN}"
            )
        with naming(self.location):
            return Ags1Reader(
                self._raw.open(seekable=True), self._keys, allow_missing_length=self._allow_missing_length
            )


class EncryptedOutputFile(OutputFile):
    """An AGS1 file about to be written; `key_metadata` is known when it is whole."""

    def __init__(self, raw: OutputFile, keys: KeyMetadata) -> None:
        super().__init__(raw.location)
        self._raw = raw
        self._keys = keys
        self._writer: Ags1Writer | None = None

    def __len__(self) -> int:
        return self._writer.stored_length if self._writer is not None else len(self._raw)

    def exists(self) -> bool:
        return self._raw.exists()

    def to_input_file(self) -> EncryptedInputFile:
        return EncryptedInputFile(self._raw.to_input_file(), self.key_metadata)

    def create(self, overwrite: bool = False) -> Ags1Writer:
        self._writer = Ags1Writer(self._raw.create(overwrite=overwrite), self._keys)
        return self._writer

    @property
    def key_metadata(self) -> KeyMetadata:
        """The key with the trusted length."""
        return self._writer.key_metadata if self._writer is not None else self._keys


class _KeylessInput(InputFile):
    """A file without key metadata: plaintext that is read only where that is allowed, or a file whose key is lost."""

    def __init__(self, raw: InputFile, *, allowed: bool) -> None:
        super().__init__(raw.location)
        self._raw = raw
        self._allowed = allowed

    def __len__(self) -> int:
        return len(self._raw)

    def exists(self) -> bool:
        return self._raw.exists()

    def open(self, seekable: bool = True) -> Any:
        with self._raw.open() as stream:
            encrypted = bytes(stream.read(4)) in ENCRYPTED_MAGICS
        if encrypted:
            raise KeyNotFoundError(
                f"{self.location} is encrypted and the table keeps no key for it, so nobody can read it; "
                "Iceberg Java 1.11.0 wrote deletion vectors in this way: snapshots from before them can be read"
            )
        if not self._allowed:
            raise PlaintextFileError(
                f"{self.location} has no key metadata in an encrypted table, so it would be read in the clear; "
                f"{ALLOW_PLAINTEXT}=true reads such files"
            )
        return self._raw.open(seekable=seekable)


class _RefusedOutput(OutputFile):
    def __init__(self, raw: OutputFile) -> None:
        super().__init__(raw.location)
        self._raw = raw

    def __len__(self) -> int:
        return len(self._raw)

    def exists(self) -> bool:
        return self._raw.exists()

    def to_input_file(self) -> InputFile:
        return _KeylessInput(self._raw.to_input_file(), allowed=False)

    def create(self, overwrite: bool = False) -> Any:  # noqa: ARG002
        raise PlaintextFileError(
            f"{self.location} has no key: a file of an encrypted table is not written in the clear"
        )


class RelocatedFileIO(FileIO):
    """Finds files where they were copied to: a location that begins with an old prefix is read at the new one."""

    def __init__(self, inner: FileIO, prefixes: Mapping[str, str]) -> None:
        super().__init__(inner.properties)
        self.inner = inner
        # The longest first, so that a folder inside another can have its own place.
        self._prefixes = sorted(prefixes.items(), key=lambda pair: -len(pair[0]))

    def _place(self, location: str) -> str:
        for old, new in self._prefixes:
            if location == old or location.startswith(old.rstrip("/") + "/"):
                return new.rstrip("/") + location[len(old.rstrip("/")) :]
        return location

    def new_input(self, location: str) -> InputFile:
        return self.inner.new_input(self._place(str(location)))

    def new_output(self, location: str) -> OutputFile:
        return self.inner.new_output(self._place(str(location)))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.inner.delete(self._place(location) if isinstance(location, str) else location)


def _is_metadata(location: str) -> bool:
    return location.endswith(METADATA_SUFFIXES)


@contextlib.contextmanager
def naming(location: str) -> Iterator[None]:
    """Errors about bytes learn whose bytes they were, and errors of storage which file was read or written."""
    try:
        yield
    except IntegrityError as error:
        if str(location) in str(error):
            raise
        raise type(error)(f"{location!s}: {error}") from error
    except ValueError as error:
        if "google::cloud::Status" not in str(error) or isinstance(error, SealbergError):
            raise
        raise StorageError(f"{location!s}: {error}") from error  # an answer that Google's client cannot read
    except OSError as error:
        if MALFORMED in str(error):
            raise FormatError(f"{location!s}: {error}") from error
        # PyArrow names the file when it cannot be opened, and does not when a disk is full.
        # PyIceberg makes a PermissionError of its own, without the number, of an error that has one.
        number = error.errno or getattr(error.__cause__, "errno", None)
        if isinstance(error, SealbergError) or error.filename is not None:
            raise
        if isinstance(error, FileNotFoundError):
            raise MissingFileError(ENOENT, os.strerror(ENOENT), str(location)) from error
        remote = store(location) != "file"
        if number is None or (remote and (is_denied(error) or is_of_region(location, error))):
            raise storage_error(location, error) from error
        raise OSError(number, str(error.strerror or error), str(location)) from error
