"""Changes of keys alone, with another process that commits meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kit.servers import postgres
from kit.tables.commits import ROWS, make, rows_of
from sealberg.keys.keyring import EncryptedKey, Keyring
from sealberg.metadata.updates import AddEncryptionKeyUpdate
from sealberg.table.key_changes import AddKek, DropKeys, PruneKeys, ReplaceKeks

if TYPE_CHECKING:
    from sealberg.catalogs.sql.catalog import EncryptedSql

catalog, database = postgres.catalog, postgres.database  # the fixtures


@pytest.fixture
def table(catalog: EncryptedSql) -> Any:
    made = make(catalog)
    made.append(ROWS)
    return made


def commit(table: Any, change: Any) -> None:
    begun = table.transaction()
    begun.commit_keys(change)
    begun.commit_transaction()


def loaded(catalog: EncryptedSql) -> Any:
    return catalog.load_table("db.t")


def keks(table: Any) -> list[EncryptedKey]:
    return list(table.metadata.encryption_keys.keks("hr"))


def rewrapped(table: Any) -> ReplaceKeks:
    ring = table.metadata.encryption_keys
    new, _ = table.encryption.rewrap_kek(ring, keks(table)[0], None)
    return ReplaceKeks(((keks(table)[0], new),))


def test_the_next_commit_seals_under_the_new_kek(table: Any) -> None:
    (first,) = keks(table)
    made = table.encryption.new_kek(replacing=table.metadata.encryption_keys)
    commit(table, AddKek(made, first.key_id))
    table.append(ROWS)
    ring = table.metadata.encryption_keys
    assert ring.get(table.metadata.snapshots[-1].key_id).encrypted_by_id == made.key_id
    assert [len(rows_of(table, each.snapshot_id)) for each in table.metadata.snapshots] == [3, 6]


def test_a_new_kek_is_the_newest_even_if_the_clock_is_behind(table: Any) -> None:
    (first,) = keks(table)
    ahead = (first.timestamp_ms or 0) + 3_600_000
    ring = Keyring((replace(first, properties={"KEY_TIMESTAMP": str(ahead)}),))
    assert table.encryption.new_kek(replacing=ring).timestamp == str(ahead + 1)


def test_two_processes_that_rotate_at_once_add_one_kek(catalog: EncryptedSql, table: Any) -> None:
    other: Any = loaded(catalog)
    first = keks(table)[0].key_id
    commit(table, AddKek(table.encryption.new_kek(replacing=table.metadata.encryption_keys), first))
    commit(other, AddKek(other.encryption.new_kek(replacing=other.metadata.encryption_keys), first))
    assert len(keks(loaded(catalog))) == 2


def test_a_rewrapped_kek_keeps_its_id_its_time_and_its_place(catalog: EncryptedSql, table: Any) -> None:
    before = [entry.key_id for entry in table.metadata.encryption_keys]
    change = rewrapped(table)
    commit(table, change)
    (old, new), after = change.entries[0], keks(loaded(catalog))[0]
    assert after == new
    assert (new.key_id, new.timestamp) == (old.key_id, old.timestamp)
    assert new.encrypted_key_metadata != old.encrypted_key_metadata
    assert sorted(entry.key_id for entry in table.metadata.encryption_keys) == sorted(before)
    assert rows_of(loaded(catalog)) == [1, 2, 3]


def test_older_wrapped_bytes_do_not_come_back(catalog: EncryptedSql, table: Any) -> None:
    late: Any = loaded(catalog)
    earlier = rewrapped(late)
    commit(table, rewrapped(table))
    newest = keks(table)[0]
    commit(late, earlier)  # decided before the other commit
    assert keks(loaded(catalog)) == [newest]


def test_a_kek_that_was_pruned_meanwhile_does_not_come_back(catalog: EncryptedSql, table: Any) -> None:
    late: Any = loaded(catalog)
    change = rewrapped(late)
    commit(table, DropKeys())
    commit(late, change)
    assert len(loaded(catalog).metadata.encryption_keys) == 0


def test_prune_takes_what_nothing_needs_and_nothing_else(catalog: EncryptedSql, table: Any) -> None:
    (first,) = keks(table)
    stray = EncryptedKey("stray", b"x" * 60, first.key_id)
    other = table.encryption.new_kek(replacing=table.metadata.encryption_keys)
    commit(table, AddKek(other, first.key_id))
    commit(table, AddKek(table.encryption.new_kek(replacing=table.metadata.encryption_keys), other.key_id))
    begun = table.transaction()
    begun.apply((AddEncryptionKeyUpdate.model_validate({"encryption-key": stray}),))
    begun.commit_transaction()
    assert len(table.metadata.encryption_keys) == 5
    commit(table, PruneKeys())
    left = loaded(catalog).metadata.encryption_keys
    assert stray.key_id not in left
    assert other.key_id not in left
    assert len(left) == 3
    before = table.metadata_location
    commit(table, PruneKeys())
    assert table.metadata_location == before  # nothing to do, nothing committed


def test_prune_spares_the_key_of_a_snapshot_that_was_just_committed(catalog: EncryptedSql, table: Any) -> None:
    (first,) = keks(table)
    commit(table, AddKek(table.encryption.new_kek(replacing=table.metadata.encryption_keys), first.key_id))
    late: Any = loaded(catalog)
    begun = late.transaction()
    begun.commit_keys(PruneKeys())
    table.append(ROWS)
    begun.commit_transaction()
    again: Any = loaded(catalog)
    assert [len(rows_of(again, each.snapshot_id)) for each in again.metadata.snapshots] == [3, 6]


def test_without_keys_a_table_is_empty_and_can_be_written_again(catalog: EncryptedSql, table: Any) -> None:
    commit(table, DropKeys())
    again: Any = loaded(catalog)
    assert (len(again.metadata.encryption_keys), again.metadata.snapshots, again.metadata.refs) == (0, [], {})
    again.append(ROWS)
    assert rows_of(loaded(catalog)) == [1, 2, 3]
