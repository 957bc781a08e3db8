"""`expire`: the snapshots, files, metadata and keys that go, and what never goes."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.killed import points, run
from kit.tables.lives import check_exact, ids, lived, metadata_files, rows, stored
from kit.tables.tables import MASTER_KEY, sealed_catalog
from sealberg.errors import ConfigError, RemovalRefusedError, UnsupportedError
from sealberg.files.locations import normal
from sealberg.jobs import expire, orphans, stats, verify
from sealberg.jobs.removal import journal
from sealberg.jobs.removal.older_metadata import older_metadata
from sealberg.jobs.removal.unreachable import Gone
from sealberg.jobs.runner import Threads
from sealberg.table import retention
from sealberg.table.static_table import open_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.jobs.expire_result import ExpireResult

NOW = timedelta(0)
KMS = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": MASTER_KEY}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as opened:
        yield opened


def expire_all(table: Any, **options: Any) -> ExpireResult:
    result = expire.plan(table, **{"older_than": NOW, **options}).execute()
    table.refresh()
    return result


def test_expired_snapshots_take_their_files_keys_and_metadata_with_them(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    snapshots, before = len(table.metadata.snapshots), len(stored(table))
    result = expire_all(table)
    assert result.exit_code == 0
    assert len(table.metadata.snapshots) == 3  # main, audit and first
    assert ids(table) == [2, 4, 5, 6, 20]
    assert ids(table, snapshot_id=_ref(table, "audit")) == [1, 2, 3, 4]
    assert ids(table, snapshot_id=_ref(table, "first")) == [1, 2]
    check_exact(table)
    (done,) = result.tables
    assert len(done.snapshot_ids) == done.keys == snapshots - 3
    assert done.removed.count == before + 1 - len(stored(table))


def _ref(table: Any, name: str) -> int:
    return int(table.metadata.refs[name].snapshot_id)


def test_no_older_metadata_opens_what_expired(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = lived(catalog)
    old, gone = table.metadata_location, table.metadata.snapshots[5].snapshot_id
    copy = tmp_path / "copy.metadata.json"
    copy.write_bytes(Path(normal(old)).read_bytes())
    assert 7 in ids(open_table(old, KMS), snapshot_id=gone)
    expire_all(table)
    with pytest.raises(FileNotFoundError):
        open_table(old, KMS)
    assert not [each for each in older_metadata(table) if each.expired_keys]
    for left in metadata_files(table):  # the files of the kept snapshots, and not one that expired
        older: Any = open_table(left, KMS)
        assert {each.snapshot_id for each in older.metadata.snapshots} <= {
            each.snapshot_id for each in table.metadata.snapshots
        }
    with pytest.raises(FileNotFoundError):  # a copy of the metadata has the keys, and the files are gone
        ids(open_table(str(copy), KMS), snapshot_id=gone)
    assert "old-keys" not in {finding.code for finding in verify.plan(table).execute().findings}


def test_the_newest_snapshots_of_a_branch_stay(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    line = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    expire_all(table, retain_last=3)
    left = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    assert left[-3:] == line[-3:]
    assert _ref(table, "audit") in left
    check_exact(table)


def test_a_young_snapshot_stays(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    before = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    result = expire.plan(table).execute()  # history.expire.max-snapshot-age-ms: 5 days
    table.refresh()
    assert [snapshot.snapshot_id for snapshot in table.metadata.snapshots] == before
    assert result.tables[0].removed.count == 0
    moment = datetime.fromtimestamp(table.metadata.snapshots[4].timestamp_ms / 1000, UTC)
    expire.plan(table, older_than=moment).execute()
    table.refresh()
    assert set(before[4:]) <= {snapshot.snapshot_id for snapshot in table.metadata.snapshots}


def test_a_tag_that_is_too_old_goes_with_its_snapshot(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    table.manage_snapshots().remove_tag("first").commit()
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_tag(first, "first", max_ref_age_ms=1).commit()
    result = expire_all(table)
    assert result.tables[0].refs == ("first",)
    assert table.metadata.snapshot_by_id(first) is None
    check_exact(table)


def test_the_properties_of_the_table_decide(catalog: EncryptedSqlCatalog) -> None:
    properties = {"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "2"}
    table = lived(catalog, **properties)
    expire.plan("hr.people", catalog=catalog).execute()
    table.refresh()
    assert len(table.metadata.snapshots) == 4


def test_a_named_snapshot_goes_unless_a_ref_names_it(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    gone = table.metadata.snapshots[3].snapshot_id
    expire.plan(table, snapshots=[gone]).execute()
    table.refresh()
    assert table.metadata.snapshot_by_id(gone) is None
    with pytest.raises(ConfigError, match=r"Cannot expire \d+\. Still referenced by refs: \[audit\]"):
        expire.plan(table, snapshots=[_ref(table, "audit")]).steps  # noqa: B018
    with pytest.raises(ConfigError, match="no table has the snapshot 5"):
        expire.plan(table, snapshots=[5])


def test_a_ref_that_is_named_goes(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    expire_all(table, refs=["audit", "first"])
    assert set(table.metadata.refs) == {"main"}
    assert len(table.metadata.snapshots) == 1
    check_exact(table)
    with pytest.raises(ConfigError, match="main cannot be removed"):
        expire.plan(table, refs=["main"])


def test_what_pyiceberg_expired_is_left_to_orphans(catalog: EncryptedSqlCatalog) -> None:
    """`table.maintenance.expire_snapshots()` deletes no file, and keeps no journal."""
    table = lived(catalog)
    before = stored(table)
    table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    assert before < stored(table)
    expire_all(table)
    assert not [each for each in older_metadata(table) if each.expired_keys]
    orphans.plan(table, older_than=timedelta(0), allow_recent=True).execute()
    check_exact(table)


def test_a_file_of_a_commit_in_progress_is_left_alone(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    current = Path(normal(table.metadata_location))
    document = json.loads(current.read_text())
    number = int(current.name.split("-")[0])
    coming = current.with_name(f"{number + 2:05}-of-another.metadata.json")
    coming.write_text(json.dumps({**document, "last-sequence-number": document["last-sequence-number"] + 1}))
    expire_all(table)
    assert coming.exists()
    assert [each.location for each in older_metadata(table) if each.expired_keys] == [f"file://{coming}"]


def test_metadata_of_another_table_in_the_same_folder_are_left_alone(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    other = Path(normal(table.metadata_location)).with_name("00000-other.metadata.json")
    document = json.loads(Path(normal(table.metadata_location)).read_text())
    other.write_text(json.dumps({**document, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}))
    expire_all(table)
    assert other.exists()


def test_older_metadata_cannot_make_it_delete_files_of_others(catalog: EncryptedSqlCatalog) -> None:
    """Somebody who can write to one table's folder puts the snapshots of another table into an older metadata.json."""
    table, other = lived(catalog), lived(catalog, "hr.other")
    place = Path(normal(table.metadata_location)).with_name("00000-forged.metadata.json")
    theirs = json.loads(Path(normal(other.metadata_location)).read_text())
    place.write_text(json.dumps({**theirs, "table-uuid": str(table.metadata.table_uuid)}))
    before = stored(other)
    expire_all(table)
    assert stored(other) == before


