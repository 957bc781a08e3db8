"""Partition values are exact in manifests: as written, as read back, and after a manifest is rewritten."""

from __future__ import annotations

import io
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from pyiceberg import expressions
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
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from kit.tables import tables
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

FILTERS: Any = expressions  # their constructors take more than their types say
DOUBLES = [0.9, 1e308, 5e-324, -0.0, math.inf, -math.inf, math.nan, 1 / 3]
VALUES: list[tuple[IcebergType, Any]] = [
    *((DoubleType(), value) for value in DOUBLES),
    *((FloatType(), value) for value in (0.5, -0.0, math.inf, math.nan)),
    (BooleanType(), True),
    (IntegerType(), -(2**31)),
    (LongType(), 2**63 - 1),
    (StringType(), "ß\U0001f512"),
    (BinaryType(), b"\x00\xff"),
    (FixedType(3), b"\x00\xff\x80"),
    (DecimalType(38, 10), Decimal("-12345678901234567890.0123456789")),
    (DecimalType(4, 2), Decimal("-0.01")),
    (DateType(), date(1, 1, 1)),
    (TimeType(), time(23, 59, 59, 999999)),
    (TimestampType(), datetime(1969, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001 (without a zone)
    (TimestamptzType(), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
    (UUIDType(), UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes),
]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def make(catalog: EncryptedSqlCatalog, kind: IcebergType, **properties: str) -> CatalogTable:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", kind))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
    made = catalog.create_table("hr.t", schema, partition_spec=spec, properties=properties)
    assert isinstance(made, CatalogTable)
    return made


def rows(table: CatalogTable, *values: Any) -> pa.Table:
    return pa.table({"id": pa.arange(0, len(values)), "p": list(values)}, schema=table.schema().as_arrow())


def same(a: Any, b: Any) -> bool:
    """Equal to the last bit: NaN is NaN, and -0.0 is not 0.0."""
    return repr(a) == repr(b)


def stored(table: CatalogTable) -> list[Any]:
    """The partition values of live files, as another Avro library reads them."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = []
    for manifest in snapshot.manifests(table.io):
        with table.io.new_input(manifest.manifest_path).open() as stream:
            found += [
                entry["data_file"]["partition"]["p"]  # type: ignore[call-overload,index]
                for entry in fastavro.reader(io.BytesIO(stream.read()))
                if entry["status"] != 2  # type: ignore[call-overload,index]
            ]
    return found


def planned(table: CatalogTable) -> list[Any]:
    return [task.file.partition[0] for task in table.scan().plan_files()]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda each: str(each)[:20])
def test_a_value_survives_a_rewritten_manifest_and_an_overwrite_of_its_partition(
    catalog: EncryptedSqlCatalog, kind: IcebergType, value: Any
) -> None:
    table = make(catalog, kind, **{"encryption.key-id": "hr"})
    table.append(rows(table, value))
    (before,) = planned(table)
    table.append(rows(table, None))
    table.delete("id == 0 and p is null")  # writes no manifest with the first file again, but reads it
    table.append(rows(table, value, None))
    table.delete("p is null")  # writes the manifest of the last append again
    assert len(planned(table)) == 2
    assert all(same(each, before) for each in planned(table))
    table.dynamic_partition_overwrite(rows(table, value))
    found = table.scan().to_arrow()["p"].to_pylist()
    assert len(found) == 1
    assert table.scan().count() == 1


@pytest.mark.parametrize("value", DOUBLES, ids=str)
def test_doubles_are_stored_as_given_and_stay_so(catalog: EncryptedSqlCatalog, value: float) -> None:
    table = make(catalog, DoubleType(), **{"format-version": "3"})
    table.append(rows(table, value, 7.0))
    table.delete("p == 7.0")
    assert [same(each, value) for each in stored(table)] == [True]
    assert [same(each, value) for each in planned(table)] == [True]


@pytest.mark.parametrize("value", [0.9, 1e308, 5e-324])
def test_filters_deletes_and_overwrites_find_a_double_partition(catalog: EncryptedSqlCatalog, value: float) -> None:
    table = make(catalog, DoubleType(), **{"encryption.key-id": "hr"})
    table.append(rows(table, value))
    assert table.scan(FILTERS.EqualTo("p", value)).count() == 1
    assert table.scan(FILTERS.NotEqualTo("p", value)).count() == 0
    table.overwrite(rows(table, value), FILTERS.EqualTo("p", value))
    assert table.scan().count() == 1
    table.delete(FILTERS.EqualTo("p", value))
    assert table.scan().count() == 0
