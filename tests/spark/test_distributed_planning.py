"""Plans by tasks of Spark: rows and errors of local plans, cancelled with their query, switched by Iceberg's names."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import InheritableThread
from pyspark.errors import AnalysisException

from kit.programs.spark import KEYED
from sealberg.errors import ConfigError
from sealberg.metadata import decode_cache
from sealberg.spark.driver import planning, planning_modes
from sealberg.spark.driver.calls import Call, Calls
from sealberg.spark.driver.planning_modes import BYTES_OF_THREAD, THREADS, PlanningModes
from sealberg.spark.protocol.scans import CancelPlan, Planning, PlanTasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kit.programs.spark import SparkKit

PARTS = 6
DATA, DELETES = "spark.sql.iceberg.data-planning-mode", "spark.sql.iceberg.delete-planning-mode"
QUERIES = (
    "SELECT id, name, p, _file, _pos, _row_id FROM {}",
    "SELECT id, name FROM {} WHERE id < 130",
    "SELECT id, _partition, _spec_id FROM {} WHERE p = 2 AND id > 10",
    "SELECT id FROM {} WHERE name LIKE 'n1%' OR p IS NULL",
    "SELECT id FROM {} WHERE id < -1",
)


@contextmanager
def modes(kit: SparkKit, data: str, deletes: str) -> Iterator[None]:
    kit.spark.conf.set(DATA, data)
    kit.spark.conf.set(DELETES, deletes)
    try:
        yield
    finally:
        kit.spark.conf.unset(DATA)
        kit.spark.conf.unset(DELETES)


def planning_jobs(kit: SparkKit, name: str) -> list[str]:
    """The states of the jobs that have planned scans of the table, as Spark's UI shows them."""
    context: Any = kit.spark.sparkContext
    found = context._jsc.sc().statusStore().jobsList(None)
    jobs = [found.apply(at) for at in range(found.size())]
    wanted = f"plan {name.removeprefix('prod.')}"
    return [str(job.status()) for job in jobs if job.description().isDefined() and job.description().get() == wanted]


@pytest.fixture(scope="module")
def name(kit: SparkKit) -> str:
    """Two specs, six appends, rows deleted by vectors."""
    name = kit.fresh("planned")
    merge = "'write.delete.mode' = 'merge-on-read', 'commit.manifest-merge.enabled' = 'false'"
    kit.sql(f"CREATE TABLE {name} (id bigint, name string, p int) PARTITIONED BY (p) {KEYED[:-1]}, {merge})")
    for part in range(PARTS):
        if part == PARTS // 2:
            kit.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)")
        kit.sql(
            f"INSERT INTO {name} SELECT id, concat('n', id), id % 3 FROM range({part * 50}, {part * 50 + 50}, 1, 1)"
        )
    kit.sql(f"DELETE FROM {name} WHERE id % 7 = 3")
    return name


@pytest.mark.parametrize(("data", "deletes"), [("distributed", "distributed"), ("distributed", "local")])
def test_rows_are_those_of_a_local_plan(kit: SparkKit, name: str, data: str, deletes: str) -> None:
    first = kit.table(name).metadata.snapshots[2].snapshot_id
    queries = [*QUERIES, f"SELECT id, _pos FROM {{}} VERSION AS OF {first}"]
    with modes(kit, "local", "local"):
        before = len(planning_jobs(kit, name))
        expected = [kit.sql(query.format(name)) for query in queries]
        assert len(planning_jobs(kit, name)) == before, "no task has planned"
    with modes(kit, data, deletes):
        assert [kit.sql(query.format(name)) for query in queries] == expected
    done = planning_jobs(kit, name)[: len(planning_jobs(kit, name)) - before]
    assert len(done) >= len(queries)
    assert set(done) == {"SUCCEEDED"}


def test_a_query_says_that_tasks_have_planned_it(kit: SparkKit, name: str) -> None:
    query = f"SELECT p, count(*) FROM {name} WHERE id < 130 GROUP BY p"

    def explained() -> str:
        text: str = kit.spark.sql(f"EXPLAIN EXTENDED {query}").collect()[0][0]
        return text

    with modes(kit, "local", "local"):
        assert "planned by" not in explained()
    with modes(kit, "DISTRIBUTED", "local"):
        assert re.search(r"planned by (\d+ )?tasks", explained())


