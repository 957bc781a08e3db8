"""Expiry, orphans and erasure with tasks that other processes work on, and on PostgreSQL, killed and run again."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from kit.programs.killed import points, run
from kit.servers import postgres
from kit.tables.lives import check_exact, ids, lived, rows
from kit.tables.tables import MASTER_KEY, sealed_catalog
from sealberg.jobs import erase, expire, orphans
from sealberg.jobs.runner import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from kit.servers.postgres import Database

database = postgres.database  # the fixture

NOW = timedelta(0)


class Elsewhere:
    """A runner whose tasks and results are pickled, as Spark's are."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def run(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            self.sent.append(pickle.dumps((work, task)))
            there, given = pickle.loads(self.sent[-1])
            yield pickle.loads(pickle.dumps(there(given)))


def test_tasks_travel_without_the_kms_and_without_the_catalog(tmp_path: Path) -> None:
    runner = Elsewhere()
    with sealed_catalog(tmp_path) as catalog:
        table = lived(catalog)
        assert erase.plan(table, where="id = 5", runner=runner).execute(runner=runner).is_proved
        expire.plan(table, older_than=NOW).execute(runner=runner)
        orphans.plan(table, older_than=NOW, allow_recent=True, runner=runner).execute(runner=runner)
        table.refresh()
        assert ids(table) == [2, 4, 6, 20]
        check_exact(table)
    assert len(runner.sent) > 20
    for secret in (MASTER_KEY.encode(), bytes.fromhex(MASTER_KEY), b"catalog.db", b"kms-type"):
        assert not [task for task in runner.sent if secret in task]


def open_catalog(properties: dict[str, str]) -> Any:
    return sealberg.load_catalog("test", **properties)


def expiry(properties: dict[str, str]) -> None:
    with open_catalog(properties) as catalog:
        expire.plan("hr.people", catalog=catalog, older_than=NOW).execute(runner=Threads(1))


def erasure(properties: dict[str, str]) -> None:
    with open_catalog(properties) as catalog:
        plan = erase.plan("hr.people", catalog=catalog, where="id = 5", runner=Threads(1))
        result = plan.execute(runner=Threads(1))
        assert result.is_proved, str(result)


@pytest.mark.slow
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("work", [expiry, erasure])
def test_killed_on_postgresql_with_a_second_writer_and_run_again(database: Database, work: Any) -> None:
    with database.catalog() as catalog:
        catalog.create_namespace("hr")
        table = lived(catalog)
        whole = run(work, {**database.properties, "warehouse": f"file://{database.folder}/other"})
        assert not whole.error
        catalog.purge_table("hr.people")
        table = lived(catalog)
        for number, at in enumerate(points(whole.operations, 6, seed=3)):
            run(work, database.properties, at=at)
            catalog.load_table("hr.people").append(rows(100 + number))
        ended = run(work, database.properties)
        assert not ended.error
        table.refresh()
        assert set(ids(table)) - {5} == {2, 4, 6, 20, *range(100, 106)}
        assert (5 in ids(table)) == (work is expiry)
        orphans.plan(table, older_than=NOW, allow_recent=True).execute()
        check_exact(table)
