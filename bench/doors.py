"""The doors of Spark that start their own Python: the first statement of spark-sql, and a crowd at the Thrift server.

spark-sql       from the start of the shell to the answer of its first statement, each time in a new shell: on our
                catalog, on a Hadoop catalog of Iceberg's connector with the same rows in plaintext, and on the
                Parquet files of that table without a catalog
Thrift server   100 JDBC clients ask at once, on an encrypted table, on a plaintext Parquet table of the same server,
                and on a view of its files, which needs no metastore
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import channel
from bench.figures import Figure, best
from kit.programs.commands import compile_java, jdk
from kit.programs.doors import SPARK, Lake, jdbc, spark_sql, thrift_server
from kit.programs.iceberg_java import JARS
from kit.programs.maven import bring

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS: Final = 100
BARE: Final = ("spark.master", "spark.ui.enabled", "spark.sql.shuffle.partitions")
ROWS: Final = 300_000
ENCRYPTED: Final = "TBLPROPERTIES ('encryption.key-id' = 'hr')"
FEW: Final = "AS SELECT id, id * 2 AS amount FROM range(1000)"
FIRST: Final = "SELECT sum(amount) FROM {} WHERE id < 10"
MANY: Final = f"AS SELECT /*+ REPARTITION(4) */ id, rand(1) AS amount, id % {CLIENTS} AS part FROM range({ROWS})"
CROWD: Final = "SELECT count(amount) FROM {} WHERE part = %d"


def figures(rounds: int) -> Iterator[Figure]:
    yield from channel.figures(rounds)
    with tempfile.TemporaryDirectory() as folder:
        yield from _first_statement(Path(folder), max(3, rounds // 2))
    with tempfile.TemporaryDirectory() as folder:
        yield from _crowd(Path(folder), rounds)


def _first_statement(folder: Path, rounds: int) -> Iterator[Figure]:
    ours = Lake.create(folder)
    iceberg = replace(ours, conf=_iceberg_hadoop(folder, ours))
    bare = replace(ours, conf={name: value for name, value in ours.conf.items() if name in BARE})
    for lake, properties in ((ours, ENCRYPTED), (iceberg, "")):
        with spark_sql(lake) as door:
            door.run("CREATE NAMESPACE prod.b")
            door.run(f"CREATE TABLE prod.b.few USING iceberg {properties} {FEW}")
    plain = folder / "plain" / "b" / "few" / "data"
    seconds: dict[str, list[float]] = {}

    def first(name: str, lake: Lake, table: str) -> None:
        began = time.perf_counter()
        with spark_sql(lake) as door:
            assert door.run(FIRST.format(table)) == [["90"]]
            seconds.setdefault(name, []).append(time.perf_counter() - began)  # the end of the shell does not count

    acts = {
        "ours": partial(first, "ours", ours, "prod.b.few"),
        "iceberg": partial(first, "iceberg", iceberg, "prod.b.few"),
        "bare": partial(first, "bare", bare, f"parquet.`{plain}`"),
    }
    best(acts, rounds)
    spent = {name: min(found) for name, found in seconds.items()}
    for name, anchor in (("iceberg", "a plaintext Hadoop catalog's of Iceberg"), ("bare", "plaintext Parquet files'")):
        note = f"{spent['ours']:.1f} s with the start of the shell, against {spent[name]:.1f} s"
        more = spent["ours"] - spent[name]
        yield Figure(f"spark-sql: first statement, over {anchor}", more, 3, False, "s more", note)


def _iceberg_hadoop(folder: Path, lake: Lake) -> dict[str, str]:
    """The settings of the shell, with Iceberg's connector in the place of ours."""
    conf = {name: value for name, value in lake.conf.items() if not name.startswith("spark.sql.catalog.")}
    return conf | {
        "spark.jars": str(bring(JARS[0])[0]),
        "spark.sql.catalog.prod": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.prod.type": "hadoop",
        "spark.sql.catalog.prod.warehouse": f"file://{folder}/plain",
    }


def _crowd(folder: Path, rounds: int) -> Iterator[Figure]:
    # Iceberg's tables have zstd by default.
    lake = Lake.create(folder, **{"spark.sql.parquet.compression.codec": "zstd", "spark.driver.memory": "3g"})
    tables = {"ours": "prod.b.many", "table": "default.many", "view": "global_temp.many"}
    with thrift_server(lake) as url:
        with jdbc(lake, url, "ada") as door:
            door.run("CREATE NAMESPACE prod.b")
            door.run(f"CREATE TABLE {tables['ours']} {ENCRYPTED} {MANY}")
            door.run(f"CREATE TABLE {tables['table']} USING parquet {MANY}")
            files = lake.folder / "work" / "spark-warehouse" / "many"
            door.run(f"CREATE GLOBAL TEMPORARY VIEW many USING parquet OPTIONS (path 'file://{files}')")
        with _crowd_of_clients(url) as crowd:
            answers: dict[str, list[tuple[float, int, float]]] = {name: [] for name in tables}
            acts = {name: partial(_ask, crowd, CROWD.format(table), answers[name]) for name, table in tables.items()}
            best(acts, rounds + 1)  # the first round warms the JVM
    spent = {name: min(seconds for seconds, _, _ in found[1:]) for name, found in answers.items()}
    errors = {name: sum(failed for _, failed, _ in found) for name, found in answers.items()}
    assert {total for found in answers.values() for _, failed, total in found if not failed} == {float(ROWS)}
    name = f"Thrift server: {CLIENTS} queries at once"
    for side, anchor in (
        ("table", "a plaintext Parquet table"),
        ("view", "a view of these files, without a metastore"),
    ):
        note = f"{spent['ours'] * 1000:.0f} ms against {spent[side] * 1000:.0f} ms"
        yield Figure(f"{name}, over {anchor}", spent["ours"] / spent[side], 1.2, False, note=note)
    asked = CLIENTS * len(answers["ours"])
    yield Figure(
        f"{name}, errors of {asked}", errors["ours"], 0, False, note=f"plaintext {errors['table'] + errors['view']}"
    )


@contextlib.contextmanager
def _crowd_of_clients(url: str) -> Iterator[subprocess.Popen[str]]:
    classes = compile_java(Path(__file__).parent / "JdbcCrowd.java")
    command = [str(jdk().java), "-cp", f"{classes}:{SPARK}/jars/*", "JdbcCrowd", url, str(CLIENTS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
        yield crowd
        assert crowd.stdin is not None
        crowd.stdin.close()


def _ask(crowd: subprocess.Popen[str], query: str, answers: list[tuple[float, int, float]]) -> None:
    assert crowd.stdin is not None
    assert crowd.stdout is not None
    crowd.stdin.write(query + "\n")
    crowd.stdin.flush()
    nanoseconds, errors, total = crowd.stdout.readline().split()
    answers.append((int(nanoseconds) / 1e9, int(errors), float(total)))
