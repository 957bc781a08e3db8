"""Expiry of snapshots takes their keys, and no key that is still needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import ValidationException
from pyiceberg.table.update import RemoveSnapshotsUpdate

from kit.servers import postgres
from kit.tables.commits import ROWS, make, rows_of
from sealberg.errors import KeyringError
from sealberg.keys.manager import LIFESPAN_PROPERTY
from sealberg.metadata.updates import RemoveEncryptionKeyUpdate

if TYPE_CHECKING:
    from kit.servers.postgres import Database
    from sealberg.catalogs.sql.catalog import EncryptedSql

catalog, database = postgres.catalog, postgres.database  # the fixtures


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
