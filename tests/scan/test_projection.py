"""Columns of old files under the schema of today: renamed, promoted, nested, added with a default."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
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
    UUIDType,
)

from kit.tables.scan_rows import ID, SCHEMA, field, formats, read, rows
from kit.tables.small_tables import SmallTable
from sealberg.errors import FormatError, UnsupportedError
from sealberg.scan.projection import schema_of_file

if TYPE_CHECKING:
    from pathlib import Path


def evolved(tmp_path: Path, make: str, old: Schema, new: Schema, written: Any) -> list[dict[str, Any]]:
    """What the rows of the old schema are under the new one."""
    small = SmallTable(tmp_path, old, new)
    small.snapshot(getattr(small, make)(written, old))
    return read(small)


@formats
def test_columns_are_found_by_their_ids(tmp_path: Path, make: str) -> None:
    old = Schema(ID, field(2, "name", StringType()), field(3, "gone", StringType()))
    # A new column has the old name of another one, and the order is another one, too.
    new = Schema(field(4, "name", LongType()), field(2, "title", StringType()), ID)
    assert evolved(tmp_path, make, old, new, [{"id": 1, "name": "x", "gone": "y"}]) == [
        {"name": None, "title": "x", "id": 1}
    ]


@formats
def test_types_are_widened(tmp_path: Path, make: str) -> None:
    old = Schema(field(1, "i", IntegerType()), field(2, "f", FloatType()), field(3, "d", DecimalType(4, 2)))
    new = Schema(field(1, "i", LongType()), field(2, "f", DoubleType()), field(3, "d", DecimalType(20, 2)))
    assert evolved(tmp_path, make, old, new, [{"i": 1, "f": 0.5, "d": Decimal("1.25")}]) == [
        {"i": 1, "f": 0.5, "d": Decimal("1.25")}
    ]


def test_a_date_becomes_a_timestamp(tmp_path: Path) -> None:
    old, new = Schema(field(1, "d", DateType())), Schema(field(1, "d", TimestampType()))
    assert evolved(tmp_path, "parquet", old, new, [{"d": dt.date(2024, 2, 29)}]) == [{"d": dt.datetime(2024, 2, 29)}]  # noqa: DTZ001


def test_a_type_that_cannot_be_widened_is_refused(tmp_path: Path) -> None:
    old, new = Schema(field(1, "d", LongType())), Schema(field(1, "d", IntegerType()))
    with pytest.raises(UnsupportedError, match="type long cannot be read as int"):
        evolved(tmp_path, "parquet", old, new, [{"d": 1}])


@formats
def test_nested_columns_evolve_and_what_was_null_stays_null(tmp_path: Path, make: str) -> None:
    def schema(*inner: NestedField) -> Schema:
        struct = StructType(*inner)
        return Schema(
            field(1, "s", struct),
            field(2, "l", ListType(20, StructType(*_moved(inner, 30)), element_required=False)),
            field(3, "m", MapType(40, StringType(), 41, StructType(*_moved(inner, 50)), value_required=False)),
        )

    old = schema(field(10, "a", IntegerType()), field(11, "b", StringType()))
    new = schema(field(11, "bb", StringType()), field(10, "a", LongType()), field(12, "c", LongType()))
    old_row, as_new = {"a": 1, "b": "x"}, {"bb": "x", "a": 1, "c": None}
    written = [
        {"s": old_row, "l": [old_row, None], "m": [("k", old_row), ("n", None)]},
        {"s": None, "l": None, "m": None},
        {"s": {"a": None, "b": None}, "l": [], "m": []},
    ]
    assert evolved(tmp_path, make, old, new, written) == [
        {"s": as_new, "l": [as_new, None], "m": [("k", as_new), ("n", None)]},
        {"s": None, "l": None, "m": None},
        {"s": {"bb": None, "a": None, "c": None}, "l": [], "m": []},
    ]


def _moved(fields: tuple[NestedField, ...], by: int) -> list[NestedField]:
    return [field(inner.field_id + by, inner.name, inner.field_type) for inner in fields]


def test_a_part_of_a_struct_can_be_selected(tmp_path: Path) -> None:
    small = SmallTable(
        tmp_path, Schema(ID, field(2, "s", StructType(field(3, "a", LongType()), field(4, "b", LongType()))))
    )
    small.snapshot(small.parquet([{"id": 1, "s": {"a": 2, "b": 3}}, {"id": 2, "s": {"a": 4, "b": 5}}]))
    assert read(small, "s.a = 4", selected_fields=("s.b",)) == [{"s": {"b": 5}}]


DEFAULTS: list[tuple[IcebergType, Any]] = [
    (LongType(), 7),
    (StringType(), "x"),
    (DecimalType(9, 2), Decimal("1.20")),
    (DateType(), dt.date(2024, 1, 2)),
    (UUIDType(), uuid.UUID(int=5)),
]


@formats
@pytest.mark.parametrize(("kind", "value"), DEFAULTS, ids=str)
def test_rows_older_than_a_column_have_its_initial_default(
    tmp_path: Path, make: str, kind: IcebergType, value: Any
) -> None:
    added = field(2, "new", kind, required=True, initial_default=value, write_default=value)
    assert evolved(tmp_path, make, Schema(ID), Schema(ID, added), [{"id": 1}]) == [{"id": 1, "new": value}]


def test_an_initial_default_inside_a_struct_does_not_fill_a_null_struct(tmp_path: Path) -> None:
    old = Schema(field(1, "s", StructType(field(2, "a", LongType()))))
    new = Schema(field(1, "s", StructType(field(2, "a", LongType()), field(3, "b", LongType(), initial_default=9))))
    found = evolved(tmp_path, "parquet", old, new, [{"s": {"a": 1}}, {"s": None}])
    assert found == [{"s": {"a": 1, "b": 9}}, {"s": None}]


def test_a_required_column_that_nobody_has_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="column new is required"):
        evolved(tmp_path, "parquet", Schema(ID), Schema(ID, field(2, "new", LongType(), required=True)), [{"id": 1}])


def test_the_partition_knows_the_value_of_a_column_that_the_file_lacks(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"), spec_id=0)
    small = SmallTable(tmp_path, SCHEMA, specs=[spec])
    small.snapshot(small.parquet([{"id": 1}], Schema(ID), partition=("here",)))
    assert read(small) == [{"id": 1, "name": "here"}]
    assert read(small, "name = 'here'") == [{"id": 1, "name": "here"}]
    assert read(small, "name = 'there'") == []


def test_a_snapshot_is_read_and_filtered_with_the_schema_that_it_had(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA, Schema(ID))
    small.schema = small.schemas[0]
    old = small.snapshot(small.parquet(rows(1, 2)))
    assert read(small, "name = 'n2'", snapshot_id=old) == rows(2)
    assert read(small) == [{"id": 1}, {"id": 2}]


def test_schemas_that_differ_in_field_ids_alone_are_told_apart() -> None:
    def of(field_id: int) -> pa.Schema:
        return pa.schema([pa.field("x", pa.int64(), metadata={"PARQUET:field_id": str(field_id)})])

    assert of(1) == of(2), "pyarrow compares without field ids"
    assert [schema_of_file(of(each), None).fields[0].field_id for each in (1, 2, 1)] == [1, 2, 1]
