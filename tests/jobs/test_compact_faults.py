"""compact beside a second writer, killed half-way, on a full disk, without its KMS; and on tables by Java."""

from __future__ import annotations

import random
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

import sealberg
from kit.programs import killed
from kit.servers import postgres
from kit.tables import corpus
from kit.tables.tables import check_lineage, data_files, delete_files, head, rows
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.jobs import rewrite_manifests
from sealberg.jobs.compact import plan
from sealberg.jobs.runner import Threads
from sealberg.jobs.verify import plan as verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from kit.servers.postgres import Database
    from sealberg.jobs.findings import Level

pytestmark = pytest.mark.slow
database = postgres.database  # a fixture: SQLite and PostgreSQL
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "part", LongType())
)
SPEC = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "part"))
PARTS = 3
ROW_IDS = ("id", "name", "_row_id", "_last_updated_sequence_number")
KNOWN = ("old_plaintext_manifests", "old_lost_vectors", "rust")  # read with options, or not at all


def some(ids: Iterable[int], word: str = "first") -> pa.Table:
    ids = list(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"{word} {i}" for i in ids],
            "part": pa.array([i % PARTS for i in ids], pa.int64()),
        }
    )


def make(properties: dict[str, str], files: int = 6, mode: str = "merge-on-read") -> None:
    with sealberg.load_catalog("test", **properties) as catalog:
        catalog.create_namespace_if_not_exists("db")
        own = {"encryption.key-id": "hr", "write.delete.mode": mode, "write.update.mode": mode}
        table = catalog.create_table("db.t", SCHEMA, partition_spec=SPEC, properties=own)
        for i in range(files):
            table.append(some(range(i * 6, i * 6 + 6)))
        table.delete("id == 4 or id == 9")


def content(table: Any) -> list[dict[str, Any]]:
    return sorted(table.refresh().scan(selected_fields=ROW_IDS).to_arrow().to_pylist(), key=lambda row: row["id"])


def sound(table: Any, *, orphan_age: timedelta = timedelta(0), level: Level = "deep") -> None:
    check_lineage(table)
    result = verify(table, level=level, orphan_age=orphan_age).execute()
    assert result.findings == ()
    assert result.not_checked == ()


# -- a second writer ----------------------------------------------------------------------------