def test_the_property_of_a_table_counts_and_the_session_before_it(kit: SparkKit) -> None:
    name = kit.fresh("mode")
    kit.sql(f"CREATE TABLE {name} {KEYED[:-1]}, 'read.data-planning-mode' = 'distributed') AS SELECT id FROM range(9)")
    assert kit.sql(f"SELECT sum(id) FROM {name} WHERE id > 0") == [(36,)]
    assert planning_jobs(kit, name) == ["SUCCEEDED"]
    with modes(kit, "local", "local"):
        assert kit.sql(f"SELECT sum(id) FROM {name} WHERE id > 1") == [(35,)]
    assert planning_jobs(kit, name) == ["SUCCEEDED"]


def test_an_unknown_mode_is_refused_by_name(kit: SparkKit, name: str) -> None:
    words = "read.delete-planning-mode is auto, local or distributed, not remote"
    with pytest.raises(AnalysisException, match=words):
        kit.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('read.delete-planning-mode' = 'remote')")
    with pytest.raises(AnalysisException, match=words):
        kit.sql(f"CREATE TABLE {name}x (id int) {KEYED[:-1]}, 'read.delete-planning-mode' = 'remote')")
    with pytest.raises(ConfigError, match=words), kit.table(name).transaction() as transaction:
        transaction.set_properties({"read.delete-planning-mode": "remote"})
    assert kit.sql(f"SELECT count(*) FROM {name} WHERE id < 0") == [(0,)]


@pytest.mark.parametrize("damage", ["altered", "gone"])
def test_a_damaged_manifest_is_the_same_error(kit: SparkKit, damage: str) -> None:
    name = kit.fresh("damaged")
    kit.sql(f"CREATE TABLE {name} {KEYED} AS SELECT id FROM range(100)")
    table = kit.table(name)
    head = table.metadata.current_snapshot()
    assert head is not None
    (manifest,) = head.manifests(table.io)
    path = str(manifest.manifest_path).removeprefix("file://")
    shutil.copy(path, f"{path}.kept")
    with Path(path).open("r+b") as file:
        file.seek(40)
        file.write(bytes(8))
    if damage == "gone":
        shutil.move(path, f"{path}.away")
    found = []
    for mode in ("local", "distributed"):
        decode_cache.clear()
        with modes(kit, mode, mode), pytest.raises(AnalysisException) as error:
            kit.sql(f"SELECT * FROM {name}")
        found.append(str(error.value).splitlines()[0])
    assert found[0] == found[1]
    assert ("AuthenticationError" if damage == "altered" else "MissingFileError") in found[0]
    assert path.rsplit("/", 1)[-1] in found[0]
    shutil.copy(f"{path}.kept", path)
    with modes(kit, "distributed", "distributed"):
        assert kit.sql(f"SELECT count(id) FROM {name} WHERE id >= 0") == [(100,)]


# -- cancelled ----------------------------------------------------------------------------------------


