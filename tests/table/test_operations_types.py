"""Every type that pyarrow can hold: round trips, extreme values, and bounds that prune without losing a row."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg import expressions
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
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from kit.tables import tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.expressions import BooleanExpression

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.table.catalog_table import CatalogTable

Filter: Any = expressions  # their constructors take what their annotations do not tell


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def naive(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


# Ascending, so that a filter in the middle has a known answer.
PRIMITIVES: dict[str, tuple[IcebergType, list[Any]]] = {
    "boolean": (BooleanType(), [False, True]),
    "int": (IntegerType(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    "long": (LongType(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "float": (FloatType(), [-math.inf, -3.4028234663852886e38, -0.0, 1.5, math.inf]),
    "double": (DoubleType(), [-math.inf, -1.7976931348623157e308, 0.0, 5e-324, math.inf]),
    "decimal9": (DecimalType(9, 2), [Decimal("-9999999.99"), Decimal("0.00"), Decimal("0.01"), Decimal("9999999.99")]),
    "decimal18": (DecimalType(18, 0), [Decimal(-(10**18) + 1), Decimal(0), Decimal(10**18 - 1)]),
    "decimal38": (
        DecimalType(38, 10),
        [Decimal("-" + "9" * 28 + ".9999999999"), Decimal("0E-10"), Decimal("1" * 28 + ".0000000000")],
    ),
    "date": (DateType(), [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]),
    "time": (TimeType(), [time(0, 0), time(12, 30, 0, 1), time(23, 59, 59, 999999)]),
    "timestamp": (TimestampType(), [naive(1, 1, 1), naive(1969, 12, 31, 23, 59, 59, 999999), naive(9999, 12, 31)]),
    "timestamptz": (TimestamptzType(), [utc(1, 1, 2), utc(1970, 1, 1), utc(9999, 12, 30)]),
    "string": (StringType(), ["", "\x00", "a" * 40, "zé", "語", "\U0001f9ca"]),
    "binary": (BinaryType(), [b"", b"\x00", b"a" * 40, b"\xff\xff"]),
    "fixed": (FixedType(3), [b"\x00\x00\x00", b"abc", b"\xff\xff\xff"]),
    "uuid": (UUIDType(), [uuid.UUID(int=0), uuid.UUID(int=2**127), uuid.UUID(int=2**128 - 1)]),
}


def one_column(kind: IcebergType) -> Schema:
    return Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "x", kind, required=False))


def filled(schema: Schema, values: list[Any], start: int = 0) -> pa.Table:
    arrow = schema_to_pyarrow(schema, include_field_ids=False)
    kind = arrow.field("x").type
    if isinstance(kind, pa.BaseExtensionType):
        plain = pa.array([value and value.bytes for value in values], kind.storage_type)
        column: pa.Array = pa.ExtensionArray.from_storage(kind, plain)
    else:
        column = pa.array(values, kind)
    return pa.table({"id": pa.array(range(start, start + len(values)), pa.int64()), "x": column}, schema=arrow)


def ids(table: CatalogTable, row_filter: BooleanExpression) -> list[int]:
    return sorted(table.scan(row_filter=row_filter, selected_fields=("id",)).to_arrow()["id"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
@pytest.mark.parametrize("name", PRIMITIVES)
def test_extreme_values_come_back(catalog: EncryptedSqlCatalog, name: str, file_format: str) -> None:
    kind, values = PRIMITIVES[name]
    schema = one_column(kind)
    table = tables.make(catalog, schema, **{"write.format.default": file_format})
    rows = filled(schema, [None, *values, None])
    table.append(rows)
    found = table.scan().to_arrow().sort_by("id")
    assert found.schema == rows.schema
    assert found.to_pylist() == rows.to_pylist()
    table.delete("id = 1")  # and through a rewrite
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [row for row in rows.to_pylist() if row["id"] != 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PRIMITIVES if name not in ("boolean", "uuid")])
def test_filters_prune_files_and_never_lose_a_row(catalog: EncryptedSqlCatalog, name: str) -> None:
    """A file per value, one of nulls and one of everything; every comparison against every value."""
    kind, values = PRIMITIVES[name]
    if name == "float":
        values = values[1:-1]  # PyIceberg takes an infinite literal for one that no float can have
    schema = one_column(kind)
    table = tables.make(catalog, schema, **{"commit.manifest.min-count-to-merge": "2"})
    with table.transaction() as tx:
        for at, value in enumerate(values):
            tx.append(filled(schema, [value], at))
        tx.append(filled(schema, [None, None], 100))
        tx.append(filled(schema, [*values, None], 200))
    files = len(values) + 2
    for at, value in enumerate(values):
        expected: dict[BooleanExpression, list[int]] = {
            Filter.EqualTo("x", value): [at],
            Filter.LessThan("x", value): list(range(at)),
            Filter.LessThanOrEqual("x", value): list(range(at + 1)),
            Filter.GreaterThan("x", value): list(range(at + 1, len(values))),
            Filter.GreaterThanOrEqual("x", value): list(range(at, len(values))),
            Filter.NotEqualTo("x", value): [i for i in range(len(values)) if i != at],
        }
        for row_filter, answer in expected.items():
            both = sorted([*answer, *(200 + i for i in answer)])
            assert ids(table, row_filter) == both, row_filter
        assert len(table.scan(row_filter=Filter.EqualTo("x", value)).plan_files()) < files
    assert ids(table, Filter.IsNull("x")) == [100, 101, 200 + len(values)]
    assert len(ids(table, Filter.NotNull("x"))) == 2 * len(values)
    assert len(ids(table, Filter.In("x", values))) == 2 * len(values)


@pytest.mark.parametrize("kind", [TimestampNanoType(), TimestamptzNanoType()], ids=str)
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_nanoseconds_come_back_to_the_last(catalog: EncryptedSqlCatalog, kind: IcebergType, file_format: str) -> None:
    schema = one_column(kind)
    table = tables.make(catalog, schema, **{"write.format.default": file_format})
    arrow = schema_to_pyarrow(kind, include_field_ids=False)
    numbers = [-(2**63) + 1, -1, 0, 1, 1_700_000_000_123_456_789, 2**63 - 1, None]
    rows = pa.table({"id": list(range(7)), "x": pa.array(numbers, arrow)})
    table.append(rows)
    found = table.scan().to_arrow().sort_by("id")
    assert found.schema.field("x").type == arrow
    assert found["x"].cast(pa.int64()).to_pylist() == numbers


def test_bounds_of_nanoseconds_are_whole(catalog: EncryptedSqlCatalog) -> None:
    """PyIceberg cuts them to microseconds, and then an upper bound lies below its row."""
    table = tables.make(catalog, one_column(TimestampNanoType()))
    for number, value in enumerate((1_700_000_000_123_456_001, 1_700_000_000_123_456_789)):
        table.append(pa.table({"id": [number], "x": pa.array([value], pa.timestamp("ns"))}))
    for name in ("lower_bounds", "upper_bounds"):
        bounds = [getattr(file, name)[2] for file in tables.data_files(table)]
        assert sorted(int.from_bytes(one, "little") % 1000 for one in bounds) == [1, 789]


def test_a_value_too_long_for_statistics_is_not_pruned(catalog: EncryptedSqlCatalog) -> None:
    """Its row group has no bounds, so those of the other ones are none of the file."""
    schema = one_column(StringType())
    table = tables.make(catalog, schema, **{"write.parquet.row-group-limit": "1"})
    table.append(filled(schema, ["m", "z" * 10_000, None]))
    assert ids(table, Filter.GreaterThan("x", "y")) == [1]
    assert ids(table, Filter.EqualTo("x", "m")) == [0]


@pytest.mark.parametrize("kind", [FloatType(), DoubleType()], ids=str)
def test_nan_has_no_bounds_and_is_found(catalog: EncryptedSqlCatalog, kind: IcebergType) -> None:
    schema = one_column(kind)
    table = tables.make(catalog, schema)
    table.append(filled(schema, [math.nan, math.nan]))
    table.append(filled(schema, [math.nan, 5.0, None], 10))
    table.append(filled(schema, [7.0], 20))
    assert ids(table, Filter.IsNaN("x")) == [0, 1, 10]
    assert ids(table, Filter.GreaterThan("x", 4.0)) == [11, 20]
    assert ids(table, Filter.NotEqualTo("x", 5.0)) == [0, 1, 10, 20]
    bounds = [(file.lower_bounds or {}).get(2) for file in tables.data_files(table) if file.record_count == 2]
    assert bounds == [None]


NESTED: dict[str, tuple[IcebergType, list[Any]]] = {
    "list": (ListType(10, LongType(), element_required=False), [[1, None], [], None]),
    "map": (
        MapType(10, StringType(), 11, DoubleType(), value_required=False),
        [[("a", 1.0), ("b", None)], [], None],
    ),
    "struct": (
        StructType(
            NestedField(10, "a", LongType(), required=False),
            NestedField(11, "b", StructType(NestedField(12, "c", StringType(), required=False)), required=False),
        ),
        [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, None],
    ),
    "list of structs of maps": (
        ListType(
            10,
            StructType(
                NestedField(
                    11, "m", MapType(12, StringType(), 13, ListType(14, DateType(), False), False), required=False
                )
            ),
            element_required=False,
        ),
        [[{"m": [("k", [date(2020, 2, 29), None])]}, None], [], None],
    ),
    "list of uuids and decimals": (
        StructType(
            NestedField(10, "d", ListType(11, DecimalType(20, 3), element_required=False), required=False),
            NestedField(12, "f", ListType(13, FixedType(2), element_required=False), required=False),
        ),
        [{"d": [Decimal("1.234")], "f": [b"ab", None]}, None],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
@pytest.mark.parametrize("name", NESTED)
def test_nested_values_come_back(catalog: EncryptedSqlCatalog, name: str, file_format: str) -> None:
    kind, values = NESTED[name]
    schema = one_column(kind)
    table = tables.make(catalog, schema, **{"write.format.default": file_format})
    arrow = schema_to_pyarrow(table.schema(), include_field_ids=False)
    rows = pa.table({"id": list(range(len(values))), "x": pa.array(values, arrow.field("x").type)}, schema=arrow)
    table.append(rows)
    table.append(rows)
    table.delete("id = 0")
    found = table.scan().to_arrow()
    assert found.schema == rows.schema
    assert tables.in_order(found.to_pylist()) == tables.in_order(rows.slice(1).to_pylist() * 2)
    table.overwrite(pa.concat_tables([rows, rows]).combine_chunks().slice(1, len(rows)))  # a window on longer arrays
    assert tables.in_order(table.scan().to_arrow().to_pylist()) == tables.in_order(rows.to_pylist())
    tables.check_lineage(table)


def test_an_unknown_column_is_null_and_can_become_something(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, one_column(UnknownType()))
    table.append(pa.table({"id": [1, 2]}))
    assert [row["x"] for row in tables.rows(table)] == [None, None]


def test_required_columns_and_columns_with_odd_names_come_back(catalog: EncryptedSqlCatalog) -> None:
    names = ["a.b", "with space", "quote'\"", "ünïcode", "_row_id2", "UPPER", "upper"]
    schema = Schema(*(NestedField(i + 1, name, LongType(), required=True) for i, name in enumerate(names)))
    arrow = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in names])
    for file_format in ("parquet", "avro"):
        table = tables.make(catalog, schema, **{"write.format.default": file_format})
        rows = pa.table([[i, i + 10] for i in range(len(names))], schema=arrow)
        table.append(rows)
        assert table.scan().to_arrow().to_pylist() == rows.to_pylist()
        table.delete(Filter.EqualTo("UPPER", 5))
        assert table.scan().to_arrow().to_pylist() == rows.slice(1).to_pylist()
