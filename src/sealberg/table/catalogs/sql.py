"""SQL catalogs (SQLite, PostgreSQL, in memory): PyIceberg's own tables, and a table of trust beside them.

    iceberg_tables    where the metadata of a table are            PyIceberg's, shared with Java's JDBC catalog
    sealberg_trust    for each encrypted table: key id, key length, metadata location, SHA-256 of the metadata

The database is trusted and the storage is not. The row of trust changes in the same transaction as the
pointer, so metadata that were swapped, rolled back or edited in storage, and a pointer that another
tool moved, do not agree with it and are refused. `trust` accepts such a change, on purpose.

    commit: load and compare ──> check ──> write metadata ──> pointer and trust ──> COMMIT
            └───────────────── it did not happen, for certain ────────────────┘      └─ perhaps it did

Whoever wrote files for a commit deletes them only where it did not happen for certain (`not_committed`).
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import DEFAULT_INIT_CATALOG_TABLES, IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec, assign_fresh_partition_spec_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import CommitTableResponse, Table, TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder, assign_fresh_sort_order_ids
from pyiceberg.table.update import update_table_metadata
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.types import strtobool
from sqlalchemy import and_, delete, event, insert, inspect, select, update
from sqlalchemy.exc import IntegrityError as SqlIntegrityError
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.orm import Session

from sealberg.errors import ConfigError, TrustError
from sealberg.keys.kek_cache import KekCache
from sealberg.keys.kms import KMS_IMPL, KMS_TYPE, client_from_properties
from sealberg.keys.manager import KEY_ID_PROPERTY, EncryptionManager, EncryptionSettings
from sealberg.table import java_json
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.catalogs.database import TRUST, be_patient, dotted, finish
from sealberg.table.commit import discard, not_committed, surely_not_committed
from sealberg.table.create import CreateTransaction, StagedCatalogTable
from sealberg.table.metadata import (
    FORMAT_VERSION,
    V3Snapshot,
    V3TableMetadata,
    metadata_hash,
    new_metadata,
    uncompressed,
)
from sealberg.table.purge import purge_files
from sealberg.table.rules import (
    VERSION_PROPERTY,
    check_base,
    check_change,
    check_keys,
    check_plain_updates,
    check_types,
    format_version,
)
from sealberg.table.trust import Trust, other_keys, refuse_untrusted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.table import Transaction
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties

    from sealberg.keys.kms import KmsClient


class SealedSql(SqlCatalog):
    """What both SQL catalogs below share."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        if self.engine.dialect.name == "sqlite" and self.engine.url.database not in (None, "", ":memory:"):
            event.listen(self.engine, "connect", be_patient)
            self.engine.dispose()  # the connection that looked for the tables is not patient
        self._prepare()
        self._kms: KmsClient | None = None
        self._keks = KekCache()
        self._once = threading.Lock()

    def _prepare(self) -> None:
        if strtobool(self.properties.get("init_catalog_tables", DEFAULT_INIT_CATALOG_TABLES)):
            self.create_tables()
        elif not inspect(self.engine).has_table(TRUST.name):
            raise ConfigError(
                f"the database has no table {TRUST.name}, and init_catalog_tables keeps it from being made"
            )

    def create_tables(self) -> None:
        for attempt in range(10):
            try:
                super().create_tables()
                TRUST.metadata.create_all(self.engine)
            except (OperationalError, ProgrammingError, SqlIntegrityError):
                # Another process opened the same new database, and made a table between our look and our attempt.
                if attempt == 9:
                    raise
            else:
                return

    def destroy_tables(self) -> None:
        TRUST.metadata.drop_all(self.engine)
        super().destroy_tables()

    # -- load ---------------------------------------------------------------------------------

    def load_table(self, identifier: str | Identifier) -> Table:
        name = self._name(identifier)
        location, trusted = self._pointer(name)
        if trusted is not None:
            trusted.check_location(dotted(name), location)
        text = uncompressed(_read(load_file_io(self.properties, location), location))
        if trusted is not None:
            trusted.check_text(dotted(name), location, text)
        raw = _raw_v3(text)
        if raw is None:
            if trusted is not None:
                raise TrustError(f"{location} is not the metadata of the encrypted table {dotted(name)}")
            return self._plain_table(name, text, location)
        metadata = V3TableMetadata.from_raw(raw)
        if trusted is None:
            refuse_untrusted(dotted(name), location, metadata)
        elif not trusted.same_keys(Trust.of(metadata, location, trusted.metadata_hash)):
            raise TrustError(f"the key id in {location} is not the one that the catalog has for {dotted(name)}")
        return self._table(name, metadata, location)

    def _pointer(self, name: tuple[str, str]) -> tuple[str, Trust | None]:
        # One statement, so that a commit of somebody else is seen as a whole or not at all.
        mine = and_(
            TRUST.c.catalog_name == IcebergTables.catalog_name,
            TRUST.c.table_namespace == IcebergTables.table_namespace,
            TRUST.c.table_name == IcebergTables.table_name,
        )
        columns = (TRUST.c.key_id, TRUST.c.key_length, TRUST.c.metadata_location, TRUST.c.metadata_hash)
        both = select(IcebergTables.metadata_location, *columns).outerjoin_from(IcebergTables, TRUST, mine)
        with Session(self.engine) as session:
            row = session.execute(both.where(*self._of_table(name))).first()
        if row is None or row[0] is None:
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
        location, key_id, *rest = row
        return location, None if key_id is None else Trust(key_id, *rest)

    def _plain_table(self, name: tuple[str, str], text: bytes, location: str) -> Table:
        """A table of version 1 or 2, as PyIceberg makes it."""
        metadata = TableMetadataUtil.parse_raw(text.decode())
        io = self._load_file_io(metadata.properties, location)
        return Table(_identifier(name), metadata, location, io, self)

    def _table(self, name: tuple[str, str], metadata: V3TableMetadata, location: str) -> CatalogTable:
        inner = self._load_file_io(metadata.properties, location)
        return CatalogTable(_identifier(name), metadata, location, inner, self, self._encryption(name, metadata))

    def _encryption(self, name: tuple[str, str], metadata: V3TableMetadata) -> EncryptionManager | None:
        if KEY_ID_PROPERTY not in metadata.properties:
            return None
        settings = EncryptionSettings.from_properties(dotted(name), metadata.properties, self.properties)
        with self._once:
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
        self._create(name, self._new(name, schema, location, partition_spec, sort_order, properties))
        return self.load_table(identifier)

    def create_table_transaction(  # type: ignore[override]  # PyIceberg's own transaction cannot write version 3
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Transaction:
        version = format_version(properties, TableProperties.DEFAULT_FORMAT_VERSION)
        if version < 3:
            return super().create_table_transaction(
                identifier, schema, location, partition_spec, sort_order, properties
            )
        name = self._name(identifier)
        metadata = self._new(name, schema, location, partition_spec, sort_order, properties)
        inner = self._load_file_io(metadata.properties, metadata.location)
        staged = StagedCatalogTable(
            _identifier(name), metadata, metadata.location, inner, self, self._encryption(name, metadata)
        )
        return CreateTransaction(staged, lambda created: self._create(name, created))

    def _new(
        self,
        name: tuple[str, str],
        schema: Schema | pa.Schema,
        location: str | None,
        spec: PartitionSpec,
        order: SortOrder,
        properties: Properties,
    ) -> V3TableMetadata:
        """The metadata of a table that could be created; what cannot be right is refused before anything is written."""
        if not self.namespace_exists(name[0]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {name[0]}")
        location = self._resolve_table_location(location, *name)
        metadata = _first_metadata(self, schema, location, spec, order, properties)
        self._encryption(name, metadata)
        return metadata

    def _create(self, name: tuple[str, str], metadata: V3TableMetadata) -> None:
        place = load_location_provider(metadata.location, metadata.properties).new_table_metadata_file_location()
        with self._written(metadata, place) as digest, Session(self.engine) as session:
            with not_committed():
                self._enter(session, name, place, Trust.of(metadata, place, digest))
            finish(session, name)

    def _enter(self, session: Session, name: tuple[str, str], place: str, trust: Trust | None) -> None:
        try:
            session.execute(insert(IcebergTables).values(**self._create_table_row(*name, place)))
        except SqlIntegrityError as error:
            raise TableAlreadyExistsError(f"Table {dotted(name)} already exists") from error
        self._vouch(session, name, trust)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        with not_committed():
            current = self._current(table.name())
            if not isinstance(current, CatalogTable):
                check_plain_updates(current.metadata if current else None, updates)
        if not isinstance(current, CatalogTable):
            return super().commit_table(table, requirements, updates)
        with not_committed():
            after = _changed(current, requirements, updates)
            if after == current.metadata:
                return _response(after, current.metadata_location)
            version = self._parse_metadata_version(current.metadata_location) + 1
            provider = load_location_provider(after.location, after.properties)
            place = provider.new_table_metadata_file_location(version)
            # Made before the pointer moves: nothing may fail between a commit and the news of it.
            response = _response(after, place)
        with self._written(after, place) as digest:
            self._swap(self._name(table.name()), current.metadata_location, place, Trust.of(after, place, digest))
        return response

    def _current(self, identifier: Identifier) -> Table | None:
        try:
            return self.load_table(identifier)
        except NoSuchTableError:
            return None

    @contextlib.contextmanager
    def _written(self, metadata: V3TableMetadata, place: str) -> Iterator[str]:
        """A metadata file for the block to commit; gives its hash, and is deleted if it was surely not committed."""
        io = load_file_io(self.properties, place)
        try:
            with not_committed():
                text = metadata.to_json().encode()
                with io.new_output(place).create() as stream:
                    stream.write(text)
            yield metadata_hash(text)
        except BaseException as error:
            if surely_not_committed(error):
                discard(io, [place])
            raise

    def _swap(self, name: tuple[str, str], old: str, new: str, trust: Trust | None) -> None:
        """Move the pointer and what the catalog vouches for, together, if the pointer is still where it was."""
        with Session(self.engine) as session:
            with not_committed():
                try:
                    moved = session.execute(
                        update(IcebergTables)
                        .where(*self._of_table(name), IcebergTables.metadata_location == old)
                        .values(metadata_location=new, previous_metadata_location=old)
                    )
                    # Whoever moved the pointer holds its row until the end, and is alone with the row of trust.
                    if moved.rowcount != 1:  # type: ignore[attr-defined]
                        raise CommitFailedException(f"Table has been updated by another process: {dotted(name)}")
                    self._vouch(session, name, trust)
                except OperationalError as error:  # locked for too long, a deadlock, no connection: worth another try
                    raise CommitFailedException(f"the database of {dotted(name)} did not answer") from error
            finish(session, name)

    def _vouch(self, session: Session, name: tuple[str, str], trust: Trust | None) -> None:
        session.execute(delete(TRUST).where(*self._of(TRUST.c, name)))
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
                moved = session.execute(update(IcebergTables).where(*self._of_table(old)).values(**renamed))
            except SqlIntegrityError as error:
                raise TableAlreadyExistsError(f"Table {dotted(new)} already exists") from error
            if moved.rowcount < 1:  # type: ignore[attr-defined]
                raise NoSuchTableError(f"Table does not exist: {dotted(old)}")
            if new != old:
                self._vouch(session, new, None)  # left over from a table that another tool dropped
            session.execute(update(TRUST).where(*self._of(TRUST.c, old)).values(**renamed))
            session.commit()
        return self.load_table(to_identifier)

    def drop_table(self, identifier: str | Identifier) -> None:
        name = self._name(identifier)
        with Session(self.engine) as session:
            self._leave(session, name)
            session.commit()

    def _leave(self, session: Session, name: tuple[str, str]) -> None:
        gone = session.execute(delete(IcebergTables).where(*self._of_table(name)))
        if gone.rowcount < 1:  # type: ignore[attr-defined]
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
        self._vouch(session, name, None)

    def purge_table(self, identifier: str | Identifier) -> None:
        table = self.load_table(identifier)
        if not isinstance(table, CatalogTable):
            super().purge_table(identifier)
            return
        files = purge_files(table)  # found while the keys are still at hand
        self.drop_table(identifier)
        discard(table.inner, files)

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Enter a table whose metadata are already there; whoever calls this vouches for them."""
        text = uncompressed(_read(load_file_io(self.properties, metadata_location), metadata_location))
        raw = _raw_v3(text)
        if raw is None:
            return super().register_table(identifier, metadata_location, overwrite)
        name, metadata = self._name(identifier), V3TableMetadata.from_raw(raw)
        check_keys(metadata)
        trust = Trust.of(metadata, metadata_location, metadata_hash(text))
        if trust is None:
            refuse_untrusted(dotted(name), metadata_location, metadata)
        if not self.namespace_exists(name[0]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {name[0]}")
        with Session(self.engine) as session:
            if overwrite and self._known(name):
                before = self._pointer(name)[1]
                if before is not None and not before.same_keys(trust):
                    raise TrustError(other_keys(dotted(name), before, trust))
                self._leave(session, name)
            self._enter(session, name, metadata_location, trust)
            session.commit()
        return self.load_table(identifier)

    def _known(self, name: tuple[str, str]) -> bool:
        with Session(self.engine) as session:
            return session.execute(select(IcebergTables.table_name).where(*self._of_table(name))).first() is not None

    # -- trust --------------------------------------------------------------------------------

    def trusted(self, identifier: str | Identifier) -> Trust | None:
        """What the catalog vouches for now."""
        return self._pointer(self._name(identifier))[1]

    def found(self, identifier: str | Identifier) -> tuple[Trust | None, V3TableMetadata]:
        """What is in storage now, whoever put it there; no trust where that is not encrypted."""
        location, _ = self._pointer(self._name(identifier))
        text = uncompressed(_read(load_file_io(self.properties, location), location))
        metadata = V3TableMetadata.from_json(text)
        return Trust.of(metadata, location, metadata_hash(text)), metadata

    def vouched_metadata(self, trusted: Trust) -> V3TableMetadata | None:
        """The metadata that the catalog vouches for, if they are still there unchanged."""
        try:
            location = trusted.metadata_location
            text = uncompressed(_read(load_file_io(self.properties, location), location))
        except (OSError, ValueError):
            return None
        return V3TableMetadata.from_json(text) if metadata_hash(text) == trusted.metadata_hash else None

    def trust(self, identifier: str | Identifier, accepted: Trust | None) -> None:
        """Vouch for what `found` showed, if it is still that; the keys cannot become others this way."""
        name = self._name(identifier)
        now, metadata = self.found(identifier)
        before = self.trusted(identifier)
        if before is not None and not before.same_keys(now):
            raise TrustError(other_keys(dotted(name), before, now))
        again = TrustError(f"the metadata of {dotted(name)} have changed again since they were shown")
        if accepted is None or now != accepted:
            raise again
        check_keys(metadata)
        with Session(self.engine) as session:
            # The pointer is held, and must still be the one that was shown.
            held = session.execute(
                update(IcebergTables)
                .where(*self._of_table(name), IcebergTables.metadata_location == accepted.metadata_location)
                .values(metadata_location=accepted.metadata_location)
            )
            if held.rowcount != 1:  # type: ignore[attr-defined]
                raise again
            self._vouch(session, name, accepted)
            session.commit()

    def close(self) -> None:
        with self._once:
            self._keks.close()
            if self._kms is not None:
                self._kms.close()
                self._kms = None
        super().close()

    # -- names --------------------------------------------------------------------------------

    def _name(self, identifier: str | Identifier) -> tuple[str, str]:
        return Catalog.namespace_to_string(Catalog.namespace_from(identifier)), Catalog.table_name_from(identifier)

    def _of(self, table: Any, name: tuple[str, str]) -> tuple[Any, ...]:
        return (
            table.catalog_name == self.name,
            table.table_namespace == name[0],
            table.table_name == name[1],
        )

    def _of_table(self, name: tuple[str, str]) -> tuple[Any, ...]:
        # Views of other tools are in the same table.
        only_tables = self._iceberg_type_filter()
        return self._of(IcebergTables, name) if only_tables is None else (*self._of(IcebergTables, name), only_tables)


class SealedSqlCatalog(SealedSql):
    """PyIceberg's SqlCatalog with encrypted tables."""


class SealedInMemoryCatalog(SealedSql, InMemoryCatalog):
    """PyIceberg's InMemoryCatalog with encrypted tables."""


def _changed(
    current: CatalogTable, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
) -> V3TableMetadata:
    for requirement in requirements:
        requirement.validate(current.metadata)
    check_base(current.metadata, updates)
    after = update_table_metadata(current.metadata, updates, metadata_location=current.metadata_location)
    assert isinstance(after, V3TableMetadata)
    check_change(current.metadata, after)
    # Made by hand, a snapshot may be of PyIceberg's class, which would be read by PyIceberg's reader.
    snapshots = [
        each if isinstance(each, V3Snapshot) else V3Snapshot.model_validate(each.model_dump(by_alias=True))
        for each in after.snapshots
    ]
    return after.model_copy(update={"snapshots": snapshots})


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
    check_types(given)
    fresh = assign_fresh_schema_ids(given)
    return new_metadata(
        schema=fresh,
        spec=assign_fresh_partition_spec_ids(spec, given, fresh),
        sort_order=assign_fresh_sort_order_ids(order, given, fresh),
        location=location,
        properties={name: str(value) for name, value in properties.items() if name != VERSION_PROPERTY},
    )


def _raw_v3(text: bytes) -> dict[str, Any] | None:
    """The parsed metadata of a version 3 table; None for everything else, which is PyIceberg's to judge."""
    try:
        raw = java_json.loads(text)
    except ValueError:
        return None
    return raw if isinstance(raw, dict) and raw.get("format-version") == FORMAT_VERSION else None


def _read(io: FileIO, location: str) -> bytes:
    with io.new_input(location).open() as stream:
        return bytes(stream.read())


def _identifier(name: tuple[str, str]) -> Identifier:
    return (*Catalog.identifier_to_tuple(name[0]), name[1])
