"""The database of an SQL catalog: the table of trust, and statements that survive a restart of the server.

    ask(what, act)        act(); retried while the server is unavailable
    read(what, act)       act(session), the same in a session of its own
    write(what, act)      act(session), COMMIT; retried while the server is unavailable and nothing was committed
                          Unanswered: the connection broke at COMMIT, and the database may have committed
    is_over(what, act)    after that: wait until the lost transaction has ended

    the driver's error ──> unavailable or locked   retry within sql.retry.*, then CatalogUnavailableError
                       └─> any other error         CatalogError at once

No error of SQLAlchemy is passed on, because its message contains the SQL and the parameters. The errors here name the
operation and the database, without user and password.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from sqlalchemy import Column, MetaData, String, event, text
from sqlalchemy import Table as SqlTable
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from sealberg.errors import CatalogError, CatalogUnavailableError
from sealberg.write.commit_outcome import CommitAttempt
from sealberg.write.retry import DATABASE, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlalchemy import Engine

    from sealberg.write.retry import Attempts

T = TypeVar("T")

PREFIX: Final = "sql.retry."
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

# SQLSTATEs of PostgreSQL. 08: connection, 40: rolled back after a conflict or a deadlock, 57P0x: the server stops or
# starts, 53300: too many connections, 55P03: lock timeout.
AWAY: Final = ("08", "40", "57P01", "57P02", "57P03", "53300", "55P03")
LOCKED: Final = ("SQLITE_BUSY", "SQLITE_LOCKED")
# psycopg2 gives no SQLSTATE for a connection that the server refuses permanently, only a message.
REFUSED: Final = ("authentication failed", "does not exist", "pg_hba.conf", "no password supplied")
LOCK_TIMEOUT: Final = text(
    "SELECT set_config('lock_timeout', :timeout, true) WHERE current_setting('lock_timeout') = '0'"
)


class Unanswered(Exception):  # noqa: N818 (a signal between two modules, never raised to a caller)
    """The database did not respond to a COMMIT, and may have committed."""


class NotCommittedError(CatalogError, CommitFailedException):
    """A write that the database refused: nothing was committed."""


class NotCommittedUnavailableError(CatalogUnavailableError, CommitFailedException):
    """A write that did not reach the database, or could not start: nothing was committed."""


class Database:
    """An engine that retries statements and raises errors of this package."""

    def __init__(self, engine: Engine, properties: Mapping[str, str]) -> None:
        self.engine = engine
        self.policy = _policy(engine, properties)
        self._is_postgres = engine.dialect.name == "postgresql"
        if engine.dialect.name == "sqlite" and "timeout" not in engine.url.query:
            event.listen(engine, "connect", self._wait_for_locks)

    def __str__(self) -> str:
        url = self.engine.url
        if self.engine.dialect.name == "sqlite":
            return f"the SQLite database {url.database or 'in memory'}"
        kind = "PostgreSQL" if self._is_postgres else self.engine.dialect.name
        host = url.host or url.query.get("host") or "localhost"
        port = url.port or url.query.get("port")
        return f"the {kind} database {url.database!r} at {host}{f':{port}' if port else ''}"

    def ask(self, what: str, act: Callable[[], T]) -> T:
        """Call a function that changes nothing in the database."""
        with self.policy.start() as attempts:
            while True:
                try:
                    return act()
                except SQLAlchemyError as error:
                    if not is_transient(error) or not attempts.wait():
                        self._fail(what, error, attempts)

    def read(self, what: str, act: Callable[[Session], T]) -> T:
        """Run statements in a session that is rolled back."""

        def in_session() -> T:
            with Session(self.engine) as session:
                return act(session)

        return self.ask(what, in_session)

    def write(self, what: str, act: Callable[[Session], T], attempt: CommitAttempt | None = None) -> T:
        """Run one transaction. After every error except Unanswered nothing was committed, and `attempt` knows."""
        attempt = attempt or CommitAttempt()
        with self.policy.start() as attempts:
            while True:
                try:
                    with Session(self.engine) as session:
                        with attempt.not_applied():
                            self._bound_lock_waits(session)
                            done = act(session)
                        try:
                            session.commit()
                        except SQLAlchemyError as error:
                            if not _is_rolled_back(error):
                                raise Unanswered(self._message(error)) from _cause(error)
                            raise
                        return done
                except SQLAlchemyError as error:
                    with attempt.not_applied():
                        if not is_transient(error) or not attempts.wait():
                            self._fail(what, error, attempts, writing=True)

    def is_over(self, what: str, act: Callable[[Session], Any]) -> bool:
        """Whether it is certain that no earlier run of `act` can still be committed.

        An earlier run holds locks on the rows that it changed until the database ends it. The same statements need the
        same locks: once they have run, whether they found their rows or not, the earlier run has ended.
        """

        def again(session: Session) -> None:
            self._bound_lock_waits(session)
            with contextlib.suppress(CommitFailedException, TableAlreadyExistsError, NoSuchTableError):
                act(session)

        try:
            with self.policy.start_apart():
                self.read(what, again)
        except CatalogError:
            return False
        return True

    @contextlib.contextmanager
    def naming(self, what: str) -> Iterator[None]:
        """Turn the errors of PyIceberg's own statements into errors that name the operation; no retries."""
        with self.policy.start() as attempts:
            try:
                yield
            except SQLAlchemyError as error:
                self._fail(what, error, attempts)

    def _fail(self, what: str, error: SQLAlchemyError, attempts: Attempts, *, writing: bool = False) -> NoReturn:
        kind: type[CatalogError]
        if isinstance(error, PoolTimeoutError) or is_transient(error):
            kind = NotCommittedUnavailableError if writing else CatalogUnavailableError
            tried = f"tried {attempts.made} times in {attempts.seconds:.1f} s"
            raise kind(
                f"{self} did not answer when asked to {what} ({tried}): {self._message(error)}. Check that it runs, is "
                f"reachable and is not locked by another program; {PREFIX}total-timeout-ms sets how long to retry "
                f"(now {self.policy.total_timeout_ms} ms)"
            ) from _cause(error)
        kind = NotCommittedError if writing else CatalogError
        raise kind(f"{self} refused to {what}: {self._message(error)}") from _cause(error)

    def _message(self, error: SQLAlchemyError) -> str:
        """The driver's message, on one line and without the password."""
        message = " ".join(str(_cause(error) or error).split())
        for secret in _secrets(self.engine):
            message = message.replace(secret, "***")
        return message.rstrip(".")

    def _bound_lock_waits(self, session: Session) -> None:
        # A client behind a broken network may hold its locks for hours. A lock_timeout that the user set is kept.
        if self._is_postgres:
            session.execute(LOCK_TIMEOUT, {"timeout": f"{self.policy.total_timeout_ms}ms"})

    def _wait_for_locks(self, connection: Any, _record: Any) -> None:
        # SQLite's default timeout of 5 seconds is too short for many writers on a busy machine.
        connection.execute(f"PRAGMA busy_timeout = {self.policy.total_timeout_ms}")


