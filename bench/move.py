"""Moving a table: encrypt against pyarrow's read and write, and on Spark against Iceberg Java's CTAS of the same table.

Both sides write the same rows with the same codec, in turns. The size of the table for Spark is BENCH_MOVE_MB (2048
unless set); the note of each figure says what was measured.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from bench.figures import Figure, best
from bench.verify import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS: Final = 3_000_000  # about 60 MB
FILES: Final = 4
SPARK_MB: Final = int(os.environ.get("BENCH_MOVE_MB", "2048"))
WARM_MB: Final = 32
FILE_ROWS: Final = 8_000_000  # about 120 MB, a file as Iceberg's defaults make them


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _python(Path(folder), rounds)
    with tempfile.TemporaryDirectory() as folder:
        yield from _spark(Path(folder), max(1, rounds // 3))


# -- on one machine, in Python ----------------------------------------------------------------------


def _python(folder: Path, rounds: int) -> Iterator[Figure]:
    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.jobs import encrypt
    from sealberg.jobs.runner import Threads

    catalog = EncryptedSqlCatalog(
        "bench",
        uri=f"sqlite:///{folder}/catalog.db",
        warehouse=f"file://{folder}/warehouse",
        **{"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16},
    )
    catalog.create_namespace("b")
    table = catalog.create_table("b.plain", rows(1).schema, properties={"format-version": "2"})
    for _ in range(FILES):
        table.append(rows(ROWS // FILES))
    files = [Path(task.file.file_path.removeprefix("file://")) for task in table.scan().plan_files()]
    size = sum(file.stat().st_size for file in files) / 1e6
    numbers = count()

    def ours() -> None:
        name = f"b.sealed{next(numbers)}"
        encrypt.plan("b.plain", name, key_id="hr", catalog=catalog).execute(runner=Threads(1))
        catalog.purge_table(name)

    def arrow() -> None:
        for file in files:
            pq.write_table(pq.read_table(file, use_threads=False), folder / "copy.parquet", compression="zstd")

    times = best({"arrow": arrow, "encrypt": ours}, rounds)
    ratio = times["encrypt"] / times["arrow"]
    note = f"{size:.0f} MB: {times['encrypt']:.2f} s, pyarrow {times['arrow']:.2f} s, one thread each"
    yield Figure("encrypt in Python, over pyarrow read and write", ratio, 0.35, at_least=False, note=note)
    catalog.close()


# -- on Spark ---------------------------------------------------------------------------------------


def _spark(folder: Path, rounds: int) -> Iterator[Figure]:
    """Both sides in one session with two cores, after both have copied a small table: no side pays for its start."""
    from bench.spark_session import session

    with session(folder) as bench:
        _make(bench, "warm", WARM_MB)
        best(_copies(bench, "warm"), 2)
        made = _make(bench, "plain", SPARK_MB)
        times = best(_copies(bench, "plain"), rounds)
        ratio = times["encrypt"] / times["ctas"]
        rates = {side: made / spent for side, spent in times.items()}
        note = (
            f"{made:.0f} MB: {times['encrypt']:.1f} s ({rates['encrypt']:.0f} MB/s), Java {times['ctas']:.1f} s "
            f"({rates['ctas']:.0f} MB/s), two cores, both warm"
        )
        yield Figure("encrypt on Spark, over Java's CTAS", ratio, 0.20, at_least=False, note=note)


def _make(bench: Any, name: str, size: int) -> float:
    """A plaintext table by Java of so many MB; returns how many it has become."""
    bench.spark.sql(f"CREATE TABLE java.b.{name} (id bigint, amount double, kind string, name string) USING iceberg")
    part = min(FILE_ROWS, size * 1_000_000 // 15)
    made, at = 0.0, 0
    while made < size:
        bench.spark.range(at, at + 2 * part, numPartitions=2).selectExpr(
            "id", "rand() amount", "concat('kind-', id % 50) kind", "concat('name-', hash(id)) name"
        ).writeTo(f"java.b.{name}").append()
        at += 2 * part
        made = _stored(bench.shared.load_table(f"b.{name}"))
    return made


def _copies(bench: Any, source: str) -> dict[str, Callable[[], None]]:
    """The two ways to an encrypted copy; each copy is removed, so that every round has the same disk."""
    from sealberg.jobs import encrypt
    from sealberg.spark.job_runner import SparkRunner

    numbers, runner = count(), SparkRunner(bench.spark)

    def ours() -> None:
        name = f"b.{source}_sealed{next(numbers)}"
        encrypt.plan(f"b.{source}", name, key_id="keyA", catalog=bench.shared).execute(runner=runner)
        bench.shared.purge_table(name)

    def ctas() -> None:
        name = f"java.b.{source}_copy{next(numbers)}"
        bench.spark.sql(
            f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ('format-version' = '3', "
            f"'encryption.key-id' = 'keyA') AS SELECT * FROM java.b.{source}"
        )
        bench.spark.sql(f"DROP TABLE {name} PURGE")
        shutil.rmtree(bench.folder / "java" / "b.db" / name.rpartition(".")[2], ignore_errors=True)

    return {"ctas": ctas, "encrypt": ours}


def _stored(table: Any) -> float:
    summary = table.metadata.current_snapshot().summary
    return int(summary.additional_properties["total-files-size"]) / 1e6
