"""Tables with columns of every type and with nested columns, as Python writes them."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
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

TYPES: Final = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "data", StringType(), required=False, doc='a "doc" / é\x1f'),
    NestedField(3, "b", BooleanType(), required=False),
    NestedField(4, "i", IntegerType(), required=False),
    NestedField(5, "f", FloatType(), required=False),
    NestedField(6, "d", DoubleType(), required=False),
    NestedField(7, "small", DecimalType(9, 2), required=False),
    NestedField(8, "middle", DecimalType(18, 6), required=False),
    NestedField(9, "large", DecimalType(38, 10), required=False),
    NestedField(10, "day", DateType(), required=False),
    NestedField(11, "ts", TimestampType(), required=False),
    NestedField(12, "at", TimestamptzType(), required=False),
    NestedField(13, "u", UUIDType(), required=False),
    NestedField(14, "five", FixedType(5), required=False),
    NestedField(15, "bin", BinaryType(), required=False),
    identifier_field_ids=[1],
)


def typed_rows(count: int) -> pa.Table:
    made = []
    for i in range(count):
        at = dt.datetime(1965 + i * 8, 3, 4, 5, 6, 7, 890123, dt.UTC)
        full = {
            "data": ("", "é€😀", "long" * 20, "\x00a", "z")[i % 5], "b": i % 2 == 0, "i": i * 1000 - 5000,
            "f": (1.5, math.nan, math.inf, -0.0, 3.4e38)[i % 5], "d": (1e10, math.nan, -1e-5, 0.0, 1.7e308)[i % 5],
            "small": Decimal(i - 5) * Decimal("1234.56"), "middle": Decimal(i) * Decimal("-123456789.123456"),
            "large": Decimal(i) * Decimal("123456789012345678901234.1234567890"), "day": dt.date(1960 + i * 10, 1, 2),
            "ts": at.replace(tzinfo=None), "at": at, "u": uuid.UUID(int=(i << 120) + i).bytes,
            "five": bytes([i, 255, 0, 1, 2]), "bin": bytes([255] * i),
        }  # fmt: skip
        made.append({"id": i, **({} if i % 7 == 3 else full)})
    return pa.Table.from_pylist(made, schema=schema_to_pyarrow(TYPES, include_field_ids=False))


def types(new: Any) -> None:
    table = new(TYPES)
    table.append(typed_rows(12))
    table.append(typed_rows(4))


def types_in_avro(new: Any) -> None:
    new(TYPES, **{"write.format.default": "avro"}).append(typed_rows(12))


NESTED: Final = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "data", StringType(), required=False),
    NestedField(
        3,
        "st",
        StructType(
            NestedField(4, "a", IntegerType(), required=False),
            NestedField(5, "in", StructType(NestedField(6, "x", StringType(), required=False)), required=False),
        ),
        required=False,
    ),
    NestedField(
        7,
        "ls",
        ListType(8, StructType(NestedField(9, "q", DoubleType(), required=False)), element_required=False),
        required=False,
    ),
    NestedField(
        10,
        "mm",
        MapType(11, StringType(), 12, ListType(13, LongType(), element_required=False), value_required=False),
        required=False,
    ),
)


def nested(new: Any, **properties: str) -> None:
    made = [
        {
            "id": i,
            "data": f"d{i}",
            "st": None if i % 5 == 1 else {"a": i, "in": None if i % 3 == 0 else {"x": f"s{i}"}},
            "ls": None if i % 4 == 3 else [{"q": i / 3}, None, {"q": None}][: i % 4],
            "mm": None if i % 5 == 4 else [(f"k{j}", [j, None][:j]) for j in range(i % 3)],
        }
        for i in range(20)
    ]
    new(NESTED, **properties).append(
        pa.Table.from_pylist(made, schema=schema_to_pyarrow(NESTED, include_field_ids=False))
    )


def nested_in_avro(new: Any) -> None:
    nested(new, **{"write.format.default": "avro"})
