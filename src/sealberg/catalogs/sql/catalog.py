"""SQL catalogs (SQLite, PostgreSQL, in memory): PyIceberg's own tables, and a table of trust beside them.

    iceberg_tables    the metadata location of each table          PyIceberg's, shared with Java's JDBC catalog
    sealberg_trust    for each encrypted table: key id, key length, metadata location, SHA-256 of the metadata

The database is trusted; the storage is not. The row of trust changes in the same transaction as the metadata location.
Metadata that were swapped, rolled back or edited in the storage, and a location that another tool changed, do not match
the row and are refused. `trust` accepts such a change explicitly.

Every statement goes through `trust_table.Database`: it waits for a server that restarts, finds out whether a COMMIT
without a response was applied, and raises errors of this package.
"""

from __future__ import annotations

import contextlib
import logging
import os
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import DEFAULT_INIT_CATALOG_TABLES, IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.types import strtobool
from sqlalchemy import and_, delete, insert, inspect, or_, select, text, update
from sqlalchemy.exc import ArgumentError, OperationalError, ProgrammingError
from sqlalchemy.exc import IntegrityError as SqlIntegrityError

from sealberg.catalogs.base import dotted
from sealberg.catalogs.commit_status import resolve_commit
from sealberg.catalogs.metastore import EncryptedMetastore
from sealberg.catalogs.name_swap import between_name
from sealberg.catalogs.sql.trust_table import TRUST, Database, Unanswered, is_transient
from sealberg.catalogs.sql.turn import FileTurn
from sealberg.errors import CatalogUnavailableError, ConfigError
from sealberg.metadata.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyiceberg.catalog import PropertiesUpdateSummary
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier, Properties
    from sqlalchemy.engine import Engine
    from sqlalchemy.orm import Session

    from sealberg.catalogs.base import Name
    from sealberg.catalogs.metastore import Version
    from sealberg.write.commit_outcome import CommitAttempt
    from sealberg.write.retry import Turn


_log: Final = logging.getLogger(__name__)


DRIVERS: Final = ("psycopg2", "psycopg")


def with_driver(uri: str) -> str:
    """The URL with a driver that is installed: SQLAlchemy's own choice for PostgreSQL differs between its releases."""
    scheme, separator, rest = uri.partition("://")
    if scheme.lower() not in ("postgresql", "postgres") or not separator:
        return uri
    driver = next((each for each in DRIVERS if find_spec(each) is not None), DRIVERS[0])
    return f"postgresql+{driver}://{rest}"


