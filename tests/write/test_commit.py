"""Commits that meet others, or faults: no key is lost, nothing is left behind, and nothing committed is deleted."""

from __future__ import annotations

import errno
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ValidationException
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotsUpdate
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from kit.servers import postgres
from sealberg.catalogs.sql.catalog import EncryptedSql
from sealberg.errors import AccessDeniedError, KeyringError, KmsUnavailableError
from sealberg.keys.kms.memory import MemoryKms
from sealberg.keys.manager import LIFESPAN_PROPERTY
from sealberg.metadata.updates import RemoveEncryptionKeyUpdate

if TYPE_CHECKING:
    from pathlib import Path

    from kit.servers.postgres import Database

catalog, database = postgres.catalog, postgres.database  # the fixtures

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
FAST = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "5"}
ONCE = {"commit.retry.num-retries": "0"}


def make(catalog: EncryptedSql, name: str = "db.t", **properties: str) -> Any:
    return catalog.create_table(name, ROWS.schema, properties={"encryption.key-id": "hr", **FAST, **properties})


def rows_of(table: Any, snapshot_id: int | None = None) -> list[int]:
    return sorted(table.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())


def check_whole(catalog: EncryptedSql, database: Database, name: str = "db.t") -> None:
    """Every snapshot opens, every key has a user, and the metadata name every file in its folder."""
    table: Any = catalog.load_table(name)
    ring = table.metadata.encryption_keys
    for snapshot in table.metadata.snapshots:
        rows_of(table, snapshot.snapshot_id)
    used = {snapshot.key_id for snapshot in table.metadata.snapshots}
    assert {entry.key_id for entry in ring if entry.timestamp is None} == used
    named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            named.add(str(manifest.manifest_path))
            named |= {
                str(e.data_file.file_path) for e in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            }
    folder = table.location().removeprefix("file://")
    assert {path for path in database.files() if path.startswith(f"{folder}/")} == {
        str(path).removeprefix("file://") for path in named
    }


class FaultyKms(MemoryKms):
    """Fails when told to, and counts."""

    def __init__(self) -> None:
        super().__init__({"hr": b"\xab" * 16})
        self.down: Exception | None = None
        self.calls = 0

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        self._call()
        return super().wrap(key, master_key_id)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        self._call()
        return super().unwrap(wrapped, master_key_id)

    def _call(self) -> None:
        self.calls += 1
        if self.down is not None:
            raise self.down


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


# -- manifests ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_manifests_that_a_merge_replaces_in_the_same_commit_are_not_left_behind(
    catalog: EncryptedSql, database: Database, mode: str
) -> None:
    table = make(catalog, **{"commit.manifest.min-count-to-merge": "2", "write.delete.mode": mode})
    for _ in range(3):
        table.append(ROWS)
    table.delete("id = 1")
    table.delete("id = 2")
    assert rows_of(table) == [3, 3, 3]
    check_whole(catalog, database)


# -- others -----------------------------------------------------------------------------------


def test_a_snapshot_and_its_keys_are_one_change(catalog: EncryptedSql, database: Database) -> None:
    table = make(catalog)
    before = database.files()
    table.append(ROWS)
    assert sum(path.endswith(".metadata.json") for path in database.files() - before) == 1
    (snapshot,) = table.metadata.snapshots
    entry = table.metadata.encryption_keys.get(snapshot.key_id)
    assert entry is not None
    assert entry.encrypted_by_id in table.metadata.encryption_keys
    check_whole(catalog, database)


def test_of_two_first_commits_the_second_uses_the_kek_of_the_first(catalog: EncryptedSql, database: Database) -> None:
    one = make(catalog)
    two: Any = catalog.load_table("db.t")
    one.append(ROWS)
    two.append(ROWS)
    ring = catalog.load_table("db.t").metadata.encryption_keys  # type: ignore[union-attr]
    assert len(ring.keks("hr")) == 1
    assert len(ring) == 3
    assert rows_of(catalog.load_table("db.t")) == [1, 1, 2, 2, 3, 3]
    check_whole(catalog, database)


def test_a_retry_keeps_the_keys_of_everybody(catalog: EncryptedSql, database: Database) -> None:
    make(catalog).append(ROWS)
    writers: list[Any] = [catalog.load_table("db.t") for _ in range(4)]
    for writer in writers:
        writer.append(ROWS)
    assert len(rows_of(catalog.load_table("db.t"))) == 15
    check_whole(catalog, database)


