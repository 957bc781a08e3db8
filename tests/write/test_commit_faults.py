"""Commits that meet a fault of the storage, the KMS or the database: nothing is left behind or wrongly deleted."""

from __future__ import annotations

import errno
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.io.pyarrow import PyArrowFile
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from kit.servers import postgres
from kit.tables.commits import ONCE, ROWS, FaultyKms, check_whole, make, rows_of
from sealberg.catalogs.sql.catalog import EncryptedSql
from sealberg.errors import AccessDeniedError, KmsUnavailableError
from sealberg.keys.manager import LIFESPAN_PROPERTY

if TYPE_CHECKING:
    from pathlib import Path

    from kit.servers.postgres import Database

catalog, database = postgres.catalog, postgres.database  # the fixtures


# -- storage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [".parquet", "-m0.avro", "snap-", ".metadata.json", "-deletes.puffin"])
def test_a_full_disk_is_told_with_the_name_of_the_file(
    catalog: EncryptedSql, database: Database, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    table = make(catalog, **{"write.delete.mode": "merge-on-read"})
    table.append(ROWS)
    real = PyArrowFile.create

    class Full:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def write(self, _: Any) -> None:
            raise OSError(errno.ENOSPC, "Error writing bytes to file")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self.inner.close()

    def create(self: PyArrowFile, overwrite: bool = False) -> Any:
        return Full(real(self, overwrite)) if which in self.location else real(self, overwrite)

    monkeypatch.setattr(PyArrowFile, "create", create)
    with pytest.raises(OSError, match="Error writing bytes to file: 'file://") as caught:
        table.delete("id = 1") if which == "-deletes.puffin" else table.append(ROWS)
    assert caught.value.errno == errno.ENOSPC
    assert which in caught.value.filename
    monkeypatch.undo()
    check_whole(catalog, database)


# -- the KMS ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KmsUnavailableError("no answer"), AccessDeniedError("not for you")])
def test_a_kms_that_fails_when_a_kek_is_due_stops_the_commit_and_only_that(
    catalog: EncryptedSql, database: Database, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kms = FaultyKms()
    catalog._kms = kms
    monkeypatch.setattr(EncryptedSql, "_first_kek", lambda *_: None)  # as Java makes a table: with a key id and no KEK
    table = make(catalog)
    before = database.files()
    kms.down = error
    with pytest.raises(type(error)):
        table.append(ROWS)
    with pytest.raises(type(error)), table.transaction() as transaction:
        transaction.append(ROWS)
    assert database.files() == before
    assert rows_of(catalog.load_table("db.t")) == []
    kms.down = None
    table.append(ROWS)
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]
    check_whole(catalog, database)


def test_a_kms_that_fails_when_the_next_kek_is_due_leaves_the_table_readable(database: Database) -> None:
    # Keys live for a millisecond here, so that every commit needs the KMS.
    with database.catalog(**{LIFESPAN_PROPERTY: "0.00000002"}) as catalog:
        catalog.create_namespace("db")
        kms = FaultyKms()
        catalog._kms = kms  # type: ignore[attr-defined]
        table = make(catalog)  # type: ignore[arg-type]
        table.append(ROWS)
        before = database.files()
        kms.down = KmsUnavailableError("no answer")
        with pytest.raises(KmsUnavailableError):
            table.append(ROWS)
        assert database.files() == before
        assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]  # its KEK is still in memory
        kms.down = None
        table.append(ROWS)
        assert len(catalog.load_table("db.t").metadata.encryption_keys.keks("hr")) == 3  # type: ignore[union-attr]
        check_whole(catalog, database)  # type: ignore[arg-type]


def test_a_kms_that_fails_between_a_conflict_and_the_retry_leaves_nothing(database: Database) -> None:
    with database.catalog(**{LIFESPAN_PROPERTY: "0.00000002"}) as catalog:
        catalog.create_namespace("db")
        kms = FaultyKms()
        catalog._kms = kms  # type: ignore[attr-defined]
        one = make(catalog)  # type: ignore[arg-type]
        two: Any = catalog.load_table("db.t")
        late = two.transaction()
        late.append(ROWS)
        one.append(ROWS)
        kms.down = KmsUnavailableError("no answer")
        with pytest.raises(KmsUnavailableError):
            late.commit_transaction()
        kms.down = None
        assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]
        check_whole(catalog, database)  # type: ignore[arg-type]


# -- the database -----------------------------------------------------------------------------


def impatient(catalog: EncryptedSql) -> None:
    """Wait for locks a few milliseconds only, and try again for less than a second."""
    catalog._database.policy = replace(catalog._database.policy, total_timeout_ms=500)

    def hurry(connection: Any, _record: Any) -> None:
        sqlite = catalog.engine.dialect.name == "sqlite"
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout = 20" if sqlite else "SET lock_timeout = '20ms'")
        cursor.close()
        connection.commit()

    event.listen(catalog.engine, "connect", hurry)
    catalog.engine.dispose()