def test_older_metadata_that_no_log_names_go_if_a_key_of_the_table_opens_theirs(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    logged = Path(normal(table.metadata.metadata_log[-1].metadata_file))
    copy = logged.with_name(f"00003-{uuid.uuid4()}.metadata.json")
    copy.write_bytes(logged.read_bytes())
    assert expire_all(table).exit_code == 0
    assert not copy.exists()


def test_a_planted_metadata_file_stays_and_is_listed(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    logged = Path(normal(table.metadata.metadata_log[-1].metadata_file))
    document = json.loads(logged.read_text())
    keks = [each for each in document["encryption-keys"] if "properties" in each]
    made_up = {"key-id": "AAAA", "encrypted-key-metadata": "AAAA", "encrypted-by-id": keks[0]["key-id"]}
    document["encryption-keys"] = [*keks, made_up]
    planted = logged.with_name(f"00003-{uuid.uuid4()}.metadata.json")
    planted.write_text(json.dumps(document))
    result = expire_all(table)
    assert planted.exists()
    assert result.exit_code == 1
    assert [each.location for each in result.tables[0].removed.kept] == [f"file://{planted}"]


def test_a_file_that_cannot_be_read_keeps_what_it_names(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    bad = Path(normal(table.metadata.snapshots[3].manifest_list))
    bad.write_bytes(bytes(len(bad.read_bytes())))
    result = expire_all(table)
    assert result.exit_code == 2
    assert [normal(each.location) for each in result.tables[0].removed.left] == [str(bad)]
    assert [each for each in older_metadata(table) if each.expired_keys], "the older metadata still hold the keys"
    bad.unlink()
    assert expire_all(table).exit_code == 0
    assert not [each for each in older_metadata(table) if each.expired_keys]


def test_nothing_is_removed_if_a_kept_manifest_cannot_be_read(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    bad = Path(normal(table.current_snapshot().manifests(table.io)[0].manifest_path))
    bad.write_bytes(bytes(len(bad.read_bytes())))
    before = stored(table)
    with pytest.raises(RemovalRefusedError, match="are not known, and nothing more was removed"):
        expire_all(table)
    assert before < stored(table)


def test_other_tables_are_refused(catalog: EncryptedSqlCatalog) -> None:
    shared = lived(catalog, **{"gc.enabled": "false"})
    with pytest.raises(RemovalRefusedError, match="Cannot expire snapshots: GC is disabled"):
        expire.plan(shared)
    old = catalog.create_table("hr.old", rows().schema, properties={"format-version": "2"})
    with pytest.raises(UnsupportedError, match=r"hr\.old has the format version 2"):
        expire.plan(old)


def test_statistics_go_with_the_last_snapshot_that_used_them(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    old, kept = table.metadata.snapshots[3].snapshot_id, _ref(table, "audit")
    written = {each: stats.plan(table, snapshot=each).execute().location for each in (old, kept)}
    keys = len(table.refresh().metadata.encryption_keys)
    result = expire_all(table)
    (done,) = result.tables
    assert done.removed.files["statistics"] == 1
    assert [file.statistics_path for file in table.metadata.statistics] == [written[kept]]
    assert not Path(normal(str(written[old]))).exists()
    assert len(table.metadata.encryption_keys) == keys - done.keys
    assert done.keys == len(done.snapshot_ids) + 1
    check_exact(table)


def test_a_table_that_is_not_encrypted_loses_its_files_too(catalog: EncryptedSqlCatalog) -> None:
    table: Any = catalog.create_table("hr.open", rows().schema, properties={"format-version": "3"})
    table.append(rows(0))
    for number in range(1, 3):
        table.overwrite(rows(number))
    expire_all(table)
    check_exact(table)
    assert ids(table) == [2]


def test_a_table_that_fails_does_not_stop_the_others(catalog: EncryptedSqlCatalog) -> None:
    broken, guarded, fine = (lived(catalog, f"hr.{name}") for name in ("a_broken", "b_guarded", "c_fine"))
    (shown,) = [each.manifest_list for each in broken.metadata.snapshots if each.snapshot_id == _ref(broken, "first")]
    Path(normal(shown)).write_bytes(b"AGS1 and no more")
    with guarded.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    plan = expire.plan("hr", catalog=catalog, older_than=NOW)
    assert "hr.b_guarded: failed: Cannot expire snapshots: GC is disabled" in str(plan)
    result = plan.execute()
    assert result.exit_code == 2
    assert [table.table for table in result.tables] == ["hr.c_fine"]
    assert [(each.table, each.error) for each in result.failures] == [
        ("hr.b_guarded", "RemovalRefusedError"),
        ("hr.a_broken", "RemovalRefusedError"),
    ]
    assert f"hr.a_broken: failed: {shown} cannot be read" in str(result)
    fine.refresh()
    check_exact(fine)
    with pytest.raises(RemovalRefusedError, match="cannot be read"):  # alone, its error is raised
        expire.plan("hr.a_broken", catalog=catalog, older_than=NOW).execute()


def test_plan_says_what_goes(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    plan = expire.plan(table, older_than=NOW)
    assert "expire 6 of 9 snapshots" in str(plan)
    (told,) = plan.to_json()["expiries"]
    assert len(told["snapshots"]) == 6
    assert plan.changes
    with pytest.raises(ConfigError, match="older_than is -1 day"):
        expire.plan(table, older_than=timedelta(days=-1))


# -- with others, and killed --------------------------------------------------------------------------


def test_a_snapshot_that_somebody_tags_meanwhile_stays_with_its_files(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = lived(catalog), catalog.load_table("hr.people")
    kept = table.metadata.snapshots[3].snapshot_id
    real = retention.expiry

    def tagged(*arguments: Any) -> Any:
        decided = real(*arguments)
        if "late" not in other.metadata.refs:
            other.manage_snapshots().create_tag(kept, "late").commit()
        return decided

    monkeypatch.setattr(expire, "expiry", tagged)
    expire_all(table)
    assert "late" in table.metadata.refs
    check_exact(table)


def test_a_commit_between_the_expiry_and_the_removal_loses_nothing(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lived(catalog)
    real = expire.remove_expired

    def later(*arguments: Any, **options: Any) -> Any:
        catalog.load_table("hr.people").append(rows(99))
        return real(*arguments, **options)

    monkeypatch.setattr(expire, "remove_expired", later)
    expire_all(table)
    assert 99 in ids(table)
    assert verify.plan(table).execute().exit_code == 0


def job(folder: Path) -> None:
    with sealed_catalog(folder) as catalog:
        expire.plan("hr.people", catalog=catalog, older_than=NOW).execute(runner=Threads(1))


def append(folder: Path, number: int) -> None:
    with sealed_catalog(folder) as catalog:
        catalog.load_table("hr.people").append(rows(number))


@pytest.mark.slow
def test_killed_at_twenty_points_with_a_second_writer_and_run_again_it_finishes(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path / "whole") as catalog:
        lived(catalog)
    whole = run(job, tmp_path / "whole")
    assert not whole.error
    added = set()
    with sealed_catalog(tmp_path) as catalog:
        table = lived(catalog)
        for number, at in enumerate(points(whole.operations, 20, seed=58)):
            run(job, tmp_path, at=at)
            append(tmp_path, 100 + number)
            added.add(100 + number)
            table.refresh()
            assert set(ids(table)) == {2, 4, 5, 6, 20} | added
            assert ids(table, snapshot_id=_ref(table, "audit")) == [1, 2, 3, 4]
        assert not run(job, tmp_path).error
        table.refresh()
        assert set(ids(table)) == {2, 4, 5, 6, 20} | added
        metadata = Path(normal(table.metadata.location)) / "metadata"
        for half in metadata.glob("*-expiry.json"):  # of a run that was killed while it wrote its journal: an orphan
            assert half.read_bytes() == b""
            half.unlink()
        check_exact(table)


def test_verify_opens_the_journal_of_an_expiry_and_tells_a_forged_one(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    place = journal.write(table, Gone(table.metadata, tuple(table.metadata.snapshots)))
    assert place is not None
    assert verify.plan(table).execute().exit_code == 0
    path = Path(normal(place))
    document = json.loads(path.read_text())
    for forged in ({**document, "sealed": document["sealed"][:-8] + "AAAAAAA="}, {"rows": "in the clear"}):
        path.write_text(json.dumps(forged))
        assert {each.code for each in verify.plan(table).execute().findings} == {"foreign"}