class Query:
    """A query in a thread of its own, whose planning tasks wait for a manifest.

    This process has a lease on the file, so that the kernel lets nobody else open it for 45 seconds.
    """

    def __init__(self, kit: SparkKit) -> None:
        self.kit, self.name, self.error = kit, kit.fresh("waiting"), ""
        kit.sql(f"CREATE TABLE {self.name} {KEYED} AS SELECT id FROM range(100)")
        table = kit.table(self.name)
        head = table.metadata.current_snapshot()
        assert head is not None
        (manifest,) = head.manifests(table.io)
        path = str(manifest.manifest_path).removeprefix("file://")
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # tells that somebody waits
        self.leased = os.open(path, os.O_RDWR)
        fcntl.fcntl(self.leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        self.java: Any = None

    def run(self) -> None:
        context: Any = self.kit.spark.sparkContext
        context.setJobGroup(self.name, self.name, interruptOnCancel=False)
        self.java = context._jvm.java.lang.Thread.currentThread()
        try:
            self.kit.sql(f"SELECT * FROM {self.name}")
        except Exception as error:
            self.error = str(error)
        context._jvm.java.lang.Thread.interrupted()


STOPS: dict[str, Callable[[Query], None]] = {
    "the job group is cancelled": lambda query: query.kit.spark.sparkContext.cancelJobGroup(query.name),
    "the thread is interrupted": lambda query: query.java.interrupt(),
}


@pytest.mark.parametrize("how", STOPS)
def test_a_plan_ends_with_its_query(kit: SparkKit, how: str) -> None:
    query = Query(kit)
    decode_cache.clear()
    with modes(kit, "distributed", "distributed"):
        thread = InheritableThread(target=query.run)
        thread.start()
        while thread.is_alive() and planning_jobs(kit, query.name) != ["RUNNING"]:
            time.sleep(0.05)
        time.sleep(0.5)
        STOPS[how](query)
        thread.join(120)
    os.close(query.leased)
    assert not thread.is_alive(), "the plan waits for a manifest"
    assert "cancelled" in query.error or "Interrupted" in query.error, query.error
    assert not [each.name for each in threading.enumerate() if query.name.removeprefix("prod.") in each.name]
    assert kit.spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_a_plan_that_nobody_waits_for_ends_at_its_next_question() -> None:
    calls, begins, errors = Calls(), threading.Event(), list[BaseException]()

    def answer(call: Call) -> Any:
        begins.set()
        gone.wait(60)
        call.tell(())

    def request() -> None:
        try:
            calls.begin("plan hr.pay", answer, PlanTasks, "c0ffee")
        except ConfigError as error:
            errors.append(error)

    gone = threading.Event()
    asked = threading.Thread(target=request)
    asked.start()
    assert begins.wait(60)
    calls.cancel(CancelPlan("c0ffee"))
    gone.set()
    asked.join(60)
    assert [str(error) for error in errors] == ["plan hr.pay was cancelled"]
    assert not [each.name for each in threading.enumerate() if "plan hr.pay" in each.name]
    calls.cancel(CancelPlan("c0ffee"))  # which is no error: the plan has ended


@pytest.mark.parametrize("mode", ["local", "distributed"])
def test_a_plan_of_more_files_than_a_message_has_comes_in_several(
    kit: SparkKit, name: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = QUERIES[0].format(name)
    expected = kit.sql(query)
    monkeypatch.setattr(planning, "FILES_OF_MESSAGE", 4)
    sent: list[int] = []
    real = Call.tell

    def tell(call: Call, files: Any) -> None:
        sent.append(len(files))
        real(call, files)

    monkeypatch.setattr(Call, "tell", tell)
    with modes(kit, mode, mode):
        assert kit.sql(query) == expected
        assert kit.sql(f"SELECT count(DISTINCT _spec_id, _file) FROM {name}") == [(len({row[3] for row in expected}),)]
    assert len(sent) >= 4


# -- auto ---------------------------------------------------------------------------------------------


class Summary(dict[str, str]):
    def __missing__(self, _: str) -> None:
        return None


class Snapshot:
    def __init__(self, **summary: str) -> None:
        self.summary = Summary({key.replace("_", "-"): value for key, value in summary.items()})


class Manifest:
    def __init__(self, length: int) -> None:
        self.manifest_length = length


def decided(count: int, length: int, snapshot: Snapshot | None = None, **changes: Any) -> tuple[bool, bool]:
    planning = Planning(**{"call": "c", "slots": 8, "parallelism": 200, "most_result_bytes": 1 << 30, **changes})
    found: Any = snapshot or Snapshot(total_equality_deletes="0")
    chosen = PlanningModes.of(planning, found)
    manifests: Any = [Manifest(length)] * count
    return chosen.distributes(chosen.data, manifests), chosen.distributes(chosen.deletes, manifests)


def test_auto_distributes_as_java_does() -> None:
    many = 2 * THREADS + 1
    large = BYTES_OF_THREAD * THREADS // many + 1
    assert decided(many, large) == (True, True)
    assert decided(many - 1, 2 * large) == (False, False), "few manifests"
    assert decided(many, large - 1) == (False, False), "short manifests"
    assert decided(many, large, parallelism=THREADS) == (False, False), "no more slots than threads"
    assert decided(many, large, most_result_bytes=255 << 20) == (False, False), "small results"
    assert decided(many, large, most_result_bytes=0) == (True, True), "no bound of results"
    assert decided(many, large, Snapshot(total_equality_deletes="2")) == (True, False)
    assert decided(many, large, Snapshot()) == (True, False)
    assert decided(many, large, data_mode="local") == (False, True)
    assert decided(1, 1, data_mode="distributed", delete_mode="distributed") == (True, True)
    assert decided(0, 1, data_mode="distributed", delete_mode="distributed") == (False, False)


def test_auto_distributes_a_plan_above_its_bound(kit: SparkKit, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = f"SELECT id FROM {name} WHERE id < 130"
    expected, before = kit.sql(query), len(planning_jobs(kit, name))
    monkeypatch.setattr(planning_modes, "THREADS", 1)
    monkeypatch.setattr(planning_modes, "BYTES_OF_THREAD", 1000)
    assert kit.sql(query) == expected
    assert len(planning_jobs(kit, name)) > before