def test_a_conflict_beyond_the_retries_leaves_no_file_and_no_key(catalog: EncryptedSql, database: Database) -> None:
    one = make(catalog, **ONCE)
    two: Any = catalog.load_table("db.t")
    one.append(ROWS)
    before, keys = database.files(), catalog.load_table("db.t").metadata.encryption_keys  # type: ignore[union-attr]
    with pytest.raises(CommitFailedException):
        two.append(ROWS)
    assert database.files() == before
    assert catalog.load_table("db.t").metadata.encryption_keys == keys  # type: ignore[union-attr]
    two.refresh().append(ROWS)
    check_whole(catalog, database)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_two_deletes_in_one_file_do_not_both_happen_and_the_loser_leaves_nothing(
    catalog: EncryptedSql, database: Database, mode: str
) -> None:
    one = make(catalog, **{"write.delete.mode": mode})
    one.append(ROWS)
    two: Any = catalog.load_table("db.t")
    one.delete("id = 1")
    before = database.files()
    with pytest.raises(ValidationException):
        two.delete("id = 2")
    assert database.files() == before
    assert rows_of(catalog.load_table("db.t")) == [2, 3]
    two.refresh().delete("id = 2")
    assert rows_of(catalog.load_table("db.t")) == [3]
    check_whole(catalog, database)


def test_rows_added_meanwhile_stop_an_overwrite_that_would_have_met_them(
    catalog: EncryptedSql, database: Database
) -> None:
    one = make(catalog)
    one.append(ROWS)
    two: Any = catalog.load_table("db.t")
    one.append(ROWS)
    before = database.files()
    with pytest.raises(ValidationException, match="conflicting files"):
        two.overwrite(ROWS, "id = 1")
    assert database.files() == before
    check_whole(catalog, database)


def test_commits_to_two_branches_have_two_sequence_numbers_and_no_row_id_in_common(
    catalog: EncryptedSql, database: Database
) -> None:
    one = make(catalog)
    one.append(ROWS)
    one.manage_snapshots().create_branch(one.current_snapshot().snapshot_id, "side").commit()
    two: Any = catalog.load_table("db.t")
    one.append(ROWS)
    two.append(ROWS, branch="side")
    table: Any = catalog.load_table("db.t")
    numbers = [snapshot.sequence_number for snapshot in table.metadata.snapshots]
    assert numbers == [1, 2, 3]
    assert [snapshot.first_row_id for snapshot in table.metadata.snapshots] == [0, 3, 6]
    assert table.metadata.next_row_id == 9
    check_whole(catalog, database)


def test_deletes_on_two_branches_have_two_sequence_numbers(catalog: EncryptedSql, database: Database) -> None:
    # No rows are added here, so the row ids alone would not tell that the second was made from old metadata.
    one = make(catalog, **{"write.delete.mode": "merge-on-read"})
    one.append(ROWS)
    one.manage_snapshots().create_branch(one.current_snapshot().snapshot_id, "side").commit()
    two: Any = catalog.load_table("db.t")
    one.delete("id = 1")
    two.delete("id = 2", branch="side")
    numbers = [snapshot.sequence_number for snapshot in catalog.load_table("db.t").metadata.snapshots]
    assert numbers == [1, 2, 3]
    assert rows_of(catalog.load_table("db.t")) == [2, 3]
    check_whole(catalog, database)


def test_properties_and_rows_of_two_writers_are_both_there(catalog: EncryptedSql, database: Database) -> None:
    one = make(catalog)
    two: Any = catalog.load_table("db.t")
    three: Any = catalog.load_table("db.t")
    one.append(ROWS)
    with two.transaction() as transaction:
        transaction.set_properties(owner="me")
        transaction.append(ROWS)
    three.append(ROWS)
    table = catalog.load_table("db.t")
    assert table.properties["owner"] == "me"
    assert len(rows_of(table)) == 9
    check_whole(catalog, database)


def test_rows_that_a_transaction_added_and_moved_do_not_take_the_row_ids_of_others(
    catalog: EncryptedSql, database: Database
) -> None:
    one = make(catalog)
    two: Any = catalog.load_table("db.t")
    transaction = two.transaction()
    transaction.append(ROWS)
    transaction.delete("id = 2")
    one.append(ROWS)
    with pytest.raises(CommitFailedException, match="row ids"):
        transaction.commit_transaction()
    check_whole(catalog, database)
    with two.refresh().transaction() as transaction:
        transaction.append(ROWS)
        transaction.delete("id = 2")
    ids = catalog.load_table("db.t").scan(selected_fields=("_row_id",)).to_arrow()["_row_id"].to_pylist()
    assert len(set(ids)) == len(ids)
    check_whole(catalog, database)


def test_a_transaction_that_is_left_with_an_error_leaves_nothing(catalog: EncryptedSql, database: Database) -> None:
    table = make(catalog)
    before = database.files()
    with pytest.raises(ZeroDivisionError), table.transaction() as transaction:
        transaction.append(ROWS)
        transaction.append(ROWS)
        raise ZeroDivisionError
    assert database.files() == before
    with pytest.raises(RuntimeError, match="cannot be reused"):
        transaction.append(ROWS)
    table.append(ROWS)
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
        with pytest.raises(CommitFailedException, match="never got the commit"):
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


