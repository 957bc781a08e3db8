"""encrypt and decrypt: every kind of table and file is copied, compared, published at once, and sound to verify."""

from __future__ import annotations

import json
import logging
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from chaos.removals import careless
from kit.tables.small_tables import SmallTable
from kit.tables.tables import lineage, rows, sealed_catalog
from sealberg.errors import ConfigError, ConflictError, PurgeRefusedError, RemovalRefusedError, UnsupportedError
from sealberg.jobs import change_master, decrypt, encrypt, verify
from sealberg.jobs.copying import purge_source
from sealberg.jobs.copying.leftovers import SOURCE
from sealberg.jobs.copying.work_table import WorkTable
from sealberg.table.purge import deleted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True, doc="the key"),
    NestedField(5, "name", StringType()),
    identifier_field_ids=[1],
)
KEY_A = {"encryption.kms.memory.key.keyA": b"0123456789012345".hex()}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path, **KEY_A) as made:
        yield made


def people(first: int, stop: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(first, stop), pa.int64()), "name": [f"canary-{i}" for i in range(first, stop)]},
        pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]),
    )


def plain(catalog: Any, version: str, name: str = "hr.plain", **properties: str) -> Any:
    """A plaintext table with two snapshots and a tag."""
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"))
    table = catalog.create_table(
        name, SCHEMA, partition_spec=spec, properties={"format-version": version, "owner": "me", **properties}
    )
    table.append(people(0, 100))
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "first").commit()
    table.append(people(100, 150))
    return catalog.load_table(name)


def sound(catalog: Any, name: str, level: Any = "deep") -> None:
    result = verify.plan(name, catalog=catalog, level=level).execute()
    assert result.exit_code == 0, str(result)


def leftovers(catalog: Any, name: str) -> set[str]:
    """Files below the location of a table that its metadata do not name."""
    table = catalog.load_table(name)
    named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            named.add(str(manifest.manifest_path))
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            named |= {str(entry.data_file.file_path) for entry in entries}
    root = Path(table.metadata.location.removeprefix("file://"))
    return {str(path) for path in root.rglob("*") if path.is_file()} - {one.removeprefix("file://") for one in named}


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_a_plaintext_table_of_each_version_is_encrypted(
    catalog: EncryptedSqlCatalog, version: str, history: bool
) -> None:
    source = plain(catalog, version)
    result = encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, history=history).execute()
    assert (result.files, result.rows, result.exit_code) == (8, 150, 0)
    table = catalog.load_table("hr.sealed")
    assert rows(table) == rows(source)
    assert table.metadata.format_version == 3
    assert len(lineage(table)) == 150
    old, new = source.metadata, table.metadata
    assert new.schema() == old.schema()
    assert [field.doc for field in new.schema().fields] == ["the key", None]
    assert new.schema().identifier_field_ids == [1]
    assert new.spec() == old.spec()
    assert new.properties == {"owner": "me", "encryption.key-id": "hr", SOURCE: str(old.table_uuid)}
    if history:
        assert [each.timestamp_ms for each in new.snapshots] == [each.timestamp_ms for each in old.snapshots]
        assert {name: ref.snapshot_id for name, ref in new.refs.items()} == {
            name: ref.snapshot_id for name, ref in old.refs.items()
        }
        assert table.scan(snapshot_id=new.refs["first"].snapshot_id).count() == 100
    else:
        assert [each.snapshot_id for each in new.snapshots] == [old.current_snapshot_id]
    sound(catalog, "hr.sealed")
    assert leftovers(catalog, "hr.sealed") == set()
    assert catalog.list_tables("hr") == [("hr", "plain"), ("hr", "sealed")]