def _policy(engine: Engine, properties: Mapping[str, str]) -> RetryPolicy:
    """The policy of `sql.retry.*`; for SQLite, a `timeout` in the uri sets the total time, as in SQLAlchemy."""
    default = DATABASE
    given = engine.url.query.get("timeout") if engine.dialect.name == "sqlite" else None
    if isinstance(given, str):
        with contextlib.suppress(ValueError):
            default = replace(DATABASE, total_timeout_ms=int(float(given) * 1000))
    return RetryPolicy.from_properties(properties, PREFIX, default)


def is_transient(error: SQLAlchemyError) -> bool:
    """Whether the database is unavailable, starting, or locked by another process."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated or _is_busy(error):
        return True
    if code := _sqlstate(error):
        return code.startswith(AWAY)
    if not isinstance(error, OperationalError | InterfaceError) or hasattr(error.orig, "sqlite_errorname"):
        return False
    return not any(phrase in str(error.orig) for phrase in REFUSED)


def _is_rolled_back(error: SQLAlchemyError) -> bool:
    """Whether the error shows that this COMMIT was not applied.

    SQLite leaves a transaction open if a lock prevents its commit, and the session rolls it back. In PostgreSQL, class
    40 is "transaction rollback", and class 23 a violated constraint.
    """
    if not isinstance(error, DBAPIError):
        return False
    return isinstance(error, IntegrityError) or _is_busy(error) or _sqlstate(error).startswith(("40", "23"))


def _is_busy(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlite_errorname", "").startswith(LOCKED)


def _sqlstate(error: DBAPIError) -> str:
    return getattr(error.orig, "pgcode", None) or getattr(error.orig, "sqlstate", None) or ""


def _cause(error: SQLAlchemyError) -> BaseException | None:
    """The driver's own error, whose message has no SQL."""
    return error.orig if isinstance(error, DBAPIError) else None


def _secrets(engine: Engine) -> Iterator[str]:
    url = engine.url
    if url.password:
        yield str(url.password)
    for name in ("password", "sslpassword"):
        if isinstance(found := url.query.get(name), str) and found:
            yield found