class EncryptedSql(EncryptedMetastore, SqlCatalog):
    """Shared by the SQL catalogs below."""

    def __init__(self, name: str, **properties: str) -> None:
        if isinstance(properties.get("uri"), str):
            properties["uri"] = with_driver(properties["uri"])
        try:
            # pool_pre_ping replaces a connection that broke while it was idle, for example in a restart of the server.
            super().__init__(name, **{"pool_pre_ping": "true", **properties})
        except ArgumentError as error:
            # SQLAlchemy's message may contain the uri, and with it the password.
            raise ConfigError(
                f"the uri of the catalog {name} is not a database URL of SQLAlchemy, such as "
                "postgresql+psycopg2://user@host/database or sqlite:////path/to/file.db"
            ) from error
        except ModuleNotFoundError as error:
            if error.name not in DRIVERS:
                raise ConfigError(f"the uri of the catalog {name} needs the package {error.name}") from error
            raise ConfigError(
                f"the catalog {name} is in PostgreSQL, which needs the package {error.name}: "
                "pip install 'sealberg[postgres]', and begin its uri with postgresql://"
            ) from error
        self._prepare()

    def _init_catalog(self) -> None:
        """PyIceberg's constructor calls this after it has made the engine, before the first statement."""
        if (path := _sqlite_file(self.engine)) is not None:
            _create_private(path)
        self._database = Database(self.engine, self.properties)
        self._trust_seen = False
        # PyIceberg takes any failure of its first statements for missing tables, so the connection is checked first.
        first = "SELECT count(*) FROM sqlite_master" if self.engine.dialect.name == "sqlite" else "SELECT 1"
        self._database.read("open the catalog", lambda session: session.execute(text(first)))
        with self._database.naming("open the catalog"):
            super()._init_catalog()

    @property
    def _plain(self) -> Any:
        return _Naming(super()._plain, self._database)

    def _prepare(self) -> None:
        if strtobool(self.properties.get("init_catalog_tables", DEFAULT_INIT_CATALOG_TABLES)):
            self.create_tables()
        elif not self._has_trust():
            _log.warning(
                "the database has no table %s, and init_catalog_tables=false prevents its creation: the catalog %s "
                "refuses encrypted tables",
                TRUST.name,
                self.name,
            )

    def _has_trust(self) -> bool:
        """Whether the table of trust exists; looked up until it does, since another client may create it."""
        if not self._trust_seen:
            has = partial(inspect(self.engine).has_table, TRUST.name)
            self._trust_seen = self._database.ask(f"look for the table {TRUST.name}", has)
        return self._trust_seen

    def create_tables(self) -> None:
        self._trust_seen = True
        with self._database.naming("make the tables of the catalog"):
            for attempt in range(10):
                try:
                    super().create_tables()
                    TRUST.metadata.create_all(self.engine)
                except (OperationalError, ProgrammingError, SqlIntegrityError) as error:
                    # Another process opened the same new database and created a table between our check and our CREATE.
                    if attempt == 9 or is_transient(error):
                        raise
                else:
                    return

    def destroy_tables(self) -> None:
        with self._database.naming("drop the tables of the catalog"):
            TRUST.metadata.drop_all(self.engine)
            super().destroy_tables()

    # -- the pointer and what is vouched for --------------------------------------------------

    def _pointer(self, name: Name) -> tuple[str, Trust | None]:
        if not self._has_trust():
            return self._pointer_without_trust(name), None
        # One statement, so that a concurrent commit is seen whole or not at all.
        mine = and_(
            TRUST.c.catalog_name == IcebergTables.catalog_name,
            TRUST.c.table_namespace == IcebergTables.table_namespace,
            TRUST.c.table_name == IcebergTables.table_name,
        )
        columns = (TRUST.c.key_id, TRUST.c.key_length, TRUST.c.metadata_location, TRUST.c.metadata_hash)
        both = select(IcebergTables.metadata_location, *columns).outerjoin_from(IcebergTables, TRUST, mine)
        statement = both.where(*self._of_table(name))
        row = self._database.read(f"load {dotted(name)}", lambda session: session.execute(statement).first())
        if row is None or row[0] is None:
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
        location, key_id, *rest = row
        return location, None if key_id is None else Trust(key_id, *rest)

    def _pointer_without_trust(self, name: Name) -> str:
        """The metadata location in a database without a table of trust."""
        statement = select(IcebergTables.metadata_location).where(*self._of_table(name))
        row = self._database.read(f"load {dotted(name)}", lambda session: session.execute(statement).first())
        if row is None or row[0] is None:
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
        return str(row[0])

    def _enter(self, name: Name, version: Version, attempt: CommitAttempt) -> None:
        def enter(session: Session) -> None:
            try:
                session.execute(insert(IcebergTables).values(**self._create_table_row(*name, version.location)))
            except SqlIntegrityError as error:
                raise TableAlreadyExistsError(f"Table {dotted(name)} already exists") from error.orig
            self._write_trust(session, name, version.trust)

        self._commit(f"create {dotted(name)}", name, version, enter, attempt)

    def _swap(self, name: Name, old: str, version: Version, gone: frozenset[str], attempt: CommitAttempt) -> None:  # noqa: ARG002
        def move(session: Session) -> None:
            moved = session.execute(
                update(IcebergTables)
                .where(*self._of_table(name), IcebergTables.metadata_location == old)
                .values(metadata_location=version.location, previous_metadata_location=old)
            )
            # This transaction now holds the lock of the row until it ends, so no other one writes the row of trust.
            if moved.rowcount != 1:  # type: ignore[attr-defined]
                raise CommitFailedException(f"Table has been updated by another process: {dotted(name)}")
            self._write_trust(session, name, version.trust)

        self._commit(f"commit {dotted(name)}", name, version, move, attempt)

    def _commit(
        self, what: str, name: Name, version: Version, act: Callable[[Session], None], attempt: CommitAttempt
    ) -> None:
        try:
            self._database.write(what, act, attempt)
        except Unanswered as lost:
            resolve_commit(self, name, version, lost, over=self._database.is_over(what, act))

    def turn(self) -> Turn | None:
        path = _sqlite_file(self.engine)
        return FileTurn(f"{path}-turn") if path is not None else None

    def _vouch(self, name: Name, accepted: Trust) -> bool:
        def vouch(session: Session) -> bool:
            # The update takes the lock of the row; the location must still be the accepted one.
            held = session.execute(
                update(IcebergTables)
                .where(*self._of_table(name), IcebergTables.metadata_location == accepted.metadata_location)
                .values(metadata_location=accepted.metadata_location)
            )
            if held.rowcount != 1:  # type: ignore[attr-defined]
                return False
            self._write_trust(session, name, accepted)
            return True

        what = f"trust the metadata of {dotted(name)}"
        try:
            return self._database.write(what, vouch)
        except Unanswered as lost:
            self._find_out(what, vouch, lost, lambda: self._pointer(name)[1] == accepted)
            return True

    def _find_out(self, what: str, act: Callable[[Session], Any], lost: Exception, is_done: Callable[[], bool]) -> None:
        """Return if a change whose COMMIT got no response was applied; otherwise CatalogUnavailableError."""
        if not self._database.is_over(what, act):
            raise CatalogUnavailableError(
                f"{self._database} did not answer when asked to {what}: {lost}. The change may have been applied, or "
                "may be applied later; check the table before you try again"
            ) from lost
        if not is_done():
            raise CatalogUnavailableError(
                f"{self._database} lost the connection when asked to {what}: {lost}. The change was not "
                "applied; try again"
            ) from lost

    def _forget(self, identifier: str | Identifier) -> None:
        """Delete the row of trust of a table that another tool has dropped.

        One statement checks that there is no table of that name and deletes the row: an existing table keeps its row,
        whoever created it.
        """
        if not Catalog.namespace_from(identifier) or not self._has_trust():
            return
        name = self._name(identifier)
        exists = select(IcebergTables.table_name).where(*self._of(IcebergTables, name)).exists()
        stale = delete(TRUST).where(*self._of(TRUST.c, name), ~exists)

        def forget(session: Session) -> int:
            return int(session.execute(stale).rowcount)  # type: ignore[attr-defined]

        what = f"forget the dropped table {dotted(name)}"
        try:
            gone = self._database.write(what, forget)
        except Unanswered as lost:
            raise CatalogUnavailableError(
                f"{self._database} lost the connection when asked to {what}: {lost}. Try again"
            ) from lost
        if gone:
            _log.warning("%s was dropped by another tool; the catalog no longer vouches for it", dotted(name))

    def _write_trust(self, session: Session, name: Name, trust: Trust | None) -> None:
        if not self._has_trust():
            if trust is None:
                return
            raise ConfigError(
                f"{dotted(name)} cannot be an encrypted table: the database has no table {TRUST.name}, which holds the "
                "hashes of encrypted tables. Open the catalog once without init_catalog_tables=false to create it"
            )
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
        self._admit_renamed(from_identifier, to_identifier)
        before = self._known(old)

        def rename(session: Session) -> None:
            self._rename_rows(session, old, new)

        what = f"rename {dotted(old)} to {dotted(new)}"
        try:
            self._database.write(what, rename)
        except Unanswered as lost:
            self._find_out(
                what, rename, lost, lambda: before is not None and (self._known(new) or (None,))[0] == before[0]
            )
        return self.load_table(to_identifier)

    def _rename_rows(self, session: Session, old: Name, new: Name, location: str | None = None) -> None:
        """Rename the row of a table, which must still have this metadata location, and its row of trust."""
        renamed = {"table_namespace": new[0], "table_name": new[1]}
        is_old = self._of_table(old) if location is None else (*self._of_table(old), self._is_at(location))
        try:
            moved = session.execute(update(IcebergTables).where(*is_old).values(**renamed))
        except SqlIntegrityError as error:
            raise TableAlreadyExistsError(f"Table {dotted(new)} already exists") from error.orig
        if moved.rowcount < 1:  # type: ignore[attr-defined]
            if location is not None:
                raise CommitFailedException(f"Table has been updated by another process: {dotted(old)}")
            raise NoSuchTableError(f"Table does not exist: {dotted(old)}")
        if new != old:
            self._write_trust(session, new, None)  # left over from a table that another tool dropped
        if self._has_trust():
            session.execute(update(TRUST).where(*self._of(TRUST.c, old)).values(**renamed))

    def _swap_names(self, first: Identifier, second: Identifier, unchanged: Mapping[Identifier, str]) -> None:
        self.admit_swapped(first, second)
        (a, at_a), (b, at_b) = sorted((self._name(name), unchanged.get(name)) for name in (first, second))
        between = self._name(between_name(first, second))
        before = [self._pointer(name)[0] for name in (a, b)]

        def swap(session: Session) -> None:
            self._rename_rows(session, a, between, at_a)
            self._rename_rows(session, b, a, at_b)
            self._rename_rows(session, between, b)

        what = f"exchange the names {dotted(a)} and {dotted(b)}"
        try:
            self._database.write(what, swap)
        except Unanswered as lost:
            self._find_out(what, swap, lost, lambda: [self._pointer(name)[0] for name in (b, a)] == before)

    def is_swap_begun(self, first: str | Identifier, second: str | Identifier) -> bool:  # noqa: ARG002
        return False  # one transaction: there is no exchange in part

    finish_swap = is_swap_begun

    def drop_table(self, identifier: str | Identifier) -> None:
        name = self._name(identifier)

        def drop(session: Session) -> None:
            gone = session.execute(delete(IcebergTables).where(*self._of_table(name)))
            if gone.rowcount < 1:  # type: ignore[attr-defined]
                raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
            self._write_trust(session, name, None)

        what = f"drop {dotted(name)}"
        try:
            self._database.write(what, drop)
        except Unanswered as lost:
            self._find_out(what, drop, lost, lambda: self._known(name) is None)

    # -- PyIceberg's own statements, with retries and the errors of this package ------------------

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        what = f"list the tables of {_text(namespace)}"
        return self._database.ask(what, partial(super().list_tables, namespace))

    def namespace_exists(self, identifier: str | Identifier) -> bool:
        what = f"look for the namespace {_text(identifier)}"
        return self._database.ask(what, partial(super().namespace_exists, identifier))

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        return self._database.ask("list the namespaces", partial(super().list_namespaces, namespace))

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        what = f"load the properties of the namespace {_text(namespace)}"
        return self._database.ask(what, partial(super().load_namespace_properties, namespace))

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        with self._database.naming(f"create the namespace {_text(namespace)}"):
            try:
                super().create_namespace(namespace, properties)
            except SqlIntegrityError as error:
                if not self.namespace_exists(namespace):
                    raise  # a name or a value is None
                # Another process has created the namespace first.
                raise NamespaceAlreadyExistsError(f"Namespace {_text(namespace)} already exists") from error.orig

    def drop_namespace(self, namespace: str | Identifier) -> None:
        with self._database.naming(f"drop the namespace {_text(namespace)}"):
            super().drop_namespace(namespace)

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        with self._database.naming(f"change the properties of the namespace {_text(namespace)}"):
            return super().update_namespace_properties(namespace, removals, updates)

    # -- names --------------------------------------------------------------------------------

    def _new_name(self, identifier: str | Identifier) -> Name:
        if not Catalog.namespace_from(identifier):
            raise NoSuchNamespaceError("Empty namespace identifier")
        return self._name(identifier)

    def _of(self, table: Any, name: Name) -> tuple[Any, ...]:
        return (
            table.catalog_name == self.name,
            table.table_namespace == name[0],
            table.table_name == name[1],
        )

    def _current_of_any(self, locations: Iterable[str]) -> Iterable[str]:
        """By their names, as a pointer may be spelled in another way; also those of other catalogs in the database."""
        names = {location.rpartition("/")[2] for location in locations}
        at = or_(*(IcebergTables.metadata_location.endswith(name, autoescape=True) for name in sorted(names)))
        statement = select(IcebergTables.metadata_location).where(at)
        what = "look whose metadata files these are"
        return [str(row[0]) for row in self._database.read(what, lambda session: session.execute(statement).all())]

    @staticmethod
    def _is_at(location: str) -> Any:
        return IcebergTables.metadata_location == location

    def _of_table(self, name: Name) -> tuple[Any, ...]:
        # Other tools keep views in the same table.
        only_tables = self._iceberg_type_filter()
        return self._of(IcebergTables, name) if only_tables is None else (*self._of(IcebergTables, name), only_tables)


