"""Bounds of a manifest entry and its partition, against the statistics in the footer of its Parquet file.

    manifest: lower <= values <= upper          footer: smallest and largest value of each row group
    lower above the smallest, or upper below the largest: a scan would skip rows that match

Bounds may be wider than the values: Iceberg truncates long strings. Both sides are compared as numbers or bytes,
without a row being decoded. A message names the column and never shows a value.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import from_bytes
from pyiceberg.transforms import VoidTransform
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
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from sealberg.jobs.checks.outcome import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from sealberg.files.parquet.footer import FileFooter, Statistics
    from sealberg.metadata.manifest import DataFileV3

WHOLE = (
    IntegerType,
    LongType,
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
)
BYTES = (StringType, BinaryType, FixedType, UUIDType, BooleanType)
INT32, INT64 = 1, 2  # physical types of Parquet
PLAIN = (IntegerType, LongType, DateType, StringType)  # statistics of Parquet have the bytes of Iceberg's bounds


def comparable(kind: IcebergType, value: bytes, *, little: bool = False) -> Any:
    """A bound as a number or bytes that compare in the order of the type; None where there is no such order.

    Args:
        little: the value is a decimal that Parquet stores as a little-endian integer.
    """
    if isinstance(kind, WHOLE):
        return int.from_bytes(value, "little", signed=True)
    if isinstance(kind, DecimalType):
        return int.from_bytes(value, "little" if little else "big", signed=True)
    if isinstance(kind, FloatType | DoubleType) and len(value) in (4, 8):
        number = struct.unpack("<f" if len(value) == 4 else "<d", value)[0]
        return None if number != number else number  # noqa: PLR0124 (NaN has no order)
    return bytes(value) if isinstance(kind, BYTES) else None


def check_bounds(footer: FileFooter, file: DataFileV3, schema: Schema) -> Iterator[Problem]:
    """Bounds that rule out values of the file."""
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    kinds = _types(schema)
    wrong: dict[tuple[str, str], None] = {}
    for _, chunk in footer.chunks():
        leaf, statistics = chunk.leaf, chunk.statistics
        kind = kinds.get(leaf.field_id) if leaf.field_id is not None else None
        if kind is None or leaf.repeated or leaf.field_id is None:
            continue
        little = leaf.physical_type in (INT32, INT64)
        smallest, largest = _ends(kind, statistics, little=little)
        bound = lower.get(leaf.field_id)
        if bound is not None and smallest is not None and _above(comparable(kind, bound), smallest):
            wrong["lower", ".".join(leaf.path)] = None
        bound = upper.get(leaf.field_id)
        if bound is not None and largest is not None and _above(largest, comparable(kind, bound)):
            wrong["upper", ".".join(leaf.path)] = None
    for which, name in wrong:
        than = "above the smallest" if which == "lower" else "below the largest"
        yield Problem("bounds", f"the {which} bound of column {name} in the manifest is {than} value in the file")


def check_partition(file: DataFileV3, spec: PartitionSpec, schema: Schema) -> Iterator[Problem]:
    """Partition values that do not fit the bounds of their source columns."""
    kinds = _types(schema)
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    for at, field in enumerate(spec.fields):
        kind = kinds.get(field.source_id)
        low, high = lower.get(field.source_id), upper.get(field.source_id)
        if not isinstance(kind, PrimitiveType) or low is None or high is None or not field.transform.preserves_order:
            continue
        try:
            apply = field.transform.transform(kind)
            first, last = apply(from_bytes(kind, low)), apply(from_bytes(kind, high))
            value = file.partition[at]
            fits = value is not None and first is not None and last is not None and first <= value <= last
        except (TypeError, ValueError, IndexError, struct.error):
            continue  # bounds of another type, of a column whose type was widened
        if not fits:
            yield Problem("partition", f"the partition value {field.name} does not fit the bounds of its source column")


def check_partition_rows(
    footer: FileFooter, file: DataFileV3, spec: PartitionSpec, schema: Schema
) -> Iterator[Problem]:
    """Partition values that do not fit the rows, as far as the footer tells."""
    kinds = _types(schema)
    for at, field in enumerate(spec.fields):
        if at >= len(file.partition) or isinstance(field.transform, VoidTransform):
            continue
        chunks = [chunk for _, chunk in footer.chunks() if chunk.leaf.field_id == field.source_id]
        nulls = [chunk.statistics.null_count for chunk in chunks]
        if not chunks or None in nulls or any(chunk.leaf.repeated for chunk in chunks):
            continue
        present, value = (
            sum(chunk.num_values - (chunk.statistics.null_count or 0) for chunk in chunks),
            file.partition[at],
        )
        if (value is None and present) or (value is not None and any(nulls)):
            found = f"{present} values and {sum(filter(None, nulls))} nulls"
            text = (
                f"the partition value {field.name} is {'null' if value is None else 'not null'}, the file has {found}"
            )
            yield Problem("partition", text)
            continue
        kind = kinds.get(field.source_id)
        if value is None or not isinstance(kind, PLAIN) or not field.transform.preserves_order:
            continue
        ends = [(chunk.statistics.lower, chunk.statistics.upper) for chunk in chunks]
        if any(low is None or high is None for low, high in ends):
            continue
        try:
            apply = field.transform.transform(kind)
            made = {apply(from_bytes(kind, end)) for pair in ends for end in pair if end is not None}
        except (TypeError, ValueError, struct.error):
            continue  # statistics of another type, of a column whose type was widened
        if made != {value}:
            yield Problem("partition", f"the partition value {field.name} is not that of the values in the file")


def _types(schema: Schema) -> dict[int, IcebergType]:
    from pyiceberg.schema import index_by_id

    return {field_id: field.field_type for field_id, field in index_by_id(schema).items()}


def _ends(kind: IcebergType, statistics: Statistics, *, little: bool) -> tuple[Any, Any]:
    ends = (statistics.lower, statistics.upper)
    lower, upper = (None if end is None else comparable(kind, end, little=little) for end in ends)
    return lower, upper


def _above(one: Any, other: Any) -> bool:
    return one is not None and other is not None and bool(one > other)
