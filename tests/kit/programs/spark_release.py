"""All that the pages promise, on the Spark of PYTHONPATH and in one JVM. A test runs this program.

    python -m kit.programs.spark_release FOLDER VERSION

    pages       every statement of procedures.md (all procedures, the DDL) and metadata-tables.md; the Python of
                spark.md and streams.md
    statements  INSERT, DELETE, UPDATE, MERGE in both modes; tables of every type
    streams     both ways, by the jar and by `format("sealberg")`
    Connect     a server in the same JVM, and a client in a process of its own
    FEATURES    what a Spark lacks, which must be refused there as the pages say

The jar is the same for every Spark. On the installed Spark, tests do all of it, by the same functions.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyspark
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from kit.programs import pages
from kit.programs.doors import Lake, connect
from kit.programs.spark import KEYED, SparkKit, properties_of, start
from kit.programs.visit import visit
from kit.servers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

PAGES: Final = {"spark.md": "first", "streams.md": "second"}  # each page has a catalog of its own
TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"


def main(folder: Path, version: str) -> None:
    assert pyspark.__version__ == version, pyspark.__file__
    lake = Lake.create(folder / "lake", *PAGES.values(), "visited", "framed")
    port = free_port()
    # Of this process, and so of its JVM: PyIceberg's configuration, and what a client of Connect must know.
    os.environ |= {name: lake.environment[name] for name in ("PYICEBERG_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON")}
    os.environ[TOKEN] = lake.environment[TOKEN] = "a-token-of-the-test"
    served = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    catalogs = {name: value for name, value in lake.conf.items() if name.startswith("spark.sql.catalog.")}
    kit = start(folder, **catalogs, **served)
    try:
        assert kit.spark.version == version
        pages.procedures(kit)
        pages.metadata_tables(kit)
        for mode in ("copy-on-write", "merge-on-read"):
            changed_rows(kit, mode)
        every_type(kit, folder)
        streams(kit, folder, series(version))
        for feature in FEATURES:
            feature.check(kit, folder, series(version))
        for page in PAGES:
            examples(page, series(version))
        with connect(lake, f"sc://localhost:{port}") as door:
            door.run(f"frames framed {folder / 'framed'}")
            visit(door, lake, "visited")
    finally:
        kit.spark.stop()


def series(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


# -- statements -------------------------------------------------------------------------------------


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


TYPES: Final[dict[IcebergType, str]] = {  # with a value of each in SQL
    BooleanType(): "true",
    IntegerType(): "7",
    LongType(): "7L",
    FloatType(): "float(0.5)",
    DoubleType(): "0.25d",
    DecimalType(9, 2): "cast(1.25 AS decimal(9, 2))",
    StringType(): "'text'",
    BinaryType(): "X'0102'",
    FixedType(2): "X'0304'",
    UUIDType(): "'12345678-1234-5678-1234-567812345678'",
    DateType(): "DATE'2026-01-02'",
    TimestampType(): "TIMESTAMP_NTZ'2026-01-02 03:04:05.678901'",
    TimestamptzType(): "TIMESTAMP'2026-01-02 03:04:05.678901'",
}


def every_type(kit: SparkKit, folder: Path) -> None:
    """Columns of every type, and structs, lists and maps of it, required or not: by the jar and by Python workers."""
    name = kit.fresh()
    numbers = iter(range(1, 1000))
    fields, values = [], []
    for at, (kind, value) in enumerate(TYPES.items()):
        for required in (False, True):
            inner = NestedField(next(numbers), "inner", kind, required=required)
            shapes = {
                "one": (kind, value),
                "struct": (StructType(inner), f"named_struct('inner', {value})"),
                "list": (ListType(next(numbers), kind, element_required=required), f"array({value})"),
                "map": (
                    MapType(next(numbers), StringType(), next(numbers), kind, value_required=required),
                    f"map('key', {value})",
                ),
            }
            for shape, (made, text) in shapes.items():
                fields.append(NestedField(next(numbers), f"{shape}_{at}_{required}", made, required=required))
                values.append((text, required))
    kit.catalog.create_table(name.removeprefix("prod."), Schema(*fields), properties={"encryption.key-id": "hr"})
    full = ", ".join(text for text, _ in values)
    sparse = ", ".join(text if required else "NULL" for text, required in values)
    kit.sql(f"INSERT INTO {name} VALUES ({full}), ({sparse})")
    given = source_options(folder)
    short = name.removeprefix("prod.")
    rows = kit.sql(f"SELECT * FROM {name}")
    assert len(rows) == 2
    assert None not in rows[0] or None not in rows[1]
    read = kit.spark.read.format("sealberg").options(**given).load(short)
    assert sorted((tuple(row) for row in read.collect()), key=repr) == rows
    kit.spark.table(name).write.format("sealberg").options(**given).mode("append").save(short)
    assert kit.sql(f"SELECT * FROM {name}") == sorted(rows * 2, key=repr)


def source_options(folder: Path) -> dict[str, str]:
    (folder / "prod.json").write_text(json.dumps(properties_of(folder)))
    return {"catalog": "prod", "properties-file": str(folder / "prod.json")}


# -- streams ----------------------------------------------------------------------------------------


def streams(kit: SparkKit, folder: Path, spark: tuple[int, int]) -> None:
    """Streams by the jar and by Python workers: limits are kept, and each row comes once."""
    source = kit.fresh()
    kit.sql(f"CREATE TABLE {source} (id bigint) {KEYED}")
    given = source_options(folder)
    limits = {"streaming-max-files-per-micro-batch": "2"}
    for way in ("native", "python"):
        target = kit.fresh()
        kit.sql(f"CREATE TABLE {target} (id bigint) {KEYED}")
        checkpoint = str(folder / way)

        def run(way: str = way, target: str = target, checkpoint: str = checkpoint) -> None:
            reader = kit.spark.readStream.options(**limits)
            if way == "native":
                frame = reader.table(source)
            else:
                frame = reader.format("sealberg").options(**given).load(source.removeprefix("prod."))
            writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            if way == "native" or spark < STREAM_WRITER.since:
                query = writer.toTable(target)
            else:
                query = writer.format("sealberg").options(**given).start(target.removeprefix("prod."))
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
        # Before 4.2, Spark does not tell Python sources in time what a stream has read: the first batch has no limit.
        limited = way == "native" or spark >= (4, 2)
        assert batches == ([2, 2, 1] * (len(added) // 3) if limited else [before, 5]), way


# -- what a Spark lacks -----------------------------------------------------------------------------


class Feature(NamedTuple):
    """Something that Spark has since a release, and how it is refused before."""

    name: str
    since: tuple[int, int]
    refusal: str
    use: Callable[[SparkKit, Path, str], None]  # with the name of a fresh table (id bigint, name string)

    def check(self, kit: SparkKit, folder: Path, spark: tuple[int, int]) -> None:
        table = kit.fresh()
        kit.sql(f"CREATE TABLE {table} (id bigint, name string) {KEYED}")
        kit.sql(f"INSERT INTO {table} VALUES (1, 'one')")
        if spark >= self.since:
            self.use(kit, folder, table)
            return
        try:
            self.use(kit, folder, table)
        except Exception as error:
            assert re.search(self.refusal, str(error)), (self.name, str(error))  # noqa: PT017 (no test: a program)
        else:
            raise AssertionError(f"Spark {spark} has {self.name} now: the pages say that it does not")


def some_columns(kit: SparkKit, _: Path, table: str) -> None:
    kit.sql(f"INSERT INTO {table} (id) VALUES (2)")
    assert kit.sql(f"SELECT * FROM {table} WHERE id = 2") == [(2, None)]


def show_procedures(kit: SparkKit, _: Path, __: str) -> None:
    assert "rewrite_data_files" in str(kit.sql("SHOW PROCEDURES IN prod.system"))


def times(kit: SparkKit, _: Path, table: str) -> None:
    kit.spark.conf.set("spark.sql.timeType.enabled", "true")
    kit.sql(f"CREATE TABLE {table}_times (at time(6)) {KEYED}")
    kit.sql(f"INSERT INTO {table}_times VALUES (TIME'01:02:03.456789')")
    assert str(kit.table(f"{table}_times").scan().to_arrow()["at"][0]) == "01:02:03.456789"
    assert str(kit.sql(f"SELECT at FROM {table}_times")[0][0]) == "01:02:03.456789"


def new_columns(kit: SparkKit, _: Path, table: str) -> None:
    kit.sql(
        f"""MERGE WITH SCHEMA EVOLUTION INTO {table} t USING (SELECT 1L AS id, 'x' AS name, 2 AS more) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert kit.spark.table(table).columns == ["id", "name", "more"], "no column was added"


