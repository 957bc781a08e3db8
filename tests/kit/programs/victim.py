"""A driver with secrets, for a test of what other users of the machine can see. The test runs this program.

    python -m kit.programs.victim FOLDER MASTER ──> JSON: process id, secrets; then it waits for the end of its input

It writes and reads encrypted tables in every way that leaves traces: Parquet and Avro, a shuffle, a broadcast, cached
rows, a Python function, an event log. Functions make the rows, because Spark's UI shows the text of statements.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import sealberg
from kit.programs.spark import KEYED, planned_files
from sealberg.spark.driver.bridge_server import bridge_server

CANARY = "canary-row-5b1f"


def keys_of(catalog: Any, table: str) -> list[str]:
    return [file.key.hex() for file in planned_files(catalog, ("hr", table)) if file.key is not None]


def main(folder: Path, master: str) -> None:
    spark = sealberg.spark.session(
        "local",
        None,
        master,
        **{
            "spark.ui.port": "0",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": f"{folder}/local",
            "spark.sql.warehouse.dir": f"{folder}/plain",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{folder}/events",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.sql("CREATE NAMESPACE local.hr")
    rows = spark.range(2000, numPartitions=2).selectExpr("id", "concat('canary', '-row-', '5b1f-', id) AS name")
    rows.writeTo("local.hr.pay").tableProperty("encryption.key-id", "hr").create()
    spark.sql(f"CREATE TABLE local.hr.avro (id bigint, name string) {KEYED[:-1]}, 'write.format.default' = 'avro')")
    rows.writeTo("local.hr.avro").append()
    pay, avro = spark.table("local.hr.pay"), spark.table("local.hr.avro")
    assert avro.groupBy("name").count().count() == 2000
    cached = pay.repartition(2, "name").persist()
    assert cached.count() == 2000
    assert cached.hint("broadcast").join(avro, "name").count() == 2000
    assert pay.rdd.map(lambda row: row.name).filter(lambda name: name.endswith("7")).count() == 200
    kept = pay.rdd.map(lambda row: row.name).persist()
    assert kept.count() == 2000
    assert pay.orderBy("name").first()["name"].startswith(CANARY)  # type: ignore[index]
    catalog = sealberg.load_catalog("local")
    context: Any = spark.sparkContext
    told = {
        "pid": os.getpid(),
        "ui": context.uiWebUrl,
        "app": context.applicationId,
        "rdds": sorted(context._jsc.getPersistentRDDs().keySet()),
        "secrets": {
            "keys": keys_of(catalog, "pay"),
            "texts": [
                CANARY,
                os.environ["SEALBERG_PASSPHRASE"],
                bridge_server().token,
                context._gateway.gateway_parameters.auth_token,
            ],
        },
    }
    print(json.dumps(told), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
