"""Spark with two catalogs, `ours` and `java`, and the outcomes of a chapter of statements on each.

    with both_catalogs(folder) as (ours, java):
        ours.run(chapter)   ->  {"SELECT id ...": "id bigint | (1) | (2)", "DROP ...": "refused: ..."}

An outcome is a text: the columns with their types, then the rows, in their order if the statement has an ORDER BY. A
statement that changes a table is followed by `then` and the rows of the table afterwards. Ids of snapshots, times of
commits, sizes and folders differ from run to run: `outcome_text.py` replaces them.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kit.programs.maven import bring
from kit.programs.one_spark import stop
from kit.programs.spark import FRUGAL
from kit.tables.outcome_text import Words, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kit.tables.statements import Chapter

ICEBERG: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
CHANGES: Final = re.compile(
    r"(?:INSERT (?:INTO|OVERWRITE)(?: TABLE)?|DELETE FROM|UPDATE|MERGE(?: WITH SCHEMA EVOLUTION)? INTO|ALTER TABLE"
    r"|(?:CREATE|CREATE OR REPLACE|REPLACE) TABLE(?: IF NOT EXISTS)?|TRUNCATE TABLE)"
    r" (?!\S+\.(?:files|snapshots)\b)([\w.`]+)"
)
ANALYSIS: Final = re.compile(r"refused: [A-Z0-9_.]+, by analysis")  # before any table is asked to change
CREATES: Final = re.compile(r"(CREATE|REPLACE|CREATE OR REPLACE) TABLE")
QUERY: Final = re.compile(r" AS (SELECT|VALUES)")
KEY: Final = "'encryption.key-id' = 'hr'"
MADE: Final = re.compile(r"MAKE (BRANCH|TAG) (\w+) OF (\w+)")
SNAPSHOT: Final = re.compile(r"\{(\w+)\.(\d+)(\.time)?\}")


@dataclass
class Side:
    """One of the two catalogs, with its own session."""

    catalog: str
    spark: SparkSession
    python: Any = None  # the catalog in Python, if it is ours
    namespace: str = ""

    def run(self, chapter: Chapter) -> dict[str, str]:
        """The outcome of each statement."""
        self.namespace = f"{self.catalog}.{chapter.name}"
        self.spark.sql(f"CREATE NAMESPACE {self.namespace}")
        self.spark.sql(f"USE {self.namespace}")
        words = Words(self.catalog, chapter.name)
        return {known: self._outcome(text, words) for known, text in chapter.statements.items()}

    def _outcome(self, text: str, words: Words) -> str:
        if made := MADE.fullmatch(text):
            return self._make(*made.groups())
        said = self._said(self._with_snapshots(self._keyed(text)), words)
        if not ANALYSIS.match(said) and (changed := CHANGES.match(text)) and "RENAME TO" not in text:
            # A table that is new and empty has columns only: no need for a job.
            rows = "" if text.startswith("CREATE TABLE") and " AS " not in text else "SELECT * FROM "
            said += f" then {self._said(f'{rows}{changed[1]}', words)}"
        return said

    def _said(self, text: str, words: Words) -> str:
        """The outcome of a statement, or the columns of a table if the text is the name of a table."""
        try:
            if " " not in text:
                return words.table(self.spark.table(text).schema, (), ordered=True)
            frame = self.spark.sql(text)
            rows = frame.collect()
        except Exception as error:  # a refusal is an outcome
            return refusal(error)
        return words.table(frame.schema, rows, ordered="ORDER BY" in text)

    def _keyed(self, text: str) -> str:
        """Add a key id to a CREATE TABLE: all our tables are encrypted."""
        if self.python is None or not CREATES.match(text):
            return text
        if "TBLPROPERTIES (" in text:
            return text.replace("TBLPROPERTIES (", f"TBLPROPERTIES ({KEY}, ", 1)
        query = QUERY.search(text)
        end = query.start() if query else len(text)
        return f"{text[:end]} TBLPROPERTIES ({KEY}){text[end:]}"

    def _with_snapshots(self, text: str) -> str:
        """{t.2} is the id of the second snapshot of t, {t.2.time} the time of its commit, as a literal."""

        def literal(found: re.Match[str]) -> str:
            table = f"{self.namespace}.{found[1]}.snapshots"
            rows = self.spark.sql(f"SELECT snapshot_id, committed_at FROM {table} ORDER BY committed_at").collect()
            snapshot, time = rows[int(found[2]) - 1]
            return f"timestamp'{time}'" if found[3] else str(snapshot)

        return SNAPSHOT.sub(literal, text)

    def _make(self, kind: str, name: str, table: str) -> str:
        self.spark.sql(f"ALTER TABLE {table} CREATE {kind} {name}")
        return "made"


def run_both(sides: tuple[Side, Side], chapters: Iterable[Chapter]) -> dict[str, dict[str, tuple[str, str]]]:
    """The outcomes of both catalogs, by chapter and statement; both run at the same time."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    with ThreadPoolExecutor(2) as pool:
        for chapter in chapters:
            ours, java = (pool.submit(side.run, chapter) for side in sides)
            theirs = java.result()
            found[chapter.name] = {known: (outcome, theirs[known]) for known, outcome in ours.result().items()}
    return found


@contextmanager
def both_catalogs(folder: Path) -> Iterator[tuple[Side, Side]]:
    """Our catalog with encrypted tables, and Java's in memory, in one JVM."""
    from pyspark.sql import SparkSession

    import sealberg
    import sealberg.spark

    settings = {
        "spark.jars": str(bring(ICEBERG)[0]),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {FRUGAL}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/spark",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.java": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.java.catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
        "spark.sql.catalog.java.warehouse": "/java",
        "spark.sql.catalog.java.cache-enabled": "false",
        "spark.sql.catalog.java.table-default.format-version": "3",
    }
    builder: Any = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    ours = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/wh",
        "encryption.kms-type": "memory",
        "encryption.kms.memory.key.hr": "ab" * 16,
    }
    spark = sealberg.spark.configure(builder, "ours", ours).getOrCreate()
    try:
        sealberg.spark.install(spark)
        spark.sparkContext.setLogLevel("OFF")
        with sealberg.load_catalog("ours", **ours) as python:
            yield Side("ours", spark.newSession(), python), Side("java", spark.newSession())
    finally:
        stop(spark)
