"""Spark on an object store: requests and time, encrypted tables of ours against Iceberg Java's on plaintext tables.

One S3 server behind one proxy, which counts requests and adds 20 ms to each. Both sides have a catalog in SQLite, so
every counted request is for a file: ours through S3A on the tasks and PyArrow on the driver, Java's through
S3A (HadoopFileIO) on both. Both connectors keep their defaults; Java's catalog caches tables.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.figures import Figure, best
from kit.programs.maven import bring
from kit.servers.hadoop_connectors import hadoop_aws
from kit.servers.store_proxy import StoreProxy, store_proxy
from kit.servers.store_servers import ACCESS_KEY, SECRET_KEY, s3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kit.servers.store_faults import StoreRequest

LATENCY_S: Final = 0.020
ROWS: Final = 2_000_000
FILES: Final = 8
# Without the jar of Iceberg's tests, which contains a class of S3A.
JAVA: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
SQLITE: Final = "org.xerial:sqlite-jdbc:3.50.3.0"
SIDES: Final = ("ours", "java")
MODES: Final = ", ".join(f"'write.{command}.mode' = 'merge-on-read'" for command in ("delete", "merge"))
NONE: Final = "'write.distribution-mode' = 'none'"
SOURCE: Final = "(SELECT explode(array(5L, -5L)) AS id)"
STATEMENTS: Final = {
    "INSERT": f"INSERT INTO {{}} SELECT id, uuid() FROM range(0, 2000, 1, {FILES})",
    "SELECT": "SELECT sum(id), max(s) FROM {}",
    "SELECT of one row": "SELECT s FROM {} WHERE id = 77",
    "DELETE": "DELETE FROM {} WHERE id = 7",
    "MERGE": f"MERGE INTO {{}} t USING {SOURCE} s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET s = 'm' WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, 'n')",
}


@dataclass(frozen=True)
class _Bench:
    spark: SparkSession
    proxy: StoreProxy
    s3a: str
    options: dict[str, str]

    def sql(self, statement: str) -> None:
        self.spark.sql(statement).collect()

    def requests(self, statement: str) -> list[StoreRequest]:
        with self.proxy.counting() as seen:
            self.sql(statement)
        return seen.requests

    def tables(self, name: str, rows: str) -> dict[str, str]:
        """Write the same rows on both sides."""
        made = {side: f"{side}.b.{name}" for side in SIDES}
        for side, table in made.items():
            key = "'encryption.key-id' = 'k', " if side == "ours" else ""
            properties = f"{key}'format-version' = '3', {MODES}, {NONE}"
            self.sql(f"CREATE TABLE {table} (id bigint, s string) USING iceberg TBLPROPERTIES ({properties})")
            if rows:
                self.sql(f"INSERT INTO {table} {rows}")
        return made


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, _session(Path(folder)) as bench:
        yield from _requests(bench)
        yield _opening(bench)
        yield from _times(bench, rounds)


def _requests(bench: _Bench) -> Iterator[Figure]:
    bench.tables("warm", "SELECT id, 'x' FROM range(0, 10, 1, 1)")
    tables = bench.tables("t", "")
    for name, statement in STATEMENTS.items():
        found = {side: bench.requests(statement.format(table)) for side, table in tables.items()}
        ours, java = (_kinds(found[side]) for side in SIDES)
        yield Figure(
            f"S3: requests of {name}, over the Java connector",
            sum(ours.values()) / sum(java.values()),
            1.1,
            False,
            note=f"{_told(ours)}; Java {_told(java)}",
        )
        if name == "SELECT":
            heads = sum(each.method == "HEAD" and "/data/" in each.key for each in found["ours"])
            yield Figure("S3: HEAD requests for data files in SELECT", heads, 0, False, note=f"{FILES} files")


def _opening(bench: _Bench) -> Figure:
    """The requests to read one file with one column chunk that is larger than the read of the footer."""
    rows = "SELECT id, uuid() AS s FROM range(0, 100000, 1, 1)"
    table = bench.tables("one", rows)["ours"]
    place = f"{bench.s3a}/plain"
    bench.spark.sql(rows).write.options(**bench.options).parquet(place)
    plain = bench.spark.read.options(**bench.options).schema("id bigint, s string").parquet(place)
    found = {}
    for side, act in {"ours": bench.spark.table(table), "spark": plain}.items():
        with bench.proxy.counting() as seen:
            act.selectExpr("sum(id)").collect()
        found[side] = [each for each in seen.requests if each.key.endswith(".parquet")]
    note = "; ".join(f"{side} {', '.join(each.method for each in requests)}" for side, requests in found.items())
    value = len(found["ours"]) / len(found["spark"])
    return Figure(
        "S3: requests to read a column of one file, over Spark's plaintext reader", value, 1, False, note=note
    )


def _kinds(requests: list[StoreRequest]) -> dict[str, int]:
    kinds: dict[str, int] = {}
    for each in requests:
        place = "data" if "/data/" in each.key else "metadata"
        name = f"{each.method} {place}"
        kinds[name] = kinds.get(name, 0) + 1
    return dict(sorted(kinds.items()))


def _told(kinds: dict[str, int]) -> str:
    return f"{sum(kinds.values())}: " + ", ".join(f"{count} {name}" for name, count in kinds.items())


def _times(bench: _Bench, rounds: int) -> Iterator[Figure]:
    tables = bench.tables("large", f"SELECT id, uuid() FROM range(0, {ROWS}, 1, {FILES})")
    reads = {"full scan": "SELECT sum(id), max(s) FROM {}", "filter for one row": "SELECT s FROM {} WHERE id = 77"}
    with bench.proxy.latency(LATENCY_S):
        for name, statement in reads.items():
            acts = {side: partial(bench.sql, statement.format(table)) for side, table in tables.items()}
            best(acts, 2)  # lets the JIT compile all sides before the measurement
            spent = best(acts, rounds)
            yield Figure(
                f"S3: {name} of {ROWS // 1_000_000} M rows, over the Java connector",
                spent["ours"] / spent["java"],
                1.1,
                False,
                note=f"{spent['ours'] * 1000:.0f} ms, Java {spent['java'] * 1000:.0f} ms; 20 ms latency",
            )


@contextmanager
def _session(folder: Path) -> Iterator[_Bench]:
    from pyspark.sql import SparkSession

    import sealberg.spark

    plain = s3()
    with store_proxy(plain.address) as proxy:
        store = plain.through(proxy.address)
        ours = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/ours.db",
            "warehouse": f"{store.warehouse}/ours",
            "encryption.kms-type": "memory",
            "encryption.kms.memory.key.k": "00" * 16,
            **store.properties,
        }
        s3a = {
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
            "fs.s3a.endpoint": proxy.address,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
        }
        java = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "jdbc",
            ".uri": f"jdbc:sqlite:{folder}/java.db",
            ".jdbc.schema-version": "V1",
            ".warehouse": f"{store.warehouse.replace('s3://', 's3a://')}/java",
            ".io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            **{f".hadoop.{name}": value for name, value in s3a.items()},
        }
        settings = {
            "spark.jars": ",".join([*map(str, bring(JAVA, SQLITE)), *hadoop_aws()]),
            "spark.driver.memory": "3g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            **{f"spark.sql.catalog.java{name}": value for name, value in java.items()},
        }
        builder: Any = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = sealberg.spark.configure(builder, "ours", ours).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        try:
            sealberg.spark.install(spark)
            for side in SIDES:
                spark.sql(f"CREATE NAMESPACE {side}.b")
            yield _Bench(spark, proxy, store.warehouse.replace("s3://", "s3a://"), s3a)
        finally:
            spark.stop()
