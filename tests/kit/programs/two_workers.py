"""A Spark cluster of two workers that look like two machines, and tests that need such a cluster.

    python -m kit.programs.two_workers FOLDER    ──> FOLDER/outcomes.json

    master 127.0.0.1 ──> worker 127.0.0.1, worker 127.0.0.2      each with an executor of one core, all with a secret

Spark runs the second attempt of a slow task only on another machine, so two executors with the same address are not
enough.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyspark
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from kit.programs.spark import FRUGAL, KEYED, SparkKit, start
from kit.programs.spark_failures import CLUSTER, Scenarios, dawdles
from kit.tables.small_tables import SmallTable
from sealberg.jobs import change_master, compact, encrypt, rekey
from sealberg.jobs.verify import plan
from sealberg.spark.job_runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark import SparkStageInfo

T = TypeVar("T")
R = TypeVar("R")

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.python.worker.reuse": "false",
}
BESIDE = f"{KEYED[:-1]}, 'write.format.default' = 'avro')"


@contextmanager
def daemon(folder: Path, name: str, *command: str) -> Iterator[Path]:
    """Run a Spark process during the block; gives its log."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    log = folder / f"{name}.log"
    settings = folder / "cluster.conf"
    settings.write_text("".join(f"{key} {value}\n" for key, value in CLUSTER.items()))
    command = (*command, "--properties-file", str(settings))
    with log.open("wb") as out:
        running = subprocess.Popen(
            [str(program), *command],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": FRUGAL},
            cwd=folder,
        )
        try:
            yield log
        finally:
            running.terminate()
            running.wait(60)


def await_log(log: Path, pattern: str) -> str:
    """Wait until the log of a process matches, and return the match."""
    for _ in range(300):
        if found := re.search(pattern, log.read_text()):
            return found[0]
        time.sleep(0.2)
    raise AssertionError(f"{log.name} never said {pattern}: {log.read_text()[-2000:]}")


