"""Whoever may write to the storage, alter a table or register one: no deleting act takes what is live, or another's."""

from __future__ import annotations

import ast
import json
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

import sealberg
from chaos.removals import age_all, careless, folder, live, plant_older, precious, random_removals, statistics_of
from kit.servers import store_servers
from kit.tables.lives import ids, lived, rows
from kit.tables.tables import sealed_catalog
from sealberg.errors import ConfigError, PurgeError, PurgeRefusedError, RemovalRefusedError, SealbergError
from sealberg.files.locations import normal
from sealberg.jobs import erase, expire, orphans
from sealberg.jobs.removal import journal
from sealberg.jobs.removal.unreachable import Gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

pytestmark = pytest.mark.slow

CURRENT = [2, 4, 5, 6, 20]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(
    "spell",
    [
        str,
        lambda p: p + "#x",
        lambda p: p + "?x",
        lambda p: p.replace("/hr/", "/hr/./"),
        lambda p: p.replace("/wh/", "//wh/"),
    ],
    ids=["exact", "hash", "query", "dot", "slashes"],
)
def test_a_planted_older_metadata_file_makes_no_live_file_removable(
    catalog: EncryptedSqlCatalog, spell: Callable[[str], str]
) -> None:
    table = lived(catalog)
    before = live(table)
    plant_older(table, spell)
    expire.plan(table, older_than=timedelta(days=5)).execute()
    assert live(table) >= before
    plant_older(table, spell)
    erase.plan(table, where="id = 99999").execute()
    assert ids(table.refresh()) == CURRENT


@pytest.mark.parametrize("ending", ["#x", "?x", "\nx", "\t", ";x", "%23", " "])
def test_names_beside_live_files_take_no_live_file_along(catalog: EncryptedSqlCatalog, ending: str) -> None:
    table = lived(catalog)
    before = live(table)
    for path in before:
        Path(f"{path}{ending}").write_bytes(b"AGS1")
    age_all(folder(table))
    orphans.plan(table).execute()
    assert live(table) >= before
    assert ids(table.refresh()) == CURRENT


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_link_is_not_followed_and_what_it_leads_to_stays(
    catalog: EncryptedSqlCatalog, tmp_path: Path, kind: str
) -> None:
    table = lived(catalog)
    kept = precious(tmp_path)
    inside = folder(table) / "data" / f"{uuid.uuid4()}.parquet"
    inside.write_bytes(b"PARE")
    (folder(table) / "data" / "link").symlink_to(kept.parent if kind == "folder" else kept)
    (folder(table) / "data" / "other").symlink_to(inside)
    age_all(folder(table))
    plan = orphans.plan(table)
    assert not plan.found.files
    plan.execute()
    assert kept.read_bytes() == b"precious"
    assert inside.exists()