@pytest.mark.parametrize("history", [False, True])
def test_the_plan_counts_the_files_that_the_run_copies(catalog: EncryptedSqlCatalog, history: bool) -> None:
    source = plain(catalog, "2")
    source.overwrite(people(0, 3), "id < 100")
    options: dict[str, Any] = {"key_id": "hr", "catalog": catalog, "history": history, "sync": True}
    plan = encrypt.plan("hr.plain", "hr.sealed", **options)
    done = plan.execute()
    assert (plan.amount.files, plan.amount.bytes) == (done.files, sum_of_source(catalog, plan))
    assert done.files == (9 if history else 5)
    source.append(people(200, 203))
    plan = encrypt.plan("hr.plain", "hr.sealed", **options)
    assert (plan.amount.files, plan.execute().files) == (2, 2)
    plan = encrypt.plan("hr.plain", "hr.sealed", **options)
    assert (plan.amount.files, plan.execute().files) == (0, 0)


def sum_of_source(catalog: Any, plan: encrypt.EncryptPlan) -> int:
    table = catalog.load_table("hr.plain")
    files = table.inspect.all_data_files() if plan.options.history else table.inspect.data_files()
    sizes = dict(zip(files["file_path"].to_pylist(), files["file_size_in_bytes"].to_pylist(), strict=True))
    return sum(sizes.values())


def test_the_policy_of_the_catalog_binds_a_copy(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    plain(catalog, "2", **{"write.target-file-size-bytes": "1000000"})
    over = {"table-override.write.target-file-size-bytes": "2000000", "table-override.retain": "7"}
    with sealed_catalog(tmp_path, **KEY_A, **over) as bound:
        encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=bound).execute()
        found = bound.load_table("hr.sealed").metadata.properties
        assert (found["write.target-file-size-bytes"], found["retain"]) == ("2000000", "7")
        sound(bound, "hr.sealed")
    with sealed_catalog(tmp_path, **KEY_A, **{"table-override.encryption.key-id": "keyA"}) as bound:
        with pytest.raises(ConfigError, match=r"hr\.other cannot have the encryption\.key-id hr: table-override\."):
            encrypt.plan("hr.plain", "hr.other", key_id="hr", catalog=bound)
        encrypt.plan("hr.plain", "hr.other", key_id="keyA", catalog=bound).execute()
        with pytest.raises(ConfigError, match=r"hr\.other cannot have the encryption\.key-id hr: table-override\."):
            change_master.plan("hr.other", "hr", catalog=bound)
    with sealed_catalog(tmp_path, **KEY_A, **over) as bound:
        change_master.plan("hr.other", "hr", catalog=bound).execute()
        found = bound.load_table("hr.other").metadata.properties
        assert (found["encryption.key-id"], found["retain"]) == ("hr", "7")


def test_a_copy_shows_no_partition_values_in_its_summaries(catalog: EncryptedSqlCatalog) -> None:
    limit = "write.summary.partition-limit"
    source = plain(catalog, "3", **{limit: "10"})
    assert "partitions." in source.metadata.model_dump_json()
    encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, history=True).execute()
    made = catalog.load_table("hr.sealed").metadata
    assert limit not in made.properties
    assert "partitions." not in made.model_dump_json()
    sound(catalog, "hr.sealed")


def test_no_byte_of_a_row_is_in_the_clear_below_the_new_table(catalog: EncryptedSqlCatalog) -> None:
    plain(catalog, "2")
    encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog).execute()
    root = Path(catalog.load_table("hr.sealed").metadata.location.removeprefix("file://"))
    contents = [path.read_bytes() for path in root.rglob("*") if path.is_file()]
    assert contents
    assert not any(b"canary" in content for content in contents)


def test_the_copy_takes_new_rows_and_deletes(catalog: EncryptedSqlCatalog) -> None:
    plain(catalog, "2")
    encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, history=True).execute()
    table = catalog.load_table("hr.sealed")
    table.append(people(150, 160))
    table.delete("id < 10")
    assert sorted(row["id"] for row in rows(table)) == list(range(10, 160))
    assert len({row_id for row_id, _ in lineage(table).values()}) == 150
    sound(catalog, "hr.sealed")


