"""What a long session of Spark costs: queries with shuffles and INSERTs of one row, over and over, on our catalog only.

    queries   threads, descriptors and memory of the driver (Python, and the JVM) at the end, over those after 50
    INSERTs   the time of the last 50 over the time of the first 50, with snapshots expired after each 50

Manifests are merged by the commits, as the table's defaults say. The heap of the JVM is measured after a collection,
because the heap grows to the size that it may have before the JVM collects anything. Spark itself keeps a thread for
each exchange and each result of the last minute, on tables of any catalog, so the threads of the JVM also say how many
queries ran in that minute.
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
    """What the driver holds: both processes, after both have collected their garbage."""
    gc.collect()
    jvm: Any = spark._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    for _ in range(2):  # Spark's cleaner closes what the first collection has found
        runtime.gc()
        time.sleep(1)
    python, java = Path("/proc/self"), Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}")
    return {
        "threads of Python": _count(python / "task"),
        "threads of the JVM": _count(java / "task"),
        "descriptors of Python": _count(python / "fd"),
        "descriptors of the JVM": _count(java / "fd"),
        "MiB of Python": _resident_mib(python),
        "MiB of the JVM's heap": (runtime.totalMemory() - runtime.freeMemory()) / 2**20,
    }


def _count(folder: Path) -> float:
    return sum(1 for _ in folder.iterdir())


def _resident_mib(process: Path) -> float:
    lines = (process / "status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1024


def _queries(spark: SparkSession, count: int) -> Iterator[Figure]:
    table = "ours.b.q"
    spark.sql(f"CREATE TABLE {table} (id bigint, kind string) TBLPROPERTIES ('encryption.key-id' = 'keyA')")
    spark.sql(f"INSERT INTO {table} SELECT id, concat('k', id % 7) FROM range(20000)")
    early: dict[str, float] = {}
    curves: dict[str, list[tuple[float, float]]] = {}
    for number in range(1, count + 1):
        spark.sql(f"SELECT kind, sum(id) FROM {table} WHERE id > {number} GROUP BY kind").collect()
        if number in (BLOCK, count) or number % max(BLOCK, count // 5) == 0:
            found = _usage(spark)
            early = early or found
            for name, value in found.items():
                curves.setdefault(name, []).append((number, value))
    for name, points in curves.items():
        first, last = early[name], points[-1][1]
        note = f"{first:.0f} after {BLOCK}, {last:.0f} after {count:,}"
        words = f"Spark: {name} after {count:,} queries with shuffles over after {BLOCK}"
        yield Figure(words, last / first, 1.1, False, note=note, points=tuple(points))


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
