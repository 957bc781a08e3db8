"""Failures in the middle of a write, on a separate Spark. A test runs this program.

    python -m kit.programs.spark_failures FOLDER local|cluster    ──> FOLDER/outcomes.json

A scenario inserts many ids into a new table by two tasks. A function that processes the rows fails once, at the last
row: by then the task has an open file with most of its rows. The program reports what the table and its folder contain
afterwards; the test judges it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import udf

from kit.programs.spark import KEYED, SparkKit, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 100_000  # more than the pipes between Spark and Python hold
MASTERS = {"local": "local[2,3]", "cluster": "local-cluster[2,1,1024]"}
CLUSTER = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "a secret for a test",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.executor.memory": "1g",
    "spark.task.maxFailures": "3",
    "spark.python.task.killTimeout": "500ms",
}


def fails() -> None:
    raise ValueError("once")


def kills_its_python() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kills_its_executor() -> None:
    with open(f"/proc/{os.getppid()}/stat") as stat:  # noqa: PTH123 (the worker needs no more than this)
        os.kill(int(stat.read().rpartition(")")[2].split()[1]), signal.SIGKILL)  # the daemon's parent: the JVM


def dawdles() -> None:
    time.sleep(120)


def once(mark: Path, terrible: Callable[[], None]) -> Any:
    path, last = str(mark), ROWS - 1

    def function(value):  # type: ignore[no-untyped-def]  # Spark reads annotations, and not as texts
        from pyspark import TaskContext

        if value == last:
            first = not os.path.exists(path)  # noqa: PTH110
            with open(path, "a") as marks:  # noqa: PTH123
                marks.write(f"{TaskContext.get().attemptNumber()}\n")  # type: ignore[union-attr]
            if first:
                time.sleep(1)  # while whoever watches sees what was written
                terrible()
        return value

    return udf(function, "bigint")


class Scenarios:
    """The scenarios on one session; each stores its result under its name."""

    def __init__(self, kit: SparkKit, outcomes: dict[str, Any]) -> None:
        self.kit = kit
        self.outcomes = outcomes
        self.seen: set[Path] = set()

    def table(self, name: str, properties: str = KEYED) -> str:
        self.kit.sql(f"CREATE TABLE prod.hr.{name} (id bigint) {properties}")
        self.kit.sql(f"INSERT INTO prod.hr.{name} VALUES (-1)")
        return f"prod.hr.{name}"

    def insert(self, table: str, name: str, terrible: Callable[[], None]) -> None:
        changed = once(self.kit.folder / f"mark-{name}", terrible)
        frame = self.kit.spark.range(ROWS, numPartitions=2).select(changed("id").alias("id"))
        with self.watching(table):
            frame.writeTo(table).append()

    @contextmanager
    def watching(self, table: str) -> Iterator[None]:
        """Record the files that existed during the block."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.02):
                self.seen.update(self.kit.data_files(table))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def survive(self, name: str, terrible: Callable[[], None], properties: str = KEYED) -> None:
        table = self.table(name, properties)
        self.insert(table, name, terrible)
        self.tell(name, table)

    def stream(self, name: str, terrible: Callable[[], None]) -> None:
        source = self.table(f"{name}_from")
        self.kit.spark.range(ROWS, numPartitions=2).writeTo(source).append()
        self.kit.sql(f"CREATE TABLE prod.hr.{name} (id bigint) {KEYED}")
        changed = once(self.kit.folder / f"mark-{name}", terrible)
        frame = self.kit.spark.readStream.table(source).select(changed("id").alias("id"))
        writer = frame.writeStream.option("checkpointLocation", f"{self.kit.folder}/checkpoint-{name}")
        with self.watching(f"prod.hr.{name}"):
            writer.trigger(availableNow=True).toTable(f"prod.hr.{name}").awaitTermination()
        self.tell(name, f"prod.hr.{name}")

    def cancel(self, name: str) -> None:
        table = self.table(name)
        told: list[str] = []

        def work() -> None:
            self.kit.spark.sparkContext.setJobGroup(name, name, interruptOnCancel=True)
            try:
                self.insert(table, name, dawdles)
            except Exception as error:
                told.append(str(error))

        from pyspark import InheritableThread

        thread = InheritableThread(target=work)
        thread.start()
        mark = self.kit.folder / f"mark-{name}"
        while thread.is_alive() and not (
            mark.exists() and len(self.seen) >= 3
        ):  # the first row's file, and one of each task
            time.sleep(0.1)
        self.kit.spark.sparkContext.cancelJobGroup(name)
        thread.join()
        self.tell(name, table, error="".join(told)[:2000])

    def conflict(self, name: str) -> None:
        """Add a column to the table between the last task and the commit."""
        from pyiceberg.types import LongType

        from sealberg.spark.driver.commits import Writes

        table = self.table(name)
        real, calls = Writes._transaction, count()

        def late(this: Writes, *arguments: Any, **named: Any) -> Any:
            if next(calls) == 1:  # the first is for the plan, the second for the commit
                with self.kit.table(table).update_schema() as update:
                    update.add_column("other", LongType())
            return real(this, *arguments, **named)

        Writes._transaction = late  # type: ignore[method-assign, assignment]
        error = ""
        try:
            self.insert(table, name, lambda: None)
        except Exception as raised:
            error = str(raised)
        Writes._transaction = real  # type: ignore[method-assign]
        self.tell(name, table, error=error[:2000])

    def tell(self, name: str, table: str, **more: Any) -> None:
        mark = self.kit.folder / f"mark-{name}"
        ids = [row[0] for row in self.kit.sql(f"SELECT id FROM {table}")]
        orphans = self.orphans(table)  # first, as it waits
        outcome = {
            "rows": [len(ids), len(set(ids)), sum(ids)],
            "files": len(self.kit.planned_files(table)),
            "attempts": len(mark.read_text().split()),
            "orphans": orphans,
            "discarded": sum(not path.exists() for path in self.seen),
            **more,
        }
        self.seen.clear()
        self.kit.sql(f"INSERT INTO {table} (id) VALUES (100)")
        outcome["later"] = len(self.kit.sql(f"SELECT id FROM {table}")) - len(ids)
        self.outcomes[name] = outcome

    def orphans(self, table: str) -> list[str]:
        """The files that no snapshot has, after waiting for cancelled attempts to delete theirs."""
        planned = {Path(file.location.removeprefix("file://")) for file in self.kit.planned_files(table)}
        for _ in range(100):
            left = [str(path) for path in self.kit.data_files(table) if path not in planned]
            if not left:
                break
            time.sleep(0.2)
        return left


