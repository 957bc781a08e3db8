"""Arrow batches for `format("sealberg")` have exactly the types that Spark has for its own schema."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sealberg.errors import UnsupportedError
from sealberg.spark.arrow import declared
from sealberg.spark.datasource import tasks

SIMPLE = (
    *("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date"),
    *("timestamp", "timestamp_ntz", "time(6)", "decimal(9,2)", "decimal(38,0)"),
)
LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def field(name: str, kind: Any, *, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


def nested(kind: Any) -> list[Any]:
    return [
        {"type": "struct", "fields": [field("a", kind), field("b", kind, nullable=False)]},
        {"type": "array", "elementType": kind, "containsNull": True},
        {"type": "array", "elementType": kind, "containsNull": False},
        {"type": "map", "keyType": kind, "valueType": kind, "valueContainsNull": False},
    ]


@pytest.mark.parametrize("kind", [*SIMPLE, *nested("string"), *nested(nested("binary")[3])], ids=str)
def test_types_and_nulls_are_those_of_spark(kind: Any) -> None:
    columns = {"type": "struct", "fields": [field("x", kind), field("y", kind, nullable=False)]}
    since_4_2 = "timezone" in inspect.signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if since_4_2 else {}
    spark = to_arrow_schema(StructType.fromJson(columns), **zone)
    read = pa.schema([pa.field(one.name, LARGE.get(one.type, one.type)) for one in spark])
    empty = pa.RecordBatch.from_arrays([pa.array([], one.type) for one in read], schema=read)
    assert declared(empty, columns).schema.equals(spark)


def test_a_type_that_no_table_has_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no table of Iceberg has Spark's type interval; use the schema of"):
        declared(pa.record_batch({"x": [1]}), {"type": "struct", "fields": [field("x", "interval")]})


def test_no_columns_are_as_many_rows_as_before() -> None:
    rows = pa.record_batch({"x": [1, 2, 3]}).select([])
    assert declared(rows, {"type": "struct", "fields": []}).num_rows == rows.num_rows


@pytest.mark.parametrize("count", [1, 2, 3, 100])
def test_a_large_batch_is_cut_into_rows_in_order(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(tasks, "MOST_BYTES", 64)
    batch = pa.record_batch({"x": [f"{number:020}" for number in range(count)]})
    parts = list(tasks._parts(batch))
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([batch])
    assert all(part.num_rows == 1 or part.nbytes < 64 for part in parts)
    assert len(parts) > 1 or count <= 2