def everything(folder: Path) -> SmallTable:
    """An encrypted table with Parquet and Avro files, position and equality deletes, and a deletion vector."""
    folder.mkdir()
    table = SmallTable(folder, SCHEMA)
    first = table.parquet(people(0, 20))
    second = table.avro(people(20, 40))
    third = table.parquet(people(40, 60))
    table.snapshot(first, second, third)
    table.snapshot(table.position_deletes((first, 3), (first, 4), (second, 0)))
    table.snapshot(table.position_deletes((first, 5), avro=True), table.vector({third: [0, 19]}))
    table.snapshot(table.equality_deletes([{"id": 10, "name": None}], Schema(SCHEMA.fields[0]), 1))
    table.snapshot(table.equality_deletes([{"id": 30}], Schema(SCHEMA.fields[0]), 1, avro=True))
    table.snapshot(table.parquet(people(30, 31)))
    return table


LEFT = sorted({*range(60), 30} - {3, 4, 20, 5, 40, 59, 10})


@pytest.mark.parametrize("history", [False, True])
def test_all_kinds_of_files_and_deletes_survive_the_way_out_and_in(
    catalog: EncryptedSqlCatalog, tmp_path: Path, history: bool
) -> None:
    catalog.register_table("hr.all", everything(tmp_path / "all").write_metadata())
    source = catalog.load_table("hr.all")
    assert sorted(row["id"] for row in rows(source)) == LEFT
    decrypt.plan("hr.all", "hr.open", reason="a test", catalog=catalog, history=history).execute()
    opened = catalog.load_table("hr.open")
    assert rows(opened) == rows(source)
    assert lineage(opened) == lineage(source)
    result = encrypt.plan("hr.open", "hr.sealed", key_id="hr", catalog=catalog, history=history).execute()
    table = catalog.load_table("hr.sealed")
    assert rows(table) == rows(source)
    assert lineage(table) == lineage(source)
    assert result.deletes == 3
    for snapshot in table.metadata.snapshots:
        assert rows(table, snapshot_id=snapshot.snapshot_id) == rows(source, snapshot_id=snapshot.snapshot_id)
    for name in ("hr.open", "hr.sealed"):
        assert leftovers(catalog, name) == set()


