"""`orphans`: what no metadata names goes when it is old, and nothing else ever does."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from kit.programs.killed import points, run
from kit.servers import store_servers
from kit.tables.lives import check_exact, ids, lived, needed, rows, stored
from kit.tables.tables import MASTER_KEY, sealed_catalog
from sealberg.catalogs.new_places import NewPlace
from sealberg.errors import ConfigError, RemovalRefusedError
from sealberg.files.locations import normal, within
from sealberg.files.seal import seal_bytes
from sealberg.jobs import expire, orphans
from sealberg.jobs.runner import Threads
from sealberg.table.own_folders import own_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

DAY = 24 * 60 * 60
KMS = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": MASTER_KEY}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as opened:
        yield opened


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """New tables go where tools put them that do not look what is there."""
    monkeypatch.setattr(NewPlace, "given", lambda _, location: location)
    monkeypatch.setattr(NewPlace, "usual", lambda _, location, unique: location)  # noqa: ARG005


def folder(table: Any) -> Path:
    return Path(normal(table.metadata.location))


def plant(table: Any, name: str, *, days: float = 4, content: bytes | None = None) -> Path:
    """A file that nothing names, as old as given."""
    path = folder(table) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(seal_bytes(b"lost")[0] if content is None else content)
    age(path, days)
    return path


def age(path: Path, days: float) -> None:
    then = path.stat().st_mtime - days * DAY
    os.utime(path, (then, then))


def age_all(table: Any, days: float = 4) -> None:
    for path in stored(table):
        age(Path(path), days)


def found(plan: orphans.OrphansPlan) -> set[str]:
    return {normal(file.location) for file in plan.found.files}


def test_old_files_that_nothing_names_are_listed_and_then_removed(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    age_all(table)
    before = stored(table)
    old = [plant(table, "data/lost.parquet"), plant(table, "metadata/lost-m0.avro"), plant(table, "elsewhere/x")]
    young = plant(table, "data/young.parquet", days=2)
    plan = orphans.plan(table)
    assert found(plan) == set(map(str, old))
    assert plan.found.young == 1
    assert "3 files, 120 bytes" in str(plan)
    assert str(old[0]) in str(plan)
    assert len(plan.to_json()["orphans"]) == 3
    result = plan.execute()
    assert (result.exit_code, result.removed.count) == (0, 3)
    assert stored(table) == before | {str(young)}
    assert orphans.plan(table).changes is False


def test_files_of_an_expiry_that_deleted_none_are_orphans(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    line = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in _refs(table)]
    table.maintenance.expire_snapshots().by_ids(line).commit()
    age_all(table)
    orphans.plan(table).execute()
    assert stored(table) == needed(table)
    assert ids(table) == [2, 4, 5, 6, 20]


def _refs(table: Any) -> set[int]:
    return {ref.snapshot_id for ref in table.metadata.refs.values()}


def test_a_young_age_must_be_allowed(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    lost = plant(table, "data/lost.parquet", days=0)
    with pytest.raises(ConfigError, match=r"older_than is 1:00:00, expected at least 24 hours.*--allow-recent"):
        orphans.plan(table, older_than=timedelta(hours=1))
    assert found(orphans.plan(table, older_than=timedelta(0), allow_recent=True)) == {str(lost)}


def test_a_file_that_is_committed_after_the_plan_stays(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    table.append(rows(40))
    committed = table.metadata_location
    age_all(table)
    with catalog.engine.begin() as database:  # the plan sees the table as it was before
        old = table.metadata.metadata_log[-1].metadata_file
        from sqlalchemy import text

        database.execute(text("update iceberg_tables set metadata_location = :m"), {"m": old})
        database.execute(text("delete from sealberg_trust"))
    catalog.trust("hr.people", catalog.found("hr.people")[0])
    with pytest.raises(RemovalRefusedError, match="is a newer version of the table"):
        orphans.plan("hr.people", catalog=catalog)
    plan = orphans.plan("hr.people", catalog=catalog, allow_newer_metadata=True)
    assert committed.rpartition("/")[2] in str(plan)
    with catalog.engine.begin() as database:
        database.execute(text("update iceberg_tables set metadata_location = :m"), {"m": committed})
        database.execute(text("delete from sealberg_trust"))
    catalog.trust("hr.people", catalog.found("hr.people")[0])
    plan.execute()
    table.refresh()
    assert 40 in ids(table)


def test_a_table_with_a_longer_name_is_not_touched(catalog: EncryptedSqlCatalog) -> None:
    table, other = lived(catalog), lived(catalog, "hr.people2")
    for each in (table, other):
        age_all(each)
        plant(each, "data/lost.parquet")
    before = stored(other)
    orphans.plan(table).execute()
    assert stored(other) == before


@pytest.mark.usefixtures("careless")
def test_a_table_below_the_location_is_not_touched(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    inner: Any = catalog.create_table(
        "hr.inner", rows().schema, f"{table.metadata.location}/archive", properties={"encryption.key-id": "hr"}
    )
    inner.append(rows(1))
    age_all(table)
    lost = plant(table, "data/lost.parquet")
    inside = plant(inner, "data/lost.parquet")
    plan = orphans.plan(table)
    assert found(plan) == {str(lost)}
    assert plan.found.others == (inner.metadata.location,)
    plan.execute()
    assert inside.exists()
    assert ids(inner) == [1]


@pytest.mark.usefixtures("careless")
def test_a_table_of_another_catalog_below_the_location_is_not_touched(
    catalog: EncryptedSqlCatalog, tmp_path: Path
) -> None:
    table = lived(catalog)
    with sealed_catalog(tmp_path / "second") as second:
        inner: Any = second.create_table(
            "hr.inner", rows().schema, f"{table.metadata.location}/archive", properties={"encryption.key-id": "hr"}
        )
        inner.append(rows(1))
        age_all(table)
        lost = plant(table, "data/lost.parquet")
        plan = orphans.plan(table)
        assert found(plan) == {str(lost)}
        plan.execute()
        assert ids(inner) == [1]


@pytest.mark.usefixtures("careless")
def test_two_tables_in_one_folder_are_refused(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    catalog.create_table("hr.twin", rows().schema, table.metadata.location, properties={"encryption.key-id": "hr"})
    with pytest.raises(RemovalRefusedError, match=r"hr\.twin has the same folder"):
        orphans.plan(table)


@pytest.mark.usefixtures("careless")
def test_files_of_a_table_that_was_dropped_are_orphans_if_the_caller_says_so(catalog: EncryptedSqlCatalog) -> None:
    lived(catalog)
    catalog.drop_table("hr.people")
    table = lived(catalog)
    age_all(table)
    with pytest.raises(RemovalRefusedError, match="if that table was dropped, say so"):
        orphans.plan(table)
    orphans.plan(table, check_others=False).execute()
    check_exact(table)


def test_a_folder_outside_of_the_location_is_not_searched(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    shared = {"write.data.path": f"file://{tmp_path}/hot"}
    table = lived(catalog, **shared)
    lived(catalog, "hr.other", **shared)
    before = set((tmp_path / "hot").rglob("*"))
    age_all(table)
    assert not orphans.plan(table).found.files
    assert set((tmp_path / "hot").rglob("*")) == before


def test_a_table_that_cannot_be_loaded_refuses_the_search(catalog: EncryptedSqlCatalog) -> None:
    table, other = lived(catalog), lived(catalog, "hr.other")
    Path(normal(other.metadata_location)).unlink()
    with pytest.raises(RemovalRefusedError, match=r"the table hr\.other of the catalog cannot be loaded"):
        orphans.plan(table)
    assert orphans.plan(table, check_others=False).found.files == []


def test_newer_metadata_of_the_same_table_refuse_the_search(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    current = Path(normal(table.metadata_location))
    document = json.loads(current.read_text())
    number = int(current.name.split("-")[0])
    failed = {**document, "metadata-log": [{"timestamp-ms": 1, "metadata-file": table.metadata_location}]}
    plant(table, f"metadata/{number + 1:05}-a.metadata.json", content=json.dumps(failed).encode())
    with pytest.raises(RemovalRefusedError, match="is a newer version of the table"):
        orphans.plan(table)  # a commit that failed, or one that the catalog forgot
    plant(table, f"metadata/{number + 2:05}-b.metadata.json", content=json.dumps(document).encode())
    with pytest.raises(RemovalRefusedError, match="is a newer version of the table"):
        orphans.plan(table)
    assert len(orphans.plan(table, allow_newer_metadata=True).found.files) == 2


def test_hidden_files_stay(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    age_all(table)
    for name in ("data/.lost.crc", "data/_SUCCESS", ".staging/x", "metadata/version-hint.text"):
        plant(table, name)
    plan = orphans.plan(table)
    assert (plan.found.files, len(plan.found.hidden)) == ([], 4)
    assert [each.rpartition("/")[2] for each in plan.to_json()["passed_over"]["hidden"]].count("_SUCCESS") == 1
    named = f"{table.metadata.location}/data/_SUCCESS"
    orphans.plan(table, files=[named]).execute()
    assert not Path(normal(named)).exists()


def test_nothing_is_listed_if_a_manifest_cannot_be_read(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    bad = Path(normal(table.current_snapshot().manifests(table.io)[0].manifest_path))
    bad.write_bytes(bytes(len(bad.read_bytes())))
    plant(table, "data/lost.parquet")
    with pytest.raises(RemovalRefusedError, match="are not known"):
        orphans.plan(table)


def test_folders_of_a_table(catalog: EncryptedSqlCatalog) -> None:
    table: Any = catalog.create_table("hr.people", rows().schema, properties={"encryption.key-id": "hr"})
    paths = {"write.data.path": "s3://hot/people/", "write.metadata.path": "s3://hot/people/meta"}
    metadata = table.metadata.model_copy(update={"properties": paths})
    assert own_folders(metadata) == (table.metadata.location, "s3://hot/people")
    assert not within("hr/people2", "hr/people")
    assert not within("hr/people/../other", "hr/people")


@pytest.mark.slow
@pytest.mark.parametrize("fsspec", [False, True], ids=["arrow", "fsspec"])
def test_orphans_and_expiry_on_an_s3_server(tmp_path: Path, fsspec: bool) -> None:
    store = store_servers.s3()
    store = store_servers.with_fsspec(store) if fsspec else store
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": store.warehouse, **store.properties}
    client = store_servers.s3_client(store)

    def keys() -> set[str]:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=store.bucket)
        return {each["Key"] for page in pages for each in page.get("Contents", ())}

    with sealberg.load_catalog("lake", **settings, **KMS) as catalog:
        catalog.create_namespace("hr")
        table, other = lived(catalog), lived(catalog, "hr.people2")
        theirs = {key for key in keys() if "/people2/" in key}
        assert expire.plan(table, older_than=timedelta(0)).execute().exit_code == 0
        table.refresh()
        named = keys() - theirs
        root = table.metadata.location.partition("://")[2].partition("/")[2]
        client.put_object(Bucket=store.bucket, Key=f"{root}/data/lost.parquet", Body=seal_bytes(b"")[0])
        plan = orphans.plan(table, older_than=timedelta(0), allow_recent=True)
        assert [file.location.rpartition("/")[2] for file in plan.found.files] == ["lost.parquet"]
        assert plan.execute().removed.count == 1
        assert keys() == named | theirs
        assert ids(table) == ids(other) == [2, 4, 5, 6, 20]


def job(folder: Path) -> None:
    with sealed_catalog(folder) as catalog:
        orphans.plan("hr.people", catalog=catalog).execute(runner=Threads(1))


@pytest.mark.slow
def test_killed_at_any_point_it_can_be_run_again(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = lived(catalog)
        age_all(table)
        for number in range(8):
            plant(table, f"data/lost-{number}.parquet")
        whole = run(job, tmp_path)
        assert not whole.error
        for at in points(whole.operations, 8, seed=59):
            plant(table, f"data/again-{at}.parquet")
            run(job, tmp_path, at=at)
            table.append(rows(100 + at))
        assert not run(job, tmp_path).error
        check_exact(table)
