"""verify --deep: every leaf column is decoded and compared, and what cannot be compared is said."""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DATA_FILE_TYPE
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, UnknownTransform, VoidTransform
from pyiceberg.types import (
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
    UUIDType,
)

from kit.tables.tables import data_files, make, sealed_catalog
from sealberg.jobs.checks.outcome import Problem, Skipped
from sealberg.jobs.checks.rows import check_rows
from sealberg.jobs.verify import plan
from sealberg.metadata.manifest import DataFileV3
from sealberg.pyiceberg_private import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.table.catalog_table import CatalogTable

PERSON = StructType(NestedField(8, "name", StringType()), NestedField(9, "age", IntegerType()))
INNER = StructType(NestedField(14, "n", ListType(15, LongType(), element_required=False)))
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "person", PERSON),
    NestedField(3, "scores", ListType(10, DoubleType(), element_required=False)),
    NestedField(4, "prices", MapType(11, StringType(), 12, DoubleType(), value_required=False)),
    NestedField(5, "deep", ListType(13, INNER, element_required=False)),
    NestedField(6, "key", UUIDType()),
    NestedField(7, "code", FixedType(3)),
)
POSITIONS = {field.name: at for at, field in enumerate(DATA_FILE_TYPE[2].fields)}
NO_ID = uuid.UUID(int=7).bytes
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "person": {"name": "a", "age": 3},
        "scores": [1.0, math.nan, None],
        "prices": [("x", 1.0), ("y", None)],
        "deep": [{"n": [1, 2]}, {"n": []}, None],
        "key": NO_ID,
        "code": b"abc",
    },
    {"id": 2, "person": None, "scores": [], "prices": [], "deep": [], "key": None, "code": None},
    {"id": 3, "person": {"name": None, "age": 9}, "scores": None, "prices": None, "deep": None, "key": NO_ID},
] * 5


@pytest.fixture(scope="module", params=["parquet", "avro"])
def nested(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogTable]:
    with sealed_catalog(tmp_path_factory.mktemp("nested")) as catalog:
        table = make(catalog, SCHEMA, **{"write.format.default": request.param})
        table.append(pa.Table.from_pylist(ROWS, schema=SCHEMA.as_arrow()))
        yield table


def checked(
    table: CatalogTable, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC, **claims: Any
) -> list[Problem | Skipped]:
    """What is found if the manifest entry makes other claims."""
    (file,) = data_files(table)
    entry = DataFileV3(*values_of(file))
    entry.spec_id = 0
    for name, value in claims.items():
        known = getattr(entry, name)
        entry[POSITIONS[name]] = {**(known or {}), **value} if isinstance(value, dict) else value
    return list(check_rows(table.io, entry, table.schema(), spec))


def test_nothing_is_found_in_nested_columns_that_are_as_the_manifest_claims(nested: CatalogTable) -> None:
    result = plan(nested, level="deep").execute()
    assert [finding.code for finding in result.findings] == []
    assert result.not_checked == ()


@pytest.mark.parametrize(
    ("claims", "field", "found"),
    [
        ({"value_counts": {8: 14}}, 8, 15),  # a field of a struct: one for each row
        ({"value_counts": {10: 24}}, 10, 25),  # three elements, an empty list, no list
        ({"value_counts": {12: 19}}, 12, 20),
        ({"value_counts": {15: 29}}, 15, 30),  # 1, 2, an empty list, no struct; an empty list; no list
        ({"null_value_counts": {8: 9}}, 8, 10),
        ({"null_value_counts": {10: 6}}, 10, 5),
        ({"null_value_counts": {12: 4}}, 12, 5),
        ({"nan_value_counts": {10: 4}}, 10, 5),
        ({"nan_value_counts": {12: 1}}, 12, 0),
    ],
    ids=str,
)
def test_a_lie_about_the_number_of_nested_values_is_found(
    nested: CatalogTable, claims: dict[str, Any], field: int, found: int
) -> None:
    (problem,) = checked(nested, **claims)
    assert problem[0] == "count"
    assert f"for field {field}, the file has {found}" in problem[1]