def test_a_file_with_pages_of_version_2_is_decoded(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    nested = pa.table({"id": [1, 2, None], "tags": [["a"], [], None], "x": [float("nan"), 1.0, None]})
    pq.write_table(nested, folder / "a.parquet", data_page_version="2.0")
    result = encrypt.plan(str(folder), "hr.sealed", key_id="hr", catalog=catalog).execute()
    assert (result.files, result.decoded) == (1, 1)
    found = catalog.load_table("hr.sealed").scan().to_arrow()
    assert found.cast(nested.schema).drop(["x"]).equals(nested.drop(["x"]))
    sound(catalog, "hr.sealed", level="full")


def test_a_folder_with_hive_partitions_becomes_a_partitioned_table(
    catalog: EncryptedSqlCatalog, tmp_path: Path
) -> None:
    for day, shop, first in (
        ("2026-01-31", "7", 0),
        ("2026-02-01", "8", 10),
        ("2026-02-01", "__HIVE_DEFAULT_PARTITION__", 20),
    ):
        folder = tmp_path / "raw" / f"day={day}" / f"shop={shop}"
        folder.mkdir(parents=True)
        pq.write_table(people(first, first + 10), folder / "part-0.parquet")
    (tmp_path / "raw" / "_SUCCESS").touch()
    result = encrypt.plan(str(tmp_path / "raw"), "hr.sealed", key_id="hr", catalog=catalog).execute()
    assert (result.files, result.rows, result.decoded) == (3, 30, 0)
    table = catalog.load_table("hr.sealed")
    assert [field.name for field in table.spec().fields] == ["day", "shop"]
    assert isinstance(table.spec().fields[0].transform, IdentityTransform)
    found = {row["id"]: (row["day"], row["shop"]) for row in rows(table)}
    assert found[5] == (date(2026, 1, 31), 7)
    assert found[25] == (date(2026, 2, 1), None)
    assert table.scan("shop = 8").count() == 10
    assert len(list(table.scan("shop = 8").plan_files())) == 1
    sound(catalog, "hr.sealed", level="full")


def test_a_glob_names_some_files_of_a_folder_and_sync_takes_later_ones(
    catalog: EncryptedSqlCatalog, tmp_path: Path
) -> None:
    for name, first in (("a-1", 0), ("a-2", 10), ("b-1", 20)):
        pq.write_table(people(first, first + 10), tmp_path / f"{name}.parquet")
    glob = f"{tmp_path}/a-*.parquet"
    encrypt.plan(glob, "hr.sealed", key_id="hr", catalog=catalog).execute()
    assert catalog.load_table("hr.sealed").scan().count() == 20
    pq.write_table(people(30, 40), tmp_path / "a-3.parquet")
    result = encrypt.plan(glob, "hr.sealed", key_id="hr", catalog=catalog, sync=True).execute()
    assert (result.files, result.caught_up) == (1, 1)
    assert catalog.load_table("hr.sealed").scan().count() == 30
    sound(catalog, "hr.sealed", level="full")


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_sync_catches_up_with_the_source(catalog: EncryptedSqlCatalog, version: str, history: bool) -> None:
    source = plain(catalog, version)
    encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, history=history).execute()
    source.append(people(150, 160))
    source.append(people(160, 170))
    source.delete("id < 5")
    options: dict[str, Any] = {"key_id": "hr", "catalog": catalog, "history": history, "sync": True}
    result = encrypt.plan("hr.plain", "hr.sealed", **options).execute()
    table = catalog.load_table("hr.sealed")
    assert rows(table) == rows(catalog.load_table("hr.plain"))
    snapshots = len(catalog.load_table("hr.plain").metadata.snapshots)
    assert result.caught_up == snapshots - 2
    assert encrypt.plan("hr.plain", "hr.sealed", **options).execute().caught_up == 0
    assert len({row_id for row_id, _ in lineage(table).values()}) == 165
    table.append(people(170, 180))
    assert len({row_id for row_id, _ in lineage(table).values()}) == 175
    sound(catalog, "hr.sealed")


def test_a_copy_that_somebody_has_written_to_is_not_brought_up_to_date(catalog: EncryptedSqlCatalog) -> None:
    source = plain(catalog, "2")
    encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog).execute()
    catalog.load_table("hr.sealed").append(people(500, 501))
    source.append(people(150, 160))
    with pytest.raises(ConflictError, match="written to the copy"):
        encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, sync=True).execute()
    assert catalog.load_table("hr.sealed").scan().count() == 151


def test_a_copy_of_a_folder_that_somebody_has_written_to_keeps_their_rows(
    catalog: EncryptedSqlCatalog, tmp_path: Path
) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    pq.write_table(people(0, 10), folder / "a.parquet")
    encrypt.plan(str(folder), "hr.sealed", key_id="hr", catalog=catalog).execute()
    catalog.load_table("hr.sealed").append(people(500, 501))
    pq.write_table(people(10, 20), folder / "b.parquet")
    with pytest.raises(ConflictError, match="written to the copy"):
        encrypt.plan(str(folder), "hr.sealed", key_id="hr", catalog=catalog, sync=True).execute()
    assert catalog.load_table("hr.sealed").scan().count() == 11


def test_sync_with_history_takes_over_new_tags(catalog: EncryptedSqlCatalog) -> None:
    source = plain(catalog, "2")
    options: dict[str, Any] = {"key_id": "hr", "catalog": catalog, "history": True, "sync": True}
    encrypt.plan("hr.plain", "hr.sealed", **options).execute()
    source.manage_snapshots().create_tag(source.metadata.current_snapshot_id, "second").commit()
    encrypt.plan("hr.plain", "hr.sealed", **options).execute()
    refs = catalog.load_table("hr.sealed").metadata.refs
    assert refs["second"].snapshot_id == source.metadata.current_snapshot_id


