"""Distinct values of 6 M rows by 7 columns on Spark: `compute_table_stats` of sealberg against Iceberg Java's.

Both sides count the same rows of encrypted tables with two cores, and commit a statistics file: ours encrypted, Java's
plaintext.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.spark_session import FILES, ROWS, Bench, compared, session, warm
from sealberg.jobs import stats
from sealberg.jobs.runner import Threads
from sealberg.spark.job_runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.figures import Figure

VALUES: Final = (
    "id",
    "randn(1) * 30 + 100 AS amount",
    "CAST(rand(2) * 1000000 AS bigint) AS code",
    "element_at(array('a', 'bb', 'ccc', 'dddd'), CAST(1 + floor(rand(3) * 4) AS int)) AS kind",
    "date_add(DATE '2015-01-01', CAST(rand(4) * 3650 AS int)) AS day",
    "concat('note ', id % 9973) AS note",
    "CAST(id % 16 AS int) AS part",
)


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name, session(Path(name)) as bench:
        bench.spark.range(0, ROWS, 1, FILES).selectExpr(*VALUES).write.parquet(f"{bench.folder}/rows")
        bench.spark.read.parquet(f"{bench.folder}/rows").createOrReplaceTempView("rows")
        for side in ("ours", "java"):
            bench.spark.sql(f"INSERT INTO {bench.create(side, 't')} SELECT * FROM rows")
        acts: dict[str, Callable[[], Any]] = {
            "ours": partial(_call, bench, "ours"),
            "runner": lambda: _count(bench, SparkRunner(bench.spark)),
            "threads": lambda: _count(bench, Threads(2)),
            "java": partial(_call, bench, "java"),
        }
        spent = warm(acts, max(3, rounds // 3))
        yield compared("distinct values, CALL over Java's compute_table_stats", spent, "ours", "java", 1.0)
        yield compared("distinct values, --spark over Java's compute_table_stats", spent, "runner", "java", 1.0)
        yield compared("distinct values, two threads over Java's compute_table_stats", spent, "threads", "java", 1.0)


def _call(bench: Bench, side: str) -> Any:
    return bench.spark.sql(f"CALL {side}.system.compute_table_stats(table => 'b.t')").collect()


def _count(bench: Bench, runner: Any) -> Any:
    return stats.plan(bench.ours.load_table("b.t")).execute(runner=runner)
