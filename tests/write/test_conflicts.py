"""Changes that were planned before others committed: nothing that was acknowledged is lost, whatever a third did.

    A plans on the first snapshot ── B commits ── C rewrites, merges, replaces or expires what B did ── A commits

Every case has a control without C elsewhere (tests/write/test_commit.py); the outcome must be the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationException
from pyiceberg.table.update.snapshot import ManageSnapshots

from kit.servers.postgres import empty_database
from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SCHEMA = pa.schema([("k", pa.int64()), ("w", pa.int32())])
MOR = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
COW: dict[str, str] = {}
SNAPSHOT = {"write.delete.isolation-level": "snapshot", "write.update.isolation-level": "snapshot"}
FAST = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "5"}
HISTORY = "Cannot determine history between starting snapshot"


def rows(*keys: int, w: int = 0) -> pa.Table:
    return pa.table({"k": keys, "w": [w] * len(keys)}, schema=SCHEMA)


class Case:
    """A table partitioned by `w` with the rows 1-4 in one file and 11-14 in another, and as many handles as wanted."""

    def __init__(self, catalog: Any) -> None:
        self.catalog = catalog

    def create(self, properties: dict[str, str]) -> None:
        table = self.catalog.create_table("db.t", SCHEMA, properties={"encryption.key-id": "hr", **FAST, **properties})
        with table.update_spec() as spec:
            spec.add_identity("w")
        self.handle().append(pa.concat_tables([rows(1, 2, 3, 4), rows(11, 12, 13, 14, w=1)]))

    def handle(self) -> Any:
        """The table as another process would load it now."""
        return self.catalog.load_table("db.t")

    def transaction(self) -> Any:
        return self.handle().transaction()

    def keys(self, branch: str = "main") -> list[int]:
        table = self.handle()
        found: list[int] = table.scan(snapshot_id=table.refs()[branch].snapshot_id).to_arrow()["k"].to_pylist()
        return sorted(found)

    def expire_all_but_the_head(self) -> None:
        table = self.handle()
        ids = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != table.current_snapshot().snapshot_id]
        table.maintenance.expire_snapshots().by_ids(ids).commit()


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with empty_database("sqlite", tmp_path) as database, database.catalog() as catalog:
        catalog.create_namespace("db")
        yield Case(catalog)


PLANS: dict[str, Callable[[Any], Any]] = {
    "delete": lambda change: change.delete("k == 1"),
    "overwrite": lambda change: change.overwrite(rows(101), "k == 1"),
    "upsert": lambda change: change.upsert(rows(1, w=5), join_cols=["k"]),
}


# -- a third commit hides what the second did ------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("isolation", [COW, SNAPSHOT], ids=["serializable", "snapshot"])
@pytest.mark.parametrize("mode", [MOR, COW], ids=["merge-on-read", "copy-on-write"])
def test_a_vector_whose_manifest_a_third_rewrites_stops_the_change(
    case: Case, plan: str, isolation: dict[str, str], mode: dict[str, str]
) -> None:
    case.create(mode | isolation)
    change = case.transaction()
    PLANS[plan](change)
    with case.transaction() as settings:
        settings.set_properties({"write.delete.mode": "merge-on-read"})
    case.handle().delete("k in (2, 11)")  # two vectors in one manifest, one of them on the file of the change
    case.handle().delete("k == 12")  # replaces the other: the manifest is written again, ours is an old entry in it
    with pytest.raises(ValidationException, match=r"deletes for|new delete|conflicting delete files"):
        change.commit_transaction()
    assert case.keys() == [1, 3, 4, 13, 14]


@pytest.mark.parametrize("plan", PLANS)
def test_a_vector_that_a_third_replaces_stops_the_change(case: Case, plan: str) -> None:
    case.create(MOR | SNAPSHOT)
    change = case.transaction()
    PLANS[plan](change)
    case.handle().delete("k == 2")
    case.handle().delete("k == 3")
    with pytest.raises(ValidationException):
        change.commit_transaction()
    assert case.keys() == [1, 4, 11, 12, 13, 14]


@pytest.mark.parametrize("plan", PLANS)
def test_a_vector_whose_manifest_a_third_merges_stops_the_change(case: Case, plan: str) -> None:
    case.create(MOR | SNAPSHOT | {"commit.manifest.min-count-to-merge": "2"})
    change = case.transaction()
    PLANS[plan](change)
    case.handle().delete("k == 2")
    case.handle().delete("k == 12")
    with pytest.raises(ValidationException):
        change.commit_transaction()
    assert case.keys() == [1, 3, 4, 11, 13, 14]


@pytest.mark.parametrize("merge", [True, False], ids=["merged", "rewritten"])
@pytest.mark.parametrize("plan", ["delete", "overwrite"])
def test_rows_whose_manifest_a_third_writes_again_stop_a_serializable_change(
    case: Case, plan: str, merge: bool
) -> None:
    case.create({"commit.manifest.min-count-to-merge": "2"} if merge else {})
    change = case.transaction()
    {"delete": lambda: change.delete("w == 0"), "overwrite": lambda: change.overwrite(rows(101), "w == 0")}[plan]()
    case.handle().append(pa.concat_tables([rows(5), rows(21, w=2)]))
    case.handle().delete("w == 2")
    with pytest.raises(ValidationException, match="Found conflicting files that can contain records matching"):
        change.commit_transaction()
    assert case.keys() == [1, 2, 3, 4, 5, 11, 12, 13, 14]


def test_rows_that_came_and_went_again_stop_a_serializable_change(case: Case) -> None:
    """As in Java: A may have been planned because the rows were not there, and they were for a time."""
    case.create(COW)
    change = case.transaction()
    change.delete("w == 0")
    case.handle().append(rows(5))
    case.handle().delete("k == 5")
    with pytest.raises(ValidationException, match="Found conflicting files"):
        change.commit_transaction()


@pytest.mark.parametrize("isolation", [COW, SNAPSHOT], ids=["serializable", "snapshot"])
def test_a_file_that_others_rewrote_gets_no_vector(case: Case, isolation: dict[str, str]) -> None:
    """The vector would be of a file that is not there any more, and its row would live on in the new file."""
    case.create(MOR | isolation)
    change = case.transaction()
    change.delete("k == 1")
    case.handle().overwrite(rows(102), "k == 2")  # copies the rows 1, 3 and 4 to a new file
    with pytest.raises(ValidationException):
        change.commit_transaction()
    assert case.keys() == [1, 3, 4, 11, 12, 13, 14, 102]


def test_later_steps_of_a_transaction_are_validated_too(case: Case) -> None:
    """The first step is an append, which needs no validation; the second was planned on top of it."""
    case.create(MOR)
    change = case.transaction()
    change.append(rows(31, w=3))
    change.delete("k == 1")
    case.handle().delete("k == 2")
    with pytest.raises(ValidationException, match="concurrently added deletes"):
        change.commit_transaction()
    assert case.keys() == [1, 3, 4, 11, 12, 13, 14]


def test_steps_of_one_transaction_are_no_conflict_of_each_other(case: Case) -> None:
    case.create(MOR)
    change = case.transaction()
    change.delete("k == 1")
    change.delete("k == 2")
    change.append(rows(5))
    change.delete("k == 3")
    case.handle().append(rows(21, w=2))
    change.commit_transaction()
    assert case.keys() == [4, 5, 11, 12, 13, 14, 21]


def test_a_filter_is_about_the_columns_that_it_was_made_for(case: Case) -> None:
    case.create(COW)
    change = case.transaction()
    change.delete("K == 1", case_sensitive=False)
    with case.handle().update_schema() as schema:
        schema.rename_column("k", "w_too").rename_column("w", "k")
    case.handle().append(pa.table({"w_too": pa.array([1], pa.int64()), "k": pa.array([7], pa.int32())}))
    with pytest.raises(ValidationException, match="Found conflicting files that can contain records matching"):
        change.commit_transaction()


def test_changes_in_other_partitions_and_files_are_no_conflict(case: Case) -> None:
    case.create(MOR)
    change = case.transaction()
    change.delete("w == 0 and k == 1")
    case.handle().append(rows(21, w=2))
    case.handle().delete("k == 12")
    change.commit_transaction()
    assert case.keys() == [2, 3, 4, 11, 13, 14, 21]


# -- a history with a gap --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("mode", [MOR, COW], ids=["merge-on-read", "copy-on-write"])
def test_a_window_with_expired_snapshots_is_refused(case: Case, plan: str, mode: dict[str, str]) -> None:
    case.create(mode | SNAPSHOT)
    change = case.transaction()
    PLANS[plan](change)
    with case.transaction() as settings:
        settings.set_properties({"write.delete.mode": "merge-on-read"})
    case.handle().delete("k == 2")
    case.handle().append(rows(50, w=5))
    case.expire_all_but_the_head()
    with pytest.raises(ValidationException, match=HISTORY):
        change.commit_transaction()
    assert case.keys() == [1, 3, 4, 11, 12, 13, 14, 50]


def test_a_branch_that_was_rolled_back_meanwhile_is_refused(case: Case) -> None:
    case.create(MOR)
    first = case.handle().current_snapshot().snapshot_id
    case.handle().append(rows(5))
    change = case.transaction()
    change.delete("k == 1")
    case.handle().manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(ValidationException, match=HISTORY):
        change.commit_transaction()
    assert case.keys() == [1, 2, 3, 4, 11, 12, 13, 14]


def test_an_append_needs_no_history(case: Case) -> None:
    case.create(COW)
    change = case.transaction()
    change.append(rows(5))
    case.handle().append(rows(50, w=5))
    case.expire_all_but_the_head()
    change.commit_transaction()
    assert case.keys() == [1, 2, 3, 4, 5, 11, 12, 13, 14, 50]


# -- operations that found nothing -----------------------------------------------------------------


def unmatched(change: Any, row_filter: str) -> None:
    with pytest.warns(UserWarning, match="did not match any records"):
        change.delete(row_filter)


def test_a_staged_delete_that_found_nothing_is_validated(case: Case) -> None:
    case.create(COW)
    change = case.transaction()
    unmatched(change, "k == 5")
    change.append(rows(21, w=2))
    case.handle().append(rows(5))
    with pytest.raises(ValidationException, match="Found conflicting files"):
        change.commit_transaction()
    assert case.keys() == [1, 2, 3, 4, 5, 11, 12, 13, 14]


def test_a_delete_that_found_nothing_is_validated_though_nothing_is_committed(case: Case) -> None:
    case.create(COW)
    change = case.transaction()
    unmatched(change, "k == 5")
    case.handle().append(rows(5))
    with pytest.raises(ValidationException, match="Found conflicting files"):
        change.commit_transaction()


def test_an_upsert_that_changes_nothing_is_validated(case: Case) -> None:
    case.create(COW)
    change = case.transaction()
    change.upsert(rows(1), join_cols=["k"])
    change.append(rows(21, w=2))
    case.handle().append(rows(1, w=7))
    with pytest.raises(ValidationException, match="Found conflicting files"):
        change.commit_transaction()


def test_a_delete_that_found_nothing_makes_no_snapshot(case: Case) -> None:
    case.create(COW)
    before = case.handle().metadata_location
    unmatched(case.handle(), "k == 5")
    assert case.handle().metadata_location == before


def test_under_snapshot_isolation_rows_that_came_meanwhile_stay(case: Case) -> None:
    case.create(SNAPSHOT)
    change = case.transaction()
    unmatched(change, "k == 5")
    change.append(rows(21, w=2))
    case.handle().append(rows(5))
    change.commit_transaction()
    assert case.keys() == [1, 2, 3, 4, 5, 11, 12, 13, 14, 21]


# -- whole partitions ------------------------------------------------------------------------------


def test_replaced_partitions_refuse_rows_that_came_meanwhile(case: Case) -> None:
    case.create(COW)
    change = case.transaction()
    change.dynamic_partition_overwrite(rows(101))
    case.handle().append(rows(5))
    with pytest.raises(ValidationException, match="records matching 1 replaced partitions"):
        change.commit_transaction()
    assert case.keys() == [1, 2, 3, 4, 5, 11, 12, 13, 14]


@pytest.mark.parametrize("properties", [MOR, SNAPSHOT], ids=["vector", "removal"])
def test_replaced_partitions_refuse_deletes_in_them(case: Case, properties: dict[str, str]) -> None:
    case.create(properties)
    change = case.transaction()
    change.dynamic_partition_overwrite(rows(101))
    case.handle().delete("k == 2")
    with pytest.raises(ValidationException, match="replaced partitions"):
        change.commit_transaction()
    assert case.keys() == [1, 3, 4, 11, 12, 13, 14]


def test_under_snapshot_isolation_replaced_partitions_are_those_of_the_commit(case: Case) -> None:
    """As in Java and PyIceberg: the partition is replaced as it is then."""
    case.create(SNAPSHOT)
    change = case.transaction()
    change.dynamic_partition_overwrite(rows(101))
    case.handle().append(pa.concat_tables([rows(5), rows(15, w=1)]))
    change.commit_transaction()
    assert case.keys() == [11, 12, 13, 14, 15, 101]


def test_replaced_partitions_do_not_mind_others(case: Case) -> None:
    case.create(MOR)
    change = case.transaction()
    change.dynamic_partition_overwrite(rows(101))
    case.handle().append(rows(15, w=1))
    case.handle().delete("k == 11")
    change.commit_transaction()
    assert case.keys() == [12, 13, 14, 15, 101]


# -- branches --------------------------------------------------------------------------------------


@pytest.fixture
def dev(case: Case) -> Case:
    case.create(MOR)
    table = case.handle()
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "dev").commit()
    return case


WRITES: dict[str, Callable[[Any], Any]] = {
    "append": lambda table: table.append(rows(5), branch="dev"),
    "delete": lambda table: table.delete("k == 1", branch="dev"),
    "overwrite": lambda table: table.overwrite(rows(5), "k == 1", branch="dev"),
    "upsert": lambda table: table.upsert(rows(1, w=5), join_cols=["k"], branch="dev"),
    "dynamic": lambda table: table.dynamic_partition_overwrite(rows(5), branch="dev"),
}


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITES)
def test_a_branch_that_was_removed_meanwhile_is_not_made_anew(dev: Case, write: str) -> None:
    stale = dev.handle()
    dev.handle().manage_snapshots().remove_branch("dev").commit()
    with pytest.raises(ValidationException, match=r"branch dev of db\.t: another process has removed the branch"):
        WRITES[write](stale)
    assert list(dev.handle().refs()) == ["main"]


def test_a_branch_that_was_removed_and_made_anew_takes_an_append(dev: Case) -> None:
    stale = dev.handle()
    dev.handle().append(rows(6))
    dev.handle().manage_snapshots().remove_branch("dev").commit()
    head = dev.handle().current_snapshot().snapshot_id
    dev.handle().manage_snapshots().create_branch(head, "dev").commit()
    WRITES["append"](stale)
    assert dev.keys("dev") == [1, 2, 3, 4, 5, 6, 11, 12, 13, 14]


def test_a_branch_that_a_transaction_makes_takes_its_rows_after_a_retry(dev: Case) -> None:
    change = dev.transaction()
    head = change.table_metadata.current_snapshot().snapshot_id
    ManageSnapshots(change).create_branch(head, "new").commit()
    change.append(rows(5), branch="new")
    dev.handle().append(rows(6))
    change.commit_transaction()
    assert dev.keys("new") == [1, 2, 3, 4, 5, 11, 12, 13, 14]


def test_an_upsert_into_no_branch_is_refused(dev: Case) -> None:
    with pytest.raises(ConfigError, match=r"Cannot upsert into branch missing of db\.t: there is no such branch"):
        dev.handle().upsert(rows(1, w=5), join_cols=["k"], branch="missing")
    assert sorted(dev.handle().refs()) == ["dev", "main"]


def test_a_tag_is_no_branch(dev: Case) -> None:
    table = dev.handle()
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "v1").commit()
    with pytest.raises(ConfigError, match="v1 is a tag, not a branch"):
        dev.handle().append(rows(5), branch="v1")


# -- writers that only append ----------------------------------------------------------------------


def test_appends_succeed_whatever_others_delete(case: Case) -> None:
    case.create(MOR)
    stale = [case.transaction() for _ in range(3)]
    for at, change in enumerate(stale):
        change.append(rows(100 + at))
    case.handle().delete("k == 1")
    case.handle().overwrite(rows(2))
    case.expire_all_but_the_head()
    for change in stale:
        change.commit_transaction()
    assert case.keys() == [2, 100, 101, 102]


def test_a_commit_that_is_refused_leaves_no_file(case: Case, tmp_path: Path) -> None:
    case.create(MOR)
    change = case.transaction()
    change.delete("k == 1")
    case.handle().delete("k == 2")
    before = {path for path in (tmp_path / "warehouse").rglob("*") if path.is_file()}
    with pytest.raises(ValidationException):
        change.commit_transaction()
    left = {path for path in (tmp_path / "warehouse").rglob("*") if path.is_file()}
    assert left < before
    assert case.keys() == [1, 3, 4, 11, 12, 13, 14]
