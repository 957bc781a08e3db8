"""Reads manifests and manifest lists of version 3 tables.

    manifest list ── one ManifestFileV3 per manifest: its key, its first row id
      manifest    ── one entry per file: DataFileV3, with key, row ids, deletion-vector coordinates

PyIceberg reads version 3 with the layout of version 2 and does not write it. This module uses
PyIceberg's Avro code with the whole layout. Every file of an encrypted table is an AGS1 stream with
its own key; the file's parent stores the key and the length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from pyiceberg.exceptions import ResolveError
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)

from sealberg.errors import FormatError, PlaintextFileError
from sealberg.files.file_io import NO_KEYS, EncryptingFileIO, keyed, naming
from sealberg.format.key_metadata import KeyMetadata
from sealberg.metadata.decode_cache import Cache
from sealberg.metadata.gc_pause import gc_paused
from sealberg.metadata.manifest_avro import ExactAvroFile
from sealberg.metadata.manifest_cache import SHARED, copy_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.typedef import Record

    from sealberg.metadata.decode_cache import Key

VERSION: Final = 3

_LISTS: Final = Cache[list[ManifestFile]](16 << 20, lambda lines: LINE_BYTES * len(lines))
LINE_BYTES: Final = 2000  # about the memory of one entry

_LENGTH, _KEY_METADATA, _FIRST_ROW_ID, _REFERENCED, _OFFSET, _SIZE = 5, 12, 16, 17, 18, 19
_MANIFEST_KEY, _MANIFEST_FIRST_ROW_ID = 14, 15


class DataFileV3(DataFile):
    """A data or delete file; its path carries its key, which `repr` and `str` do not show."""

    @classmethod
    def from_args(cls, _table_format_version: Any = VERSION, **arguments: Any) -> DataFileV3:
        made = super().from_args(VERSION, **arguments)
        assert isinstance(made, cls)
        return made

    @property
    def file_path(self) -> str:
        return keyed(self._data[1], self._data[_KEY_METADATA])

    @property
    def first_row_id(self) -> int | None:
        return cast("int | None", self._data[_FIRST_ROW_ID])

    @first_row_id.setter
    def first_row_id(self, value: int | None) -> None:
        self._data[_FIRST_ROW_ID] = value

    @property
    def referenced_data_file(self) -> str | None:
        return cast("str | None", self._data[_REFERENCED])

    @property
    def content_offset(self) -> int | None:
        return cast("int | None", self._data[_OFFSET])

    @property
    def content_size_in_bytes(self) -> int | None:
        return cast("int | None", self._data[_SIZE])

    @property
    def is_deletion_vector(self) -> bool:
        return self.content == DataFileContent.POSITION_DELETES and self.file_format == FileFormat.PUFFIN

    @property
    def identity(self) -> tuple[str, int | None]:
        """The path and the offset: one Puffin file may hold several deletion vectors."""
        return self._data[1], self._data[_OFFSET]

    def at(self, location: str, length: int, key_metadata: bytes) -> DataFileV3:
        """The same rows or deletes in another file, with another key."""
        made = copy_of(self)
        made[1], made[_LENGTH], made[_KEY_METADATA] = location, length, key_metadata
        return made

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataFileV3) and self.identity == other.identity

    def __repr__(self) -> str:
        return f"DataFileV3({self._data[1]}, {self.record_count} records)"


class ManifestFileV3(ManifestFile):
    """An entry of a manifest list; its path carries its key."""

    @classmethod
    def from_args(cls, _table_format_version: Any = VERSION, **arguments: Any) -> ManifestFileV3:
        made = super().from_args(VERSION, **arguments)
        assert isinstance(made, cls)
        return made

    @property
    def manifest_path(self) -> str:
        return keyed(self._data[0], self._data[_MANIFEST_KEY])

    @property
    def first_row_id(self) -> int | None:
        return cast("int | None", self._data[_MANIFEST_FIRST_ROW_ID])

    @first_row_id.setter
    def first_row_id(self, value: int | None) -> None:
        self._data[_MANIFEST_FIRST_ROW_ID] = value

    def at(self, location: str, length: int, key_metadata: bytes | None) -> ManifestFileV3:
        """The same manifest in another file, with another key."""
        made = copy_of(self)
        made[0], made[1], made[_MANIFEST_KEY] = location, length, key_metadata
        return made

    def fetch_manifest_entry(self, io: FileIO, discard_deleted: bool = True, **_: Any) -> list[ManifestEntry]:
        """The entries of the manifest, with the fields that they inherit from this object."""
        shared = self.shared_entries(io)
        chosen = [entry for entry in shared if not (discard_deleted and _is_deleted(entry))]
        return [copy_of(entry) for entry in chosen] if self.is_kept(io) else chosen

    def shared_entries(self, io: FileIO) -> Sequence[ManifestEntry]:
        """The entries for planning, deleted files included. They are shared, so the caller must not change them."""

        def read() -> list[ManifestEntry]:
            with naming(self.manifest_path), gc_paused():
                return list(inherit(read_manifest_file(io, self.manifest_path), self))

        return SHARED.get(self.cache_key, read) if self.is_kept(io) else read()

    @property
    def cache_key(self) -> Key:
        """All fields but the counts: the path and key of the manifest, and the fields that its entries inherit."""
        return (*self._data[:4], self.sequence_number, self.added_snapshot_id, self.key_metadata, self.first_row_id)

    def is_kept(self, io: FileIO) -> bool:
        """Whether what the manifest holds may be kept for the next plan."""
        # Not without a trusted length: only callers that allow a missing length may see such a manifest.
        return (
            self.key_metadata is not None
            and isinstance(io, EncryptingFileIO)
            and KeyMetadata.decode(self._data[_MANIFEST_KEY]).file_length is not None
        )

    def __repr__(self) -> str:
        return f"ManifestFileV3({self._data[0]})"

    def __hash__(self) -> int:
        return hash(self._data[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManifestFile) and self._data[0] == other.manifest_path


# -- reading ----------------------------------------------------------------------------------


def read_manifest_list(io: FileIO, location: str, key_id: str | None) -> list[ManifestFile]:
    """The manifests of a snapshot."""
    if isinstance(io, EncryptingFileIO):
        if key_id is not None:
            key = io.open_list_key(key_id)
            location = keyed(location, key.encode())
            if key.file_length is not None:
                lines = _LISTS.get((str(location), key.encode()), lambda: read_list_file(io, location))
                return [copy_of(line) for line in lines]
        elif not io.allow_plaintext:
            raise PlaintextFileError(
                f"a snapshot of an encrypted table has no key-id, so its manifest list {location} is not encrypted; "
                "encryption.allow-plaintext-files=true reads such files"
            )
    elif key_id is not None:
        raise PlaintextFileError(f"Cannot decrypt manifest list: {location}: {NO_KEYS}")
    return read_list_file(io, location)


def keep_list(location: str, key: KeyMetadata, lines: list[ManifestFile]) -> None:
    """Keep the lines of a list that this process has written, so that its next commit does not decode them."""
    if key.file_length is not None:
        _LISTS.get((str(location), key.encode()), lambda: lines)


def read_list_file(io: FileIO, location: str) -> list[ManifestFile]:
    """The lines of a manifest list, read from storage and not from the cache; `location` carries the key."""
    with (
        naming(location),
        reading(location),
        ExactAvroFile[ManifestFile](
            io.new_input(location),
            MANIFEST_LIST_FILE_SCHEMAS[VERSION],
            read_types={-1: ManifestFileV3, 508: PartitionFieldSummary},
            read_enums={517: ManifestContent},
        ) as reader,
    ):
        return list(reader)


def read_manifest_file(io: FileIO, location: str) -> list[ManifestEntry]:
    """The entries of a manifest as they are stored, without the fields that they inherit; not from the cache."""
    with (
        reading(location),
        ExactAvroFile[ManifestEntry](
            io.new_input(location),
            MANIFEST_ENTRY_SCHEMAS[VERSION],
            read_types={-1: ManifestEntry, 2: DataFileV3},
            read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
        ) as reader,
    ):
        return list(reader)


def inherit(entries: Iterable[ManifestEntry], manifest: ManifestFileV3) -> Iterator[ManifestEntry]:
    """The same entries, with the fields that they inherit from the line of their manifest."""
    next_row_id = manifest.first_row_id
    for entry in entries:
        if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
            entry.snapshot_id = manifest.added_snapshot_id
        # Manifests of version 1 have the sequence number 0 for all files; later manifests pass theirs to added files.
        if manifest.sequence_number == 0 or entry.status == ManifestEntryStatus.ADDED:
            if entry.sequence_number is None:
                entry.sequence_number = manifest.sequence_number
            if entry.file_sequence_number is None:
                entry.file_sequence_number = manifest.sequence_number
        file = entry.data_file
        file.spec_id = manifest.partition_spec_id
        assert isinstance(file, DataFileV3)
        _uuids_as_bytes(file.partition)
        if next_row_id is None:
            file.first_row_id = None
        elif file.first_row_id is None and not _is_deleted(entry):
            file.first_row_id = next_row_id
            next_row_id += file.record_count
        yield entry


def _uuids_as_bytes(partition: Record) -> None:
    """Convert UUIDs to bytes, as in partitions of new files; PyIceberg's filters do not match UUID objects."""
    for at in range(len(partition)):
        if isinstance(partition[at], UUID):
            partition[at] = partition[at].bytes


def _is_deleted(entry: ManifestEntry) -> bool:
    return entry.status == ManifestEntryStatus.DELETED


UNREADABLE: Final = (
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    NotImplementedError,
    ResolveError,
)


class reading:  # noqa: N801 (used as `with reading(...)`)
    """Turns the many exceptions of PyIceberg's Avro reader for malformed files into one FormatError."""

    def __init__(self, location: str) -> None:
        self._location = location

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FormatError):
            if str(self._location) not in str(error):
                raise type(error)(f"{self._location!s}: {error}") from error
        elif isinstance(error, UNREADABLE):
            raise FormatError(
                f"{self._location!s} is not a valid manifest or manifest list: {str(error)[:300]}"
            ) from error