def test_a_folder_of_the_operator_in_a_property_stays(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = lived(catalog)
    kept = precious(tmp_path)
    table.transaction().set_properties({"write.data.path": f"file://{kept.parent}"}).commit_transaction()
    orphans.plan(table).execute()
    expire.plan(table, older_than=timedelta(0)).execute()
    assert kept.read_bytes() == b"precious"


def test_what_is_no_file_of_a_table_stays_unless_it_is_named(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    age_all(folder(table))
    note = precious(folder(table), "data/notes.txt")
    plan = orphans.plan(table)
    assert [each.location for each in plan.found.foreign] == [f"file://{note}"]
    assert "notes.txt" in str(plan)
    plan.execute()
    assert note.exists()
    orphans.plan(table, files=[f"file://{note}"]).execute()
    assert not note.exists()
    with pytest.raises(ConfigError, match="not an unnamed file"):
        orphans.plan(table, files=[table.metadata_location])


def test_a_file_that_changed_after_the_plan_stays(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    lost = precious(folder(table), f"data/{uuid.uuid4()}.parquet")
    plan = orphans.plan(table)
    assert len(plan.found.files) == 1
    lost.write_bytes(b"something else")
    result = plan.execute()
    assert lost.exists()
    assert result.exit_code == 2
    assert "another object" in str(result)


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_an_altered_plaintext_table_takes_nothing_of_others_along(
    catalog: EncryptedSqlCatalog, tmp_path: Path, version: str
) -> None:
    sealed = lived(catalog, "hr.sealed")
    table = catalog.create_table("hr.plain", rows().schema, properties={"format-version": version})
    table.append(rows(1))
    table.append(rows(2))
    kept = precious(tmp_path)
    theirs = sorted(live(sealed))
    place = Path(normal(catalog.load_table("hr.plain").metadata_location))
    raw = json.loads(place.read_text())
    raw["metadata-log"] = [
        {"timestamp-ms": raw["last-updated-ms"], "metadata-file": f"file://{path}"} for path in theirs
    ]
    raw["statistics"] = statistics_of([f"file://{kept}", f"file://{theirs[0]}"], raw["current-snapshot-id"])
    raw["location"] = f"file://{tmp_path}"
    place.write_text(json.dumps(raw))
    if version == "3":
        with suppress(SealbergError):
            expire.plan("hr.plain", catalog=catalog, older_than=timedelta(0)).execute()
    with pytest.raises(PurgeError):
        catalog.purge_table("hr.plain")
    assert kept.exists()
    assert sorted(live(sealed)) == theirs
    assert ids(catalog.load_table("hr.sealed")) == CURRENT


def test_a_spelling_of_a_write_path_costs_no_live_file(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    data = f"{table.metadata.location}/./data/../more//x"
    with suppress(ConfigError):
        table.transaction().set_properties({"write.data.path": data}).commit_transaction()
        table.append(rows(50))
    age_all(folder(table))
    before = ids(table)
    orphans.plan(table).execute()
    assert ids(table.refresh()) == before


def test_a_table_inside_of_another_by_a_link_keeps_its_files(
    catalog: EncryptedSqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = lived(catalog)
    (tmp_path / "alias").symlink_to(folder(outer))
    properties = {"encryption.key-id": "hr"}
    # As a tool makes it that does not look where it is.
    monkeypatch.setattr("sealberg.catalogs.new_places.NewPlace.given", lambda _, location: location)
    inner = catalog.create_table("hr.inner", rows().schema, f"file://{tmp_path}/alias/below", properties=properties)
    inner.append(rows(1, 2))
    age_all(folder(outer))
    with suppress(SealbergError):
        orphans.plan(outer).execute()
    with suppress(SealbergError):
        catalog.purge_table("hr.people")
    assert ids(catalog.load_table("hr.inner")) == [1, 2]


def test_a_second_name_of_a_table_is_not_purged(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    with suppress(SealbergError):
        catalog.register_table("hr.copy", table.metadata_location)
        with pytest.raises(PurgeRefusedError, match="is the same table"):
            catalog.purge_table("hr.copy")
        with pytest.raises(RemovalRefusedError, match="is the same table"):
            expire.plan(table, older_than=timedelta(0)).execute()
    assert ids(catalog.load_table("hr.people")) == CURRENT


def test_a_second_name_that_cannot_be_loaded_keeps_its_files(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    catalog.register_table("hr.copy", table.metadata_location)
    with catalog.engine.begin() as database:
        database.execute(text("update sealberg_trust set metadata_hash = 'x' where table_name = 'copy'"))
    before = live(table)
    with pytest.raises(SealbergError):
        catalog.load_table("hr.copy")
    with pytest.raises(PurgeRefusedError, match=r"hr\.copy cannot be loaded"):
        catalog.purge_table("hr.people")
    with pytest.raises(RemovalRefusedError, match=r"hr\.copy cannot be loaded"):
        expire.plan(table, older_than=timedelta(0)).execute()
    assert live(table) >= before


def set_back(catalog: EncryptedSqlCatalog, table: Any, to: str) -> None:
    """The database of the catalog as a backup has it."""
    with catalog.engine.begin() as database:
        database.execute(
            text("update iceberg_tables set metadata_location = :m where table_name = :t"),
            {"m": to, "t": table.name()[-1]},
        )
        database.execute(text("delete from sealberg_trust"))
    catalog.trust(table.name(), catalog.found(table.name())[0])


@pytest.mark.parametrize("lost", ["append", "tag"])
def test_a_catalog_one_commit_behind_removes_nothing(catalog: EncryptedSqlCatalog, lost: str) -> None:
    table = lived(catalog)
    behind = table.metadata_location
    if lost == "append":
        table.append(rows(40))
    else:
        table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "kept").commit()
    newest, before = table.metadata_location, live(table)
    age_all(folder(table))
    set_back(catalog, table, behind)
    with pytest.raises(RemovalRefusedError, match="is a newer version of the table"):
        orphans.plan("hr.people", catalog=catalog)
    with pytest.raises(RemovalRefusedError, match="is a newer version of the table"):
        expire.plan("hr.people", catalog=catalog, older_than=timedelta(0)).execute()
    for where in ("id = 2", "id = 40"):
        with pytest.raises(RemovalRefusedError, match="is a newer version of the table"):
            erase.plan("hr.people", catalog=catalog, where=where).execute()
    assert live(table) == before
    set_back(catalog, table, newest)
    assert ids(catalog.load_table("hr.people")) == ([*CURRENT, 40] if lost == "append" else CURRENT)


@pytest.mark.parametrize("place", ["later", ".later", "_later", "data/later"])
def test_newer_metadata_in_any_folder_of_the_table_stop_a_removal(catalog: EncryptedSqlCatalog, place: str) -> None:
    table = lived(catalog)
    behind = table.metadata_location
    change = table.transaction()
    change.set_properties({"write.metadata.path": f"{table.metadata.location}/{place}"})
    change.append(rows(40))
    change.commit_transaction()
    newest, before = table.metadata_location, live(table)
    age_all(folder(table))
    set_back(catalog, table, behind)
    with pytest.raises(RemovalRefusedError, match=f"{place}/.* is a newer version of the table"):
        orphans.plan("hr.people", catalog=catalog)
    with pytest.raises(RemovalRefusedError, match=f"{place}/.* is a newer version of the table"):
        expire.plan("hr.people", catalog=catalog, older_than=timedelta(0)).execute()
    assert live(table) == before
    set_back(catalog, table, newest)
    assert ids(catalog.load_table("hr.people")) == [*CURRENT, 40]


@pytest.mark.parametrize("kind", ["young", "hidden", "hidden below", "odd", "relative", "elsewhere"])
def test_a_table_that_the_catalog_does_not_know_keeps_its_files(catalog: EncryptedSqlCatalog, kind: str) -> None:
    table = lived(catalog)
    place = f"{table.metadata.location}/inner"
    paths = {"hidden": f"{place}/.meta", "hidden below": f"{table.metadata.location}/_meta"}
    with careless():
        inner = catalog.create_table(
            "hr.inner",
            rows().schema,
            place,
            properties={"encryption.key-id": "hr"} | ({"write.metadata.path": paths[kind]} if kind in paths else {}),
        )
    inner.append(rows(7))
    inner.append(rows(8))
    catalog.drop_table("hr.inner")  # another catalog has it
    said = {"odd": place.replace("/wh/", "//wh/./"), "relative": "hr/inner", "elsewhere": "s3://other/place"}
    for path in folder(inner).rglob("*.metadata.json") if kind in said else ():
        path.write_text(json.dumps({**json.loads(path.read_text()), "location": said[kind]}))
    age_all(folder(table))
    for path in folder(inner).rglob("*.metadata.json") if kind == "young" else ():
        path.touch()
    before = live(inner)
    plan = orphans.plan(table)
    assert "left out, as other tables" in str(plan)
    plan.execute()
    assert live(inner) == before


def test_a_forged_or_replayed_journal_removes_nothing_that_is_live(catalog: EncryptedSqlCatalog) -> None:
    table, other = lived(catalog), lived(catalog, "hr.other")
    part = Gone(table.metadata, tuple(table.metadata.snapshots))
    mine, theirs = (
        journal.write(table, part),
        journal.write(other, Gone(other.metadata, tuple(other.metadata.snapshots))),
    )
    assert mine is not None
    assert theirs is not None
    genuine = json.loads(Path(normal(mine)).read_text())
    swapped = {**json.loads(Path(normal(theirs)).read_text()), "table-uuid": genuine["table-uuid"]}
    altered = {**genuine, "sealed": genuine["sealed"][:-8] + "AAAAAAA="}
    planted = []
    documents: list[Any] = [swapped, altered, {"table-uuid": genuine["table-uuid"]}, []]
    for document in documents:
        path = folder(table) / "metadata" / f"{uuid.uuid4()}{journal.SUFFIX}"
        path.write_text(json.dumps(document))
        planted.append(path)
    age_all(folder(table) / "metadata")
    before = live(table) - {Path(normal(mine)), *planted}
    result = expire.plan(table, older_than=datetime(2020, 1, 1, tzinfo=UTC)).execute()
    assert live(table) >= before
    assert result.exit_code == 1
    assert {planted[1].name} == {each.location.rpartition("/")[2] for each in result.tables[0].removed.kept}
    assert not Path(normal(mine)).exists(), "all its snapshots are there, so nothing is left to do"
    assert ids(table.refresh()) == CURRENT


def test_only_one_place_deletes() -> None:
    """A FileIO deletes for `remove_file`; other FileIOs hand the call on."""
    source = Path(sealberg.__file__).parent
    found = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in {"delete", "rm", "rm_file", "delete_file", "rmdir"}:
                found.add(f"{path.relative_to(source)}: {ast.unparse(called)}")
    ours = {each for each in found if each.partition(":")[0] not in FILE_IOS and not each.endswith(ROWS)}
    assert ours == {"files/removal.py: io.delete", "files/removal.py: Path(path).rmdir"}


FILE_IOS = {"files/confined_io.py", "files/file_io.py", "files/vended_io.py", "files/exact_io.py", "jobs/task_io.py"}
# Deletes rows of tables and databases, which are no files, and a folder that a driver has made for itself.
ROWS = (
    "private_folder.py: folder.rmdir",
    "tx.delete",
    "transaction.delete",
    "begun.delete",
    "self.delete",
    "table.delete",
    "super().delete",
    "client.delete",
)


@pytest.mark.parametrize("io", ["pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO"])
def test_names_beside_live_objects_of_s3_take_no_live_object_along(tmp_path: Path, io: str) -> None:
    store = store_servers.s3()
    client = store_servers.s3_client(store)

    def keys() -> set[str]:
        return {each["Key"] for each in client.list_objects_v2(Bucket=store.bucket)["Contents"]}

    properties = {**store.properties, "warehouse": store.warehouse, "py-io-impl": io}
    with sealed_catalog(tmp_path, **properties) as catalog:
        table = lived(catalog)
        before = keys()
        for key in before:
            for ending in ("#x", "?x", "*", "[1]", "?versionId=1"):
                client.put_object(Bucket=store.bucket, Key=f"{key}{ending}", Body=b"AGS1")
        plan = orphans.plan(table, older_than=timedelta(0), allow_recent=True)
        plan.execute()
        assert keys() >= before
        assert {each for each in keys() if each.endswith(("#x", "?x"))}
        expire.plan(table, older_than=datetime(2020, 1, 1, tzinfo=UTC)).execute()
        assert keys() >= before
        assert ids(table.refresh()) == CURRENT


@pytest.mark.parametrize("io", ["pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO"])
def test_newer_metadata_in_a_former_folder_of_a_bucket_stop_a_removal(tmp_path: Path, io: str) -> None:
    store = store_servers.s3()
    properties = {**store.properties, "warehouse": store.warehouse, "py-io-impl": io}
    with sealed_catalog(tmp_path, **properties) as catalog:
        table: Any = catalog.create_table("hr.people", rows().schema, properties={"encryption.key-id": "hr"})
        table.append(rows(1))
        table.overwrite(rows(2))
        behind = table.metadata_location
        change = table.transaction()
        change.set_properties({"write.metadata.path": f"{table.metadata.location}/a/later"})
        change.append(rows(40))
        change.commit_transaction()
        newest = table.metadata_location
        set_back(catalog, table, behind)
        with pytest.raises(RemovalRefusedError, match=r"a/later/.* is a newer version of the table"):
            orphans.plan("hr.people", catalog=catalog)
        with pytest.raises(RemovalRefusedError, match=r"a/later/.* is a newer version of the table"):
            expire.plan("hr.people", catalog=catalog, older_than=timedelta(0)).execute()
        set_back(catalog, table, newest)
        assert ids(catalog.load_table("hr.people")) == [2, 40]


@pytest.mark.parametrize("seed", range(3))
def test_random_removals_cost_no_live_byte_and_no_bystander(tmp_path: Path, seed: int) -> None:
    random_removals(tmp_path, seed, 30)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_random_removals_cost_no_live_byte_and_no_bystander(tmp_path: Path, seed: int) -> None:
    random_removals(tmp_path, seed, 100)
