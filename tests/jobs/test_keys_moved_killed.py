"""change-master and rekey, killed at many points, with a full disk and with a KMS that fails; then run again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from jobs.job_tables import SCHEMA, content, keys_of, rows
from kit.programs.killed import KILLS, points, run
from kit.servers.postgres import empty_database
from sealberg.jobs import change_master, orphans, rekey
from sealberg.jobs.verify import plan as verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.servers.postgres import Database

NEW = "hr-2027"
KEYS = {f"encryption.kms.memory.key.{NEW}": "cd" * 16, "encryption.kms.total-timeout-s": "0.1"}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.deep)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with empty_database(request.param, tmp_path) as found:
        yield found


def small(catalog: Any) -> Any:
    """Two data files, one with a deletion vector."""
    catalog.create_namespace("db")
    properties = {"encryption.key-id": "hr", "write.delete.mode": "merge-on-read"}
    table = catalog.create_table("db.t", SCHEMA, properties=properties)
    table.append(rows(0, 10))
    table.append(rows(10, 20))
    table.delete("id = 3")
    return table


def open_catalog(properties: dict[str, str]) -> Any:
    return sealberg.load_catalog("test", **properties, **KEYS)


def change(properties: dict[str, str], new: str) -> None:
    with open_catalog(properties) as catalog:
        change_master.plan("db.t", new, catalog=catalog, history=True, drop_old=True).execute()


def give_new_keys(properties: dict[str, str], _: str) -> None:
    with open_catalog(properties) as catalog:
        rekey.plan("db.t", catalog=catalog, batch_files=1, erase=True).execute()


JOBS = {"change-master": change, "rekey": give_new_keys}


@pytest.mark.slow
@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("job", sorted(JOBS))
def test_a_job_that_is_killed_anywhere_goes_on_and_loses_nothing(job: str, kills: int, database: Database) -> None:
    work = JOBS[job]
    with open_catalog(database.properties) as catalog:
        before = content(small(catalog))
    whole = run(work, database.properties, NEW)
    assert whole.error == ""
    for number, at in enumerate(points(whole.operations, kills, seed=kills)):
        new = ("hr", NEW)[number % 2]
        with open_catalog(database.properties) as catalog:
            old = set.union(*keys_of(catalog.load_table("db.t"), "main"))
        stopped = run(work, database.properties, new, at=at)
        assert stopped.killed or stopped.error == "", stopped.error
        with open_catalog(database.properties) as catalog:
            assert content(catalog.load_table("db.t")) == before
        again = run(work, database.properties, new)
        assert again.error == "", f"killed at {at}: {again.error}"
        with open_catalog(database.properties) as catalog:
            table = catalog.load_table("db.t")
            assert content(table) == before
            left = old & set.union(*keys_of(table, "main"))
            assert len(left) == (3 if job == "change-master" else 0), f"killed at {at}"  # the keys of its files
            assert catalog.list_tables("db") == [("db", "t")]
    with open_catalog(database.properties) as catalog:
        check_whole(catalog)


def check_whole(catalog: Any) -> None:
    """Killed jobs leave orphans, and nothing else that verify could find."""
    orphans.plan(catalog.load_table("db.t"), older_than=timedelta(0), allow_recent=True).execute()
    found = verify("db.t", catalog=catalog, level="deep", orphan_age=timedelta(0)).execute()
    assert (found.findings, found.not_checked) == ((), ())


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["disk full", "KMS down"])
@pytest.mark.parametrize("job", sorted(JOBS))
def test_a_full_disk_or_a_kms_that_is_down_ends_a_job_and_leaves_the_table(
    job: str, fault: Any, tmp_path: Path
) -> None:
    with empty_database("sqlite", tmp_path) as database:
        work = JOBS[job]
        with open_catalog(database.properties) as catalog:
            before = content(small(catalog))
        operations = run(work, database.properties, NEW, fault=fault).operations
        for number, at in enumerate(points(operations, 5, seed=5)):
            new = ("hr", NEW)[number % 2]
            assert run(work, database.properties, new, fault=fault, at=at).error
            with open_catalog(database.properties) as catalog:
                assert content(catalog.load_table("db.t")) == before
            assert run(work, database.properties, new).error == ""
        with open_catalog(database.properties) as catalog:
            check_whole(catalog)
