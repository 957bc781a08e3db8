"""Encrypted tables on Spark, against Spark's plaintext Parquet and against Iceberg's own connector, in one session.

    plain   Parquet files that Spark wrote in the clear
    ours    an encrypted table of a catalog of ours
    java    an encrypted table of Iceberg Java on a Hive Metastore, which holds the same rows

The three take turns at every act, so that noise is shared; planning and commits are in every time.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.figures import Figure, best
from kit.iceberg_java import JARS, KMS
from kit.maven import bring
from kit.metastore import metastore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

ROWS: Final = 6_000_000
FILES: Final = 8
SIDES: Final = ("plain", "ours", "java")
TABLES: Final = {"plain": "{}", "ours": "ours.b.{}", "java": "java.b.{}"}
KEY: Final = "'encryption.key-id' = 'keyA'"
VERSION: Final = "'format-version' = '3'"
READS: Final = {
    "full scan": None,
    "sum of one column": "SELECT sum(amount) FROM {}",
    "group by": "SELECT kind, count(*), avg(amount), max(id) FROM {} GROUP BY kind",
    "narrow filter": f"SELECT * FROM {{}} WHERE id = {ROWS // 2}",
    "count(*)": "SELECT count(*) FROM {}",
}


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name, _session(Path(name)) as spark:
        _make(spark, Path(name))
        yield from _reads(spark, rounds)
        yield from _reads_with_deletes(spark, rounds)
        yield from _inserts(spark, max(3, rounds // 3))
        yield from _python_files(spark, Path(name), rounds)


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    import sealberg.spark

    jars = bring(*JARS)
    with metastore(folder) as port:
        catalog = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "hive",
            ".uri": f"thrift://127.0.0.1:{port}",
            ".warehouse": f"file://{folder}/java",
            **{f".{name}": value for name, value in KMS.items()},
        }
        spark = sealberg.spark.session(
            "ours",
            _catalog(folder),
            master="local[2]",
            **{
                "spark.jars": ",".join(map(str, jars)),
                "spark.driver.memory": "4g",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": f"{folder}/plain",
                # Iceberg's tables have it by default, ours and Java's.
                "spark.sql.parquet.compression.codec": "zstd",
                "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
                **{f"spark.sql.catalog.java{name}": value for name, value in catalog.items()},
            },
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark
        finally:
            spark.stop()


def _catalog(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/ours", **KMS}


def _make(spark: SparkSession, folder: Path) -> None:
    rows = spark.range(0, ROWS, 1, FILES).selectExpr(
        "id",
        "randn(1) * 30 + 100 AS amount",
        "CAST(rand(2) * 1000000 AS bigint) AS code",
        "element_at(array('a', 'bb', 'ccc', 'dddd'), CAST(1 + floor(rand(3) * 4) AS int)) AS kind",
        "date_add(DATE '2015-01-01', CAST(rand(4) * 3650 AS int)) AS day",
        "concat('note ', id % 9973) AS note",
        "CAST(id % 16 AS int) AS part",
    )
    rows.write.parquet(f"{folder}/rows")
    spark.read.parquet(f"{folder}/rows").createOrReplaceTempView("rows")
    for catalog in ("ours", "java"):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.b")
    for side in SIDES:
        for name in ("t", "d"):
            _create(spark, side, name, mode="'write.delete.mode' = 'merge-on-read'")
            spark.sql(f"INSERT INTO {TABLES[side].format(name)} SELECT * FROM rows")
        if side != "plain":
            spark.sql(f"DELETE FROM {TABLES[side].format('d')} WHERE id % 20 = 7")


def _create(spark: SparkSession, side: str, name: str, *, partitions: str = "", mode: str = "") -> str:
    """An empty table for the rows."""
    full = TABLES[side].format(name)
    columns = "id bigint, amount double, code bigint, kind string, day date, note string, part int"
    if side == "plain":
        spark.sql(f"CREATE TABLE {full} ({columns}) USING parquet {partitions}")
    else:
        more = f", {mode}" if mode else ""
        # Files by task on every side: what is compared is the writers, not a shuffle that one of them asks for.
        how = "'write.distribution-mode' = 'none'"
        spark.sql(
            f"CREATE TABLE {full} ({columns}) USING iceberg {partitions} TBLPROPERTIES ({VERSION}, {KEY}, {how}{more})"
        )
    return full


def _read(spark: SparkSession, statement: str | None, table: str) -> Callable[[], Any]:
    if statement is None:
        return lambda: spark.table(table).write.format("noop").mode("overwrite").save()
    return lambda: spark.sql(statement.format(table)).collect()


def _reads(spark: SparkSession, rounds: int) -> Iterator[Figure]:
    for name, statement in READS.items():
        acts = {side: _read(spark, statement, TABLES[side].format("t")) for side in SIDES}
        spent = _warm(acts, rounds)
        if name != "count(*)":
            yield _figure(f"Spark: {name}, over Spark's plaintext Parquet", spent, "ours", "plain", 1.15)
        yield _figure(
            f"Spark: {name}, over the Java connector", spent, "ours", "java", 1.2 if name == "count(*)" else 1.0
        )


def _reads_with_deletes(spark: SparkSession, rounds: int) -> Iterator[Figure]:
    for name, statement in READS.items():
        if name == "count(*)":
            continue
        acts = {side: _read(spark, statement, TABLES[side].format("d")) for side in ("ours", "java")}
        spent = _warm(acts, rounds)
        yield _figure(f"Spark: {name}, 5 % deleted by vectors, over the Java connector", spent, "ours", "java", 1.10)


def _inserts(spark: SparkSession, rounds: int) -> Iterator[Figure]:
    numbers = iter(range(10_000))

    def insert(side: str, partitions: str) -> None:
        full = _create(spark, side, f"i{next(numbers)}", partitions=partitions)
        spark.sql(f"INSERT INTO {full} SELECT * FROM rows")
        spark.sql(f"DROP TABLE {full}" + ("" if side == "plain" else " PURGE"))

    for words, partitions in (("unpartitioned", ""), ("by identity of 16 values", "PARTITIONED BY (part)")):
        acts = {side: lambda side=side, by=partitions: insert(side, by) for side in SIDES}
        spent = _warm(acts, rounds)
        note = f"; {spent['ours'] / spent['plain']:.2f} of plaintext"
        yield _figure(
            f"Spark: INSERT of {ROWS // 1_000_000} M rows, {words}, over the Java connector",
            spent, "ours", "java", 1.0, note,
        )  # fmt: skip


def _python_files(spark: SparkSession, folder: Path, rounds: int) -> Iterator[Figure]:
    """Files that Python appended, and the same rows in as many files that Spark wrote."""
    import pyarrow.parquet as pq

    from sealberg.table.catalogs import load_catalog

    _create(spark, "ours", "p")
    table = load_catalog("ours", **_catalog(folder)).load_table("b.p")
    for path in sorted((folder / "rows").glob("*.parquet")):
        table.append(pq.read_table(path))
    for name, statement in READS.items():
        if name != "count(*)":
            acts = {made: _read(spark, statement, f"ours.b.{made}") for made in ("t", "p")}
            yield _figure(f"Spark: {name}, Python's files over Spark's", _warm(acts, rounds), "p", "t", 1.10)


def _warm(acts: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    best(acts, 2)  # the JIT has seen every side before it counts
    return best(acts, rounds)


def _figure(name: str, spent: dict[str, float], ours: str, theirs: str, bound: float, more: str = "") -> Figure:
    note = f"{spent[ours] * 1000:.0f} ms, {theirs} {spent[theirs] * 1000:.0f} ms{more}"
    return Figure(name, spent[ours] / spent[theirs], bound, False, note=note)
