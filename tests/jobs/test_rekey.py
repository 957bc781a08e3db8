"""rekey: new data keys for the files of a table; rows, row ids and sequence numbers stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from jobs.job_tables import MAIN_IDS, content, ids, keys_of, make, rows, state
from kit.tables import catalogs, corpus
from kit.tables.catalogs import path_of
from kit.tables.small_tables import SmallTable
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.errors import ConfigError, IntegrityError, UnsupportedError
from sealberg.files.parquet.module_walk import ModuleWalk
from sealberg.files.seal import open_bytes
from sealberg.jobs import change_master
from sealberg.jobs.rekey import plan
from sealberg.jobs.verify import plan as verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.tables.catalogs import Lake
    from sealberg.format.key_metadata import KeyMetadata

lake = catalogs.lake  # the fixture: every kind of catalog
NOW = timedelta(0)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Lake]:
    with catalogs._lake("sqlite", tmp_path) as found:
        yield found


def refs(table: Any) -> dict[str, Any]:
    found: dict[str, Any] = state(table)["refs"]
    return found


def test_every_file_of_every_branch_has_a_new_key_in_every_catalog(lake: Lake) -> None:
    catalog = lake.connect()
    table = make(catalog)
    before, old = refs(table), set.union(*keys_of(table))
    result = plan("db.t", catalog=catalog).execute()
    table = lake.connect().load_table("db.t")
    assert refs(table) == before
    assert not old & set.union(*keys_of(table, "main", "side"))
    assert (result.commits, result.conflicts, result.gone) == (2, 0, 0)
    assert result.remains.tags == ("first",)
    assert len(result.remains.snapshots) == len(table.metadata.snapshots) - 2
    table.delete("id = 15")
    table.append(rows(30, 31))
    assert ids(table) == sorted({*MAIN_IDS, 30} - {15})
    found = verify("db.t", catalog=catalog, level="deep", orphan_age=NOW).execute()
    assert (found.findings, found.not_checked) == ((), ())


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_batches_of_one_file_leave_the_same_rows(small: Lake, kind: str) -> None:
    catalog = small.connect()
    table = make(catalog, **{"write.format.default": kind})
    before, old = refs(table), keys_of(table, "main", "side")[1]
    result = plan("db.t", catalog=catalog, batch_files=4).execute()
    assert result.commits > 4
    table = small.connect().load_table("db.t")
    assert refs(table) == before
    assert not old & keys_of(table, "main", "side")[1]
    assert [s.summary.operation.value for s in table.metadata.snapshots[-result.commits :]] == [
        "replace"
    ] * result.commits
    found = verify("db.t", catalog=catalog, level="deep", orphan_age=NOW).execute()
    assert (found.findings, found.not_checked) == ((), ())


def test_only_files_of_a_snapshot_range_or_before_a_date_get_new_keys(small: Lake) -> None:
    catalog = small.connect()
    table = make(catalog)
    first, second, _, _, last = table.metadata.snapshots
    before = refs(table)

    def by_sequence(found: Any) -> dict[int, set[bytes]]:
        keys: dict[int, set[bytes]] = {}
        for line in found.current_snapshot().manifests(found.io):
            for entry in line.fetch_manifest_entry(found.io):
                keys.setdefault(entry.sequence_number, set()).add(entry.data_file.key_metadata)
        return keys

    old = by_sequence(table)
    plan("db.t", catalog=catalog, snapshots=(second.snapshot_id, second.snapshot_id)).execute()
    table.refresh()
    changed = {number for number, keys in by_sequence(table).items() if not keys & old[number]}
    assert changed == {second.sequence_number}
    old = by_sequence(table)
    limit = datetime.fromtimestamp(last.timestamp_ms / 1000, UTC)
    plan("db.t", catalog=catalog, older_than=limit).execute()
    table.refresh()
    changed = {number for number, keys in by_sequence(table).items() if not keys & old[number]}
    assert first.sequence_number in changed
    assert last.sequence_number not in changed
    assert refs(table) == before


def test_wrong_options_are_refused_in_the_plan(small: Lake) -> None:
    catalog = small.connect()
    table = make(catalog)
    first, *_, last = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"snapshots": (first, 7)}, "the snapshot 7, which the table does not have"),
        ({"snapshots": (last, first)}, "the first is newer"),
        ({"snapshots": (first, last), "older_than": datetime.now(UTC)}, "exclude each other"),
        ({"batch_files": 0}, "--batch-files is 0"),
        ({"older_than": datetime.now(UTC), "restart": True}, "--restart is for a job over all files"),
    )
    for options, words in wrong:
        with pytest.raises(ConfigError, match=words):
            plan("db.t", catalog=catalog, **options)
    with pytest.raises(ConfigError, match=r"no table db\.none"):
        plan("db.none", catalog=catalog)
    with pytest.raises(ConfigError, match=r"db\.plain is not encrypted"):
        plan(catalog.create_table("db.plain", table.schema(), properties={"format-version": "3"}))


def test_writers_that_append_and_delete_meanwhile_lose_nothing(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, other = small.connect(), small.connect()
    make(catalog)
    model = {row["id"]: row["_row_id"] for row in content(other.load_table("db.t"))}
    planned = plan("db.t", catalog=catalog, batch_files=3)
    from sealberg.jobs.rekeying.batch import Batch

    commit, calls = Batch._commit, iter(range(100))

    def late(self: Any, *args: Any) -> None:
        number = next(calls)
        if number < 8:
            table = other.load_table("db.t")
            table.append(rows(50 + number, 51 + number))
            gone = sorted(model)[number * 3]
            table.delete(f"id = {gone}" if number % 2 else f"id = {gone} or part = 'p{number % 3}' and id < 9")
            now = {row["id"]: row["_row_id"] for row in content(table)}
            assert all(model.get(key, value) == value for key, value in now.items())
            model.clear()
            model.update(now)
        commit(self, *args)

    monkeypatch.setattr(Batch, "_commit", late)
    result = planned.execute()
    assert result.conflicts > 0
    table = small.connect().load_table("db.t")
    assert {row["id"]: row["_row_id"] for row in content(table)} == model
    found = verify("db.t", catalog=catalog, level="deep", orphan_age=NOW).execute()
    assert (found.findings, found.not_checked) == ((), ())


UNREADABLE = {"old_lost_vectors"}


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All tables of the corpus; new files go into a folder of their own."""
    folder = tmp_path_factory.mktemp("corpus")
    options = {"encryption.allow-plaintext-files": "true", "encryption.allow-missing-length": "true"}
    settings = {
        "uri": f"sqlite:///{folder}/c.db",
        "warehouse": f"file://{folder}",
        **corpus.KMS,
        **corpus.HOME,
        **options,
    }
    with EncryptedSqlCatalog("java", **settings) as catalog:
        catalog.create_namespace("db")
        for name, entry in corpus.TABLES.items():
            catalog.register_table(f"db.{name}", corpus.beside(entry, folder))
        yield catalog


