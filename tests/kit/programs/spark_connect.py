"""`format("sealberg")` against a Spark Connect server without the jar. A test runs this program.

The catalog `prod` is in PyIceberg's configuration (the environment); `other` is configured by a file.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

import sealberg
from kit.programs.spark import properties_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

FORMAT = "sealberg"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])


def table(spark: SparkSession) -> Any:
    return spark.read.format(FORMAT)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def explained(frame: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        frame.explain(True)
    return shown.getvalue()


def batch(spark: SparkSession, catalog: Any) -> None:
    frame = spark.range(1000).selectExpr("id", "concat('canary-7a-', id) AS name", "timestamp_seconds(id) AS at")
    frame.write.format(FORMAT).mode("append").save("prod.hr.t")
    assert table(spark).load("prod.hr.t").count() == 1000
    assert table(spark).option("columns", "name").load("prod.hr.t").columns == ["name"]
    assert rows(table(spark).load("prod.hr.t").where("id < 2").select("id", "name")) == [
        (0, "canary-7a-0"),
        (1, "canary-7a-1"),
    ]
    with pytest.raises(Exception, match="has no column nothing"):
        table(spark).option("columns", "nothing").load("prod.hr.t").count()
    with pytest.raises(Exception, match="Mismatch in fields"):
        spark.range(3).selectExpr("'x' AS id").write.format(FORMAT).mode("append").save("prod.hr.t")
    frame.limit(3).write.format(FORMAT).mode("overwrite").save("prod.hr.t")
    assert table(spark).load("prod.hr.t").count() == 3
    catalog.load_table("hr.t").delete("id = 1")
    assert table(spark).load("prod.hr.t").count() == 2
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert rows(table(spark).load("prod.hr.t").where("id >= 2").select("id")) == [(2,)]
    assert rows(table(spark).load("prod.hr.t").where("id > 100 AND name IS NOT NULL")) == []


def by_file(spark: SparkSession, folder: Path) -> None:
    """A catalog that is configured by a file only."""
    properties = properties_of(folder)
    catalog: Any = sealberg.load_catalog("other", **properties)
    catalog.create_namespace("own")
    catalog.create_table("own.t", SCHEMA, properties={"encryption.key-id": "hr"})
    (folder / "other.json").write_text(json.dumps(properties))
    given = {"catalog": "other", "properties-file": str(folder / "other.json")}
    frame = spark.range(7).selectExpr("id", "'x' AS name", "now() AS at")
    frame.write.format(FORMAT).options(**given).mode("append").save("own.t")
    found = table(spark).options(**given).load("own.t").where(col("id") == 6)
    assert found.count() == 1
    shown = explained(found)
    assert "own" in shown or "sealberg" in shown
    assert properties["encryption.kms.memory.key.hr"] not in shown
    for secret in ("encryption.kms.memory.key.hr", "s3.secret-access-key", "token"):
        with pytest.raises(Exception, match="Catalog properties cannot be options"):
            table(spark).options(**given, **{secret: "x"}).load("own.t").count()


def streams(spark: SparkSession, catalog: Any, folder: Path) -> None:
    target = catalog.load_table("hr.s")

    def run() -> None:
        reader = spark.readStream.format(FORMAT).option("streaming-skip-overwrite-snapshots", "true")
        frame = reader.load("prod.hr.t").select("id", "name", "at")
        writer = frame.writeStream.format(FORMAT).option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start("prod.hr.s")
        query.awaitTermination()

    run()
    assert target.refresh().scan().count() == 1000
    spark.range(5).selectExpr("id", "'x' AS name", "now() AS at").write.format(FORMAT).mode("append").save("prod.hr.t")
    run()
    run()
    assert target.refresh().scan().count() == 1005
    last = sorted((folder / "checkpoint/commits").glob("[0-9]*"), key=lambda path: int(path.name))
    taken = {one.summary["spark.sql.streaming.epochId"] for one in target.metadata.snapshots}
    assert len(taken) == 2
    for done in last:  # as if the driver had died before Spark noted the batches that have rows
        if int(done.name) >= max(map(int, taken)):
            done.unlink()
            (done.parent / f".{done.name}.crc").unlink()
    run()
    assert target.refresh().scan().count() == 1005


def stops(spark: SparkSession, catalog: Any, folder: Path) -> None:
    """Errors that end a stream or a write: each says why and leaves no files behind."""
    source, target = catalog.load_table("hr.u"), catalog.load_table("hr.v")
    source.append(pa.table({"id": [1], "name": ["x"], "at": [None]}, schema=SCHEMA))

    def run() -> StreamingQuery:
        frame = spark.readStream.format(FORMAT).load("prod.hr.u").select("id", "name", "at")
        writer = frame.writeStream.format(FORMAT).option("checkpointLocation", str(folder / "stops"))
        return writer.trigger(availableNow=True).start("prod.hr.v")

    run().awaitTermination()
    frame = spark.readStream.format(FORMAT).load("prod.hr.u").select("id", "name", "at")
    going = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "going")).start()
    going.processAllAvailable()
    with source.update_schema() as update:
        update.add_column("more", LongType())
    with pytest.raises(Exception, match=r"columns of hr\.u were changed since this stream was defined"):
        going.awaitTermination(120)
    for number in (2, 3):
        rows = {"id": [number], "name": ["x"], "at": [None], "more": [1]}
        source.refresh().append(pa.table(rows, schema=SCHEMA.append(pa.field("more", pa.int64()))))
    second = source.metadata.snapshots[1].snapshot_id
    source.maintenance.expire_snapshots().by_ids([source.metadata.snapshots[0].snapshot_id, second]).commit()
    with pytest.raises(Exception, match="has expired or was rolled back"):
        run().awaitTermination(120)
    assert target.refresh().scan().count() == 1
    before = set(folder.joinpath("wh").rglob("*.parquet"))
    # The second task fails when the first has written its file.
    wait = "reflect('java.lang.Thread', 'sleep', 5000L) != ''"
    bad = f"CASE WHEN id < 100 THEN id WHEN {wait} THEN CAST(raise_error('one row is bad') AS bigint) END AS id"
    failing = spark.range(0, 200, 1, 2).selectExpr(bad, "'x' AS name", "now() AS at")
    with pytest.raises(Exception, match="one row is bad"):
        failing.write.format(FORMAT).mode("append").save("prod.hr.v")
    assert set(folder.joinpath("wh").rglob("*.parquet")) == before
    assert target.refresh().scan().count() == 1


def main(folder: Path) -> None:
    catalog: Any = sealberg.load_catalog("prod")
    catalog.create_namespace("hr")
    builder = SparkSession.builder.remote("local[2]")
    for name, value in json.loads((folder / "conf.json").read_text()).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect")
    for name in ("hr.t", "hr.s", "hr.u", "hr.v"):
        catalog.create_table(name, SCHEMA, properties={"encryption.key-id": "hr"})
    batch(spark, catalog)
    by_file(spark, folder)
    streams(spark, catalog, folder)
    stops(spark, catalog, folder)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
