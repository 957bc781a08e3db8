"""`compact` and `rewrite_manifests` against Java's rewrite_data_files and rewrite_manifests, of the same table.

    1,000 small files that Java wrote ──> ours on threads, ours on Spark, Java ──> rolled back before each round

All work on one table of one Hive Metastore, and each begins with the same snapshot.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.figures import Figure, best
from bench.spark_session import Bench, session
from sealberg.jobs import compact, rewrite_manifests
from sealberg.spark.job_runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILES: Final = 1_000
ROWS_PER_FILE: Final = 1_000
MANY: Final = 10_000
BOUND, MANIFESTS_BOUND = 0.9, 1.0


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, session(Path(folder)) as bench:
        yield from _data_files(bench, min(rounds, 5))
        yield from _manifests(bench, min(rounds, 5))


def _data_files(bench: Bench, rounds: int) -> Iterator[Figure]:
    write(bench, "small", FILES, ROWS_PER_FILE, commits=10)
    runner = SparkRunner(bench.spark)
    call = "CALL java.system.rewrite_data_files(table => 'b.small')"

    def ours(**where: Any) -> None:
        table = bench.shared.load_table("b.small")
        result = compact.plan(table, manifests=False).execute(**where)
        assert result.rewritten_data_files_count == FILES, str(result)

    def java() -> None:
        (row,) = bench.spark.sql(call).collect()
        assert row["rewritten_data_files_count"] == FILES, row

    spent = best(
        {
            "threads": from_the_start(bench, "small", ours),
            "spark": from_the_start(bench, "small", lambda: ours(runner=runner)),
            "java": from_the_start(bench, "small", java),
        },
        rounds,
    )
    for side, words in (("threads", "on threads"), ("spark", "on Spark")):
        yield Figure(
            f"compact of {FILES:,} small files {words}, over Java's rewrite_data_files",
            spent[side] / spent["java"],
            BOUND,
            False,
            note=f"{spent[side]:.1f} s, Java {spent['java']:.1f} s",
        )


def _manifests(bench: Bench, rounds: int) -> Iterator[Figure]:
    write(bench, "many", MANY, 1, commits=10)

    def ours() -> None:
        result = rewrite_manifests.plan(bench.shared.load_table("b.many")).execute()
        assert result.rewritten_manifests_count == 10, str(result)

    def java() -> None:
        (row,) = bench.spark.sql("CALL java.system.rewrite_manifests('b.many')").collect()
        assert row["rewritten_manifests_count"] == 10, row

    acts = {"ours": from_the_start(bench, "many", ours), "java": from_the_start(bench, "many", java)}
    spent = best(acts, rounds)
    yield Figure(
        f"rewrite_manifests of {MANY:,} files, over Java's",
        spent["ours"] / spent["java"],
        MANIFESTS_BOUND,
        False,
        note=f"{spent['ours']:.1f} s, Java {spent['java']:.1f} s",
    )


def write(bench: Bench, name: str, files: int, rows_per_file: int, *, commits: int) -> None:
    """A table with so many files, in as many manifests as commits."""
    full = bench.create("java", name)
    bench.spark.sql(f"ALTER TABLE {full} SET TBLPROPERTIES ('commit.manifest-merge.enabled' = 'false')")
    each = files // commits
    for commit in range(commits):
        first = commit * each * rows_per_file
        made = bench.spark.range(first, first + each * rows_per_file, 1, each).selectExpr(
            "id",
            "randn(1) * 30 + 100 AS amount",
            "CAST(rand(2) * 1000000 AS bigint) AS code",
            "element_at(array('a', 'bb', 'ccc', 'dddd'), CAST(1 + floor(rand(3) * 4) AS int)) AS kind",
            "date_add(DATE '2015-01-01', CAST(rand(4) * 3650 AS int)) AS day",
            "concat('note ', id % 9973) AS note",
            "CAST(id % 16 AS int) AS part",
        )
        made.writeTo(full).append()
    bench.spark.conf.set(f"bench.{name}", str(bench.shared.load_table(f"b.{name}").metadata.current_snapshot_id))


def from_the_start(bench: Bench, name: str, act: Callable[[], None]) -> Callable[[], None]:
    """The act on the table as it was; the way back is a commit of a few milliseconds, the same for all sides."""
    start = int(str(bench.spark.conf.get(f"bench.{name}")))

    def acted() -> None:
        bench.spark.sql(f"CALL java.system.set_current_snapshot('b.{name}', {start})")
        act()

    return acted
