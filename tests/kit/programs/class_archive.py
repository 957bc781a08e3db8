"""An archive of Spark's classes (CDS) for the JVMs of tests, which start in half of the processor time with it.

    python -m kit.programs.class_archive     make it, once for this Spark and this Java; `make test` does
    options()                                what a JVM must be told, nothing if there is no archive

A JVM whose class path does not begin as that of the archive ignores the archive. Its warnings about that would be
lines among the answers on stdout, so they are off.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from kit.programs.commands import alone, shared_folder

STATEMENTS = (
    "CREATE TABLE t (id BIGINT, name STRING) USING parquet",
    "INSERT INTO t SELECT id, CAST(id AS STRING) FROM range(1000)",
    "SELECT count(*), sum(a.id) FROM t a JOIN t b ON a.id = b.id WHERE a.name LIKE '1%' GROUP BY a.id % 7 ORDER BY 1",
    "SELECT id FROM t WHERE id > 10 LIMIT 3",
    "DROP TABLE t",
)


def options() -> str:
    archive = _archive()
    return f" -XX:SharedArchiveFile={archive} -Xlog:disable" if archive is not None and archive.is_file() else ""


def make() -> None:
    archive = _archive()
    if archive is None:
        return
    with alone(archive.name):
        if not archive.is_file():
            made = archive.with_suffix(f".{os.getpid()}")
            folder = shared_folder() / f"{archive.stem}.warehouse"
            command = [sys.executable, "-m", "kit.programs.class_archive", "--run", str(made), str(folder)]
            subprocess.run(command, capture_output=True, timeout=300, check=False)
            if made.is_file():  # none is made by a Java without an archive of its own
                made.replace(archive)


def _archive() -> Path | None:
    spark, home = find_spec("pyspark"), os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")  # as Spark chooses it
    if spark is None or spark.origin is None or java is None or not Path(spark.origin).is_file():
        return None  # workers of Spark import a zipped pyspark
    facts = f"{Path(spark.origin).resolve()}\0{Path(spark.origin).stat().st_mtime_ns}\0{Path(java).resolve()}"
    return shared_folder() / f"spark-{hashlib.sha256(facts.encode()).hexdigest()[:32]}.jsa"


def _run(archive: str, folder: str) -> None:
    """Start Spark, and use what tests use."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={archive} -Xlog:disable",
        "spark.sql.warehouse.dir": folder,
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for statement in STATEMENTS:
        spark.sql(statement).collect()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # which ends the JVM, and ends it writing the archive
    gateway.proc.wait(200)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        _run(*sys.argv[2:])
    else:
        make()