@contextmanager
def cluster(folder: Path, *, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """Run a cluster during the block; gives the address of its master.

    Args:
        cores, memory: of each of the two workers, for all drivers.
    """
    with ExitStack() as opened:
        master = opened.enter_context(
            daemon(folder, "master", MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        )
        address = await_log(master, r"spark://127\.0\.0\.1:\d+")
        for host in ("127.0.0.1", "127.0.0.2"):
            size = ("--cores", str(cores), "--memory", memory)
            about = ("--host", host, "--webui-port", "0", *size, "-d", str(folder / host))
            worker = opened.enter_context(daemon(folder, f"worker-{host}", WORKER, *about, address))
            await_log(worker, "Successfully registered with master")
        yield address


def speculate(scenarios: Scenarios, name: str, properties: str) -> None:
    before = speculative(scenarios.kit)
    scenarios.survive(name, dawdles, properties)
    scenarios.outcomes[name]["speculative"] = speculative(scenarios.kit) - before


def beside(kit: SparkKit) -> dict[str, Any]:
    """Write and read rows through Python workers, on executors in separate processes."""
    kit.sql(f"CREATE TABLE prod.hr.avro (id bigint, name string) {BESIDE}")
    kit.spark.range(1000, numPartitions=4).selectExpr("id", "concat('n', id)").toDF("id", "name").writeTo(
        "prod.hr.avro"
    ).append()
    kit.sql("DELETE FROM prod.hr.avro WHERE id % 10 = 3")
    schema = Schema(NestedField(1, "id", LongType()))
    small = SmallTable(kit.folder / "small", schema)
    small.snapshot(small.parquet([{"id": one} for one in range(10)]), small.avro([{"id": one} for one in range(10)]))
    small.snapshot(small.equality_deletes([{"id": 3}, {"id": 4}], schema, 1))
    kit.catalog.register_table("hr.equal", small.write_metadata())
    return {
        "avro": list(kit.sql("SELECT count(*), sum(id), max(name) FROM prod.hr.avro")[0]),
        "magics": sorted({path.read_bytes()[:4].decode() for path in kit.data_files("prod.hr.avro")}),
        "equal": list(kit.sql("SELECT count(*), sum(id) FROM prod.hr.equal")[0]),
        "hosts": hosts(kit),
    }


def verified(kit: SparkKit) -> dict[str, Any]:
    """A table of many files, verified by tasks on both machines; one executor is killed on the way."""
    kit.sql(f"CREATE TABLE prod.hr.many (id bigint) {KEYED}")
    kit.spark.range(6000, numPartitions=60).writeTo("prod.hr.many").append()
    lost = kit.data_files("prod.hr.many")[0]
    lost.unlink()
    killing = Killing(kit)
    result = plan("hr.many", catalog=kit.catalog).execute(runner=killing)
    return {
        "found": [[finding.code, finding.file] for finding in result.findings],
        "lost": f"file://{lost}",
        "not_checked": [str(each) for each in result.not_checked],
        "data": next(kind.checked_files for kind in result.tables[0].kinds if kind.kind == "data"),
        "failed": killing.failed(),
    }


def compacted(kit: SparkKit) -> dict[str, Any]:
    """A table of many small files, compacted by tasks on both machines; one executor is killed on the way."""
    kit.sql(
        f"CREATE TABLE prod.hr.small (id bigint, part bigint) PARTITIONED BY (part) "
        f"{KEYED[:-1]}, 'write.delete.mode' = 'merge-on-read')"
    )
    rows = kit.spark.range(4800, numPartitions=2).selectExpr("id", "id % 12 AS part")
    for _ in range(2):
        rows.writeTo("prod.hr.small").append()
    kit.sql("DELETE FROM prod.hr.small WHERE id % 100 = 5")
    columns = ("id", "part", "_row_id", "_last_updated_sequence_number")
    table = kit.table("hr.small")
    before = table.scan(selected_fields=columns).to_arrow().sort_by("_row_id")
    killing = Killing(kit)
    options = {"min-input-files": "2", "rewrite-all": "true"}
    result = compact.plan("hr.small", catalog=kit.catalog, options=options).execute(runner=killing)
    table = kit.table("hr.small")
    found = plan("hr.small", catalog=kit.catalog, level="deep").execute()
    return {
        "same": table.scan(selected_fields=columns).to_arrow().sort_by("_row_id").equals(before),
        "spark": list(kit.sql("SELECT count(*), sum(id), count(DISTINCT part) FROM prod.hr.small")[0]),
        "failed_groups": len(result.failed),
        "files": result.added_data_files_count,
        "findings": [[finding.code, finding.file] for finding in found.findings],
        "failed": killing.failed(),
        "hosts": hosts(kit),
    }


def called(kit: SparkKit) -> dict[str, Any]:
    """The same from SQL: a CALL, one executor of which is killed on the way, and a second CALL."""
    kit.sql(f"CREATE TABLE prod.hr.called (id bigint, part bigint) PARTITIONED BY (part) {KEYED}")
    rows = kit.spark.range(4800, numPartitions=2).selectExpr("id", "id % 12 AS part")
    for _ in range(2):
        rows.writeTo("prod.hr.called").append()
    columns = ("id", "part", "_row_id", "_last_updated_sequence_number")
    before = kit.table("hr.called").scan(selected_fields=columns).to_arrow().sort_by("_row_id")
    call = "CALL prod.system.rewrite_data_files(table => 'hr.called', options => map('rewrite-all', 'true'))"
    killing = Killing(kit, done=0)
    killing.begin()
    counts = [list(kit.sql(call)[0])]
    failed = killing.failed()
    snapshots = len(kit.table("hr.called").metadata.snapshots)
    found = plan("hr.called", catalog=kit.catalog, level="deep").execute()
    counts.append(list(kit.sql(call)[0]))
    after = kit.table("hr.called").scan(selected_fields=columns).to_arrow().sort_by("_row_id")
    return {
        "counts": [[rewritten, added, failures] for rewritten, added, _, failures, _ in counts],
        "same": after.equals(before),
        "findings": [[finding.code, finding.file] for finding in found.findings],
        "failed": failed,
        "snapshots": snapshots,
    }


def planned(kit: SparkKit) -> dict[str, Any]:
    """Plans whose manifests are read by tasks on both machines; one executor is killed on the way."""
    own = "'write.delete.mode' = 'merge-on-read', 'commit.manifest-merge.enabled' = 'false'"
    kit.sql(f"CREATE TABLE prod.hr.planned (id bigint) {KEYED[:-1]}, {own})")
    for first in range(0, 120, 10):
        kit.spark.range(first, first + 10, numPartitions=1).writeTo("prod.hr.planned").append()
    kit.sql("DELETE FROM prod.hr.planned WHERE id % 10 = 3")
    query = "SELECT id, _pos, _row_id, _file FROM prod.hr.planned WHERE id > 4"
    here, ended = kit.sql(query), len(tasks(kit, "SparkListenerTaskEnd"))
    for what in ("data", "delete"):
        kit.spark.conf.set(f"spark.sql.iceberg.{what}-planning-mode", "distributed")
    there = kit.sql(query)
    seen = tasks(kit, "SparkListenerTaskEnd")[ended:]
    killing = Killing(kit, done=0)
    killing.begin()
    again = kit.sql(query)
    failed = killing.failed()
    for what in ("data", "delete"):
        kit.spark.conf.unset(f"spark.sql.iceberg.{what}-planning-mode")
    return {
        "rows": len(here),
        "same": [here == there, here == again],
        "hosts": sorted({one["Host"] for one in seen}),
        "failed": failed,
    }


def moved(kit: SparkKit) -> dict[str, Any]:
    """A table under another master key, and then under new data keys, by tasks on both machines; one of them dies."""
    kit.sql(f"CREATE TABLE prod.hr.moved (id bigint, name string) {KEYED[:-1]}, 'write.delete.mode' = 'merge-on-read')")
    for first in (0, 2000):
        made = kit.spark.range(first, first + 2000, numPartitions=20).selectExpr("id", "concat('n', id) AS name")
        made.writeTo("prod.hr.moved").append()
    kit.sql("DELETE FROM prod.hr.moved WHERE id % 10 = 3")
    change = change_master.plan("hr.moved", "keyA", catalog=kit.catalog, history=True, drop_old=True)
    changed = change.execute(runner=SparkRunner(kit.spark))
    killing = Killing(kit)
    rekeyed = rekey.plan("hr.moved", catalog=kit.catalog, erase=True).execute(runner=killing)
    result = plan("hr.moved", catalog=kit.catalog, level="deep").execute()
    return {
        "manifests": changed.manifests,
        "files": rekeyed.files,
        "failed": killing.failed(),
        "found": [[finding.code, finding.file] for finding in result.findings],
        "rows": list(kit.sql("SELECT count(*), sum(id), max(name) FROM prod.hr.moved")[0]),
    }


class Killing:
    """A runner on Spark, one of whose executors dies while it works.

    Args:
        done: how many tasks are done before. With none, the executor stands still until a stage has begun, and then
            dies with the tasks that it was given: for tasks that take hundredths of a second.
    """

    def __init__(self, kit: SparkKit, *, done: int = 1) -> None:
        self._done = done
        self._kit, self._runner = kit, SparkRunner(kit.spark)
        self._executor = kit.spark.sparkContext.parallelize(range(2), 2).map(executor_of_task).collect()[0]
        line = Path(f"/proc/{self._executor}/cmdline").read_text().split("\0")
        self._id = line[line.index("--executor-id") + 1]
        self._before = self._all_failed()
        self._killer = threading.Thread(target=self._kill, daemon=True)

    def run(self, work: Callable[[T], R], files: Iterable[T]) -> Iterator[R]:
        if not self._killer.ident:
            self.begin()
        return self._runner.run(work, files)

    def begin(self) -> None:
        """Wait for tasks, and kill the executor; for work that does not take this runner."""
        if not self._done:
            os.kill(self._executor, signal.SIGSTOP)
        self._killer.start()

    def failed(self) -> int:
        """How many tasks have failed since."""
        self._killer.join(60)
        return self._all_failed() - self._before

    def _all_failed(self) -> int:
        return sum(one["Failed"] for one in tasks(self._kit, "SparkListenerTaskEnd"))

    def _kill(self) -> None:
        """Kill the executor as soon as enough tasks are done, while it has a task."""
        tracker = self._kit.spark.sparkContext.statusTracker()
        while True:
            if any(self._is_time(tracker.getStageInfo(stage)) for stage in tracker.getActiveStageIds()):
                os.kill(self._executor, signal.SIGSTOP)  # what it has now, it keeps
                if self._has_task():
                    break
                if self._done:
                    os.kill(self._executor, signal.SIGCONT)
            time.sleep(0.01)
        os.kill(self._executor, signal.SIGKILL)

    def _has_task(self) -> bool:
        time.sleep(0.2)  # Spark's status is behind by up to a tenth of a second
        context: Any = self._kit.spark.sparkContext
        return int(context._jsc.sc().statusStore().executorSummary(self._id).activeTasks()) > 0

    def _is_time(self, stage: SparkStageInfo | None) -> bool:
        if stage is None or not self._done:
            return stage is not None
        return bool(stage.numCompletedTasks >= self._done and stage.numActiveTasks)


def encrypted(kit: SparkKit) -> dict[str, Any]:
    """A plaintext table of many files, encrypted by tasks on both machines, some of which run twice."""
    import pyarrow as pa

    schema = pa.schema([("id", pa.int64())])
    table = kit.catalog.create_table("hr.open", schema, properties={"format-version": "2"})
    for first in range(0, 120, 10):
        table.append(pa.table({"id": range(first, first + 10)}, schema=schema))
    before = hosts(kit)
    result = encrypt.plan("hr.open", "hr.closed", key_id="hr", catalog=kit.catalog).execute(
        runner=SparkRunner(kit.spark)
    )
    found = plan("hr.closed", catalog=kit.catalog).execute()
    return {
        "files": result.files,
        "sum": sum(kit.catalog.load_table("hr.closed").scan().to_arrow()["id"].to_pylist()),
        "findings": [str(finding) for finding in found.findings],
        "hosts": hosts(kit) or before,
    }


def executor_of_task(_: int) -> int:
    """The process of the JVM that runs this task: the parent of the daemon that is this worker's parent."""
    time.sleep(1)  # so that both executors get one
    with open(f"/proc/{os.getppid()}/stat") as stat:  # noqa: PTH123
        return int(stat.read().rpartition(")")[2].split()[1])


def tasks(kit: SparkKit, event: str) -> list[dict[str, Any]]:
    """The tasks so far, from the event log."""
    context: Any = kit.spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()  # the log is behind the tasks
    (log,) = (path for path in kit.event_log.rglob("*") if path.name.startswith("events_"))
    *lines, _begun = log.read_text().split("\n")
    events = [json.loads(line) for line in lines]
    return [one["Task Info"] for one in events if one["Event"] == event]


def hosts(kit: SparkKit) -> list[str]:
    return sorted({one["Host"] for one in tasks(kit, "SparkListenerTaskEnd")})


def speculative(kit: SparkKit) -> int:
    return sum(one["Speculative"] for one in tasks(kit, "SparkListenerTaskStart"))


def main(folder: Path) -> None:
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("took too long"))  # by itself, so that it takes its daemons along
    signal.alarm(800)
    (folder / "small").mkdir()
    with cluster(folder) as address:
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "768m",
        }
        kit = start(folder, address, **{**CLUSTER, **SPECULATION, **conf})
        outcomes: dict[str, Any] = {"beside": beside(kit)}
        scenarios = Scenarios(kit, outcomes)
        speculate(scenarios, "straggler", KEYED)
        speculate(scenarios, "straggler_beside", BESIDE)
        outcomes["encrypted"] = encrypted(kit)
        outcomes["verified"] = verified(kit)
        outcomes["compacted"] = compacted(kit)
        outcomes["called"] = called(kit)
        outcomes["planned"] = planned(kit)
        outcomes["moved"] = moved(kit)
        (folder / "outcomes.json").write_text(json.dumps(outcomes))
        kit.spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
