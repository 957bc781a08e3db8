"""A CALL that is cancelled while its tasks run: the tasks end, the table is whole, and the next call does the work."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import InheritableThread

from sealberg.jobs.verify import plan as verification

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.programs.spark import SparkKit

FILES = 80
CALL = (
    "CALL prod.system.rewrite_data_files(table => '{}', "
    "options => map('rewrite-all', 'true', 'max-file-group-input-files', '1'))"
)
DESCRIPTION = "CALL prod.system.rewrite_data_files"


class Rewrite:
    """A call in a thread of its own, stopped when a few of its files are there."""

    def __init__(self, kit: SparkKit) -> None:
        self.kit, self.table = kit, kit.fresh("cancelled")
        kit.sql(f"CREATE TABLE {self.table} (id bigint, text string) TBLPROPERTIES ('encryption.key-id' = 'hr')")
        rows = kit.spark.range(0, FILES * 2000, 1, FILES).selectExpr("id", "repeat(uuid(), 20) AS text")
        rows.writeTo(self.table).append()
        self.before = set(kit.data_files(self.table))
        self.snapshot = kit.table(self.table).metadata.current_snapshot_id
        self.error = ""
        self.java: Any = None

    def run(self) -> None:
        context: Any = self.kit.spark.sparkContext
        context.setJobGroup(self.table, self.table, interruptOnCancel=False)
        self.java = context._jvm.java.lang.Thread.currentThread()
        try:
            self.kit.sql(CALL.format(self.table))
        except Exception as error:
            self.error = str(error)
        context._jvm.java.lang.Thread.interrupted()  # the next statement of this JVM thread is not interrupted

    def stopped(self, stop: Callable[[Rewrite], None]) -> None:
        """Begin the call, stop it in the middle, and wait for its end."""
        thread = InheritableThread(target=self.run)
        thread.start()
        while thread.is_alive() and len(set(self.kit.data_files(self.table)) - self.before) < 4:
            time.sleep(0.02)
        assert thread.is_alive(), f"the call ended too early: {self.error}"
        stop(self)
        thread.join(120)
        assert not thread.is_alive()


def jobs(kit: SparkKit) -> list[tuple[str, str]]:
    """Name and state of the jobs that Spark's UI shows."""
    context: Any = kit.spark.sparkContext
    found = context._jsc.sc().statusStore().jobsList(None)
    shown = [found.apply(at) for at in range(found.size())]
    return [(job.description().get(), str(job.status())) for job in shown if job.description().isDefined()]


STOPS: dict[str, Callable[[Rewrite], None]] = {
    "the job group is cancelled": lambda call: call.kit.spark.sparkContext.cancelJobGroup(call.table),
    "the thread is interrupted": lambda call: call.java.interrupt(),
}


@pytest.mark.parametrize("how", STOPS)
def test_a_call_ends_with_its_job_and_the_next_does_the_work(kit: SparkKit, how: str) -> None:
    call = Rewrite(kit)
    rows = kit.sql(f"SELECT count(*), sum(id) FROM {call.table}")
    call.stopped(STOPS[how])
    assert "cancelled" in call.error or "Interrupted" in call.error, call.error
    while (DESCRIPTION, "RUNNING") in jobs(kit):  # the list is behind the job by a moment
        time.sleep(0.05)
    assert (DESCRIPTION, "FAILED") in jobs(kit), "the job has the name of the call"
    assert kit.spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert not [each.name for each in threading.enumerate() if DESCRIPTION in each.name], "Python's job has ended"
    left = set(kit.data_files(call.table))
    assert len(left - call.before) < FILES, "the call has not gone on to its end"
    time.sleep(1)
    assert set(kit.data_files(call.table)) == left, "no task goes on"
    table = kit.table(call.table)
    assert table.metadata.current_snapshot_id == call.snapshot, "nothing was committed"
    found = verification(table).execute().findings
    assert [each.code for each in found if each.severity == "error"] == []
    assert kit.sql(f"SELECT count(*), sum(id) FROM {call.table}") == rows
    assert kit.sql(CALL.format(call.table))[0][:2] == (FILES, FILES)
    assert kit.sql(f"SELECT count(*), sum(id) FROM {call.table}") == rows


def test_the_log_says_what_has_begun_and_what_is_done(kit: SparkKit) -> None:
    table = kit.fresh("logged")
    kit.sql(f"CREATE TABLE {table} (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr')")
    kit.sql(f"INSERT INTO {table} VALUES (1)")
    jvm: Any = kit.spark.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel("sealberg.worker", log4j.Level.INFO)
    try:
        kit.sql(f"CALL prod.system.verify('{table}')")
    finally:
        log4j.core.config.Configurator.setLevel("sealberg.worker", log4j.Level.ERROR)
    said = [line for line in kit.log.read_text().splitlines() if "CALL prod.system.verify: " in line]
    assert re.search(r"verify: \d+ tasks begin", said[0]), said
    assert re.search(r"verify: \d+ tasks are done", said[-1]), said
