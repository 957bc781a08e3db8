"""Expiry and rollback that were planned before others committed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, ValidationException

from kit.servers.postgres import empty_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = pa.schema([("k", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with empty_database("sqlite", tmp_path) as database, database.catalog() as opened:
        opened.create_namespace("db")
        yield opened


@pytest.fixture
def ids(catalog: Any) -> list[int]:
    """The snapshots of `db.t`, oldest first."""
    table = catalog.create_table("db.t", SCHEMA, properties={"encryption.key-id": "hr"})
    for key in range(4):
        table.append(pa.table({"k": [key]}, schema=SCHEMA))
    return [snapshot.snapshot_id for snapshot in table.snapshots()]


def snapshots(catalog: Any) -> list[int]:
    return [snapshot.snapshot_id for snapshot in catalog.load_table("db.t").snapshots()]


def test_two_processes_expire_the_same_snapshot(catalog: Any, ids: list[int]) -> None:
    stale = catalog.load_table("db.t")
    catalog.load_table("db.t").maintenance.expire_snapshots().by_id(ids[0]).commit()
    before = catalog.load_table("db.t").metadata_location
    stale.maintenance.expire_snapshots().by_id(ids[0]).commit()
    assert catalog.load_table("db.t").metadata_location == before, "there was nothing left to do"
    stale.maintenance.expire_snapshots().by_ids([ids[1]]).commit()
    assert snapshots(catalog) == ids[2:]


def test_what_is_gone_when_a_commit_is_tried_again_is_no_error(
    catalog: Any, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process expires one of two snapshots after ours has looked at the table, and before it commits."""
    stale = catalog.load_table("db.t")
    expiry = stale.maintenance.expire_snapshots().by_ids(ids[:2])
    with monkeypatch.context() as patch:
        patch.setattr(type(stale), "refresh", lambda self: self)
        catalog.load_table("db.t").maintenance.expire_snapshots().by_id(ids[0]).commit()
        expiry.commit()
    assert snapshots(catalog) == ids[2:]
    table = catalog.load_table("db.t")
    assert table.scan().to_arrow().num_rows == 4
    used = {snapshot.key_id for snapshot in table.snapshots()}
    assert {entry.key_id for entry in table.metadata.encryption_keys if entry.timestamp is None} == used


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_snapshot_that_others_named_meanwhile_stays(catalog: Any, ids: list[int], kind: str) -> None:
    stale = catalog.load_table("db.t")
    by_id = stale.maintenance.expire_snapshots().by_id(ids[0])
    by_age = stale.maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(minutes=1))
    manage = catalog.load_table("db.t").manage_snapshots()
    getattr(manage, f"create_{kind}")(ids[0], "audit").commit()
    with pytest.raises(ValidationException, match=rf"Cannot expire {ids[0]}. Still referenced by refs: \[audit\]"):
        by_id.commit()
    by_age.commit()
    assert snapshots(catalog) == [ids[0], ids[3]]
    assert catalog.load_table("db.t").refs()["audit"].snapshot_id == ids[0]


def test_a_rollback_meanwhile_keeps_its_snapshot(catalog: Any, ids: list[int]) -> None:
    expiry = catalog.load_table("db.t").maintenance.expire_snapshots().by_id(ids[1])
    catalog.load_table("db.t").manage_snapshots().rollback_to_snapshot(ids[1]).commit()
    with pytest.raises(ValidationException, match="Still referenced by refs"):
        expiry.commit()
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 2


def test_a_stale_rollback_does_not_undo_an_append_that_it_has_not_seen(catalog: Any, ids: list[int]) -> None:
    stale = catalog.load_table("db.t")
    catalog.load_table("db.t").append(pa.table({"k": [99]}, schema=SCHEMA))
    with pytest.raises(CommitFailedException, match="branch main has changed"):
        stale.manage_snapshots().rollback_to_snapshot(ids[1]).commit()
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 5


def test_a_snapshot_that_is_named_between_the_look_and_the_commit_stays(
    catalog: Any, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = catalog.load_table("db.t")
    expiry = stale.maintenance.expire_snapshots().by_id(ids[0])
    with monkeypatch.context() as patch:
        patch.setattr(type(stale), "refresh", lambda self: self)
        catalog.load_table("db.t").manage_snapshots().create_tag(ids[0], "audit").commit()
        with pytest.raises(ValidationException, match=r"Still referenced by refs: \[audit\]"):
            expiry.commit()
    assert snapshots(catalog) == ids
