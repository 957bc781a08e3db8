"""rotate, rewrap and prune-keys, killed anywhere and run again, with a second writer, in three kinds of catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from kit.programs import killed
from kit.programs.key_work import JOBS, work
from kit.servers.versioned_kms import VersionedKeys
from kit.tables.catalogs import KINDS
from kit.tables.commits import ROWS, make, rows_of
from sealberg.jobs import shred
from sealberg.keys.keyring import EncryptedKey
from sealberg.metadata.updates import AddEncryptionKeyUpdate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(
    params=["sqlite", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("postgresql", "hive"))], scope="module"
)
def properties(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, str], VersionedKeys]]:
    folder = tmp_path_factory.mktemp("lake")
    admin = VersionedKeys(folder / "kms.json")
    admin.rotate("hr")
    with KINDS[request.param](folder) as lake, lake.opened:
        own = {name: value for name, value in lake.properties.items() if not name.startswith("encryption.")}
        own |= admin.properties
        with sealberg.load_catalog("test", **own) as catalog:
            catalog.create_namespace("db")
        yield own, admin


def needed_again(job: str, table: Any, admin: VersionedKeys) -> None:
    """Give the job something to do, besides what a killed run has left."""
    if job == "rotate":
        table.append(ROWS)  # a KEK that has sealed nothing stays
    if job == "rewrap":
        admin.rotate("hr")
    if job == "prune-keys":
        kek = table.metadata.encryption_keys.keks("hr")[0].key_id
        begun = table.transaction()
        stray = EncryptedKey(f"stray-{table.metadata.last_updated_ms}", b"x" * 60, kek)
        begun.apply((AddEncryptionKeyUpdate.model_validate({"encryption-key": stray}),))
        begun.commit_transaction()


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_run_that_was_killed_anywhere_is_repeated(job: str, properties: tuple[dict[str, str], VersionedKeys]) -> None:
    own, admin = properties
    name = f"db.{job.replace('-', '_')}"
    with sealberg.load_catalog("test", **own) as catalog:
        table = make(catalog, name)  # type: ignore[arg-type]
        table.append(ROWS)
        needed_again(job, table, admin)
        operations = killed.run(work, job, own, name).operations
        assert operations > 2
        for at in killed.points(operations, 6, seed=len(job)):
            table.refresh()
            needed_again(job, table, admin)
            assert killed.run(work, job, own, name, at=at).killed
            table.append(ROWS)  # the second writer
            ended = killed.run(work, job, own, name)
            assert (ended.error, ended.returned) == ("", 0)
            table.refresh()
            if job == "prune-keys":
                assert not [key for key in table.metadata.encryption_keys if key.key_id.startswith("stray")]
    if job == "rewrap":
        for version in range(1, admin.versions("hr")):
            admin.disable("hr", version)
    with sealberg.load_catalog("test", **own) as catalog:  # without a KEK in memory
        again: Any = catalog.load_table(name)
        assert [len(rows_of(again, each.snapshot_id)) for each in again.metadata.snapshots] == [
            3 * number for number in range(1, 1 + len(again.metadata.snapshots))
        ]


@pytest.mark.slow
def test_a_rotation_that_was_killed_and_repeated_makes_one_kek(tmp_path: Path) -> None:
    admin = VersionedKeys(tmp_path / "kms.json")
    admin.rotate("hr")
    own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w", **admin.properties}
    with sealberg.load_catalog("test", **own) as catalog:
        catalog.create_namespace("db")
        make(catalog, "db.whole").append(ROWS)  # type: ignore[arg-type]
        operations = killed.run(work, "rotate", own, "db.whole").operations
        for at in killed.points(operations, 4, seed=1):
            name = f"db.t{at}"
            make(catalog, name).append(ROWS)  # type: ignore[arg-type]
            assert killed.run(work, "rotate", own, name, at=at).killed
            assert killed.run(work, "rotate", own, name).returned == 0
            assert len(catalog.load_table(name).metadata.encryption_keys.keks("hr")) == 2  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rest", "glue"])
def test_the_jobs_in_catalogs_that_are_services(kind: str, tmp_path: Path) -> None:
    admin = VersionedKeys(tmp_path / "kms.json")
    admin.rotate("hr")
    with KINDS[kind](tmp_path) as lake, lake.opened:
        own = {name: value for name, value in lake.properties.items() if not name.startswith("encryption.")}
        with sealberg.load_catalog("test", **own, **admin.properties) as catalog:
            catalog.create_namespace("db")
            table = make(catalog)  # type: ignore[arg-type]
            table.append(ROWS)
            assert JOBS["rotate"]("db.t", catalog=catalog).execute().exit_code == 0
            table = catalog.load_table("db.t")
            table.append(ROWS)
            admin.rotate("hr")
            assert JOBS["rewrap"]("db.t", catalog=catalog).execute().exit_code == 0
            admin.disable("hr", 1)
        with sealberg.load_catalog("test", **own, **admin.properties) as catalog:
            table = catalog.load_table("db.t")
            assert [len(rows_of(table, each.snapshot_id)) for each in table.metadata.snapshots] == [3, 6]
            needed_again("prune-keys", table, admin)
            assert JOBS["prune-keys"]("db.t", catalog=catalog).execute().outcomes[0].facts["left"] == 4
            assert shred.plan("db.t", catalog=catalog).execute().exit_code == 0
            assert len(catalog.load_table("db.t").metadata.encryption_keys) == 0  # type: ignore[union-attr]