def test_swap_exchanges_the_names_and_says_what_remains_in_the_clear(catalog: EncryptedSqlCatalog) -> None:
    source = plain(catalog, "2")
    made = encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, swap=True)
    result = made.execute()
    assert result.swapped
    assert catalog.load_table("hr.plain").metadata.properties["encryption.key-id"] == "hr"
    assert catalog.load_table("hr.sealed").metadata.table_uuid == source.metadata.table_uuid
    assert "in the clear: hr.sealed" in str(result)
    assert "catalog.purge_table('hr.sealed')" in str(result)
    again = encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, swap=True)
    assert again.exchanged
    assert not again.changes
    assert again.execute().swapped
    sound(catalog, "hr.plain")


STRAY = "00000-1-0a1b2c3d-0000-4000-8000-00000000000a"


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_the_source_is_removed_with_all_that_was_left_in_its_folder(catalog: EncryptedSqlCatalog, version: str) -> None:
    source = plain(catalog, version)
    source.overwrite(people(0, 3), "id < 100")
    folder = Path(source.metadata.location.removeprefix("file://"))
    statistics = folder / "metadata" / f"{STRAY}.stats"
    for name in (f"data/{STRAY}.parquet", f"metadata/{STRAY}-m0.avro", f"data/id_bucket=1/{STRAY}-1.parquet"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"PAR1 a failed writer's")
    statistics.write_bytes(b"PFA1 of Spark")
    (folder / "metadata" / "version-hint.text").write_text("3")
    plan = encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, swap=True, purge_source=True)
    assert "REMOVE" in str(plan)
    done = plan.execute()
    assert (done.exit_code, done.purged.left, done.remains) == (0, {}, ())  # type: ignore[union-attr]
    assert "nothing is left at" in str(done)
    assert [each for each in folder.rglob("*") if each.is_file()] == []
    with pytest.raises(NoSuchTableError):
        catalog.load_table("hr.sealed")
    assert catalog.load_table("hr.plain").scan().count() == 53
    sound(catalog, "hr.plain")
    again = encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, swap=True, purge_source=True)
    assert (again.changes, "there is no table hr.sealed to remove" in str(again)) == (False, True)
    assert again.execute().exit_code == 0


def test_what_is_not_a_writers_stays_and_is_told_after_a_purge(catalog: EncryptedSqlCatalog) -> None:
    source = plain(catalog, "2")
    folder = Path(source.metadata.location.removeprefix("file://"))
    (folder / "export.csv").write_text("id,name\n1,Ann\n")
    (folder / "link.parquet").symlink_to("/etc/hostname")
    options: dict[str, Any] = {"key_id": "hr", "catalog": catalog, "swap": True}
    encrypt.plan("hr.plain", "hr.sealed", **options).execute()
    plan = encrypt.plan("hr.plain", "hr.sealed", **options, purge_source=True)  # the names are exchanged already
    assert (plan.exchanged, plan.changes) == (True, True)
    done = plan.execute()
    assert done.exit_code == 1
    assert {Path(each).name for each in done.purged.left} == {"export.csv", "link.parquet"}  # type: ignore[union-attr]
    assert "export.csv is still there" in str(done)
    assert {each.name for each in folder.rglob("*") if not each.is_dir()} == {"export.csv", "link.parquet"}


