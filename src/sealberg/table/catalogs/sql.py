"""SQL catalogs (SQLite, PostgreSQL, in memory): PyIceberg's own tables, and a table of trust beside them.

    iceberg_tables    where the metadata of a table are            PyIceberg's, shared with Java's JDBC catalog
    sealberg_trust    for each encrypted table: key id, key length, metadata location, SHA-256 of the metadata

The database is trusted and the storage is not. The row of trust changes in the same transaction as the
pointer, so metadata that were swapped, rolled back or edited in storage, and a pointer that another
tool moved, do not agree with it and are refused. `trust` accepts such a change, on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import DEFAULT_INIT_CATALOG_TABLES, IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.types import strtobool
from sqlalchemy import and_, delete, event, insert, inspect, select, update
from sqlalchemy.exc import IntegrityError as SqlIntegrityError
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.orm import Session

from sealberg.errors import ConfigError
from sealberg.table.catalogs.database import TRUST, be_patient, finish
from sealberg.table.catalogs.keyed import dotted
from sealberg.table.catalogs.metastore import SealedMetastore
from sealberg.table.commit import not_committed
from sealberg.table.trust import Trust

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.table.catalogs.keyed import Name
    from sealberg.table.catalogs.metastore import Version


class SealedSql(SealedMetastore, SqlCatalog):
    """What both SQL catalogs below share."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        if self.engine.dialect.name == "sqlite" and self.engine.url.database not in (None, "", ":memory:"):
            event.listen(self.engine, "connect", be_patient)
            self.engine.dispose()  # the connection that looked for the tables is not patient
        self._prepare()

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

    # -- the pointer and what is vouched for --------------------------------------------------

    def _pointer(self, name: Name) -> tuple[str, Trust | None]:
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

    def _enter(self, name: Name, version: Version) -> None:
        with Session(self.engine) as session:
            with not_committed():
                try:
                    session.execute(insert(IcebergTables).values(**self._create_table_row(*name, version.location)))
                except SqlIntegrityError as error:
                    raise TableAlreadyExistsError(f"Table {dotted(name)} already exists") from error
                self._write_trust(session, name, version.trust)
            finish(session, name)

    def _swap(self, name: Name, old: str, version: Version, gone: frozenset[str]) -> None:  # noqa: ARG002
        with Session(self.engine) as session:
            with not_committed():
                try:
                    moved = session.execute(
                        update(IcebergTables)
                        .where(*self._of_table(name), IcebergTables.metadata_location == old)
                        .values(metadata_location=version.location, previous_metadata_location=old)
                    )
                    # Whoever moved the pointer holds its row until the end, and is alone with the row of trust.
                    if moved.rowcount != 1:  # type: ignore[attr-defined]
                        raise CommitFailedException(f"Table has been updated by another process: {dotted(name)}")
                    self._write_trust(session, name, version.trust)
                except OperationalError as error:  # locked for too long, a deadlock, no connection: worth another try
                    raise CommitFailedException(f"the database of {dotted(name)} did not answer") from error
            finish(session, name)

    def _vouch(self, name: Name, accepted: Trust) -> bool:
        with Session(self.engine) as session:
            # The pointer is held, and must still be the one that was shown.
            held = session.execute(
                update(IcebergTables)
                .where(*self._of_table(name), IcebergTables.metadata_location == accepted.metadata_location)
                .values(metadata_location=accepted.metadata_location)
            )
            if held.rowcount != 1:  # type: ignore[attr-defined]
                return False
            self._write_trust(session, name, accepted)
            session.commit()
        return True

    def _write_trust(self, session: Session, name: Name, trust: Trust | None) -> None:
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

    # -- rename, drop -------------------------------------------------------------------------

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
                self._write_trust(session, new, None)  # left over from a table that another tool dropped
            session.execute(update(TRUST).where(*self._of(TRUST.c, old)).values(**renamed))
            session.commit()
        return self.load_table(to_identifier)

    def drop_table(self, identifier: str | Identifier) -> None:
        name = self._name(identifier)
        with Session(self.engine) as session:
            gone = session.execute(delete(IcebergTables).where(*self._of_table(name)))
            if gone.rowcount < 1:  # type: ignore[attr-defined]
                raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
            self._write_trust(session, name, None)
            session.commit()

    # -- names --------------------------------------------------------------------------------

    def _of(self, table: Any, name: Name) -> tuple[Any, ...]:
        return (
            table.catalog_name == self.name,
            table.table_namespace == name[0],
            table.table_name == name[1],
        )

    def _of_table(self, name: Name) -> tuple[Any, ...]:
        # Views of other tools are in the same table.
        only_tables = self._iceberg_type_filter()
        return self._of(IcebergTables, name) if only_tables is None else (*self._of(IcebergTables, name), only_tables)


class SealedSqlCatalog(SealedSql):
    """PyIceberg's SqlCatalog with encrypted tables."""


class SealedInMemoryCatalog(SealedSql, InMemoryCatalog):
    """PyIceberg's InMemoryCatalog with encrypted tables."""
