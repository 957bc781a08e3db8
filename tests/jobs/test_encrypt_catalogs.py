"""encrypt in every catalog, with a writer that commits to the source meanwhile; on PostgreSQL killed and run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest

import sealberg
from jobs.test_encrypt import people, plain, sound
from kit.programs import killed
from kit.tables import catalogs
from kit.tables.tables import rows
from sealberg.jobs import encrypt
from sealberg.jobs.runner import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from kit.tables.catalogs import Lake

lake = catalogs.lake  # the fixture: every kind of catalog
T = TypeVar("T")
R = TypeVar("R")


class Busy:
    """Threads, while another writer appends to the source, deletes from it, and keeps a model of its rows."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.model = {row["id"]: row["name"] for row in rows(table)}
        self.turns = 3

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        yield from Threads(2).run(work, tasks)
        if self.turns:
            self.turns -= 1
            first = 1000 * (self.turns + 1)
            self.table.append(people(first, first + 5))
            # Not by the column of the partitions: the threads of PyIceberg's delete share one manifest evaluator, which
            # now and then takes the partitions of one manifest for those of another ("Missing required files").
            self.table.delete(f"name == 'canary-{self.turns}' or name == 'canary-{first}'")
            self.model |= {i: f"canary-{i}" for i in range(first, first + 5)}
            for gone in (self.turns, first):
                self.model.pop(gone, None)


def test_the_rows_of_a_writer_who_commits_meanwhile_are_in_the_copy(lake: Lake) -> None:
    catalog, other = lake.connect(), lake.connect()
    plain(catalog, "2", "db.plain")
    busy = Busy(other.load_table("db.plain"))
    options: dict[str, Any] = {"key_id": "hr", "catalog": catalog, "history": True, "sync": True}
    plan = encrypt.plan("db.plain", "db.sealed", **options, swap=lake.kind != "glue")
    result = plan.execute(runner=busy)
    assert busy.turns == 0
    name = "db.plain" if result.swapped else "db.sealed"
    if not result.swapped:
        encrypt.plan("db.plain", "db.sealed", **options).execute()
    assert {row["id"]: row["name"] for row in rows(catalog.load_table(name))} == busy.model
    assert catalog.load_table(name).metadata.properties["encryption.key-id"] == "hr"
    assert sorted(catalog.list_tables("db")) == [("db", "plain"), ("db", "sealed")]
    sound(catalog, name, level="full")


def encrypted(properties: dict[str, str]) -> int:
    with sealberg.load_catalog("test", **properties) as catalog:
        encrypt.plan("db.plain", "db.sealed", key_id="hr", catalog=catalog).execute()
    return 0


@pytest.mark.slow
@pytest.mark.server
def test_a_run_on_postgresql_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    for at in (14, 41, 66, 74):
        (tmp_path / str(at)).mkdir()
        with catalogs.postgresql(tmp_path / str(at)) as one, one.opened:
            catalog = one.connect()
            catalog.create_namespace("db")
            plain(catalog, "2", "db.plain")
            killed.run(encrypted, one.properties, at=at)
            again = killed.run(encrypted, one.properties)
            assert not again.error, again.error
            assert rows(catalog.load_table("db.sealed")) == rows(catalog.load_table("db.plain"))
            assert sorted(catalog.list_tables("db")) == [("db", "plain"), ("db", "sealed")]