class _Naming:
    """PyIceberg's catalog, with the errors of this package."""

    def __init__(self, plain: Any, database: Database) -> None:
        self._plain = plain
        self._database = database

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._plain, name)

        def named(table: Any, *args: Any, **kwargs: Any) -> Any:
            identifier = table.name() if hasattr(table, "metadata") else table
            with self._database.naming(f"{name.partition('_')[0]} {_text(identifier)}"):
                return method(table, *args, **kwargs)

        return named


def _text(namespace: str | Identifier) -> str:
    return namespace if isinstance(namespace, str) else ".".join(namespace)


class EncryptedSqlCatalog(EncryptedSql):
    """PyIceberg's SqlCatalog with encrypted tables."""


class EncryptedInMemoryCatalog(EncryptedSql, InMemoryCatalog):
    """PyIceberg's InMemoryCatalog with encrypted tables."""


def _sqlite_file(engine: Engine) -> str | None:
    path = engine.url.database
    is_file = engine.dialect.name == "sqlite" and path and path != ":memory:" and not path.startswith("file:")
    return path if is_file else None


def _create_private(path: str) -> None:
    """Only the owner's, before there is anything in it: the file says where everything is, and vouches for it.

    A file that exists keeps its mode, and so do the files that SQLite makes beside it.
    """
    with contextlib.suppress(OSError):  # which SQLite then tells in its own words
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