# -- expiry -----------------------------------------------------------------------------------


def expire_to(table: Any, kept: int) -> None:
    gone = [snapshot.snapshot_id for snapshot in table.metadata.snapshots][:-kept]
    table.maintenance.expire_snapshots().by_ids(gone).commit()


def test_expiry_takes_the_keys_of_expired_snapshots_and_keeps_the_kek(catalog: EncryptedSql) -> None:
    table = make(catalog)
    for _ in range(6):
        table.append(ROWS)
    expire_to(table, 2)
    again: Any = catalog.load_table("db.t")
    assert len(again.metadata.encryption_keys) == 2 + 1
    assert [len(rows_of(again, each.snapshot_id)) for each in again.metadata.snapshots] == [15, 18]


def test_expiry_takes_keks_that_seal_nothing_any_more_but_never_the_active_one(database: Database) -> None:
    with database.catalog(**{LIFESPAN_PROPERTY: "0.00000002"}) as catalog:
        catalog.create_namespace("db")
        table: Any = make(catalog)  # type: ignore[arg-type]
        for _ in range(4):
            table.append(ROWS)
        assert len(table.metadata.encryption_keys) == 9  # a KEK for each of 4 lists, and one of the new table
        expire_to(table, 2)
        again: Any = catalog.load_table("db.t")
        assert len(again.metadata.encryption_keys) == 4
        assert [len(rows_of(again, each.snapshot_id)) for each in again.metadata.snapshots] == [9, 12]
    with database.catalog() as catalog:  # keys live long again: one of the two is active
        table = catalog.load_table("db.t")
        (*_, active) = table.metadata.encryption_keys.keks("hr")
        table.delete("id > 0")
        expire_to(table, 1)
        table.append(ROWS)
        again = catalog.load_table("db.t")
        assert [kek.key_id for kek in again.metadata.encryption_keys.keks("hr")] == [active.key_id]
        assert len(rows_of(again)) == 3


def test_expiry_and_a_commit_of_somebody_else_are_both_done(catalog: EncryptedSql) -> None:
    one = make(catalog)
    for _ in range(3):
        one.append(ROWS)
    two: Any = catalog.load_table("db.t")
    expiry = two.transaction()
    one.append(ROWS)
    first = two.metadata.snapshots[0].snapshot_id
    expiry.apply((RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [first]}),))
    expiry.commit_transaction()
    again: Any = catalog.load_table("db.t")
    assert len(again.metadata.snapshots) == 3
    assert len(again.metadata.encryption_keys) == 3 + 1
    assert [len(rows_of(again, each.snapshot_id)) for each in again.metadata.snapshots] == [6, 9, 12]


def test_a_snapshot_that_somebody_has_just_tagged_is_not_expired(catalog: EncryptedSql) -> None:
    one = make(catalog)
    one.append(ROWS)
    one.append(ROWS)
    two: Any = catalog.load_table("db.t")
    first = one.metadata.snapshots[0].snapshot_id
    one.manage_snapshots().create_tag(first, "audit").commit()
    with pytest.raises(ValidationException, match=r"Still referenced by refs: \[audit\]"):
        two.maintenance.expire_snapshots().by_ids([first]).commit()
    assert rows_of(catalog.load_table("db.t"), first) == [1, 2, 3]


def test_a_key_that_a_snapshot_needs_cannot_be_removed_by_hand(catalog: EncryptedSql) -> None:
    table = make(catalog)
    table.append(ROWS)
    for entry in table.metadata.encryption_keys:
        update: Any = RemoveEncryptionKeyUpdate.model_validate({"key-id": entry.key_id})
        with pytest.raises(KeyringError, match="would lose"):
            catalog.commit_table(table, (), (update,))
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_a_requirement_that_is_not_met_is_a_conflict(catalog: EncryptedSql, database: Database) -> None:
    table = make(catalog)
    table.append(ROWS)
    before = database.files()
    wanted = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": 1})
    with pytest.raises(CommitFailedException, match="has changed"):
        catalog.commit_table(table, (wanted,), ())
    assert database.files() == before


@pytest.mark.parametrize("value", ["many", ""])
def test_a_retry_property_that_is_no_number_leaves_nothing(
    catalog: EncryptedSql, database: Database, value: str
) -> None:
    table = make(catalog, **{"commit.retry.num-retries": value})
    before = database.files()
    with pytest.raises(ValueError, match="invalid literal"):
        table.append(ROWS)
    assert database.files() == before
