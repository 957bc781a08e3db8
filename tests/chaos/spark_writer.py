"""A Spark driver that writes as workers do, in SQL; with a metastore, through Iceberg Java's catalog and ours in turns.

    python -m chaos.spark_writer <folder of the round> <port of the metastore, or 0>

    stdout  ready                     Spark is up
    stdin   go                        work until the file `stop` is there
    stdin   read                      -> {"ours": {ref: rows}, "java": {ref: rows}}, for a second opinion

Spark has no snapshot properties, so that its snapshots bear no name; they are told by the time of their commit, since
one driver does one thing after another.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from chaos.log import Log, last_attempt
from chaos.model import digest
from chaos.plan import Row
from chaos.round import CATALOG, KMS, Round

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chaos.plan import Operation

COLUMNS: Final = "k, w, p, v"


def main() -> None:
    settings, port = Round.read(sys.argv[1]), int(sys.argv[2])
    answers, sys.stdout = sys.stdout, sys.stderr
    spark, catalogs = _session(settings, port)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        if line.strip() == "go":
            SparkWriter(settings, spark, catalogs).run()
            print("done", file=answers, flush=True)
        elif line.strip() == "read":
            print(json.dumps(_opinions(spark, catalogs)), file=answers, flush=True)
    spark.stop()


def _session(settings: Round, port: int) -> tuple[Any, dict[str, str]]:
    if port:
        from kit.programs.iceberg_java import JARS, IcebergJava
        from kit.programs.maven import bring

        return IcebergJava(settings.root, port, bring(*JARS)).spark, {"ours": "ours", "java": "h"}
    import sealberg.spark

    folder = settings.root
    spark = sealberg.spark.session(
        CATALOG,
        {**settings.catalog, **KMS},
        master="local[1]",
        **{
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": f"{folder}/local",
            "spark.sql.warehouse.dir": f"{folder}/plain",
        },
    )
    return spark, {"ours": CATALOG}


class SparkWriter:
    """The last of the owners of rows."""

    def __init__(self, settings: Round, spark: Any, catalogs: Mapping[str, str]) -> None:
        self._settings = settings
        self._spark = spark
        self._catalogs = tuple(catalogs.values())
        self._number = settings.workers
        self._log = Log(settings.log(self._number))

    def run(self) -> None:
        begin = last_attempt(self._settings.log(self._number)) + 1
        for operation in self._settings.plan(self._number):
            if operation.index < begin:
                continue
            if (self._settings.root / "stop").exists():
                return
            self._attempt(operation, f"{self._catalogs[operation.index % len(self._catalogs)]}.db.t")

    def _attempt(self, operation: Operation, table: str) -> None:
        self._log.operation = operation.index
        self._log("attempt", plan=operation.to_json(), table=table)
        try:
            if operation.kind == "read":
                self._read(table)
            else:
                self._spark.sql(statement(operation, table)).collect()
        except Exception as error:
            words = str(error)
            outcome = "unknown" if "CommitStateUnknown" in words else "failed"
            self._log(outcome, error=f"spark.{_java_name(error)}", message=words[:300])
        else:
            self._log("acknowledged")

    def _read(self, table: str) -> None:
        head = self._spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").first()[0]
        rows = _rows(self._spark, table, head)
        self._log("seen", snapshot=head, digest=digest(Row(*row) for row in rows), rows=len(rows))


def statement(operation: Operation, table: str) -> str:
    """The operation in SQL."""
    values = ", ".join(
        f"(CAST({row.k} AS BIGINT), {row.w}, {row.p}, CAST({row.v} AS BIGINT))" for row in operation.rows
    )
    keys = ", ".join(map(str, operation.keys))
    match operation.kind:
        case "append":
            return f"INSERT INTO {table} ({COLUMNS}) VALUES {values}"
        case "delete":
            return f"DELETE FROM {table} WHERE k IN ({keys})"
        case "update":
            return f"UPDATE {table} SET v = {operation.value} WHERE k IN ({keys})"
        case "merge":
            return (
                f"MERGE INTO {table} t USING (SELECT * FROM VALUES {values} AS s({COLUMNS})) s ON t.k = s.k "
                "WHEN MATCHED THEN UPDATE SET v = s.v "
                f"WHEN NOT MATCHED THEN INSERT ({COLUMNS}) VALUES (s.k, s.w, s.p, s.v)"
            )
    raise AssertionError(operation.kind)


def _rows(spark: Any, table: str, version: int | str) -> list[tuple[int, int, int]]:
    found = spark.sql(f"SELECT k, p, v FROM {table} VERSION AS OF {version!r}").collect()
    return sorted((row.k, row.p, row.v) for row in found)


def _opinions(spark: Any, catalogs: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for reader, catalog in catalogs.items():
        table = f"{catalog}.db.t"
        names = [row.name for row in spark.sql(f"SELECT name FROM {table}.refs").collect()]
        told[reader] = {name: _rows(spark, table, name) for name in names}
    return told


def _java_name(error: Exception) -> str:
    inner = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    return str(inner.getClass().getName()) if inner is not None else type(error).__name__


if __name__ == "__main__":
    main()
