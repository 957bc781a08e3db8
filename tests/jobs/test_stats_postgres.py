"""`stats` on a catalog in PostgreSQL: another writer commits in between, and expiry takes the statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kit.servers import postgres
from kit.tables.commits import ROWS, make, rows_of
from sealberg.jobs import stats, verify
from sealberg.metadata.statistics import needed_keys

if TYPE_CHECKING:
    from kit.servers.postgres import Database
    from sealberg.catalogs.sql.catalog import EncryptedSql

catalog, database = postgres.catalog, postgres.database  # the fixtures


def test_another_writer_commits_in_between_and_nothing_is_lost(catalog: EncryptedSql, database: Database) -> None:
    table = make(catalog)
    table.append(ROWS)
    made = stats.plan(table)
    with database.catalog() as other:
        other.load_table("db.t").append(ROWS)
        assert made.execute().distinct == (("id", 3),)
        again: Any = other.load_table("db.t")
        assert len(rows_of(again)) == 6
        assert len(again.metadata.statistics) == 1
        assert verify.plan(again).execute().exit_code == 0


def test_expiry_takes_the_statistics_and_their_key(catalog: EncryptedSql) -> None:
    table = make(catalog)
    table.append(ROWS)
    counted = stats.plan(table).execute()
    table.append(ROWS)
    table.maintenance.expire_snapshots().by_id(counted.snapshot_id).commit()
    again: Any = catalog.load_table("db.t")
    assert not again.metadata.statistics
    ring = again.metadata.encryption_keys
    assert {entry.key_id for entry in ring if entry.timestamp is None} == needed_keys(again.metadata)


@pytest.mark.parametrize("writers", [3])
def test_writers_that_count_at_once_leave_one_file_and_its_key(
    catalog: EncryptedSql, database: Database, writers: int
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    make(catalog).append(ROWS)

    def count(_: int) -> None:
        with database.catalog() as own:
            stats.plan("db.t", catalog=own).execute()

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(count, range(writers)))
    again: Any = catalog.load_table("db.t")
    (file,) = again.metadata.statistics
    ring = again.metadata.encryption_keys
    assert {entry.key_id for entry in ring if entry.timestamp is None} == needed_keys(again.metadata)
    assert [path for path in database.files() if path.endswith(".stats")] == [
        file.statistics_path.removeprefix("file://")
    ]
