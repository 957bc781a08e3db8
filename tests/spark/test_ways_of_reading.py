"""Every way to read a table gives the same rows: every type, with nulls, in every position.

The ways: Spark's reader in batches, row by row, and without its own vectorized decoder; the Python worker (of Avro
files and of what Spark's reader cannot read), in batches and row by row; Python's own scan. Each is compared with the
rows that were written, not only with the others.
"""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
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
    TimeType,
    UUIDType,
)

from kit.programs.spark import plain
from kit.tables.small_tables import SmallTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kit.programs.spark import SparkKit

Row = dict[str, Any]
IDENTITY = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


class Kind(NamedTuple):
    """A type, a value of it, and the same value as a default."""

    type: IcebergType
    value: Any
    default: Any


KINDS = {
    "flag": Kind(BooleanType(), True, True),
    "i": Kind(IntegerType(), -7, -7),
    "l": Kind(LongType(), 1 << 40, 1 << 40),
    "f": Kind(FloatType(), 1.5, 1.5),
    "d": Kind(DoubleType(), -2.25, -2.25),
    "s": Kind(StringType(), "ß", "ß"),
    "b": Kind(BinaryType(), b"\x00b", b"\x00b"),
    "fixed": Kind(FixedType(3), b"\x01\x02\x03", b"\x01\x02\x03"),
    "day": Kind(DateType(), dt.date(1969, 12, 30), -2),
    "time": Kind(TimeType(), dt.time(1, 2, 3, 4), 3_723_000_004),
    "at": Kind(TimestamptzType(), dt.datetime(2021, 3, 1, 12, 0, 0, 1, dt.UTC), 1_614_600_000_000_001),
    "local": Kind(TimestampType(), dt.datetime.fromisoformat("1960-03-01T00:00:00.000005"), -310_435_199_999_995),
    "small": Kind(DecimalType(9, 2), Decimal("-3.14"), Decimal("-3.14")),
    "middle": Kind(DecimalType(18, 4), Decimal("99999999999999.0001"), Decimal("99999999999999.0001")),
    "large": Kind(
        DecimalType(38, 10), Decimal("12345678901234567.5000000000"), Decimal("12345678901234567.5000000000")
    ),
    "u": Kind(UUIDType(), IDENTITY.bytes, IDENTITY),
}
FULL: Row = {name: kind.value for name, kind in KINDS.items()}
EMPTY: Row = dict.fromkeys(KINDS)
MIXED: Row = {name: kind.value if number % 2 else None for number, (name, kind) in enumerate(KINDS.items())}
ID = NestedField(1, "id", LongType(), required=True)


def fields(first_id: int, *, default: bool = False) -> list[NestedField]:
    """A field of every type."""
    return [
        NestedField(first_id + number, name, kind.type, initial_default=kind.default if default else None)
        for number, (name, kind) in enumerate(KINDS.items())
    ]


def struct(*, first_id: int = 200, default: bool = False) -> StructType:
    return StructType(NestedField(199, "x", IntegerType()), *fields(first_id, default=default))


def wrapped(wrap: Callable[[int, IcebergType], IcebergType]) -> Schema:
    """A column of every type inside another type."""
    made = [
        NestedField(100 + number, name, wrap(200 + 2 * number, kind.type))
        for number, (name, kind) in enumerate(KINDS.items())
    ]
    return Schema(ID, *made)


class Position(NamedTuple):
    """Where values of every type stand: the rows of an older schema (if any) and of the current one, and as read."""

    schema: Schema
    rows: Sequence[Row]
    older: Schema | None = None
    older_rows: Sequence[Row] = ()
    older_read: Sequence[Row] = ()


def numbered(*rows: Row, first: int = 0) -> list[Row]:
    return [{"id": first + number, **row} for number, row in enumerate(rows)]


def each(change: Callable[[Any], Any]) -> list[Row]:
    return [{name: change(value) for name, value in row.items()} for row in (FULL, EMPTY, MIXED)]


