"""Which columns metadata tables have, without Spark: what Java refuses is refused."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform, Transform, UnknownTransform
from pyiceberg.types import LongType, NestedField

from sealberg.errors import UnsupportedError
from sealberg.spark.metadata_tables.kinds import KINDS
from sealberg.spark.metadata_tables.schemas import schema

PARTITIONED = ("files", "data_files", "delete_files", "entries", "partitions", "position_deletes", "all_files")


def made(transform: Transform[int, int]) -> TableMetadata:
    columns = Schema(NestedField(1, "id", LongType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, transform, "part"))
    return new_table_metadata(columns, spec, UNSORTED_SORT_ORDER, "file:///t")


@pytest.mark.parametrize("kind", PARTITIONED)
def test_values_of_an_unknown_transform_are_not_shown(kind: str) -> None:
    assert schema(made(IdentityTransform()), kind).columns
    with pytest.raises(UnsupportedError, match="the partition fields part have transforms that sealberg does not know"):
        schema(made(UnknownTransform("zero")), kind)


@pytest.mark.parametrize("kind", ["snapshots", "history", "refs", "manifests"])
def test_what_has_no_partition_is_shown(kind: str) -> None:
    assert kind in KINDS
    assert schema(made(UnknownTransform("zero")), kind).columns
