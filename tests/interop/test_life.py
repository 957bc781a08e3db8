"""The life of a table that Java shares: Java expires the same, and reads what our jobs leave, killed or not."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyiceberg.table.update import RemoveSnapshotRefUpdate, RemoveSnapshotsUpdate

import sealberg
from kit.programs.iceberg_java import KMS, IcebergJava
from kit.programs.killed import points, run
from kit.programs.life_work import JOBS, check, expected, occasion, work
from kit.tables.lives import ids, lived, stored
from sealberg.files.locations import normal
from sealberg.jobs import erase, expire, orphans, stats, verify
from sealberg.jobs.removal.deletion import Removed
from sealberg.jobs.removal.unreachable import Gone, Unreachable
from sealberg.jobs.runner import Threads
from sealberg.metadata.updates import applied
from sealberg.table.own_folders import Domain
from sealberg.table.retention import Expiry, Retention, expiry

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY: Final = {"encryption.key-id": "keyA"}
FUTURE: Final = 4_102_444_800_000  # 2100-01-01


@pytest.fixture
def catalog(java: IcebergJava) -> Iterator[Any]:
    with sealberg.load_catalog("ours", type="hive", uri=java.uri, **KMS) as opened:
        yield opened


def java_ids(java: IcebergJava, name: str, version: str = "") -> list[int]:
    return sorted(row["id"] for row in java.spark.sql(f"select id from h.db.{name}{version}").collect())


def would_remove(table: Any, gone: Expiry) -> set[str]:
    """The files that our expiry removes, without removing them."""
    before = table.metadata
    expired = tuple(each for each in before.snapshots if each.snapshot_id in gone.snapshot_ids)
    updates: list[Any] = [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in gone.refs]
    updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(gone.snapshot_ids)}))
    table.metadata = applied(before, tuple(updates))
    domain = Domain.of(table, (), vouched=True)
    work = Unreachable(table, [Gone(before, expired)], domain, Threads(1), Removed())
    return {normal(file.location) for file in work.files()}


def old_branch(table: Any) -> None:
    table.manage_snapshots().create_branch(table.metadata.snapshots[3].snapshot_id, "old", max_ref_age_ms=1).commit()


def patient_branch(table: Any) -> None:
    made = table.manage_snapshots()
    made.create_branch(table.metadata.snapshots[5].snapshot_id, "patient", min_snapshots_to_keep=3).commit()


def staged(table: Any) -> None:
    """A snapshot that no branch leads to."""
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[-2].snapshot_id).commit()


def counted(table: Any) -> None:
    """Statistics of a snapshot that expires, and of one that stays."""
    for at in (3, -1):
        stats.plan(table, snapshot=table.metadata.snapshots[at].snapshot_id).execute()


@pytest.mark.parametrize("retain_last", [1, 3])
@pytest.mark.parametrize("more", [old_branch, patient_branch, staged, counted])
def test_java_expires_the_same_snapshots_refs_and_files(
    java: IcebergJava, catalog: Any, more: Any, retain_last: int
) -> None:
    name = f"same_{more.__name__}_{retain_last}"
    table = lived(catalog, f"db.{name}", **KEY)
    more(table)
    table = catalog.load_table(f"db.{name}")
    gone = expiry(table.metadata, Retention(FUTURE, retain_last), FUTURE - 1)
    ours, refs = would_remove(table, gone), set(table.metadata.refs)
    before = stored(table)
    java.spark.sql(
        f"call h.system.expire_snapshots(table => 'db.{name}', older_than => timestamp '2100-01-01 00:00:00', "
        f"retain_last => {retain_last})"
    )
    after: Any = catalog.load_table(f"db.{name}")
    assert {each.snapshot_id for each in after.metadata.snapshots} == {
        each.snapshot_id for each in table.metadata.snapshots
    }
    assert set(after.metadata.refs) == refs - set(gone.refs)
    assert before - stored(after) == ours


def test_java_reads_a_table_between_the_steps_of_our_jobs(java: IcebergJava, catalog: Any) -> None:
    table = lived(catalog, "db.steps", **KEY)
    java.spark.sql("insert into h.db.steps values (40, 'person-40')")
    table.refresh()
    assert java_ids(java, "steps") == [2, 4, 5, 6, 20, 40]
    assert expire.plan(table, older_than=timedelta(0), retain_last=2).execute().exit_code == 0
    assert java_ids(java, "steps") == [2, 4, 5, 6, 20, 40]
    assert java_ids(java, "steps", " version as of 'audit'") == [1, 2, 3, 4]
    java.spark.sql("delete from h.db.steps where id = 6")
    assert erase.plan("db.steps", catalog=catalog, where="id = 4").execute().is_proved
    assert java_ids(java, "steps") == [2, 5, 20, 40]
    assert java_ids(java, "steps", " version as of 'audit'") == [1, 2, 3]
    java.spark.sql("insert into h.db.steps values (50, 'person-50')")
    orphans.plan("db.steps", catalog=catalog, older_than=timedelta(0), allow_recent=True).execute()
    assert java_ids(java, "steps") == [2, 5, 20, 40, 50]
    java.spark.sql("call h.system.expire_snapshots(table => 'db.steps', older_than => now(), retain_last => 1)")
    java.spark.sql("call h.system.rewrite_manifests('db.steps')")
    assert java_ids(java, "steps") == ids(catalog.load_table("db.steps")) == [2, 5, 20, 40, 50]


@pytest.mark.parametrize("job", JOBS)
def test_java_reads_and_writes_a_table_whose_job_was_killed(java: IcebergJava, catalog: Any, job: str) -> None:
    short = f"killed_{job.replace('-', '_')}"
    name = f"db.{short}"
    own = {"type": "hive", "uri": java.uri, **KMS}
    if job == "rewrap":  # a KMS that does not tell versions, so every KEK is wrapped anew, and nothing is proved
        own["encryption.kms-impl"] = "tests.interop.test_key_jobs:SilentUnitestKms"
    table = lived(catalog, name, **KEY)
    occasion(job, table, 0)
    whole = run(work, job, own, name)
    assert not whole.error
    assert whole.operations > 2
    theirs: list[int] = []
    for number, at in enumerate(points(whole.operations, 3, seed=21), 1):
        occasion(job, table, number)
        run(work, job, own, name, at=at)
        assert java_ids(java, short) == ids(catalog.load_table(name))
        theirs = [] if job == "shred" else [*theirs, 200 + number]
        java.spark.sql(f"insert into h.{name} values ({200 + number}, 'person')")
        ended = run(work, job, own, name)
        assert (ended.error, (ended.returned or [-1])[0]) == ("", 2 if job == "rewrap" else 0), ended.returned
        check(job, table)
        assert java_ids(java, short) == ids(catalog.load_table(name)) == [*expected(job, number + 1), *theirs]
    if job == "prune-keys":  # older metadata files still hold the keys; expire removes these files
        expire.plan(name, catalog=catalog, older_than=timedelta(0), retain_last=99).execute()
    assert verify.plan(name, catalog=catalog).execute().findings == ()
