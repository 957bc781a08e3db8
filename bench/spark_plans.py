"""Plans of ten thousand files, and streams: Spark on our tables against Iceberg's own connector."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.spark_session import TABLES, Bench, compared, warm
from bench.tables import commit_files
from sealberg.metadata import decode_cache as cache
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.figures import Figure

FILES: Final = 10_000
SESSIONS: Final = 4
STREAMED: Final = 1_000_000
# This query reads every manifest and opens no data file: the data files do not exist.
NOTHING: Final = "SELECT count(amount) FROM {} WHERE id < -1"


def figures(bench: Bench, rounds: int) -> Iterator[Figure]:
    yield from _planning(bench, rounds)
    yield _first_query(bench)
    yield _streaming(bench, rounds)


def _planning(bench: Bench, rounds: int) -> Iterator[Figure]:
    """One table in the Hive Metastore, planned by both sides."""
    bench.create("java", "many")
    table = bench.shared.load_table("b.many")
    assert isinstance(table, CatalogTable)
    for _ in range(10):
        commit_files(table, FILES // 10)
    bench.spark.sql("REFRESH TABLE java.b.many")
    again = bench.read(NOTHING, "shared.b.many")

    def first() -> None:
        cache.clear()
        again()

    spent = warm({"java": bench.read(NOTHING, "java.b.many"), "first": first, "again": again}, rounds)
    yield compared("plan 10,000 files, first time, over the Java connector", spent, "first", "java", 1.2)
    yield compared("plan 10,000 files, again, over the Java connector", spent, "again", "java", 1.5)


def _first_query(bench: Bench) -> Figure:
    """Sessions of their own, one after the other; each has run a query of Spark alone before."""
    sides = {"ours": "shared.b.many", "java": "java.b.many"}
    spent = dict.fromkeys(sides, math.inf)
    for _ in range(SESSIONS):
        for side, table in sides.items():
            spent[side] = min(spent[side], bench.once("first", table)["seconds"])
    words = "first query of a session, 10,000 files, over the Java connector"
    return compared(words, spent, "ours", "java", 1.2)


def _streaming(bench: Bench, rounds: int) -> Figure:
    spark = bench.spark
    for side in ("ours", "java"):
        table = bench.create(side, "s")
        for part in range(8):
            spark.sql(f"INSERT INTO {table} SELECT * FROM rows WHERE id % 48 = {part}")
    numbers = iter(range(10_000))

    def stream(side: str) -> None:
        rows = spark.readStream.table(TABLES[side].format("s"))
        sink = rows.writeStream.format("noop").option("checkpointLocation", f"{bench.folder}/stream{next(numbers)}")
        sink.trigger(availableNow=True).start().awaitTermination()

    spent = warm({side: partial(stream, side) for side in ("ours", "java")}, rounds)
    return compared(f"stream of {STREAMED // 1_000_000} M rows, over the Java connector", spent, "ours", "java", 1.2)
