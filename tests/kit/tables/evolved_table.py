"""A table that has seen everything: five partition specs, every kind of delete, nulls, a file without rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, VoidTransform
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables.small_tables import SmallTable

if TYPE_CHECKING:
    from pathlib import Path

    from sealberg.metadata.manifest import DataFileV3

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "Town", StringType()))
BY_TOWN = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "Town"), spec_id=1)
BY_BOTH = PartitionSpec(*BY_TOWN.fields, PartitionField(1, 1001, BucketTransform(4), "shard"), spec_id=2)
WITHOUT_TOWN = PartitionSpec(
    PartitionField(2, 1000, VoidTransform(), "Town"), PartitionField(1, 1001, BucketTransform(4), "shard"), spec_id=3
)
TOWNS_AGAIN = PartitionSpec(*BY_TOWN.fields, spec_id=4)
SPECS = (BY_TOWN, UNPARTITIONED_PARTITION_SPEC, BY_BOTH, WITHOUT_TOWN, TOWNS_AGAIN)


def file(small: SmallTable, town: str | None, *ids: int, spec_id: int = 1, **about: Any) -> DataFileV3:
    shard = BucketTransform(4).transform(LongType())(ids[0] if ids else None)
    values: dict[int, tuple[Any, ...]] = {1: (town,), 2: (town, shard), 3: (None, shard), 4: (town,)}
    rows = [{"id": each, "Town": town} for each in ids]
    return small.parquet(rows, partition=values.get(spec_id, ()), spec_id=spec_id, **about)


def evolved_table(folder: Path) -> SmallTable:
    """With deletes that are older than all data, too."""
    small = SmallTable(folder, SCHEMA, specs=SPECS)
    ids = Schema(SCHEMA.fields[0])
    small.snapshot(small.equality_deletes([{"id": 900}], ids, 1, spec_id=0))
    first, second = file(small, "Bonn", 1, 2, 3), file(small, None, 4)
    small.snapshot(first, second, file(small, "Aachen", 5, 6), file(small, "Bonn", 7), file(small, "Empty"))
    small.snapshot(file(small, "Bonn", 8, spec_id=2), file(small, "Bonn", 9, 10, spec_id=2), file(small, "Celle", 11))
    small.snapshot(small.vector({first: [0, 1], second: [0]}))
    old = file(small, "Aachen", 12)
    small.snapshot(old, small.position_deletes((old, 0), partition=("Aachen",), spec_id=1))
    small.snapshot(small.equality_deletes([{"id": 5}, {"id": 6}], ids, 1, partition=("Aachen",), spec_id=1))
    small.snapshot(*(file(small, "Bonn", each, spec_id=3) for each in range(20, 30)))
    small.snapshot(file(small, "Bonn", 40, 41, spec_id=4), file(small, "ü", 42, spec_id=4))
    small.snapshot(file(small, "Bonn", 50, spec_id=0), small.equality_deletes([{"id": 50}], ids, 1, spec_id=0))
    return small
