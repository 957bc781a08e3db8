"""Hive catalogs: tables in a Hive Metastore, shared with Iceberg Java.

    table_parameters.py    key id, key length and hash, beside the pointer
    hive/table_form.py     the other parameters that Java writes
    hive/lock.py           the lock that Java takes too

A commit takes the lock of the table, checks that the metadata location has not changed, and alters the table. The alter
request also names the old metadata location, which a metastore with HIVE-26882 compares again. With such a metastore
and `engine.hive.lock-enabled` = `false`, a table needs no locks, as in Java.
"""

from __future__ import annotations

import contextlib
import getpass
from typing import TYPE_CHECKING, Any, Final

from hive_metastore.ttypes import (
    AlreadyExistsException,
    EnvironmentContext,
    InvalidObjectException,
    InvalidOperationException,
    MetaException,
    NoSuchObjectException,
)
from pyiceberg.catalog import METADATA_LOCATION
from pyiceberg.catalog.hive import DO_NOT_UPDATE_STATS, HIVE2_COMPATIBLE, HiveCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from thrift.Thrift import TException
from thrift.transport.TTransport import TTransportException

from sealberg.catalogs.base import dotted
from sealberg.catalogs.commit_status import resolve_commit
from sealberg.catalogs.hive.lock import LockPolicy, table_lock
from sealberg.catalogs.hive.table_form import new_table, parameters_after, storage
from sealberg.catalogs.metastore import EncryptedMetastore
from sealberg.catalogs.sql.trust_table import NotCommittedError
from sealberg.catalogs.table_parameters import pointer, vouched
from sealberg.errors import CatalogError, CatalogUnavailableError, TrustError
from sealberg.write.commit_outcome import CommitAttempt
from sealberg.write.retry import DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.catalogs.base import Name, NewTable
    from sealberg.catalogs.metastore import Version
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.metadata.trust import Trust

LOCK_TABLE: Final = "engine.hive.lock-enabled"
LOCK_CATALOG: Final = "iceberg.engine.hive.lock-enabled"
CHANGED_MEANWHILE: Final = f"The table has been modified. The parameter value for key '{METADATA_LOCATION}' is"


class MetastoreUnavailableError(CatalogUnavailableError, TTransportException):  # type: ignore[misc]
    """The metastore did not answer: to whoever commits an error of Thrift like others, which may hide a commit."""

    def __init__(self, message: str) -> None:
        TTransportException.__init__(self, message=message)


class _Connection:
    """PyIceberg's connection, whose errors name the metastore.

    Not a generator of contextlib, which would set the traceback of Thrift's errors; they refuse that.
    """

    def __init__(self, client: Any, uri: str | None) -> None:
        self._client, self._uri = client, uri

    def __enter__(self) -> Any:
        try:
            return self._client.__enter__()
        except (TTransportException, OSError) as error:
            raise self._unavailable(error) from error

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._client.__exit__(kind, error, trace)
        # An OSError in the block may be that of a file.
        if isinstance(error, TTransportException) and not isinstance(error, MetastoreUnavailableError):
            raise self._unavailable(error) from error

    def _unavailable(self, error: BaseException) -> MetastoreUnavailableError:
        return MetastoreUnavailableError(
            f"the Hive Metastore at {self._uri} did not answer: {_message(error)}. Check that it runs and is reachable"
        )


