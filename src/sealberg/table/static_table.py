"""A table without a catalog, opened by its metadata.json, for reading.

    open_table("s3://lake/hr/salaries/metadata/00007-....metadata.json",
               {"encryption.kms-type": "aws"}, expected_key_id="hr")

Without a catalog nobody vouches for metadata.json: whoever can write to the storage could name another master key in
it, or none. `expected_key_id` closes that gap. Tables of versions 1 and 2 are PyIceberg's. The FileIO is built from the
caller's properties only, because the table's properties come from the storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io

from sealberg.errors import IntegrityError, UnsupportedError
from sealberg.files.confined_io import ConfinedFileIO, stores
from sealberg.files.file_io import EncryptingFileIO, RelocatedFileIO, allowances, naming
from sealberg.keys.manager import KEY_ID_PROPERTY, EncryptionManager, EncryptionSettings
from sealberg.metadata.invariants import refuse_plaintext
from sealberg.metadata.metadata_file import max_bytes, parse, read_text
from sealberg.metadata.storage_properties import for_file_io, warn_of
from sealberg.metadata.table_metadata import FORMAT_VERSION, V3TableMetadata
from sealberg.table.base import EncryptedTable
from sealberg.table.plain_table import PlainStaticTable, plain_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from sealberg.keys.kms.client import KmsClient


class StaticSealedTable(EncryptedTable):
    """A version 3 table as one metadata.json describes it; it never changes."""

    def refresh(self) -> NoReturn:
        raise UnsupportedError(
            f"cannot refresh {self.metadata_location}: without a catalog it is one version of a table. Open the newer "
            "metadata.json with open_table, or load the table from its catalog"
        )

    def transaction(self) -> NoReturn:
        raise UnsupportedError(_for_reading(self.metadata_location))


class _NoCatalog(NoopCatalog):
    """Refuses commits that do not start as a transaction."""

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],  # noqa: ARG002
        updates: tuple[TableUpdate, ...],  # noqa: ARG002
    ) -> NoReturn:
        raise UnsupportedError(_for_reading(table.metadata_location))


def _for_reading(location: str) -> str:
    return (
        f"{location} was opened without a catalog, so it is for reading only. Load the table from its catalog to write"
    )


def open_table(
    metadata_location: str,
    properties: Mapping[str, str] | None = None,
    *,
    expected_key_id: str | None = None,
    relocate: Mapping[str, str] | None = None,
    kms: KmsClient | None = None,
) -> Table:
    """Open a table for reading, at any of the snapshots of a metadata file.

    Args:
        metadata_location: the location of a metadata.json, compressed or not.
        properties: as for a catalog: PyIceberg's properties of the storage, and the KMS that has the master key.
        expected_key_id: refuse the table if it has another master key, or if it is not encrypted.
        relocate: for copies of tables: maps a prefix of locations to the prefix where the files are read instead.
        kms: the KMS client to use instead of the one that the properties name.
    """
    given = dict(properties or {})
    raw = _read(given, metadata_location, relocate)
    if raw.get("format-version") != FORMAT_VERSION:
        if expected_key_id is not None:
            raise IntegrityError(
                f"{metadata_location}: version {raw.get('format-version')} tables are not encrypted, "
                f"expected one under the key {expected_key_id}"
            )
        metadata = plain_metadata(metadata_location, raw)
        io = storage_io(given, metadata_location, relocate)
        return PlainStaticTable(("static-table", metadata_location), metadata, metadata_location, io, _catalog())
    with naming(metadata_location):
        v3 = V3TableMetadata.from_raw(raw)
    warn_of(metadata_location, given, v3.properties)
    io = storage_io(given, metadata_location, relocate)
    return StaticSealedTable(
        ("static-table", metadata_location),
        v3,
        metadata_location,
        sealed_io(io, v3, metadata_location, given, expected_key_id=expected_key_id, kms=kms),
        _catalog(),
    )


def sealed_io(
    inner: FileIO,
    metadata: V3TableMetadata,
    name: str,
    properties: Mapping[str, str],
    *,
    expected_key_id: str | None = None,
    kms: KmsClient | None = None,
) -> FileIO:
    """A FileIO that opens the files of the table; `inner` itself if the table is not encrypted."""
    key_id = metadata.properties.get(KEY_ID_PROPERTY)
    if expected_key_id is not None and key_id != expected_key_id:
        raise IntegrityError(f"{name}: the table's {KEY_ID_PROPERTY} is {key_id}, expected {expected_key_id}")
    if not key_id:
        _check_not_stripped(metadata, name)
        refuse_plaintext(name, metadata)
        return inner
    settings = EncryptionSettings.from_properties(name, metadata.properties, properties)
    manager = EncryptionManager(settings, kms=kms)
    return EncryptingFileIO(inner, ListKeys(manager, metadata), **allowances(properties))


class ListKeys:
    """From a snapshot's `key-id` to the key of its manifest list."""

    def __init__(self, manager: EncryptionManager, metadata: V3TableMetadata) -> None:
        self.manager = manager
        self._keys = metadata.encryption_keys

    def __call__(self, key_id: str) -> Any:
        return self.manager.open_list_key(self._keys, key_id)


def _check_not_stripped(metadata: V3TableMetadata, name: str) -> None:
    sealed = [snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.key_id is not None]
    if sealed or len(metadata.encryption_keys):
        raise IntegrityError(
            f"{name}: the table has encryption keys but no {KEY_ID_PROPERTY}; the property is never removed, "
            "so somebody has changed the metadata"
        )


def _read(properties: dict[str, str], location: str, relocate: Mapping[str, str] | None) -> dict[str, Any]:
    file = storage_io(properties, location, relocate).new_input(location)
    return parse(read_text(file, max_bytes(properties)), location)


def storage_io(properties: dict[str, str], location: str, relocate: Mapping[str, str] | None = None) -> FileIO:
    """A FileIO without keys for the store of this location, from the caller's properties only."""
    copies = tuple((relocate or {}).values())
    given = {**properties, **for_file_io(properties, {})}
    io: FileIO = ConfinedFileIO(load_file_io(given, location), stores(properties, location, *copies))
    return RelocatedFileIO(io, relocate) if relocate else io


def _catalog() -> _NoCatalog:
    return _NoCatalog("static-table")
