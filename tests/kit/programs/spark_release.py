"""A few statements of each kind on the Spark of PYTHONPATH. A test runs this program.

    python -m kit.programs.spark_release FOLDER VERSION

The jar is the same for every Spark, compiled against 4.1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.errors import StreamingQueryException

from kit.programs.spark import SparkKit, properties_of, start


def main(folder: Path, version: str) -> None:
    assert pyspark.__version__ == version, pyspark.__file__
    kit = start(folder)
    try:
        assert kit.spark.version == version
        if version.startswith("4.0."):
            changed_rows(kit, "merge-on-read")
            limits_of_4_0(kit, folder)
        else:
            for mode in ("copy-on-write", "merge-on-read"):
                changed_rows(kit, mode)
            streams(kit, folder)
    finally:
        kit.spark.stop()


def changed_rows(kit: SparkKit, mode: str) -> None:
    name = kit.fresh()
    modes = ", ".join(f"'write.{one}.mode' = '{mode}'" for one in ("delete", "update", "merge"))
    keyed = f"TBLPROPERTIES ('encryption.key-id' = 'hr', {modes})"
    kit.sql(
        f"CREATE TABLE {name} PARTITIONED BY (bucket(3, id)) {keyed} AS "
        "SELECT id, concat('n', id) AS name, array(id) AS tags FROM range(300)"
    )
    before = dict(kit.sql(f"SELECT id, _row_id FROM {name}"))
    kit.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    kit.sql(f"UPDATE {name} SET name = 'new' WHERE id < 20")
    kit.sql(
        f"""MERGE INTO {name} t USING (SELECT id FROM range(299, 302)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET name = 'new' WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')"""
    )
    left = {one for one in range(302) if one % 10 != 3}
    found = {one: (row, text) for one, row, text in kit.sql(f"SELECT id, _row_id, name FROM {name}")}
    assert found.keys() == left
    assert {one for one, row in found.items() if row[1] == "new"} == {one for one in left if one < 20 or one > 298}
    assert all(found[one][0] == before[one] for one in left & before.keys())
    assert len(kit.table(name).scan().to_arrow()) == len(left)
    assert kit.sql(f"SELECT count(*) FROM {name} WHERE id BETWEEN 100 AND 199") == [(90,)]
    assert kit.sql(f"SELECT tags[0] FROM {name} WHERE id = 17") == [(17,)]
    kit.sql(f"ALTER TABLE {name} ADD COLUMN more int")
    kit.sql(f"INSERT OVERWRITE {name} SELECT 1L, 'one', array(1L), 1")
    assert kit.sql(f"SELECT id, more FROM {name}") == [(1, 1)]
    kit.sql(f"REPLACE TABLE {name} {keyed} AS SELECT 2 AS x")
    kit.sql(f"TRUNCATE TABLE {name}")
    assert kit.sql(f"SELECT * FROM {name}") == []
    magics = {(path.suffix, path.read_bytes()[:4]) for path in kit.data_files(name)}
    assert {(".parquet", b"PARE")} <= magics <= {(".parquet", b"PARE"), (".puffin", b"AGS1")}


def limits_of_4_0(kit: SparkKit, folder: Path) -> None:
    """What Spark 4.0 lacks is missing as docs/spark.md says, and the rest of the Python data source works."""
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr')")
    (folder / "prod.json").write_text(json.dumps(properties_of(folder)))
    given = {"catalog": "prod", "properties-file": str(folder / "prod.json")}
    short = name.removeprefix("prod.")
    kit.spark.range(3).write.format("sealberg").options(**given).mode("append").save(short)
    assert kit.spark.read.format("sealberg").options(**given).load(short).filter("id > 0").count() == 2
    stream = kit.spark.readStream.table(name).writeStream.trigger(availableNow=True)
    stream.option("checkpointLocation", str(folder / "native")).toTable(name + "_copy").awaitTermination()
    assert len(kit.sql(f"SELECT * FROM {name}_copy")) == 3
    sink = stream.format("sealberg").options(**given, checkpointLocation=str(folder / "python"))
    try:
        sink.start(short).awaitTermination()
    except StreamingQueryException as error:
        assert "Spark 4.1 can: write with writeStream.toTable" in str(error)  # noqa: PT017 (no test: a program)
    else:
        raise AssertionError("Spark 4.0 gives rows one by one, and no writer of sealberg takes them")
    kit.sql(
        f"""MERGE WITH SCHEMA EVOLUTION INTO {name} t USING (SELECT 1L AS id, 2 AS more) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert kit.spark.table(name).columns == ["id"], "if Spark 4.0 adds columns now, docs/spark.md is wrong"


def streams(kit: SparkKit, folder: Path) -> None:
    """Streams by the jar and by Python workers: limits are kept, and each row comes once."""
    keyed = "TBLPROPERTIES ('encryption.key-id' = 'hr')"
    source = kit.fresh()
    kit.sql(f"CREATE TABLE {source} (id bigint) {keyed}")
    (folder / "prod.json").write_text(json.dumps(properties_of(folder)))
    given = {"catalog": "prod", "properties-file": str(folder / "prod.json")}
    limits = {"streaming-max-files-per-micro-batch": "2"}
    for way in ("native", "python"):
        target = kit.fresh()
        kit.sql(f"CREATE TABLE {target} (id bigint) {keyed}")
        checkpoint = str(folder / way)

        def run(way: str = way, target: str = target, checkpoint: str = checkpoint) -> None:
            if way == "native":
                frame = kit.spark.readStream.options(**limits).table(source)
                writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
                query = writer.toTable(target)
            else:
                reader = kit.spark.readStream.format("sealberg").options(**limits, **given)
                frame = reader.load(source.removeprefix("prod."))
                writer = frame.writeStream.format("sealberg").options(**given, checkpointLocation=checkpoint)
                query = writer.trigger(availableNow=True).start(target.removeprefix("prod."))
            query.awaitTermination()

        run()
        before = len(kit.sql(f"SELECT id FROM {source}"))
        for number in range(5):
            kit.table(source).append(pa.table({"id": [before + number]}))
        run()
        run()
        assert kit.sql(f"SELECT id FROM {target}") == kit.sql(f"SELECT id FROM {source}"), way
        added = [dict(row) for row in kit.table(target).inspect.snapshots()["summary"].to_pylist()]
        batches = [int(one["added-records"]) for one in added]
        assert batches == [2, 2, 1] * (len(added) // 3), f"{way}: two files of a row each, at most"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