@pytest.mark.parametrize(
    ("claims", "column"),
    [
        ({"lower_bounds": {9: to_bytes(IntegerType(), 4)}}, "person.age"),
        ({"upper_bounds": {9: to_bytes(IntegerType(), 8)}}, "person.age"),
        ({"lower_bounds": {8: b"b"}}, "person.name"),
        ({"upper_bounds": {15: to_bytes(LongType(), 1)}}, "deep.element.n.element"),
        ({"upper_bounds": {11: b"x"}}, "prices.key"),
        ({"lower_bounds": {10: to_bytes(DoubleType(), 1.5)}}, "scores.element"),
        ({"upper_bounds": {6: uuid.UUID(int=6).bytes}}, "key"),
        ({"lower_bounds": {7: b"abd"}}, "code"),
    ],
    ids=str,
)
def test_a_bound_that_excludes_a_nested_value_is_found(
    nested: CatalogTable, claims: dict[str, Any], column: str
) -> None:
    assert checked(nested, **claims) == [
        Problem("bounds", f"a value of column {column} is outside of the bounds in the manifest")
    ]


def test_a_bound_without_an_order_and_a_transform_that_cannot_be_applied_are_not_passed_over(
    nested: CatalogTable,
) -> None:
    assert checked(nested, upper_bounds={10: to_bytes(DoubleType(), math.nan)}) == [
        Skipped("the bounds of column scores.element against its values", "no order of double is known")
    ]
    spec = PartitionSpec(PartitionField(1, 1000, UnknownTransform("curve"), "place"))
    (skipped,) = checked(nested, spec, partition=[1])
    assert skipped == Skipped("the partition place of each row", "PyIceberg cannot apply the transform unknown to long")


def test_rows_of_a_partition_by_a_field_of_a_struct_and_of_a_void_one_are_compared(nested: CatalogTable) -> None:
    spec = PartitionSpec(PartitionField(9, 1000, BucketTransform(1), "age"))
    problem = Problem("partition", "a row of the file does not belong to its partition age")
    assert checked(nested, spec, partition=[0]) == [problem]  # a null person is in the partition null
    void = PartitionSpec(PartitionField(1, 1000, VoidTransform(), "none"))
    assert checked(nested, void, partition=[None]) == []
    assert checked(nested, void, partition=[3]) == [
        Problem("partition", "a row of the file does not belong to its partition none")
    ]


def test_rows_of_partitions_by_floats_are_compared(tmp_path: Path) -> None:
    """NaN is one partition, though NaN is not equal to NaN."""
    values = [math.nan, -0.0, 0.0, 0.1, math.inf, None]
    for kind, arrow in ((FloatType(), pa.float32()), (DoubleType(), pa.float64())):
        schema = Schema(NestedField(1, "x", kind))
        with sealed_catalog(tmp_path / str(arrow)) as catalog:
            table = make(catalog, schema, PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "x")))
            table.append(pa.table({"x": pa.array(values * 2, arrow)}))
            assert plan(table, catalog=catalog, level="deep").execute().findings == ()
            table.overwrite(pa.table({"x": pa.array([math.nan], arrow)}))
            problem = Problem("partition", "a row of the file does not belong to its partition x")
            assert checked(table, table.spec(), partition=[1.5]) == [problem]


def test_the_same_gap_in_many_files_is_told_once_and_makes_the_result_incomplete(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    blob = pa.table({"b": pa.array([bytes(33 << 20)], pa.binary())})  # one page, which compresses well
    with sealed_catalog(tmp_path_factory.mktemp("large")) as catalog:
        table = make(catalog, blob.schema)
        table.append(blob)
        table.append(blob)
        assert plan(table, level="full").execute().verdict == "sound"
        result = plan(table, level="deep").execute()
    assert (result.verdict, result.exit_code, result.findings) == ("incomplete", 2, ())
    ((what, why),) = [(each.what, each.why) for each in result.not_checked]
    assert what == "its rows, in 2 files"
    assert why.startswith("a page of column b has 33.0 MiB when it is decompressed")
