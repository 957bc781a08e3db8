"""SQL catalogs (SQLite, PostgreSQL, in memory): PyIceberg's own tables, and a table of trust beside them.

    iceberg_tables    where the metadata of a table are            PyIceberg's, shared with Java's JDBC catalog
    sealberg_trust    for each encrypted table: key id, key length, metadata location, SHA-256 of the metadata

The database is trusted and the storage is not. The row of trust changes in the same transaction as the
pointer, so metadata that were swapped, rolled back or edited in storage, and a pointer that another
tool moved, do not agree with it and are refused. `trust` accepts such a change, on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec, assign_fresh_partition_spec_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import CommitTableResponse, TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder, assign_fresh_sort_order_ids
from pyiceberg.table.update import update_table_metadata
from pyiceberg.typedef import EMPTY_DICT
from sqlalchemy import Column, MetaData, String, delete, insert, select, update
from sqlalchemy import Table as SqlTable
from sqlalchemy.exc import IntegrityError as SqlIntegrityError
from sqlalchemy.orm import Session

from sealberg.errors import IntegrityError
from sealberg.keys.file_keys import KEY_LENGTH_PROPERTY
from sealberg.keys.kek_cache import KekCache
from sealberg.keys.kms import KMS_IMPL, KMS_TYPE, client_from_properties
from sealberg.keys.manager import KEY_ID_PROPERTY, EncryptionManager, EncryptionSettings
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.metadata import V3TableMetadata, metadata_hash, new_metadata, uncompressed
from sealberg.table.purge import purge_files
from sealberg.table.rules import VERSION_PROPERTY, check_change, check_keys, format_version

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties

    from sealberg.keys.kms import KmsClient

TRUST: Final = SqlTable(
    "sealberg_trust",
    MetaData(),
    Column("catalog_name", String(255), primary_key=True),
    Column("table_namespace", String(255), primary_key=True),
    Column("table_name", String(255), primary_key=True),
    Column("key_id", String(2048), nullable=False),
    Column("key_length", String(16), nullable=True),
    Column("metadata_location", String(4096), nullable=False),
    Column("metadata_hash", String(64), nullable=False),
)


@dataclass(frozen=True)
class Trust:
    """What the catalog vouches for."""

    key_id: str
    key_length: str | None
    metadata_location: str
    metadata_hash: str

    @classmethod
    def of(cls, metadata: V3TableMetadata, location: str, digest: str) -> Trust | None:
        """For metadata that are to be trusted from now on; None for a table that is not encrypted."""
        key_id = metadata.properties.get(KEY_ID_PROPERTY)
        return None if key_id is None else cls(key_id, metadata.properties.get(KEY_LENGTH_PROPERTY), location, digest)


class SealedSql(SqlCatalog):
    """What both SQL catalogs below share."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        TRUST.metadata.create_all(self.engine)
        self._kms: KmsClient | None = None
        self._keks = KekCache()

    # -- load ---------------------------------------------------------------------------------

    def load_table(self, identifier: str | Identifier) -> Table:
        name = self._name(identifier)
        location, trusted = self._pointer(name)
        io = load_file_io(self.properties, location)
        text = uncompressed(_read(io, location))
        if not _is_v3(text):
            if trusted is not None:
                raise IntegrityError(f"{location} is not the metadata of the encrypted table {_dotted(name)}")
            return super().load_table(identifier)
        if trusted is not None:
            self._compare(name, location, text, trusted)
        metadata = V3TableMetadata.from_json(text)
        if trusted is None:
            _refuse_untrusted(name, location, metadata)
        elif metadata.properties.get(KEY_ID_PROPERTY) != trusted.key_id:
            raise IntegrityError(f"the key id in {location} is not the one that the catalog has for {_dotted(name)}")
        return self._table(name, metadata, location)

    def _pointer(self, name: tuple[str, str]) -> tuple[str, Trust | None]:
        with Session(self.engine) as session:
            found = session.scalar(select(IcebergTables.metadata_location).where(*self._where(IcebergTables, name)))
            row = session.execute(select(TRUST).where(*self._where(TRUST.c, name))).mappings().first()
        if found is None:
            raise NoSuchTableError(f"Table does not exist: {_dotted(name)}")
        if row is None:
            return found, None
        return found, Trust(row["key_id"], row["key_length"], row["metadata_location"], row["metadata_hash"])

    def _compare(self, name: tuple[str, str], location: str, text: bytes, trusted: Trust) -> None:
        table = _dotted(name)
        if location != trusted.metadata_location:
            raise IntegrityError(
                f"table {table} points at {location}, and the catalog vouches for {trusted.metadata_location}: "
                "another tool has changed it"
            )
        if metadata_hash(text) != trusted.metadata_hash:
            raise IntegrityError(
                f"the metadata file {location} of table {table} might have been modified: "
                "its hash differs from the one that the catalog has"
            )

    def _table(self, name: tuple[str, str], metadata: V3TableMetadata, location: str) -> CatalogTable:
        inner = self._load_file_io(metadata.properties, location)
        identifier = (*Catalog.identifier_to_tuple(name[0]), name[1])
        return CatalogTable(identifier, metadata, location, inner, self, self._encryption(name, metadata))

    def _encryption(self, name: tuple[str, str], metadata: V3TableMetadata) -> EncryptionManager | None:
        if KEY_ID_PROPERTY not in metadata.properties:
            return None
        settings = EncryptionSettings.from_properties(_dotted(name), metadata.properties, self.properties)
        if self._kms is None and (KMS_TYPE in self.properties or KMS_IMPL in self.properties):
            # One client and one cache for all tables; without a KMS a table can still be looked at.
            self._kms = client_from_properties(self.properties)
            self._keks = KekCache(settings.cache_ttl_s)
        return EncryptionManager(settings, kms=self._kms, cache=self._keks)

    # -- create, commit -----------------------------------------------------------------------

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        version = format_version(properties, TableProperties.DEFAULT_FORMAT_VERSION)
        if version < 3:
            return super().create_table(identifier, schema, location, partition_spec, sort_order, properties)
        name = self._name(identifier)
        if not self.namespace_exists(name[0]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {name[0]}")
        location = self._resolve_table_location(location, *name)
        metadata = _first_metadata(self, schema, location, partition_spec, sort_order, properties)
        if KEY_ID_PROPERTY in metadata.properties:
            self._encryption(name, metadata)  # refuses settings that cannot be right before anything is written
        provider = load_location_provider(location, metadata.properties)
        place = provider.new_table_metadata_file_location()
        digest = self._write(metadata, place)
        with Session(self.engine) as session:
            try:
                session.execute(insert(IcebergTables).values(**self._create_table_row(*name, place)))
                self._vouch(session, name, Trust.of(metadata, place, digest))
                session.commit()
            except SqlIntegrityError as error:
                _delete(load_file_io(self.properties, place), place)
                raise TableAlreadyExistsError(f"Table {_dotted(name)} already exists") from error
        return self.load_table(identifier)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        name = self._name(table.name())
        current = self.load_table(table.name()) if isinstance(table, CatalogTable) else None
        if not isinstance(current, CatalogTable):
            return super().commit_table(table, requirements, updates)
        for requirement in requirements:
            requirement.validate(current.metadata)
        after = update_table_metadata(current.metadata, updates, metadata_location=current.metadata_location)
        assert isinstance(after, V3TableMetadata)
        if after == current.metadata:
            return _response(current.metadata, current.metadata_location)
        check_change(current.metadata, after)
        version = self._parse_metadata_version(current.metadata_location) + 1
        provider = load_location_provider(after.location, after.properties)
        place = provider.new_table_metadata_file_location(version)
        digest = self._write(after, place)
        try:
            self._swap(name, current.metadata_location, place, Trust.of(after, place, digest))
        except CommitFailedException:
            _delete(current.inner, place)  # nobody will ever point at it
            raise
        return _response(after, place)

    def _write(self, metadata: V3TableMetadata, place: str) -> str:
        text = metadata.to_json().encode()
        output = load_file_io(self.properties, place).new_output(place)
        with output.create() as stream:
            stream.write(text)
        return metadata_hash(text)

    def _swap(self, name: tuple[str, str], old: str, new: str, trust: Trust | None) -> None:
        """Move the pointer and what the catalog vouches for, together, if the pointer is still where it was."""
        with Session(self.engine) as session:
            moved = session.execute(
                update(IcebergTables)
                .where(*self._where(IcebergTables, name), IcebergTables.metadata_location == old)
                .values(metadata_location=new, previous_metadata_location=old)
            )
            if moved.rowcount != 1:  # type: ignore[attr-defined]
                raise CommitFailedException(f"Table has been updated by another process: {_dotted(name)}")
            self._vouch(session, name, trust)
            session.commit()

    def _vouch(self, session: Session, name: tuple[str, str], trust: Trust | None) -> None:
        session.execute(delete(TRUST).where(*self._where(TRUST.c, name)))
        if trust is not None:
            session.execute(
                insert(TRUST).values(
                    catalog_name=self.name,
                    table_namespace=name[0],
                    table_name=name[1],
                    key_id=trust.key_id,
                    key_length=trust.key_length,
                    metadata_location=trust.metadata_location,
                    metadata_hash=trust.metadata_hash,
                )
            )

    # -- rename, drop, purge, register --------------------------------------------------------

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        old, new = self._name(from_identifier), self._name(to_identifier)
        if not self.namespace_exists(new[0]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {new[0]}")
        renamed = {"table_namespace": new[0], "table_name": new[1]}
        with Session(self.engine) as session:
            try:
                moved = session.execute(update(IcebergTables).where(*self._where(IcebergTables, old)).values(**renamed))
                if moved.rowcount < 1:  # type: ignore[attr-defined]
                    raise NoSuchTableError(f"Table does not exist: {_dotted(old)}")
                session.execute(update(TRUST).where(*self._where(TRUST.c, old)).values(**renamed))
                session.commit()
            except SqlIntegrityError as error:
                raise TableAlreadyExistsError(f"Table {_dotted(new)} already exists") from error
        return self.load_table(to_identifier)

    def drop_table(self, identifier: str | Identifier) -> None:
        name = self._name(identifier)
        with Session(self.engine) as session:
            gone = session.execute(delete(IcebergTables).where(*self._where(IcebergTables, name)))
            if gone.rowcount < 1:  # type: ignore[attr-defined]
                raise NoSuchTableError(f"Table does not exist: {_dotted(name)}")
            session.execute(delete(TRUST).where(*self._where(TRUST.c, name)))
            session.commit()

    def purge_table(self, identifier: str | Identifier) -> None:
        table = self.load_table(identifier)
        if not isinstance(table, CatalogTable):
            super().purge_table(identifier)
            return
        files = purge_files(table)  # found while the keys are still at hand
        self.drop_table(identifier)
        for location in files:
            _delete(table.inner, location)

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Enter a table whose metadata are already there; whoever calls this vouches for them."""
        io = load_file_io(self.properties, metadata_location)
        text = uncompressed(_read(io, metadata_location))
        if not _is_v3(text):
            return super().register_table(identifier, metadata_location, overwrite)
        name, metadata = self._name(identifier), V3TableMetadata.from_json(text)
        check_keys(metadata)
        if overwrite and self.table_exists(identifier):
            self.drop_table(identifier)
        if not self.namespace_exists(name[0]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {name[0]}")
        with Session(self.engine) as session:
            try:
                session.execute(insert(IcebergTables).values(**self._create_table_row(*name, metadata_location)))
                self._vouch(session, name, Trust.of(metadata, metadata_location, metadata_hash(text)))
                session.commit()
            except SqlIntegrityError as error:
                raise TableAlreadyExistsError(f"Table {_dotted(name)} already exists") from error
        return self.load_table(identifier)

    # -- trust --------------------------------------------------------------------------------

    def trusted(self, identifier: str | Identifier) -> Trust | None:
        """What the catalog vouches for now."""
        return self._pointer(self._name(identifier))[1]

    def found(self, identifier: str | Identifier) -> tuple[Trust | None, V3TableMetadata]:
        """What is in storage now, whoever put it there."""
        location, _ = self._pointer(self._name(identifier))
        text = uncompressed(_read(load_file_io(self.properties, location), location))
        metadata = V3TableMetadata.from_json(text)
        return Trust.of(metadata, location, metadata_hash(text)), metadata

    def trust(self, identifier: str | Identifier, accepted: Trust) -> None:
        """Vouch for what `found` showed, if it is still that; the key id cannot change this way."""
        name = self._name(identifier)
        now, metadata = self.found(identifier)
        before = self.trusted(identifier)
        if now != accepted:
            raise IntegrityError(f"the metadata of {_dotted(name)} have changed again since they were shown")
        if before is not None and before.key_id != accepted.key_id:
            raise IntegrityError(
                f"the key id of {_dotted(name)} is {before.key_id} and cannot become {accepted.key_id}"
            )
        check_keys(metadata)
        with Session(self.engine) as session:
            self._vouch(session, name, accepted)
            session.commit()

    def close(self) -> None:
        self._keks.close()
        if self._kms is not None:
            self._kms.close()
        super().close()

    # -- names --------------------------------------------------------------------------------

    def _name(self, identifier: str | Identifier) -> tuple[str, str]:
        return Catalog.namespace_to_string(Catalog.namespace_from(identifier)), Catalog.table_name_from(identifier)

    def _where(self, table: Any, name: tuple[str, str]) -> tuple[Any, ...]:
        return (
            table.catalog_name == self.name,
            table.table_namespace == name[0],
            table.table_name == name[1],
        )


class SealedSqlCatalog(SealedSql):
    """PyIceberg's SqlCatalog with encrypted tables."""


class SealedInMemoryCatalog(SealedSql, InMemoryCatalog):
    """PyIceberg's InMemoryCatalog with encrypted tables."""


def _response(metadata: V3TableMetadata, location: str) -> CommitTableResponse:
    return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": location})


def _first_metadata(
    catalog: SealedSql,
    schema: Schema | pa.Schema,
    location: str,
    spec: PartitionSpec,
    order: SortOrder,
    properties: Properties,
) -> V3TableMetadata:
    given = catalog._convert_schema_if_needed(schema, 3)  # noqa: SLF001 (a subclass of its owner calls this)
    given.check_format_version_compatibility(3)
    fresh = assign_fresh_schema_ids(given)
    return new_metadata(
        schema=fresh,
        spec=assign_fresh_partition_spec_ids(spec, given, fresh),
        sort_order=assign_fresh_sort_order_ids(order, given, fresh),
        location=location,
        properties={name: str(value) for name, value in properties.items() if name != VERSION_PROPERTY},
    )


def _refuse_untrusted(name: tuple[str, str], location: str, metadata: V3TableMetadata) -> None:
    """Without a row of trust a table is not encrypted; if it looks so, somebody else made it or took the row away."""
    if (
        KEY_ID_PROPERTY in metadata.properties
        or len(metadata.encryption_keys)
        or any(snapshot.key_id for snapshot in metadata.snapshots)
    ):
        raise IntegrityError(
            f"table {_dotted(name)} is encrypted according to {location}, and the catalog does not vouch for it"
        )


def _is_v3(text: bytes) -> bool:
    import json

    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("format-version") == 3


def _read(io: FileIO, location: str) -> bytes:
    with io.new_input(location).open() as stream:
        return bytes(stream.read())


def _delete(io: FileIO, location: str) -> None:
    from sealberg.table.commit import discard

    discard(io, [location])


def _dotted(name: tuple[str, str]) -> str:
    return f"{name[0]}.{name[1]}"