@pytest.mark.parametrize("after", range(5))
def test_a_purge_that_was_killed_is_repeated(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    source = plain(catalog, "2")
    folder = Path(source.metadata.location.removeprefix("file://"))
    options: dict[str, Any] = {"key_id": "hr", "catalog": catalog, "swap": True, "purge_source": True}
    stages: list[int] = []

    def killed(io: Any, paths: Any) -> Any:
        found = list(deleted(io, list(paths)[: None if len(stages) < after else 1]))
        stages.append(len(found))
        if len(stages) > after:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patched:
        patched.setattr(purge_source, "deleted", killed)
        with pytest.raises(KeyboardInterrupt):
            encrypt.plan("hr.plain", "hr.sealed", **options).execute()
    again = encrypt.plan("hr.plain", "hr.sealed", **options)
    assert again.changes
    assert again.execute().exit_code == 0
    assert [each for each in folder.rglob("*") if each.is_file()] == []
    assert catalog.load_table("hr.plain").scan().count() == 150


def test_a_source_that_others_need_is_not_removed(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    options: dict[str, Any] = {"key_id": "hr", "catalog": catalog, "swap": True}
    source = plain(catalog, "2")
    with pytest.raises(ConfigError, match="expected --swap, too"):
        encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, purge_source=True)
    source.transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
    with pytest.raises(PurgeRefusedError, match="GC is disabled"):
        encrypt.plan("hr.plain", "hr.sealed", **options, purge_source=True)
    source.transaction().set_properties({"gc.enabled": "true"}).commit_transaction()
    encrypt.plan("hr.plain", "hr.sealed", **options).execute()
    old = catalog.load_table("hr.sealed")
    folder = Path(old.metadata.location.removeprefix("file://"))

    def refused(kind: type[Exception], words: str) -> None:
        before = sorted(map(str, folder.rglob("*")))
        with pytest.raises(kind, match=words):
            encrypt.plan("hr.plain", "hr.sealed", **options, purge_source=True).execute()
        assert sorted(map(str, folder.rglob("*"))) == before
        assert catalog.load_table("hr.sealed").scan().count() >= 150

    other = Path(plain(catalog, "2", "hr.other").metadata_location.removeprefix("file://"))
    stray = folder / "metadata" / f"00001-{STRAY[8:]}.metadata.json"
    stray.write_bytes(other.read_bytes())
    refused(RemovalRefusedError, "metadata file of another table")
    stray.unlink()
    newer = folder / "metadata" / f"00099-{STRAY[8:]}.metadata.json"
    newer.write_bytes(Path(old.metadata_location.removeprefix("file://")).read_bytes())
    refused(RemovalRefusedError, "newer version of the table")
    newer.unlink()
    old.append(people(900, 901))  # somebody writes to the old table by its new name
    refused(ConflictError, "somebody has written to it after the names were exchanged")


def test_what_others_put_into_the_location_of_a_copy_stays(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain(catalog, "2")
    made: list[Path] = []
    removed = WorkTable.leftovers

    def meanwhile(work: WorkTable, named: Any) -> Any:
        place = work.table.metadata.location
        folder = Path(place.removeprefix("file://"))
        for name in ("notes.txt", "unfinished/keystore.age"):
            (folder / name).write_text("precious")
            made.append(folder / name)
        for name, inside in (("hr.inner", "inner"), ("hr.own", "unfinished/own")):
            with careless():
                inner = catalog.create_table(name, SCHEMA, f"{place}/{inside}", properties={"encryption.key-id": "hr"})
            inner.append(people(0, 3))
        (folder / "data" / f"{STRAY}.parquet").write_bytes(b"PARE of a killed run")
        (folder / "data" / "link.parquet").symlink_to(made[0])
        return removed(work, named)

    monkeypatch.setattr(WorkTable, "leftovers", meanwhile)
    done = encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog).execute()
    assert [path.read_text() for path in made] == ["precious"] * 2
    assert [catalog.load_table(name).scan().count() for name in ("hr.inner", "hr.own", "hr.sealed")] == [3, 3, 150]
    assert not (made[0].parent / "data" / f"{STRAY}.parquet").exists()
    assert done.exit_code == 1
    assert {Path(each).name for each in done.kept if "/inner/" not in each and "/own/" not in each} == {
        "notes.txt",
        "keystore.age",
        "link.parquet",
    }
    assert f"{made[0]} has not the name of a table's file" in str(done)


@pytest.mark.parametrize("name", ["keystore.age", f"data/{STRAY}.parquet", f"metadata/00000-{STRAY[8:]}.metadata.json"])
def test_a_copy_begins_elsewhere_if_its_folder_has_what_no_copy_has_left(
    catalog: EncryptedSqlCatalog, name: str
) -> None:
    source = plain(catalog, "2")
    stranger = Path(source.metadata.location.removeprefix("file://")).parent / "sealed" / "unfinished" / name
    stranger.parent.mkdir(parents=True)
    content = Path(source.metadata_location.removeprefix("file://")).read_bytes() if ".json" in name else b"precious"
    stranger.write_bytes(content)
    encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog).execute()
    assert stranger.read_bytes() == content
    assert not stranger.is_relative_to(catalog.load_table("hr.sealed").metadata.location.removeprefix("file://"))