def stream_writer(kit: SparkKit, folder: Path, table: str) -> None:
    kit.sql(f"CREATE TABLE {table}_copy (id bigint, name string) {KEYED}")
    sink = kit.spark.readStream.table(table).writeStream.format("sealberg").trigger(availableNow=True)
    sink = sink.options(**source_options(folder), checkpointLocation=str(folder / "sink"))
    sink.start(f"{table}_copy".removeprefix("prod.")).awaitTermination()
    assert kit.sql(f"SELECT * FROM {table}_copy") == [(1, "one")]


def filters(kit: SparkKit, folder: Path, table: str) -> None:
    """Files that a filter excludes are not read: one that is gone does no harm."""
    kit.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    first = kit.data_files(table)
    kit.sql(f"INSERT INTO {table} VALUES (100, 'hundred')")
    for path in first:
        path.unlink()
    read = kit.spark.read.format("sealberg").options(**source_options(folder)).load(table.removeprefix("prod."))
    assert [tuple(row) for row in read.where("id > 50").collect()] == [(100, "hundred")]


STREAM_WRITER: Final = Feature(
    'writeStream.format("sealberg")', (4, 1), "Spark 4.1 can: write with writeStream.toTable", stream_writer
)
FEATURES: Final = (
    Feature("INSERT of some columns", (4, 1), "CANNOT_FIND_DATA", some_columns),
    Feature("SHOW PROCEDURES", (4, 1), "PARSE_SYNTAX_ERROR", show_procedures),
    Feature("columns of time", (4, 1), "UNSUPPORTED_DATATYPE", times),
    Feature("MERGE WITH SCHEMA EVOLUTION", (4, 1), "no column was added", new_columns),
    Feature("filters of Python sources", (4, 1), "No such file|does not exist|not found", filters),
    STREAM_WRITER,
)


# -- pages ------------------------------------------------------------------------------------------


def examples(page: str, spark: tuple[int, int]) -> None:
    """The Python of a page, in this session and in a catalog of its own."""
    blocks = pages.python(page)
    assert blocks[-1].rstrip().endswith("spark.stop()")
    text = "\n".join(blocks).replace("spark.stop()\n", "").replace('"prod"', f'"{PAGES[page]}"')
    text = text.replace("prod.", f"{PAGES[page]}.")
    if spark < STREAM_WRITER.since:  # and so without the rest of the page
        text = text.partition("sink = stream.writeStream")[0]
    exec(compile(text, page, "exec"), {"__name__": page})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
