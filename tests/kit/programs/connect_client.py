"""A client of Spark Connect: statements from stdin, one a line; answers as tests/java/SqlJob.java writes them.

python -m kit.programs.connect_client sc://localhost:15002
python -m kit.programs.connect_client local[2] conf.json       a server in the client's own JVM

SELECT ...              runs as SQL
frames prod FOLDER      runs the DataFrame API and a stream on catalog prod; the checkpoint is in FOLDER
cancel FOLDER 9 CALL    runs a statement, and interrupts it when there are nine Parquet files in FOLDER
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col


def frames(spark: SparkSession, catalog: str, folder: str) -> None:
    """Write, read, look back, merge and stream, without SQL."""
    table, copy = f"{catalog}.frames.people", f"{catalog}.frames.copy"
    spark.sql(f"CREATE NAMESPACE {catalog}.frames")
    people = spark.range(10).selectExpr("id", "concat('n', id) AS name")
    people.writeTo(table).tableProperty("encryption.key-id", "hr").create()
    people.limit(0).writeTo(copy).tableProperty("encryption.key-id", "hr").create()
    people.selectExpr("id + 10 AS id", "name").writeTo(table).append()
    assert spark.table(table).where(col("id") > 15).count() == 4
    first = spark.table(f"{table}.snapshots").orderBy("committed_at").collect()[0].snapshot_id
    assert spark.read.option("snapshot-id", first).table(table).count() == 10
    query = (
        spark.readStream.table(table)
        .writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .toTable(copy)
    )
    query.awaitTermination()
    assert [row.id for row in spark.table(copy).orderBy("id").collect()] == list(range(20))
    people.alias("s").mergeInto(table, col(f"{table}.id") == col("s.id")).whenMatched().delete().merge()
    assert spark.table(table).count() == 10
    rows = spark.read.format("sealberg").load(table)
    assert sorted(row.name for row in rows.where("id < 12").collect()) == ["n0", "n1"]


def cancel(spark: SparkSession, folder: str, files: str, statement: str) -> None:
    """Run the statement in this thread, and interrupt it from another one."""

    def interrupt() -> None:
        while len(list(Path(folder).rglob("*.parquet"))) < int(files):
            time.sleep(0.02)
        spark.interruptAll()

    threading.Thread(target=interrupt, daemon=True).start()
    spark.sql(statement).collect()


def main() -> None:
    builder = SparkSession.builder.remote(sys.argv[1])
    if len(sys.argv) > 2:
        for name, value in json.loads(Path(sys.argv[2]).read_text()).items():
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        try:
            if line.startswith("frames "):
                frames(spark, *line.split()[1:])
            elif line.startswith("cancel "):
                cancel(spark, *line.strip().split(" ", 3)[1:])
            else:
                for row in spark.sql(line.strip()).collect():
                    print(*row, sep="\t")
        except Exception as error:
            print("!" + " ".join(f"{type(error).__name__}: {error}".split()))
        print(".", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
