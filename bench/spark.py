"""Queries and inserts on Spark: encrypted tables against plaintext Parquet and against Iceberg's own connector.

All sides take turns at every act, so that noise affects all of them. Every time includes planning and commits.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench import spark_plans
from bench.spark_session import ROWS, SIDES, TABLES, Bench, compared, make_rows, session, warm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.figures import Figure

READS: Final = {
    "full scan": None,
    "sum of one column": "SELECT sum(amount) FROM {}",
    "group by": "SELECT kind, count(*), avg(amount), max(id) FROM {} GROUP BY kind",
    "narrow filter": f"SELECT * FROM {{}} WHERE id = {ROWS // 2}",
}
COUNT: Final = "SELECT count(*) FROM {}"


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name, session(Path(name)) as bench:
        make_rows(bench)
        yield from _reads(bench, rounds)
        yield from _reads_with_deletes(bench, rounds)
        yield from _inserts(bench, max(3, rounds // 3))
        yield from _python_files(bench, rounds)
        yield from spark_plans.figures(bench, max(3, rounds // 3))


def _reads(bench: Bench, rounds: int) -> Iterator[Figure]:
    for name, statement in READS.items():
        spent = warm({side: bench.read(statement, TABLES[side].format("t")) for side in SIDES}, rounds)
        yield compared(f"{name}, over Spark's plaintext Parquet", spent, "ours", "plain", 1.15)
        yield compared(f"{name}, over the Java connector", spent, "ours", "java", 1.0)
    spent = warm({side: bench.read(COUNT, TABLES[side].format("t")) for side in ("ours", "java")}, rounds)
    yield compared("count(*), over the Java connector", spent, "ours", "java", 1.2)


def _reads_with_deletes(bench: Bench, rounds: int) -> Iterator[Figure]:
    for name, statement in READS.items():
        spent = warm({side: bench.read(statement, TABLES[side].format("d")) for side in ("ours", "java")}, rounds)
        yield compared(f"{name}, 5 % deleted by vectors, over the Java connector", spent, "ours", "java", 1.10)


def _inserts(bench: Bench, rounds: int) -> Iterator[Figure]:
    numbers = iter(range(10_000))

    def insert(side: str, partitions: str) -> None:
        full = bench.create(side, f"i{next(numbers)}", partitions)
        bench.spark.sql(f"INSERT INTO {full} SELECT * FROM rows")
        bench.spark.sql(f"DROP TABLE {full}" + ("" if side == "plain" else " PURGE"))

    for words, partitions in (("unpartitioned", ""), ("by identity of 16 values", "PARTITIONED BY (part)")):
        spent = warm({side: partial(insert, side, partitions) for side in SIDES}, rounds)
        more = f"; {spent['ours'] / spent['plain']:.2f} of plaintext"
        name = f"INSERT of {ROWS // 1_000_000} M rows, {words}, over the Java connector"
        yield compared(name, spent, "ours", "java", 1.0, more)


def _python_files(bench: Bench, rounds: int) -> Iterator[Figure]:
    """Scan files that Python appended, and the same rows in as many files that Spark wrote."""
    bench.create("ours", "p")
    table = bench.ours.load_table("b.p")
    count = len(list(bench.ours.load_table("b.t").scan().plan_files()))
    paths = sorted((bench.folder / "rows").glob("*.parquet"))
    for number in range(count):
        table.append(pa.concat_tables(map(pq.read_table, paths[number::count])))
    assert len(list(table.scan().plan_files())) == count
    for name, statement in READS.items():
        spent = warm({made: bench.read(statement, f"ours.b.{made}") for made in ("t", "p")}, rounds)
        yield compared(f"{name}, Python's files over Spark's", spent, "p", "t", 1.10)
