"""Every way to change an encrypted table, in every catalog: one client writes, another one reads, several at once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables import catalogs
from kit.tables.tables import check_lineage
from sealberg.jobs import expire

if TYPE_CHECKING:
    from kit.tables.catalogs import Lake

lake = catalogs.lake  # the fixture

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))
BY_NAME = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
PATIENT = {"commit.retry.num-retries": "1000", "commit.retry.min-wait-ms": "10", "commit.retry.max-wait-ms": "300"}


def rows(*pairs: tuple[int, str]) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    return pa.Table.from_pylist([{"id": number, "name": name} for number, name in pairs], schema=schema)


ABC = rows((1, "a"), (2, "b"), (3, "c"))


class Pair:
    """A writer and a reader that have nothing in common but the catalog."""

    def __init__(self, lake: Lake) -> None:
        self.writer, self._reader = lake.connect(), lake.connect()

    def make(self, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC, /, **properties: str) -> Any:
        own = {"encryption.key-id": "hr", **properties}
        return self.writer.create_table("db.t", SCHEMA, partition_spec=spec, properties=own)

    def table(self) -> Any:
        """As the reader finds it; every snapshot of it opens, and row ids are in order."""
        table = self._reader.load_table("db.t")
        assert table.format_version == 3
        for snapshot in table.metadata.snapshots:
            assert snapshot.key_id in table.metadata.encryption_keys
            for manifest in snapshot.manifests(table.io):
                assert manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        if table.current_snapshot():
            check_lineage(table)
        return table

    def read(self, **scan: Any) -> list[tuple[int, str]]:
        found = self.table().scan(**scan).to_arrow().to_pylist()
        return sorted((row["id"], row["name"]) for row in found)


@pytest.fixture
def pair(lake: Lake) -> Pair:
    return Pair(lake)


# -- rows -------------------------------------------------------------------------------------


@pytest.mark.every_catalog
def test_append_and_overwrite(pair: Pair, lake: Lake) -> None:
    table = pair.make()
    table.append(ABC)
    table.append(rows((4, "d")))
    table.overwrite(rows((9, "z")), "id < 3")
    assert pair.read() == [(3, "c"), (4, "d"), (9, "z")]
    table.overwrite(rows((7, "y")))
    assert pair.read() == [(7, "y")]
    assert len(pair.table().metadata.encryption_keys) == 5  # a KEK and four lists
    assert lake.magics() == {b"AGS1", b"PARE"}


def test_dynamic_partition_overwrite(pair: Pair) -> None:
    table = pair.make(BY_NAME)
    table.append(ABC)
    table.dynamic_partition_overwrite(rows((20, "b"), (4, "d")))
    assert pair.read() == [(1, "a"), (3, "c"), (4, "d"), (20, "b")]


@pytest.mark.every_catalog
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_delete(pair: Pair, lake: Lake, mode: str) -> None:
    table = pair.make(**{"write.delete.mode": mode})
    table.append(ABC)
    table.delete("id = 2")
    table.delete("id = 3")
    assert pair.read() == [(1, "a")]
    assert any(path.endswith(".puffin") for path in lake.files()) == (mode == "merge-on-read")
    assert lake.magics() == {b"AGS1", b"PARE"}


def test_upsert(pair: Pair) -> None:
    table = pair.make()
    table.append(ABC)
    done = table.upsert(rows((2, "B"), (4, "d")), join_cols=["id"])
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert pair.read() == [(1, "a"), (2, "B"), (3, "c"), (4, "d")]


# -- the shape of the table -------------------------------------------------------------------


def test_schema_partitions_and_properties_evolve(pair: Pair) -> None:
    table = pair.make()
    table.append(ABC)
    with table.update_schema() as schema:
        schema.add_column("more", LongType())
        schema.rename_column("name", "called")
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "id_bucket")
    with table.transaction() as transaction:
        transaction.set_properties(owner="me")
    table.append(pa.table({"id": pa.array([4], pa.int64()), "called": ["d"], "more": pa.array([7], pa.int64())}))
    found = pair.table()
    assert sorted(found.scan().to_arrow()["more"].to_pylist(), key=str) == [7, None, None, None]
    assert sorted(found.scan().to_arrow()["called"].to_pylist()) == ["a", "b", "c", "d"]
    assert [field.name for field in found.spec().fields] == ["id_bucket"]
    assert found.properties["owner"] == "me"


# -- history ----------------------------------------------------------------------------------


def test_branches_tags_and_rollback(pair: Pair) -> None:
    table = pair.make()
    table.append(ABC)
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "before").create_branch(first, "side").commit()
    table.append(rows((4, "d")))
    table.append(rows((5, "e")), branch="side")
    assert pair.read() == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert pair.read(snapshot_id=pair.table().refs()["before"].snapshot_id) == [(1, "a"), (2, "b"), (3, "c")]
    assert pair.read(snapshot_id=pair.table().refs()["side"].snapshot_id)[-1] == (5, "e")
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert pair.read() == [(1, "a"), (2, "b"), (3, "c")]
    table.manage_snapshots().remove_branch("side").remove_tag("before").commit()
    assert set(pair.table().refs()) == {"main"}
    table.append(rows((6, "f")))
    assert pair.read()[-1] == (6, "f")


@pytest.mark.every_catalog
def test_expiry_takes_the_keys_of_the_expired_snapshots_along_and_no_others(pair: Pair) -> None:
    table = pair.make()
    for number in range(4):
        table.append(rows((number, "x")))
    gone = [snapshot.snapshot_id for snapshot in table.metadata.snapshots[:2]]
    before = {entry.key_id for entry in table.metadata.encryption_keys}
    expired = {snapshot.key_id for snapshot in table.metadata.snapshots[:2]}
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    found = pair.table()
    assert {entry.key_id for entry in found.metadata.encryption_keys} == before - expired
    assert len(found.metadata.snapshots) == 2
    assert [number for number, _ in pair.read()] == [0, 1, 2, 3]


# -- several clients --------------------------------------------------------------------------


def test_a_transaction_is_one_commit(pair: Pair) -> None:
    table = pair.make()
    with table.transaction() as transaction:
        transaction.append(ABC)
        transaction.delete("id = 1")
        transaction.set_properties(owner="me")
        assert pair.table().metadata.snapshots == []
    assert pair.read() == [(2, "b"), (3, "c")]
    assert pair.table().properties["owner"] == "me"
    assert len(pair.table().metadata.metadata_log) == 1


@pytest.mark.every_catalog
def test_a_commit_after_that_of_another_client_keeps_the_keys_of_both(pair: Pair, lake: Lake) -> None:
    table = pair.make()
    other = lake.connect().load_table("db.t")
    with table.transaction() as transaction:
        transaction.append(rows((1, "a")))
        other.append(rows((2, "b")))
        transaction.append(rows((3, "c")))
    other.append(rows((4, "d")))  # its metadata are two commits old
    assert pair.read() == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    found = pair.table().metadata
    assert len(found.snapshots) == 4
    assert {snapshot.key_id for snapshot in found.snapshots} <= {entry.key_id for entry in found.encryption_keys}


def test_without_patience_a_conflict_is_an_error_that_leaves_no_file(pair: Pair, lake: Lake) -> None:
    table = pair.make(**{"commit.retry.num-retries": "0"})
    late = lake.connect().load_table("db.t")
    table.append(ABC)
    before = lake.files()
    with pytest.raises(CommitFailedException):
        late.append(rows((4, "d")))
    assert lake.files() == before
    assert pair.read() == [(1, "a"), (2, "b"), (3, "c")]


def test_changes_that_contradict_each_other_are_not_both_made(pair: Pair, lake: Lake) -> None:
    table = pair.make()
    table.append(ABC)
    late = lake.connect().load_table("db.t")
    table.delete("id = 2")
    before = lake.files()
    with pytest.raises(ValidationException):
        late.delete("id = 3")
    assert lake.files() == before
    assert pair.read() == [(1, "a"), (3, "c")]


@pytest.mark.every_catalog
@pytest.mark.slow
def test_clients_that_write_at_once_lose_no_row_no_snapshot_and_no_key(pair: Pair, lake: Lake) -> None:
    pair.make(**PATIENT)
    clients = [lake.connect() for _ in range(3)]
    errors: list[BaseException] = []

    def write(name: int, client: Any) -> None:
        try:
            table = client.load_table("db.t")
            for each in range(4):
                table.append(rows((name * 100 + each, "x")))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=pair) for pair in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    wanted = [name * 100 + each for name in range(3) for each in range(4)]
    assert [number for number, _ in pair.read()] == wanted
    metadata = pair.table().metadata
    assert [snapshot.sequence_number for snapshot in metadata.snapshots] == list(range(1, 13))
    assert len(metadata.encryption_keys) == 12 + 1
    # Attempts that failed have left nothing: one data file and one list for each commit.
    names = [path.rpartition("/")[2] for path in lake.files()]
    assert sum(name.endswith(".parquet") for name in names) == 12
    assert sum(name.startswith("snap-") for name in names) == 12
    if lake.meddling is not None:  # a server that writes metadata.json itself has leftovers of its own
        assert sum(name.endswith(".metadata.json") for name in names) == 13


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["sqlite", "rest"], indirect=True)
@pytest.mark.parametrize("first", ["expire", "cherrypick"])
def test_a_staged_snapshot_is_published_or_expired_and_never_both(pair: Pair, lake: Lake, first: str) -> None:
    """An expiry deletes the files of a staged snapshot; a commit that publishes these files must not follow it."""
    table = pair.make()
    table.append(rows((1, "a")))
    table.append(rows((2, "b")), branch=None)
    staged = table.metadata.snapshots[-1].snapshot_id
    table.append(rows((3, "c")))  # so the publication writes a snapshot of its own
    pick = table.manage_snapshots().cherrypick(staged)
    expiry = expire.plan(lake.connect().load_table("db.t"), older_than=timedelta(0), retain_last=9)
    if first == "cherrypick":
        pick.commit()
        assert expiry.execute().exit_code == 0
    else:
        assert expiry.execute().tables[0].removed.files["data"] == 1
        with pytest.raises(ValidationException, match=str(staged)):
            pick.commit()
    left = lake.connect().load_table("db.t")
    assert left.metadata.snapshot_by_id(staged) is None
    assert sorted(left.scan().to_arrow()["id"].to_pylist()) == ([1, 2, 3] if first == "cherrypick" else [1, 3])


@pytest.mark.every_catalog
@pytest.mark.parametrize("lake", ["rest"], indirect=True)
def test_a_rest_server_refuses_a_staged_snapshot_that_expires_while_its_publication_is_on_its_way(
    pair: Pair, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pair.make()
    table.append(rows((1, "a")))
    table.append(rows((2, "b")), branch=None)
    staged = table.metadata.snapshots[-1].snapshot_id
    table.append(rows((3, "c")))
    pick = table.manage_snapshots().cherrypick(staged)
    expiry = expire.plan(lake.connect().load_table("db.t"), older_than=timedelta(0), retain_last=9)
    writer: Any = pair.writer
    real = writer.ask_commit
    asked: list[Any] = []

    def late(*arguments: Any, **named: Any) -> Any:
        if not asked:
            asked.append(expiry.execute())
        return real(*arguments, **named)

    monkeypatch.setattr(writer, "ask_commit", late)
    with pytest.raises(ValidationException, match=f"unknown snapshot ID: {staged}"):
        pick.commit()
    left = lake.connect().load_table("db.t")
    assert sorted(left.scan().to_arrow()["id"].to_pylist()) == [1, 3]
    assert set(left.metadata.refs) == {"main"}