@pytest.mark.parametrize("name", sorted(corpus.TABLES.keys() - UNREADABLE))
def test_a_table_by_another_writer_gets_new_keys(name: str, java: Any) -> None:
    table = java.load_table(f"db.{name}")
    head = table.metadata.current_snapshot()
    before = table.scan(selected_fields=("*", "_row_id")).to_arrow().to_pylist()
    old = keys_of(table, *(["main"] if head else []))
    plan(f"db.{name}", catalog=java).execute()
    table.refresh()
    assert sorted(map(repr, table.scan(selected_fields=("*", "_row_id")).to_arrow().to_pylist())) == sorted(
        map(repr, before)
    )
    if head is not None:
        assert not set.union(*old) & set.union(*keys_of(table, "main"))


def test_erase_leaves_only_files_and_metadata_with_new_keys(small: Lake) -> None:
    catalog = small.connect()
    table = make(catalog)
    before = refs(table)
    old = set.union(*keys_of(table))
    kept = plan(table, erase=True, keep_tags=True).execute()
    assert kept.remains.tags == ("first",)
    result = plan(table, erase=True).execute()
    assert (result.exit_code, result.remains.snapshots, result.remains.tags) == (0, (), ())
    table = small.connect().load_table("db.t")
    assert refs(table) == {name: found for name, found in before.items() if name != "first"}
    check_closed(small, old)
    found = verify(table, level="deep", orphan_age=NOW).execute()
    assert (found.findings, found.not_checked) == ((), ())


def check_closed(lake: Lake, old: set[KeyMetadata]) -> None:
    """No old key opens any stored file."""
    sealed = [path for path in lake.files() if not path.endswith(".metadata.json") and "/warehouse/" in path]
    assert len(sealed) > 5
    for path in sealed:
        stored = path_of(f"file:{path}").read_bytes()
        for key in old:
            with pytest.raises(IntegrityError):
                if stored.startswith(b"PARE"):
                    ModuleWalk(stored, key.with_length(len(stored)), where=path).close()
                else:
                    open_bytes(stored, key.with_length(len(stored)))


def test_after_change_master_and_rekey_no_key_that_the_old_master_key_opened_opens_a_file(small: Lake) -> None:
    catalog = small.connect(**{"encryption.kms.memory.key.hr-2027": "cd" * 16})
    table = make(catalog)
    old = set.union(*keys_of(table))
    change_master.plan("db.t", "hr-2027", catalog=catalog, drop_old=True).execute()
    plan("db.t", catalog=catalog, erase=True).execute()
    check_closed(small, old)
    assert ids(catalog.load_table("db.t")) == MAIN_IDS


def test_position_deletes_in_parquet_files_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    (tmp_path / "small").mkdir()
    table = SmallTable(tmp_path / "small", schema)
    file = table.parquet([{"id": each} for each in range(3)])
    table.snapshot(file)
    table.snapshot(table.position_deletes((file, 1)))
    settings = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}", **corpus.KMS}
    with EncryptedSqlCatalog("test", **settings) as catalog:
        catalog.create_namespace("db")
        catalog.register_table("db.t", table.write_metadata())
        before = set(tmp_path.rglob("*"))
        with pytest.raises(UnsupportedError, match="Run rewrite_position_delete_files or compact first"):
            plan("db.t", catalog=catalog).execute()
        assert set(tmp_path.rglob("*")) == before
        assert ids(catalog.load_table("db.t")) == [0, 2]