PLAIN = Schema(ID, *fields(100))
POSITIONS = {
    "column": Position(PLAIN, numbered(FULL, EMPTY, MIXED, EMPTY, FULL)),
    "struct": Position(
        Schema(ID, NestedField(2, "in", struct())),
        numbered({"in": {"x": 1, **FULL}}, {"in": {"x": None, **EMPTY}}, {"in": None}, {"in": {"x": 0, **MIXED}}),
    ),
    "struct in list": Position(
        Schema(ID, NestedField(2, "in", ListType(3, struct(), element_required=False))),
        numbered({"in": [{"x": 1, **FULL}, None, {"x": None, **EMPTY}]}, {"in": None}, {"in": []}),
    ),
    "list": Position(
        wrapped(lambda first, kind: ListType(first, kind, element_required=False)),
        numbered(*each(lambda value: [None, value]), EMPTY),
    ),
    "map": Position(
        wrapped(lambda first, kind: MapType(first, StringType(), first + 1, kind, value_required=False)),
        numbered(*each(lambda value: [("k", value)]), EMPTY),
    ),
    "missing column": Position(
        PLAIN, numbered(EMPTY, FULL, first=5), Schema(ID), numbered({}, {}), numbered(EMPTY, EMPTY)
    ),
    "default": Position(
        Schema(ID, *fields(100, default=True)),
        numbered(EMPTY, MIXED, first=5),
        Schema(ID),
        numbered({}, {}),
        numbered(FULL, FULL),
    ),
    "missing in struct": Position(
        Schema(ID, NestedField(2, "in", struct())),
        numbered({"in": {"x": 1, **MIXED}}, first=5),
        Schema(ID, NestedField(2, "in", StructType(NestedField(199, "x", IntegerType())))),
        numbered({"in": {"x": 1}}, {"in": {"x": None}}, {"in": None}),
        numbered({"in": {"x": 1, **EMPTY}}, {"in": {"x": None, **EMPTY}}, {"in": None}),
    ),
    "default in struct": Position(
        Schema(ID, NestedField(2, "in", struct(default=True))),
        numbered({"in": {"x": 1, **EMPTY}}, first=5),
        Schema(ID, NestedField(2, "in", StructType(NestedField(199, "x", IntegerType())))),
        numbered({"in": {"x": 1}}, {"in": {"x": None}}, {"in": None}),
        numbered({"in": {"x": 1, **FULL}}, {"in": {"x": None, **FULL}}, {"in": None}),
    ),
}
ROW_BY_ROW = {"spark.sql.iceberg.vectorization.enabled": "false"}
WAYS: dict[str, dict[str, str]] = {
    "batches": {},
    "row by row": ROW_BY_ROW,
    "row by row, each operator by itself": {**ROW_BY_ROW, "spark.sql.codegen.wholeStage": "false"},
    "many columns": {"spark.sql.codegen.maxFields": "1"},
    "no batches in Spark": {"spark.sql.parquet.enableVectorizedReader": "false"},
    "no nested batches in Spark": {"spark.sql.parquet.enableNestedColumnVectorizedReader": "false"},
}
FORMS = ("parquet", "avro", "equality deletes", "deletion vectors")


@contextmanager
def settings(kit: SparkKit, given: dict[str, str]) -> Iterator[None]:
    for name, value in given.items():
        kit.spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in given:
            kit.spark.conf.unset(name)


@pytest.fixture(autouse=True)
def times(kit: SparkKit) -> Iterator[None]:
    with settings(kit, {"spark.sql.timeType.enabled": "true"}):
        yield


def small_table(folder: Path, position: Position, form: str) -> tuple[SmallTable, list[Row]]:
    """A table with the rows of a position, and these rows as they are read."""
    older = [position.older] if position.older else []
    small = SmallTable(folder, *older, position.schema)
    make = small.avro if form == "avro" else small.parquet
    files = [make(arrow(position.older_rows, position.older), position.older)] if position.older else []
    files.append(make(arrow(position.rows, position.schema), position.schema))
    small.snapshot(*files)
    rows = [*position.older_read, *position.rows]
    if form == "equality deletes":
        small.snapshot(small.equality_deletes([{"id": rows[-1]["id"]}], Schema(ID), 1))
        rows = rows[:-1]
    elif form == "deletion vectors":
        small.snapshot(small.vector({files[-1]: [0]}))
        rows = [row for row in rows if row["id"] != position.rows[0]["id"]]
    return small, rows


def arrow(rows: Sequence[Row], schema: Schema) -> pa.Table:
    """With UUIDs of bytes, which pyarrow does not take from Python."""
    wanted = schema_to_pyarrow(schema)
    made = pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema([stored(field) for field in wanted]))
    return made.cast(wanted)


