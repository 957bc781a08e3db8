"""The database of an SQL catalog: the table of trust, and what its failures mean for a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from sqlalchemy import Column, MetaData, String
from sqlalchemy import Table as SqlTable
from sqlalchemy.exc import DBAPIError

from sealberg.table.catalogs.keyed import dotted

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

SQLITE_PATIENCE_MS: Final = 30_000

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


def finish(session: Session, name: tuple[str, str]) -> None:
    """COMMIT. If it fails, it may have happened all the same, unless the database says that it did not."""
    try:
        session.commit()
    except DBAPIError as error:
        if _rolled_back(error):
            raise CommitFailedException(f"the database did not commit {dotted(name)}") from error
        raise CommitStateUnknownException(
            f"the database failed while {dotted(name)} was committed, and may have committed it: {error.orig}"
        ) from error


def _rolled_back(error: DBAPIError) -> bool:
    # SQLite leaves a transaction open that it could not commit for a lock, and the session rolls it back;
    # class 40 of PostgreSQL is "transaction rollback", class 23 a violated constraint.
    busy = getattr(error.orig, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
    return busy or (getattr(error.orig, "pgcode", None) or "").startswith(("40", "23"))


def be_patient(connection: Any, _record: Any) -> None:
    # Many writers are not an error; the default of 5 seconds is soon over on a busy machine.
    connection.execute(f"PRAGMA busy_timeout = {SQLITE_PATIENCE_MS}")