def statements(kit: SparkKit) -> list[Any]:
    """Statements that send rows and keys between processes."""
    kit.sql(f"CREATE TABLE prod.hr.c (id bigint, p int) PARTITIONED BY (bucket(4, id)) {KEYED}")
    kit.sql("ALTER TABLE prod.hr.c SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    kit.spark.range(10_000, numPartitions=4).selectExpr("id", "cast(id % 3 as int) p").writeTo("prod.hr.c").append()
    kit.sql("DELETE FROM prod.hr.c WHERE id % 7 = 1")
    kit.sql("UPDATE prod.hr.c SET p = 9 WHERE id < 100")
    return list(kit.sql("SELECT count(*), sum(id), sum(p) FROM prod.hr.c")[0])


def main(folder: Path, where: str) -> None:
    kit = start(folder, MASTERS[where], **(CLUSTER if where == "cluster" else {}))
    outcomes: dict[str, Any] = {}
    scenarios = Scenarios(kit, outcomes)
    outcomes["statements"] = statements(kit)
    scenarios.survive("fails", fails)
    scenarios.survive("python_killed", kills_its_python)
    scenarios.cancel("cancelled")
    scenarios.conflict("conflict")
    if where == "cluster":
        scenarios.survive("executor_killed", kills_its_executor)
        scenarios.stream("executor_of_a_stream_killed", kills_its_executor)
    (folder / "outcomes.json").write_text(json.dumps(outcomes))
    kit.spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