def stored(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([stored(one) for one in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(stored(kind.key_field), stored(kind.item_field))
    elif pa.types.is_large_list(kind) or pa.types.is_list(kind):
        kind = pa.list_(stored(kind.value_field))
    elif isinstance(kind, pa.UuidType):
        kind = kind.storage_type
    return field.with_type(kind)


def comparable(rows: Sequence[Row]) -> list[str]:
    """As texts: a UUID is bytes where it is written, and a text or a UUID where it is read."""
    return sorted(repr(plain(dict(row))).replace(repr(IDENTITY.bytes), repr(str(IDENTITY))) for row in rows)


def spark_rows(kit: SparkKit, query: str) -> list[Row]:
    return [row.asDict(recursive=True) for row in kit.spark.sql(query).collect()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("position", POSITIONS)
def test_all_ways_give_the_rows_that_were_written(kit: SparkKit, tmp_path: Path, position: str, form: str) -> None:
    small, rows = small_table(tmp_path, POSITIONS[position], form)
    name = kit.fresh("way")
    kit.catalog.register_table(name.removeprefix("prod."), small.write_metadata())
    expected = comparable(rows)
    assert comparable(kit.table(name).scan().to_arrow().to_pylist()) == expected, "Python"
    for way, given in WAYS.items():
        with settings(kit, given):
            assert comparable(spark_rows(kit, f"SELECT * FROM {name}")) == expected, way
            check_nulls(kit, name, rows, way)


def check_nulls(kit: SparkKit, name: str, rows: Sequence[Row], way: str) -> None:
    """How many values IS NULL finds: of the columns, and of the fields of a struct."""
    nulls = {f"`{column}`": [row[column] is None for row in rows] for column in rows[0]}
    if isinstance(rows[0].get("in"), dict):
        for field in rows[0]["in"]:
            nulls[f"`in`.`{field}`"] = [row["in"] is None or row["in"][field] is None for row in rows]
    counts = ", ".join(f"count_if({column} IS NULL)" for column in nulls)
    [found] = kit.spark.sql(f"SELECT {counts} FROM {name}").collect()
    assert dict(zip(nulls, found, strict=True)) == {column: sum(values) for column, values in nulls.items()}, way


def test_the_ways_are_different_ways(kit: SparkKit, tmp_path: Path) -> None:
    small, _ = small_table(tmp_path, POSITIONS["column"], "parquet")
    name = kit.fresh("way")
    kit.catalog.register_table(name.removeprefix("prod."), small.write_metadata())
    found = {}
    for way, given in WAYS.items():
        with settings(kit, given):
            plan = kit.spark.sql(f"EXPLAIN SELECT * FROM {name}").collect()[0][0]
            found[way] = "ColumnarToRow" in plan
    assert found == {way: "row by row" not in way and way != "no batches in Spark" for way in WAYS}


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_partition_values_are_the_same_in_all_ways(kit: SparkKit, form: str) -> None:
    spec = PartitionSpec(
        *(
            PartitionField(field.field_id, 1000 + number, IdentityTransform(), f"p_{field.name}")
            for number, field in enumerate(PLAIN.fields[1:])
        )
    )
    name = kit.fresh("way")
    properties = {"encryption.key-id": "hr", "format-version": "3", "write.format.default": form}
    table = kit.catalog.create_table(name.removeprefix("prod."), PLAIN, partition_spec=spec, properties=properties)
    rows = numbered(FULL, EMPTY, MIXED)
    table.append(arrow(rows, table.schema()))
    partitions = [{f"p_{key}": value for key, value in row.items() if key != "id"} for row in rows]
    expected = comparable([{**row, "_partition": partition} for row, partition in zip(rows, partitions, strict=True)])
    assert comparable(table.scan().to_arrow().to_pylist()) == comparable(rows), "Python"
    for way, given in WAYS.items():
        with settings(kit, given):
            assert comparable(spark_rows(kit, f"SELECT *, _partition FROM {name}")) == expected, way
            check_nulls(kit, name, rows, way)
    with settings(kit, ROW_BY_ROW):
        for column in KINDS:
            nulls = sum(row[column] is None for row in rows)
            assert kit.sql(f"SELECT count(id) FROM {name} WHERE {column} IS NULL") == [(nulls,)], column


CHANGES = {
    "UPDATE {0} SET s = 'new' WHERE id = 1": lambda row: {**row, "s": "new"} if row["id"] == 1 else row,
    "DELETE FROM {0} WHERE id = 0 OR s = 'none'": lambda row: None if row["id"] == 0 else row,
    """MERGE INTO {0} t USING (SELECT 2L AS k) ON t.id = k
       WHEN MATCHED THEN UPDATE SET s = 'new'""": lambda row: {**row, "s": "new"} if row["id"] == 2 else row,
}


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("statement", CHANGES)
def test_rows_that_are_read_one_by_one_are_rewritten_with_their_nulls(kit: SparkKit, mode: str, statement: str) -> None:
    name = kit.fresh("way")
    properties = {
        "encryption.key-id": "hr",
        "format-version": "3",
        "read.parquet.vectorization.enabled": "false",
        **{f"write.{kind}.mode": mode for kind in ("update", "delete", "merge")},
    }
    table = kit.catalog.create_table(name.removeprefix("prod."), PLAIN, properties=properties)
    rows = numbered(FULL, EMPTY, MIXED, EMPTY)
    table.append(arrow(rows, table.schema()))
    kit.sql(statement.format(name))
    left = [row for row in map(CHANGES[statement], rows) if row is not None]
    assert comparable(kit.table(name).scan().to_arrow().to_pylist()) == comparable(left)


def test_a_stream_that_reads_row_by_row_keeps_nulls(kit: SparkKit, tmp_path: Path) -> None:
    small, rows = small_table(tmp_path, POSITIONS["column"], "parquet")
    name = kit.fresh("way")
    kit.catalog.register_table(name.removeprefix("prod."), small.write_metadata())
    with settings(kit, ROW_BY_ROW):
        columns = kit.spark.readStream.table(name).drop("time")  # the sink does not know the type
        sink = columns.writeStream.format("memory").queryName("one_by_one").trigger(availableNow=True)
        query = sink.option("checkpointLocation", f"file://{tmp_path}/checkpoint").start()
        query.awaitTermination(60)
    assert comparable(spark_rows(kit, "SELECT *, null AS time FROM one_by_one")) == comparable(
        [{**row, "time": None} for row in rows]
    )
