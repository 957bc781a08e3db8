"""What a long session of Spark costs: queries with shuffles and INSERTs of one row, over and over, on our catalog only.

    queries   threads, descriptors and memory of the driver (Python, and the JVM) at the end, over those after 50
    INSERTs   the time of the last 50 over the time of the first 50, with snapshots expired after each 50

Manifests are merged by the commits, as the table's defaults say. The heap of the JVM is measured after a collection,
because the heap grows to the size that it may have before the JVM collects anything.

Spark itself keeps a thread for each exchange and each result of the last minute, on tables of any kind, so the threads
of the JVM say how many queries ran in that minute. What a session keeps for good is counted after a rest that is longer
than this minute, and that begins after the collection, because Spark cleans up with a hundred threads. What a session
has without a rest is compared with the same queries on a plaintext Parquet table.
"""

from __future__ import annotations

import gc
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.figures import Figure
from kit.programs.iceberg_java import KMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

BLOCK = 50
QUERIES = 1_000
INSERTS = 500
KEPT = 10  # snapshots that an expiry leaves
REST = 65  # seconds, after which Spark has ended its idle threads
JVM_THREADS = "threads of the JVM"


def figures(rounds: int) -> Iterator[Figure]:
    """Nine rounds, the default, make the whole run; fewer rounds make a part of it."""
    with tempfile.TemporaryDirectory() as folder, _session(Path(folder)) as spark:
        yield from _queries(spark, max(2 * BLOCK, QUERIES * min(rounds, 9) // 9))
        yield from _inserts(spark, max(3 * BLOCK, INSERTS * min(rounds, 9) // 9))


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    import sealberg.spark

    ours = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh", **KMS}
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/plain",
        # Spark keeps as many finished queries for its page; the default of 1,000 would grow during the whole run.
        "spark.sql.ui.retainedExecutions": str(BLOCK // 2),
        "spark.ui.retainedJobs": str(BLOCK // 2),
        "spark.ui.retainedStages": str(BLOCK // 2),
        "spark.ui.retainedTasks": str(BLOCK),
    }
    builder: Any = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = sealberg.spark.configure(builder, "ours", ours).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        sealberg.spark.install(spark)
        spark.sql("CREATE NAMESPACE ours.b")
        yield spark
    finally:
        spark.stop()


def _usage(spark: SparkSession) -> dict[str, float]:
    """What the driver holds: both processes, after both have collected their garbage and rested."""
    jvm: Any = spark._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()

    def collect() -> None:
        gc.collect()
        for _ in range(2):  # Spark's cleaner closes what the first collection has found
            runtime.gc()
            time.sleep(1)

    collect()
    time.sleep(REST)
    python, java = Path("/proc/self"), _jvm_process(spark)
    found = {
        "threads of Python": _count(python / "task"),
        JVM_THREADS: _count(java / "task"),
        "descriptors of Python": _count(python / "fd"),
        "descriptors of the JVM": _count(java / "fd"),
    }
    collect()
    heap = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
    return {**found, "MiB of Python": _resident_mib(python), "MiB of the JVM's heap": heap}


def _jvm_process(spark: SparkSession) -> Path:
    jvm: Any = spark._jvm
    return Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}")


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir())


def _resident_mib(process: Path) -> float:
    lines = (process / "status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1024


def _queries(spark: SparkSession, count: int) -> Iterator[Figure]:
    ours, plain = "ours.b.q", "plain_q"
    spark.sql(f"CREATE TABLE {ours} (id bigint, kind string) TBLPROPERTIES ('encryption.key-id' = 'keyA')")
    spark.sql(f"CREATE TABLE {plain} (id bigint, kind string) USING parquet")
    for table in (ours, plain):
        spark.sql(f"INSERT INTO {table} SELECT id, concat('k', id % 7) FROM range(20000)")
    curves: dict[str, list[tuple[float, float]]] = {}
    at_once: list[int] = []
    done = 0
    for number in (BLOCK, (BLOCK + count) // 2, count):
        at_once.append(_run(spark, ours, range(done, number)))
        done = number
        for name, value in _usage(spark).items():
            curves.setdefault(name, []).append((number, value))
    for name, points in curves.items():
        first, last = points[0][1], points[-1][1]
        note = f"{first:.0f} after {BLOCK}, {last:.0f} after {count:,}, after {REST} s of rest each"
        words = f"Spark: {name} after {count:,} queries with shuffles over after {BLOCK}"
        yield Figure(words, last / first, 1.1, False, note=note, points=tuple(points))
    plainly = _run(spark, plain, range((BLOCK + count) // 2, count))
    words = f"Spark: {JVM_THREADS} without a rest, over the same queries on a plaintext Parquet table"
    note = f"{at_once[-1]}, plaintext {plainly}; after {BLOCK} queries {at_once[0]}"
    yield Figure(words, at_once[-1] / plainly, 1.1, False, note=note)
    words = f"Spark: {JVM_THREADS} without a rest, after {count:,} queries over after {BLOCK}"
    yield Figure(words, at_once[-1] / at_once[0], 1.1, False, note="all that are added are Spark's own")


def _run(spark: SparkSession, table: str, numbers: range) -> int:
    """Run a query for each number; returns the threads of the JVM at once after the last one."""
    for number in numbers:
        spark.sql(f"SELECT kind, sum(id) FROM {table} WHERE id > {number} GROUP BY kind").collect()
    return _count(_jvm_process(spark) / "task")


def _inserts(spark: SparkSession, count: int) -> Iterator[Figure]:
    table = "ours.b.i"
    spark.sql(f"CREATE TABLE {table} (id bigint, v string) TBLPROPERTIES ('encryption.key-id' = 'keyA')")
    for number in range(20):  # the JIT compiles
        spark.sql(f"INSERT INTO {table} VALUES ({number}, 'warm')")
    times = []
    before = _usage(spark)
    for number in range(count):
        began = time.perf_counter()
        spark.sql(f"INSERT INTO {table} VALUES ({number}, 'v')")
        times.append(time.perf_counter() - began)
        if number % BLOCK == BLOCK - 1:
            spark.sql(
                f"CALL ours.system.expire_snapshots(table => 'b.i', older_than => timestamp '2100-01-01 00:00:00', "
                f"retain_last => {KEPT})"
            )
    blocks = [median(times[at : at + BLOCK]) for at in range(0, count, BLOCK)]
    points = tuple((BLOCK * (at + 1.0), 1000 * spent) for at, spent in enumerate(blocks))
    note = f"medians: {1000 * blocks[0]:.0f} ms, then {1000 * blocks[-1]:.0f} ms"
    words = f"Spark: {count} INSERTs of one row: the last {BLOCK} over the first {BLOCK}"
    yield Figure(words, blocks[-1] / blocks[0], 1.2, False, note=note, points=points)
    grown = (_usage(spark)["MiB of Python"] - before["MiB of Python"]) / count
    yield Figure("Spark: memory of Python for each INSERT", 1024 * grown, 50, False, "KiB")
