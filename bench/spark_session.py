"""A Spark session with three sides to compare, and the rows that they share.

plain    plaintext Parquet files that Spark wrote
ours     encrypted tables of our SQL catalog
java     encrypted tables of Iceberg Java on a Hive Metastore
shared   our Hive catalog on that Metastore: tables that Java wrote, and tables for Java
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.figures import Figure, best
from kit.programs.iceberg_java import JARS, KMS
from kit.programs.maven import bring
from kit.servers.metastore import metastore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

ROWS: Final = 6_000_000
FILES: Final = 8
SHORT: Final = 0.3  # seconds
SIDES: Final = ("plain", "ours", "java")
TABLES: Final = {"plain": "{}", "ours": "ours.b.{}", "java": "java.b.{}", "shared": "shared.b.{}"}
COLUMNS: Final = "id bigint, amount double, code bigint, kind string, day date, note string, part int"
PROPERTIES: Final = (
    "'format-version' = '3', 'encryption.key-id' = 'keyA', 'write.delete.mode' = 'merge-on-read', "
    # One file per task on every side: the writers are compared, without the shuffle that one of them would request.
    "'write.distribution-mode' = 'none'"
)


@dataclass(frozen=True)
class Bench:
    """The Spark session, and our two catalogs in Python; `settings` make another session like it."""

    spark: SparkSession
    folder: Path
    ours: Catalog
    shared: Catalog
    settings: Mapping[str, str]

    def create(self, side: str, name: str, partitions: str = "") -> str:
        """Create an empty table for the rows, and return its full name."""
        full = TABLES[side].format(name)
        using = "parquet" if side == "plain" else "iceberg"
        told = "" if side == "plain" else f"TBLPROPERTIES ({PROPERTIES})"
        self.spark.sql(f"CREATE TABLE {full} ({COLUMNS}) USING {using} {partitions} {told}")
        return full

    def once(self, what: str, table: str) -> dict[str, float]:
        """What `bench.spark_once` tells of a table, from a session in a process of its own."""
        given = json.dumps({"settings": dict(self.settings), "shared": dict(self.shared.properties)})
        command = [sys.executable, "-m", "bench.spark_once", what, table]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"bench.spark_once {what} {table} failed: {done.stderr[-2000:]}")
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found

    def read(self, statement: str | None, table: str) -> Callable[[], Any]:
        """An act to measure: a statement on the table, or a scan of all rows if there is no statement."""
        if statement is None:
            return lambda: self.spark.table(table).write.format("noop").mode("overwrite").save()
        return lambda: self.spark.sql(statement.format(table)).collect()


@contextmanager
def session(folder: Path) -> Iterator[Bench]:
    from pyspark.sql import SparkSession

    import sealberg
    import sealberg.spark

    jars = bring(*JARS)
    with metastore(folder) as port:
        uri = f"thrift://127.0.0.1:{port}"
        database = f"sqlite:///{folder}/catalog.db"
        ours = {"type": "sql", "uri": database, "warehouse": f"file://{folder}/ours", **KMS}
        shared = {"type": "hive", "uri": uri, **KMS}
        java = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "hive",
            ".uri": uri,
            ".warehouse": f"file://{folder}/java",
            **{f".{name}": value for name, value in KMS.items()},
        }
        settings = {
            "spark.jars": ",".join(map(str, jars)),
            "spark.driver.memory": "4g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{folder}/plain",
            # Our tables and Java's have this setting by default.
            "spark.sql.parquet.compression.codec": "zstd",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            **{f"spark.sql.catalog.java{name}": value for name, value in java.items()},
        }
        builder: Any = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        builder = sealberg.spark.configure(builder, "ours", ours)
        spark = sealberg.spark.configure(builder, "shared", shared).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        try:
            sealberg.spark.install(spark)
            with sealberg.load_catalog("ours", **ours) as one, sealberg.load_catalog("shared", **shared) as other:
                for catalog in ("ours", "java"):
                    spark.sql(f"CREATE NAMESPACE {catalog}.b")
                yield Bench(spark, folder, one, other, settings)
        finally:
            spark.stop()


def make_view(bench: Bench) -> None:
    """Create the view `rows`."""
    made = bench.spark.range(0, ROWS, 1, FILES).selectExpr(
        "id",
        "randn(1) * 30 + 100 AS amount",
        "CAST(rand(2) * 1000000 AS bigint) AS code",
        "element_at(array('a', 'bb', 'ccc', 'dddd'), CAST(1 + floor(rand(3) * 4) AS int)) AS kind",
        "date_add(DATE '2015-01-01', CAST(rand(4) * 3650 AS int)) AS day",
        "concat('note ', id % 9973) AS note",
        "CAST(id % 16 AS int) AS part",
    )
    made.write.parquet(f"{bench.folder}/rows")
    bench.spark.read.parquet(f"{bench.folder}/rows").createOrReplaceTempView("rows")


def make_rows(bench: Bench) -> None:
    """Create the view `rows`, the table `t` with all rows, and the table `d` with one row in twenty deleted."""
    make_view(bench)
    for side in SIDES:
        bench.spark.sql(f"INSERT INTO {bench.create(side, 't')} SELECT * FROM rows")
    for side in ("ours", "java"):
        table = bench.create(side, "d")
        bench.spark.sql(f"INSERT INTO {table} SELECT * FROM rows")
        bench.spark.sql(f"DELETE FROM {table} WHERE id % 20 = 7")


def warm(acts: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    spent = best(acts, 2)  # lets the JIT compile all sides before the measurement
    # Short acts are disturbed easily and repeated quickly, so they get more rounds.
    return best(acts, rounds * 4 if min(spent.values()) < SHORT else rounds)


def compared(name: str, spent: Mapping[str, float], ours: str, theirs: str, bound: float, more: str = "") -> Figure:
    note = f"{spent[ours] * 1000:.0f} ms, {theirs} {spent[theirs] * 1000:.0f} ms{more}"
    return Figure(f"Spark: {name}", spent[ours] / spent[theirs], bound, False, note=note)