def test_a_database_that_stays_locked_fails_the_commit_which_leaves_nothing(
    catalog: EncryptedSql, database: Database
) -> None:
    table = make(catalog)
    table.append(ROWS)
    before = database.files()
    impatient(catalog)
    with database.catalog() as other, other.engine.connect() as connection:  # type: ignore[attr-defined]
        lock = "BEGIN IMMEDIATE" if database.kind == "sqlite" else "LOCK TABLE iceberg_tables IN SHARE MODE"
        if database.kind == "sqlite":
            connection.connection.driver_connection.execute(lock)
        else:
            connection.execute(text(lock))
        with pytest.raises(CommitFailedException, match="did not answer"):
            table.append(ROWS)
        assert database.files() == before
        assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]
        connection.connection.driver_connection.rollback()
    table.append(ROWS)
    check_whole(catalog, database)


def lost(*_: Any) -> None:
    message = "server closed the connection unexpectedly"
    raise OperationalError("COMMIT", {}, Exception(message))


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_whose_answer_is_lost_is_looked_up(
    catalog: EncryptedSql, database: Database, landed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, **{"commit.retry.num-retries": "0"})
    table.append(ROWS)
    before = database.files()
    real = Session.commit

    def commit(session: Session) -> None:
        if landed:
            real(session)
        lost()

    monkeypatch.setattr(Session, "commit", commit)
    if landed:
        table.append(ROWS)
    else:
        with pytest.raises(CommitFailedException, match="never received the commit"):
            table.append(ROWS)
    monkeypatch.undo()
    assert len(database.files() - before) == (4 if landed else 0)  # data file, manifest, list, metadata
    assert len(rows_of(catalog.load_table("db.t"))) == (6 if landed else 3)
    table.refresh().append(ROWS)
    check_whole(catalog, database)


def test_a_commit_that_cannot_be_looked_up_deletes_nothing(
    catalog: EncryptedSql, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, **{"commit.status-check.num-retries": "0"})
    table.append(ROWS)
    before = database.files()
    monkeypatch.setattr(Session, "commit", lost)
    pointer = catalog._pointer
    seen: list[str] = []

    def once(name: Any) -> Any:
        seen.append(name)
        return pointer(name) if len(seen) == 1 else lost()

    monkeypatch.setattr(catalog, "_pointer", once)
    with pytest.raises(CommitStateUnknownException, match="may be committed"):
        table.append(ROWS)
    monkeypatch.undo()
    assert len(database.files() - before) == 4
    assert before <= database.files()


def test_a_database_that_fails_before_the_pointer_moves_leaves_nothing(
    catalog: EncryptedSql, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog)
    before = database.files()
    catalog._database.policy = replace(catalog._database.policy, total_timeout_ms=500)
    for name in ("_pointer", "_write_trust"):
        monkeypatch.setattr(catalog, name, lost)
        with pytest.raises((OperationalError, CommitFailedException)):  # the first comes from the hook itself
            table.append(ROWS)
        with pytest.raises((OperationalError, CommitFailedException)):
            catalog.create_table("db.u", ROWS.schema, properties={"encryption.key-id": "hr"})
        monkeypatch.undo()
        catalog.engine.dispose()
        if catalog.table_exists("db.u"):  # only the answer was lost
            catalog.purge_table("db.u")
        assert database.files() == before
    table.append(ROWS)
    check_whole(catalog, database)


def test_a_warning_after_the_commit_is_no_reason_to_delete_its_files(
    catalog: EncryptedSql, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog)
    monkeypatch.setattr(type(catalog), "_delete_old_metadata", lambda *_: lost())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="old metadata"):
            table.append(ROWS)
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]
    check_whole(catalog, database)


# -- the storage ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", "-m0.avro", "snap-", ".metadata.json"])
@pytest.mark.parametrize("when", ["opened", "written"])
def test_a_storage_that_fails_at_any_file_of_a_commit_leaves_nothing(
    catalog: EncryptedSql, database: Database, suffix: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog)
    table.append(ROWS)
    before, real = database.files(), PyArrowFile.create

    def create(self: PyArrowFile, overwrite: bool = False) -> Any:
        if suffix not in self.location:
            return real(self, overwrite)
        if when == "opened":
            raise OSError("no space left")
        stream = real(self, overwrite)
        stream.write(b"half a file")
        stream.close()
        raise OSError("no space left")

    monkeypatch.setattr(PyArrowFile, "create", create)
    with pytest.raises(OSError, match="no space left"):
        table.append(ROWS)
    monkeypatch.undo()
    assert database.files() == before
    table.append(ROWS)
    check_whole(catalog, database)


def test_files_that_somebody_else_wrote_survive_a_commit_that_fails(catalog: EncryptedSql, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(ROWS, foreign)
    one = catalog.create_table("db.t", ROWS.schema, properties={"format-version": "3", **ONCE})
    two = catalog.load_table("db.t")
    one.append(ROWS)
    with pytest.raises(CommitFailedException), two.transaction() as transaction:
        transaction.add_files([str(foreign)])
    assert foreign.exists()
    one.add_files([str(foreign)])
    assert len(rows_of(catalog.load_table("db.t"))) == 6
