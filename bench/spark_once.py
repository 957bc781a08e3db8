"""One statement in a Spark session of its own: how long the first query takes, and what the driver's memory is.

    python -m bench.spark_once first java.b.many         seconds of the first query, which opens no data file
    python -m bench.spark_once plan shared.b.million     a plan by tasks: memory of the driver, Python and JVM
    python -m bench.spark_once plan-all shared.b.million    the same without a filter

Standard input has JSON: the settings of the session, and the properties of the catalog `shared`. So has the output.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import sealberg.spark
from bench.stream_memory import peak_mib

WARM_UP = "SELECT count(amount) FROM (SELECT id AS amount FROM range(0, 10000, 1, 2)) WHERE amount < 77"
NOTHING = "SELECT count(amount) FROM {} WHERE id < -1"
BOUND = "SELECT id FROM {} WHERE id < 5000"
ALL = "SELECT id FROM {}"


def main() -> None:
    from pyspark.sql import SparkSession

    what, table = sys.argv[1:3]
    given = json.load(sys.stdin)
    builder: Any = SparkSession.builder.master("local[2]")
    for name, value in given["settings"].items():
        builder = builder.config(name, value)
    spark = sealberg.spark.configure(builder, "shared", given["shared"]).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        sealberg.spark.install(spark)
        spark.sql(WARM_UP).collect()
        told = _first(spark, table) if what == "first" else _plan(spark, table, ALL if what == "plan-all" else BOUND)
    finally:
        spark.stop()
    print(json.dumps(told))


def _first(spark: Any, table: str) -> dict[str, Any]:
    began = time.perf_counter()
    found = spark.sql(NOTHING.format(table)).collect()
    seconds = time.perf_counter() - began
    assert found[0][0] == 0
    return {"seconds": seconds}


def _plan(spark: Any, table: str, statement: str) -> dict[str, Any]:
    """The number of tasks is asked for: they read data files that do not exist."""
    spark.conf.set("spark.sql.iceberg.data-planning-mode", "distributed")
    jvm = spark._jvm
    before = peak_mib()
    began = time.perf_counter()
    rows = spark.sql(statement.format(table))
    parts = rows.rdd.getNumPartitions()
    seconds = time.perf_counter() - began
    assert "planned by" in rows._jdf.queryExecution().executedPlan().toString()
    jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    heap = (runtime.totalMemory() - runtime.freeMemory()) / (1 << 20)
    pid = jvm.java.lang.ProcessHandle.current().pid()
    return {
        "seconds": seconds,
        "parts": parts,
        "python": peak_mib(),
        "python_before": before,
        "jvm": _peak_of(pid),
        "jvm_heap": heap,
    }


def _peak_of(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    main()
