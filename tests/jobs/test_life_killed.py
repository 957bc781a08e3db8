"""expire, orphans, erase and shred on PostgreSQL, killed anywhere and run again, with a second writer.

test_key_jobs_killed has rotate, rewrap and prune-keys; tests/interop/test_life.py has all jobs on Hive, with Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.killed import points, run
from kit.programs.life_work import check, expected, occasion, work
from kit.servers import postgres
from kit.tables.lives import check_exact, ids, lived
from sealberg.jobs import orphans, verify

if TYPE_CHECKING:
    from kit.servers.postgres import Database

database = postgres.database  # the fixture


@pytest.mark.slow
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("job", ["expire", "orphans", "erase", "shred"])
def test_killed_on_postgresql_with_a_second_writer_and_run_again(database: Database, job: str) -> None:
    with database.catalog() as catalog:
        catalog.create_namespace("hr")
        table: Any = lived(catalog)
        occasion(job, table, 0)
        whole = run(work, job, database.properties, "hr.people")
        assert (whole.error, whole.returned[0]) == ("", 0)
        for number, at in enumerate(points(whole.operations, 4, seed=3), 1):
            occasion(job, table, number)
            run(work, job, database.properties, "hr.people", at=at)
            catalog.load_table("hr.people")
            ended = run(work, job, database.properties, "hr.people")
            assert (ended.error, (ended.returned or [-1])[0]) == ("", 0), ended.returned
            check(job, table)
            assert ids(table) == expected(job, number + 1)
        assert verify.plan(table).execute().exit_code == 0
        if job != "shred":  # which leaves the files that nobody can open
            orphans.plan(table, older_than=orphans.LEAST_AGE * 0, allow_recent=True).execute()
            check_exact(table)
