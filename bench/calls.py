"""CALL of ours against CALL of Java's on the same tables, and what our parser costs every other statement.

    rewrite_data_files, rewrite_manifests    a table that Java wrote, rolled back before each round
    expire_snapshots                         1,000 snapshots of 10,000 files, restored before each round
    remove_orphan_files                      10,000 files of the table, 1,000 files of nobody

Both sides are procedures of one Spark session on one Hive Metastore: `shared` is our catalog, `java` is Iceberg's.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark

from bench.compact import BOUND, FILES, MANIFESTS_BOUND, MANY, ROWS_PER_FILE, from_the_start, write
from bench.expiry import NAME, Life
from bench.figures import Figure, best
from bench.spark_session import Bench, session
from kit.programs.commands import compile_java, jdk
from sealberg.spark.jar import find_jar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SNAPSHOTS: Final = int(os.environ.get("BENCH_CALLS_SNAPSHOTS", "1000"))
FEWER: Final = int(os.environ.get("BENCH_CALLS_FEWER", "1"))  # divides the numbers of files, for a trial
PARTS: Final = os.environ.get("BENCH_CALLS_PARTS", "parser rewrites expiry").split()
ORPHANS: Final = 1000
WEEK_S: Final = 7 * 24 * 3600
SIDES: Final = ("shared", "java")
STATEMENTS: Final = {
    "SELECT 1": "SELECT 1",
    "a query of 2 kB": "SELECT "
    + ", ".join(f"a.c{n} + b.c{n} AS x{n}" for n in range(90))
    + " FROM a JOIN b ON a.k = b.k",
    "an INSERT of 60 kB": "INSERT INTO t VALUES " + ", ".join(f"({n}, 'alter table {n}', now())" for n in range(1700)),
    "ALTER TABLE of Spark": "ALTER TABLE a.b.c SET TBLPROPERTIES ('write.format.default' = 'avro')",
}


def figures(rounds: int) -> Iterator[Figure]:
    few = max(2, min(rounds, 5))
    if "parser" in PARTS:
        yield from _parser(rounds)
    with tempfile.TemporaryDirectory() as folder, session(Path(folder)) as bench:
        if "rewrites" in PARTS:
            yield from _data_files(bench, few)
            yield from _manifests(bench, few)
            yield from _orphans(bench, few)
        if "expiry" in PARTS:
            (Path(folder) / "life").mkdir()
            yield from _expire(bench, Path(folder) / "life", max(2, min(rounds, 3)))


def _figure(name: str, spent: Mapping[str, float], bound: float, more: str = "") -> Figure:
    note = f"{spent['shared']:.2f} s, Java {spent['java']:.2f} s{more}"
    return Figure(f"CALL {name}, over Java's", spent["shared"] / spent["java"], bound, at_least=False, note=note)


def _called(bench: Bench, side: str, text: str) -> Any:
    return bench.spark.sql(f"CALL {side}.system.{text}").collect()


def _data_files(bench: Bench, rounds: int) -> Iterator[Figure]:
    count = FILES // FEWER
    write(bench, "small", count, ROWS_PER_FILE, commits=10)

    def act(side: str) -> Callable[[], None]:
        def rewrite() -> None:
            (row,) = _called(bench, side, "rewrite_data_files(table => 'b.small')")
            assert row["rewritten_data_files_count"] == count, row

        return from_the_start(bench, "small", rewrite)

    yield _figure(f"rewrite_data_files of {count:,} files", best({side: act(side) for side in SIDES}, rounds), BOUND)


def _manifests(bench: Bench, rounds: int) -> Iterator[Figure]:
    count = MANY // FEWER
    write(bench, "many", count, 1, commits=10)

    def act(side: str) -> Callable[[], None]:
        def rewrite() -> None:
            (row,) = _called(bench, side, "rewrite_manifests('b.many')")
            assert row["rewritten_manifests_count"] == 10, row

        return from_the_start(bench, "many", rewrite)

    spent = best({side: act(side) for side in SIDES}, rounds)
    yield _figure(f"rewrite_manifests of {count:,} files", spent, MANIFESTS_BOUND)


def _orphans(bench: Bench, rounds: int) -> Iterator[Figure]:
    """The table of `_manifests`, with files in its folder that no metadata names."""
    location = Path(bench.shared.load_table("b.many").metadata.location.removeprefix("file:").replace("//", "/"))
    some = next((location / "data").glob("*.parquet"))
    week_ago = time.time() - WEEK_S
    times: dict[str, float] = {}
    for _ in range(rounds):
        for side in SIDES:
            for number in range(ORPHANS):
                orphan = location / "data" / f"orphan-{number}.parquet"
                shutil.copyfile(some, orphan)
                os.utime(orphan, (week_ago, week_ago))
            began = time.perf_counter()
            found = _called(bench, side, "remove_orphan_files(table => 'b.many')")
            spent = time.perf_counter() - began
            assert len(found) == ORPHANS, (side, len(found))
            assert not list((location / "data").glob("orphan-*"))
            times[side] = min(spent, times.get(side, spent))
    yield _figure(f"remove_orphan_files of {MANY // FEWER:,} files, {ORPHANS:,} orphans", times, MANIFESTS_BOUND)


def _expire(bench: Bench, folder: Path, rounds: int) -> Iterator[Figure]:
    life = Life.make(folder, bench.shared.properties["uri"], SNAPSHOTS)
    times: dict[str, float] = {}
    left: dict[str, int] = {}
    call = f"expire_snapshots(table => '{NAME}', older_than => timestamp '2100-01-01 00:00:00', retain_last => 1)"
    for _ in range(rounds):
        for side in SIDES:
            bench.spark.catalog.refreshTable(f"java.{NAME}")
            began = time.perf_counter()
            _called(bench, side, call)
            spent = time.perf_counter() - began
            times[side] = min(spent, times.get(side, spent))
            left[side] = life.count()
            life.restore()
    assert len(set(left.values())) == 1, f"the same files are left: {left}"
    yield _figure(f"expire_snapshots of {SNAPSHOTS * 10:,} files", times, MANIFESTS_BOUND)


# -- the parser -------------------------------------------------------------------------------------


def _parser(rounds: int) -> Iterator[Figure]:
    """One JVM without a session; only a statement of Iceberg's DDL would need one."""
    classpath = f"{find_jar()}:{Path(pyspark.__file__).parent}/jars/*"
    classes = compile_java(Path(__file__).parent / "ParserLoop.java", classpath=classpath)
    texts = [base64.b64encode(text.encode()).decode() for text in STATEMENTS.values()]
    command = [str(jdk().java), "-cp", f"{classes}:{classpath}", "ParserLoop", str(10 * rounds), *texts]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    more: dict[str, float] = {}
    notes = []
    for name, line in zip(STATEMENTS, said.splitlines(), strict=True):
        ours, alone, spark = (float(word) / 1e6 for word in line.split())
        more[name] = ours - alone
        notes.append(f"{name} {more[name]:.4f}, Spark's parser {spark:.1f}")
    worst = max(more, key=lambda name: more[name])
    yield Figure(f"parser: more for a statement ({worst})", more[worst], 0.1, False, "ms", "; ".join(notes))
