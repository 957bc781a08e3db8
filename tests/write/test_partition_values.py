"""Every transform on every type that it can transform: the partition of a file is that of its rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros

from kit.tables.tables import data_files, sealed_catalog
from sealberg.jobs import verify

if TYPE_CHECKING:
    from pathlib import Path

MOMENTS = [dt.datetime(1969, 12, 31, 22, 30), dt.datetime(2024, 2, 29, 12, 0, 0, 1)]  # noqa: DTZ001
DAYS = [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
TIMES = [dt.time(0, 0, 1), dt.time(23, 59, 59, 999_999)]
UUIDS = [UUID(int=1).bytes, UUID(int=2**127 + 5).bytes]
# A type, values as Arrow takes them, and the same as a manifest stores them.
KINDS: dict[str, tuple[PrimitiveType, list[Any], list[Any]]] = {
    "bool": (BooleanType(), [True, False], [True, False]),
    "int": (IntegerType(), [-7, 34], [-7, 34]),
    "long": (LongType(), [-7, 2**40], [-7, 2**40]),
    "float": (FloatType(), [-1.5, 2.25], [-1.5, 2.25]),
    "double": (DoubleType(), [-1.5, 2.25], [-1.5, 2.25]),
    "decimal": (DecimalType(9, 2), [Decimal("-14.20"), Decimal("7.01")], [Decimal("-14.20"), Decimal("7.01")]),
    "string": (StringType(), ["", "\U0001f512abc"], ["", "\U0001f512abc"]),
    "binary": (BinaryType(), [b"", b"\x00\xff\x01"], [b"", b"\x00\xff\x01"]),
    "fixed": (FixedType(3), [b"abc", b"\x00\xff\x01"], [b"abc", b"\x00\xff\x01"]),
    "uuid": (UUIDType(), UUIDS, UUIDS),
    "date": (DateType(), DAYS, [date_to_days(each) for each in DAYS]),
    "time": (TimeType(), TIMES, [time_to_micros(each) for each in TIMES]),
    "timestamp": (TimestampType(), MOMENTS, [datetime_to_micros(each) for each in MOMENTS]),
    "timestamptz": (
        TimestamptzType(),
        [each.replace(tzinfo=dt.UTC) for each in MOMENTS],
        [datetime_to_micros(each) for each in MOMENTS],
    ),
    "timestamp_ns": (TimestampNanoType(), MOMENTS, [datetime_to_micros(each) * 1000 for each in MOMENTS]),
    "timestamptz_ns": (
        TimestamptzNanoType(),
        [each.replace(tzinfo=dt.UTC) for each in MOMENTS],
        [datetime_to_micros(each) * 1000 for each in MOMENTS],
    ),
}
TRANSFORMS: list[Transform[Any, Any]] = [
    IdentityTransform(),
    BucketTransform(8),
    TruncateTransform(3),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_in_the_partition_of_its_rows(tmp_path: Path, kind: str) -> None:
    iceberg, given, stored = KINDS[kind]
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "x", iceberg))
    values = pa.array([*given, None], schema.as_arrow().field("x").type)
    rows = pa.table({"id": [0, 1, 2], "x": values})
    able = [each for each in TRANSFORMS if each.can_transform(iceberg)]
    assert able
    with sealed_catalog(tmp_path) as catalog:
        for number, transform in enumerate(able):
            catalog.create_namespace_if_not_exists(f"n{number}")
            spec = PartitionSpec(PartitionField(2, 1000, transform, "p"))
            table: Any = catalog.create_table(
                f"n{number}.t", schema, partition_spec=spec, properties={"encryption.key-id": "hr"}
            )
            table.append(rows)
            expected = {transform.transform(iceberg)(value) for value in [*stored, None]}
            assert {file.partition[0] for file in data_files(table)} == expected, transform
            assert table.scan().to_arrow().sort_by("id")["x"].to_pylist() == rows["x"].to_pylist(), transform
            table.delete("x is null")
            table.dynamic_partition_overwrite(rows.slice(0, 1))
            assert 0 in table.scan().to_arrow()["id"].to_pylist()
            assert table.inspect.partitions().num_rows == len(expected - {None})
            assert verify.plan(table, catalog=catalog, level="deep").execute().findings == (), transform
