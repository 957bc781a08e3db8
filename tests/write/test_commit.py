"""Commits that meet others: no key is lost, nothing is left behind, and nothing committed is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table.update import AssertRefSnapshotId

from kit.servers import postgres
from kit.tables.commits import ONCE, ROWS, check_whole, make, rows_of
from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from kit.servers.postgres import Database
    from sealberg.catalogs.sql.catalog import EncryptedSql

catalog, database = postgres.catalog, postgres.database  # the fixtures


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


def test_a_requirement_that_is_not_met_is_a_conflict(catalog: EncryptedSql, database: Database) -> None:
    table = make(catalog)
    table.append(ROWS)
    before = database.files()
    wanted = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": 1})
    with pytest.raises(CommitFailedException, match="has changed"):
        catalog.commit_table(table, (wanted,), ())
    assert database.files() == before


def test_a_commit_table_of_the_user_is_called_and_its_failures_are_judged(
    catalog: EncryptedSql, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PyIceberg's tables call it; what it says of a failure decides whether the files of the commit go."""
    table = make(catalog, **ONCE)
    before = database.files()
    real, calls = catalog.commit_table, []

    def commit_table(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise CommitFailedException("not now")
        answer = real(*arguments)
        if len(calls) == 2:
            raise OSError("the answer was lost")
        return answer

    monkeypatch.setattr(catalog, "commit_table", commit_table)
    with pytest.raises(CommitFailedException, match="not now"):
        table.append(ROWS)
    assert database.files() == before
    with pytest.raises(OSError, match="lost"):
        table.append(ROWS)
    catalog.load_table(table.name()).append(ROWS)
    assert len(calls) == 3
    assert len(rows_of(catalog.load_table("db.t"))) == 2 * ROWS.num_rows
    check_whole(catalog, database)


@pytest.mark.parametrize("value", ["many", ""])
def test_a_retry_property_that_is_no_number_leaves_nothing(
    catalog: EncryptedSql, database: Database, value: str
) -> None:
    table = make(catalog)
    before = database.files()
    with pytest.raises(ConfigError, match=r"commit\.retry\.num-retries is a number"), table.transaction() as change:
        change.set_properties({"commit.retry.num-retries": value})
        change.append(ROWS)
    assert database.files() == before