class Meddling:
    """A runner beside which somebody acts: one act after each finished task."""

    def __init__(self, *acts: Callable[[], None]) -> None:
        self.acts = list(acts)

    def run(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for result in Threads(1).run(work, tasks):
            if self.acts:
                self.acts.pop(0)()
            yield result


@pytest.fixture
def two(database: Database) -> Iterator[tuple[Any, Any]]:
    """The same table, opened by two."""
    make(database.properties)
    with database.catalog() as one, database.catalog() as other:
        yield one.load_table("db.t"), other.load_table("db.t")


def test_an_append_in_between_is_no_conflict(two: tuple[Any, Any]) -> None:
    table, other = two
    before = content(table)
    result = plan(table, manifests=False).execute(runner=Meddling(lambda: other.append(some(range(100, 103)))))
    assert result.failed == ()
    assert len(result.snapshots) == 1
    assert content(table) == [*before, *content(table)[-3:]]
    assert len(data_files(table)) == PARTS + 3
    sound(table)


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_delete_in_between_costs_its_group_only(database: Database, mode: str) -> None:
    make(database.properties, mode=mode)
    with database.catalog() as one, database.catalog() as another:
        table, other = one.load_table("db.t"), another.load_table("db.t")
        before = content(table)
        result = plan(table, manifests=False).execute(runner=Meddling(lambda: other.delete("id == 12")))
        assert result.failed == ()
        assert len(result.snapshots) == 2, "the groups without a conflict, then the group with one"
        assert content(table) == [row for row in before if row["id"] != 12]
        # Copy-on-write puts a new small file in the place of one of the group.
        assert len(data_files(table)) == PARTS + (mode == "copy-on-write")
        assert delete_files(table) == []
        sound(table)


def test_a_group_that_others_keep_changing_is_reported(two: tuple[Any, Any]) -> None:
    table, other = two
    before = content(table)
    acts = [lambda i=i: other.delete(f"id == {i}") for i in (0, 12, 18)]
    result = plan(table, retries=1, where="part == 0", manifests=False).execute(runner=Meddling(*acts))
    assert result.exit_code == 2
    assert result.snapshots == ()
    (failed,) = result.failed
    assert "concurrently added deletes" in failed.reason
    assert content(table) == [row for row in before if row["id"] not in (0, 12)]
    sound(table)


def test_manifests_are_merged_beside_a_second_writer(two: tuple[Any, Any]) -> None:
    table, other = two
    before = content(table)
    made = rewrite_manifests.plan(table)
    other.append(some(range(100, 103)))
    result = made.execute()
    assert result.rewritten_manifests_count > 2
    assert content(table)[:-3] == before
    sound(table)


def test_nothing_is_lost_beside_a_busy_writer(database: Database) -> None:
    """Random appends, deletes and updates beside compactions; a dictionary knows what must be there."""
    make(database.properties)
    model = {i: f"first {i}" for i in range(36) if i not in (4, 9)}
    done = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        dice = random.Random(7)
        try:
            with database.catalog() as catalog:
                table = catalog.load_table("db.t")
                for step in range(12):
                    act = dice.choice(("append", "append", "delete", "upsert"))
                    while not one_step(table, model, act, step, dice.sample(sorted(model), 3)):
                        pass
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    writer = threading.Thread(target=write)
    with database.catalog() as catalog:
        table = catalog.load_table("db.t")
        writer.start()
        committed = 0
        while not done.is_set():
            options = {"min-input-files": "2", "partial-progress.enabled": "true"}
            committed += len(plan(table, options=options).execute().snapshots)
        writer.join()
        assert failures == []
        assert committed
        found = content(table)
        assert {row["id"]: row["name"] for row in found} == model
        assert len({row["_row_id"] for row in found}) == len(found)
        sound(table)


def one_step(table: Any, model: dict[int, str], act: str, step: int, known: list[int]) -> bool:
    """One commit of the busy writer; False if it came in the way of a compaction and must be repeated."""
    table.refresh()
    fresh = range(100 + step * 10, 105 + step * 10)
    try:
        if act == "append":
            table.append(some(fresh, "more"))
        elif act == "delete":
            table.delete(f"id in ({', '.join(map(str, known))})")
        else:
            table.upsert(some(known, f"step {step}"), join_cols=["id"])
    except ValidationException:
        return False
    if act == "append":
        model.update({i: f"more {i}" for i in fresh})
    for i in known if act != "append" else ():
        model.pop(i) if act == "delete" else model.update({i: f"step {step} {i}"})
    return True


# -- faults -------------------------------------------------------------------------------------


def compact(properties: dict[str, str]) -> int:
    with sealberg.load_catalog("test", **properties) as catalog:
        options = {"partial-progress.enabled": "true", "min-input-files": "2"}
        return plan("db.t", catalog=catalog, options=options).execute(runner=Threads(1)).exit_code


def checked(database: Database, before: list[dict[str, Any]], *, files: int | None = None) -> None:
    with database.catalog() as catalog:
        table = catalog.load_table("db.t")
        assert content(table) == before
        if files is not None:
            assert len(data_files(table)) == files
        sound(table, orphan_age=timedelta(days=1), level="full")


MOST_KILLS = 20


@pytest.mark.parametrize("points", killed.KILLS)
def test_killed_at_many_points_and_run_again(database: Database, tmp_path: Path, points: int) -> None:
    """Each run finds the table as the kill before it has left it; the last run finishes."""
    whole = operations_of(tmp_path)
    make(database.properties)
    kills = 0
    with database.catalog() as catalog:
        table = catalog.load_table("db.t")
        for number, at in enumerate(killed.points(whole, points, seed=5)):
            before = content(table)
            kills += killed.run(compact, database.properties, at=at).killed
            assert content(table) == before
            for more in range(MOST_KILLS // points):  # small files again: the next run has as much to do
                begin = 100 + 9 * (number * MOST_KILLS + more)
                table.append(some(range(begin, begin + 9)))
        before = content(table)
    assert kills >= points - 2, "few runs have fewer operations than the first"
    ended = killed.run(compact, database.properties)
    assert (ended.error, ended.returned) == ("", 0)
    checked(database, before, files=PARTS)


def operations_of(folder: Path) -> int:
    """How many operations an undisturbed run has."""
    (folder / "whole").mkdir()
    with postgres.empty_database("sqlite", folder / "whole") as other:
        make(other.properties)
        return killed.run(compact, other.properties).operations


@pytest.mark.parametrize("fault", ["disk full", "KMS down"])
def test_a_fault_leaves_the_table_whole_and_the_next_run_finishes(database: Database, fault: Any) -> None:
    make(database.properties)
    with database.catalog() as catalog:
        before = content(catalog.load_table("db.t"))
    met = 0
    for at in (0, 1, 4):
        ended = killed.run(compact, database.properties, fault=fault, at=at)
        assert not ended.killed
        met += bool(ended.error) or ended.returned == 2
        checked(database, before)
    assert met
    assert killed.run(compact, database.properties).returned == 0
    checked(database, before, files=PARTS)


def test_all_at_once_a_full_disk_leaves_no_file_behind(database: Database) -> None:
    make(database.properties)
    files = database.files()
    ended = killed.run(compact_at_once, database.properties, fault="disk full", at=2)
    assert "No space left on device" in ended.error
    assert {path for path in database.files() if path.endswith(".parquet")} == {
        path for path in files if path.endswith(".parquet")
    }


def compact_at_once(properties: dict[str, str]) -> int:
    with sealberg.load_catalog("test", **properties) as catalog:
        return plan("db.t", catalog=catalog).execute(runner=Threads(1)).exit_code


# -- tables by Java -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Tables of the corpus, whose new files go to another folder: other tests read the corpus, too."""
    folder = tmp_path_factory.mktemp("java")
    settings = {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}", **corpus.KMS, **corpus.HOME}
    catalog = EncryptedSqlCatalog("java", **settings)
    catalog.create_namespace("db")

    def opened(name: str) -> Any:
        table = catalog.register_table(f"db.{name}", corpus.at_home(corpus.TABLES[name]))
        with table.transaction() as change:
            change.set_properties(
                {"write.data.path": f"file://{folder}/{name}", "write.metadata.path": f"file://{folder}/{name}"}
            )
        return table

    yield opened
    catalog.close()


@pytest.mark.parametrize("name", sorted(corpus.TABLES.keys() - {*KNOWN}))
def test_a_table_by_java_has_the_same_rows_and_row_ids_afterwards(java: Callable[[str], Any], name: str) -> None:
    table = java(name)
    columns = ("*", "_row_id", "_last_updated_sequence_number")
    if table.metadata.current_snapshot() is None:
        assert plan(table, options={"rewrite-all": "true"}).groups == ()
        return
    before = rows(table, *columns)
    result = plan(table, options={"rewrite-all": "true", "remove-dangling-deletes": "true"}).execute()
    assert result.failed == ()
    assert rows(table.refresh(), *columns) == before
    assert delete_files(table) == []
    assert {file.spec_id for file in data_files(table)} <= {table.metadata.default_spec_id}
    assert head(table).summary is not None