class EncryptedHiveCatalog(EncryptedMetastore, HiveCatalog):
    """PyIceberg's HiveCatalog with encrypted tables."""

    @property
    def _client(self) -> Any:
        """A connection for one `with` block: two threads could not share PyIceberg's single connection."""
        return _Connection(self._create_hive_client(self.properties), self.properties.get("uri"))

    @_client.setter
    def _client(self, _: Any) -> None:
        """Ignore the connection that PyIceberg's constructor sets."""

    @property
    def _hive2(self) -> bool:
        return str(self.properties.get(HIVE2_COMPATIBLE, "false")).lower() == "true"

    # -- the pointer and what is vouched for --------------------------------------------------

    def _name(self, identifier: str | Identifier) -> Name:
        return self.identifier_to_database_and_table(identifier, NoSuchTableError)

    def _new_name(self, identifier: str | Identifier) -> Name:
        return self.identifier_to_database_and_table(identifier)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load twice if needed: during a commit the metastore may return the pointer and the hash of two versions.

        Real tampering gives the same error twice, and that error is raised.
        """
        found = ""
        while True:
            try:
                return super().load_table(identifier)
            except TrustError as error:
                if str(error) == found:
                    raise
                found = str(error)

    def _pointer(self, name: Name) -> tuple[str, Trust | None]:
        with DATABASE.start() as attempts:
            while True:
                try:
                    with self._reaching(f"read {dotted(name)}"), self._client as client:
                        return pointer(name, _get(client, name).parameters)
                except CatalogUnavailableError:  # a metastore that is being restarted comes back
                    if not attempts.wait():
                        raise

    def _new(self, name: Name, new: NewTable) -> V3TableMetadata:
        metadata = super()._new(name, new)
        storage(metadata, hive2=self._hive2)  # refuses types that Hive does not have
        return metadata

    def _enter(self, name: Name, version: Version, attempt: CommitAttempt) -> None:
        with contextlib.ExitStack() as stack:
            with attempt.not_applied():
                table = new_table(name, version, owner=getpass.getuser(), hive2=self._hive2)
                client = stack.enter_context(self._client)
            try:
                client.create_table(table)
            except AlreadyExistsException as error:
                with attempt.not_applied():
                    raise TableAlreadyExistsError(f"Table {dotted(name)} already exists") from error
            except InvalidObjectException as error:
                with attempt.not_applied():
                    raise ValidationException(f"the metastore refuses {dotted(name)}: {_message(error)}") from error
            except (TException, OSError) as error:
                resolve_commit(self, name, version, error, over=False)

    def _swap(self, name: Name, old: str, version: Version, gone: frozenset[str], attempt: CommitAttempt) -> None:
        with self._alone(name, attempt) as (client, renew):
            with attempt.not_applied(), self._reaching(f"commit to {dotted(name)}", writing=True):
                table = _get(client, name)
                if pointer(name, table.parameters)[0] != old:
                    raise CommitFailedException(f"Table has been updated by another process: {dotted(name)}")
                table.parameters = parameters_after(table.parameters, version, old=old, gone=gone)
                table.sd = storage(version.metadata, hive2=self._hive2, before=table.sd)
                renew()
            try:
                _alter(client, name, table, old)
            except (InvalidObjectException, InvalidOperationException) as error:
                with attempt.not_applied():
                    raise ValidationException(f"the metastore refuses {dotted(name)}: {_message(error)}") from error
            except (TException, OSError) as error:
                # A metastore that compared and refused will not apply it later; one that did not respond may.
                resolve_commit(self, name, version, error, over=CHANGED_MEANWHILE in _message(error))

    def _vouch(self, name: Name, accepted: Trust) -> bool:
        with self._alone(name) as (client, renew):
            table = _get(client, name)
            if pointer(name, table.parameters)[0] != accepted.metadata_location:
                return False
            table.parameters = vouched(table.parameters, accepted)
            renew()
            _alter(client, name, table, accepted.metadata_location)
        return True

    @contextlib.contextmanager
    def _alone(self, name: Name, attempt: CommitAttempt | None = None) -> Iterator[tuple[Any, Callable[[], None]]]:
        """A connection, and the lock of the table for the block, unless it does without; and how to renew the lock."""
        attempt = attempt or CommitAttempt()
        with contextlib.ExitStack() as stack:
            with attempt.not_applied(), self._reaching(f"change {dotted(name)}", writing=True):
                client, renew = stack.enter_context(self._client), _nothing
                # The table's current setting, not the one that this commit sets: other writers use the current one.
                before = _get(client, name).parameters
                if before.get(LOCK_TABLE, self.properties.get(LOCK_CATALOG, "true")).lower() == "true":
                    lock = table_lock(lambda: self._client, client, name, LockPolicy.of(self.properties))
                    renew = stack.enter_context(lock).renew
            yield client, renew

    @contextlib.contextmanager
    def _reaching(self, what: str, *, writing: bool = False) -> Iterator[None]:
        """Turn Thrift's errors into errors that name the metastore. Nothing is committed in the block.

        A write that could not start is retried as `commit.retry.*` say, like any failed commit.
        """
        try:
            yield
        except (TTransportException, OSError) as error:
            kind = CommitFailedException if writing else CatalogUnavailableError
            raise kind(
                f"the Hive Metastore at {self.properties.get('uri')} did not answer when asked to {what}: "
                f"{_message(error.__cause__ if isinstance(error, MetastoreUnavailableError) else error)}. Check that "
                "it runs and is reachable"
            ) from error
        except TException as error:
            raise (NotCommittedError if writing else CatalogError)(
                f"the Hive Metastore at {self.properties.get('uri')} refused to {what}: {_message(error)}"
            ) from error

    # -- rename -------------------------------------------------------------------------------

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        """Rename under the lock; PyIceberg takes none, and a commit between its two requests would be lost."""
        old, new = self._name(from_identifier), self._name(to_identifier)
        if not self.namespace_exists(new[0]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {new[0]}")
        self._admit_renamed(from_identifier, to_identifier)
        with self._alone(old) as (client, renew):
            table = _get(client, old)
            location, _ = pointer(old, table.parameters)
            table.dbName, table.tableName = new
            renew()
            try:
                _alter(client, old, table, location)
            except InvalidOperationException as error:
                raise TableAlreadyExistsError(f"Table {dotted(new)} already exists") from error
            except MetaException as error:
                if CHANGED_MEANWHILE not in _message(error):
                    raise
                raise CommitFailedException(f"Table has been updated by another process: {dotted(old)}") from error
        return self.load_table(to_identifier)


def _get(client: Any, name: Name) -> Any:
    try:
        return client.get_table(dbname=name[0], tbl_name=name[1])
    except NoSuchObjectException as error:
        raise NoSuchTableError(f"Table does not exist: {dotted(name)}") from error


def _alter(client: Any, name: Name, table: Any, old: str) -> None:
    context = {
        DO_NOT_UPDATE_STATS: "true",
        "expected_parameter_key": METADATA_LOCATION,
        "expected_parameter_value": old,
    }
    client.alter_table_with_environment_context(
        dbname=name[0], tbl_name=name[1], new_tbl=table, environment_context=EnvironmentContext(context)
    )


def _message(error: BaseException | None) -> str:
    return getattr(error, "message", None) or str(error)


def _nothing() -> None:
    """Renew nothing, for a table without locks."""