def test_an_empty_table_is_encrypted(catalog: EncryptedSqlCatalog) -> None:
    catalog.create_table("hr.plain", SCHEMA, properties={"format-version": "2"})
    encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog).execute()
    assert catalog.load_table("hr.sealed").scan().count() == 0
    sound(catalog, "hr.sealed")


def test_decrypt_writes_its_reason_to_the_audit_log(
    catalog: EncryptedSqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = catalog.create_table("hr.t", SCHEMA, properties={"encryption.key-id": "hr"})
    table.append(people(0, 10))
    made = decrypt.plan("hr.t", "hr.open", reason="handed over to the auditors", catalog=catalog)
    assert "PLAINTEXT" in str(made)
    with caplog.at_level(logging.INFO, "sealberg.audit"):
        made.execute()
    lines = [json.loads(record.message) for record in caplog.records if record.name == "sealberg.audit"]
    own = [line for line in lines if line["event"] == "decrypt"]
    assert [(line["table"], line["target"], line["reason"], line["result"]) for line in own] == [
        ("hr.t", "hr.open", "handed over to the auditors", "begun"),
        ("hr.t", "hr.open", "handed over to the auditors", "ok"),
    ]
    opened = catalog.load_table("hr.open")
    assert opened.metadata.properties["sealberg.copy.decrypted-because"] == "handed over to the auditors"
    assert rows(opened) == rows(catalog.load_table("hr.t"))


def test_what_cannot_be_is_refused_by_the_plan(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    plain(catalog, "2")
    catalog.create_table("hr.sealed", SCHEMA, properties={"encryption.key-id": "hr"})
    cases: list[tuple[str, Any]] = [
        ("is encrypted already", lambda: encrypt.plan("hr.sealed", "hr.x", key_id="hr", catalog=catalog)),
        ("is not a copy of the source", lambda: encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog)),
        ("is the source", lambda: encrypt.plan("hr.plain", "hr.plain", key_id="hr", catalog=catalog)),
        ("no namespace", lambda: encrypt.plan("hr.plain", "x", key_id="hr", catalog=catalog)),
        ("key id is empty", lambda: encrypt.plan("hr.plain", "hr.x", key_id="", catalog=catalog)),
        ("expected 16, 24 or 32", lambda: encrypt.plan("hr.plain", "hr.x", key_id="hr", key_length=8, catalog=catalog)),
        ("is a folder", lambda: encrypt.plan(str(tmp_path), "hr.x", key_id="hr", swap=True, catalog=catalog)),
        ("no Parquet files", lambda: encrypt.plan(f"{tmp_path}/*.x", "hr.x", key_id="hr", catalog=catalog)),
        ("reason is empty", lambda: decrypt.plan("hr.sealed", "hr.x", reason=" ", catalog=catalog)),
        ("is not encrypted", lambda: decrypt.plan("hr.plain", "hr.x", reason="why", catalog=catalog)),
    ]
    for message, make in cases:
        with pytest.raises(ConfigError, match=message):
            make()


def test_orc_is_refused_by_name_before_anything_is_written(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    (tmp_path / "orc").mkdir()
    small = SmallTable(tmp_path / "orc", SCHEMA, encrypted=False)
    file = small.parquet(people(0, 3))
    file[2] = type(file.file_format)("ORC")
    small.snapshot(file)
    catalog.register_table("hr.orc", small.write_metadata())
    with pytest.raises(UnsupportedError, match="files of format ORC"):
        encrypt.plan("hr.orc", "hr.sealed", key_id="hr", catalog=catalog)
    with pytest.raises(NoSuchTableError):
        catalog.load_table("hr.sealed_unfinished")
