"""Numbers that nothing can be computed with: refused when metadata are read.

    bucket[0]   truncate[0]   decimal(9, 99)   decimal(99, 0)   fixed[99999999999999999999]
    a time after the year 9999

Java refuses them as well, but for the times; PyIceberg takes them, and fails in the middle of a scan by a division by
zero or an overflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyiceberg.transforms import BucketTransform, Transform, TruncateTransform
from pyiceberg.types import DecimalType, FixedType, IcebergType, ListType, MapType, StructType

from sealberg.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.metadata import TableMetadata

MAX_INT: Final = 2**31 - 1
MAX_PRECISION: Final = 38
MAX_MS: Final = 253402300799999  # the end of the year 9999


def check_bounds(metadata: TableMetadata) -> None:
    """FormatError for a type or a transform of any schema, spec or sort order, or a time, out of bounds."""
    times = [
        *(snapshot.timestamp_ms for snapshot in metadata.snapshots),
        *(entry.timestamp_ms for entry in metadata.snapshot_log),
        *(entry.timestamp_ms for entry in metadata.metadata_log),
    ]
    if wrong := [time for time in times if not 0 <= time <= MAX_MS]:
        raise FormatError(f"table metadata have the time {wrong[0]} in milliseconds, out of bounds")
    for schema in metadata.schemas:
        for field in schema.fields:
            for each in _primitives(field.field_type):
                _check_type(field.name, each)
    for spec in metadata.partition_specs:
        for part in spec.fields:
            _check_transform(part.name, part.transform)
    for order in metadata.sort_orders:
        for key in order.fields:
            _check_transform(f"sort order {order.order_id}", key.transform)


def _primitives(found: IcebergType) -> Iterator[IcebergType]:
    match found:
        case StructType():
            for field in found.fields:
                yield from _primitives(field.field_type)
        case ListType():
            yield from _primitives(found.element_type)
        case MapType():
            yield from _primitives(found.key_type)
            yield from _primitives(found.value_type)
        case _:
            yield found


def _check_type(column: str, found: IcebergType) -> None:
    match found:
        case FixedType():
            good = 0 <= found.root <= MAX_INT
        case DecimalType():
            good = 0 < found.precision <= MAX_PRECISION and 0 <= found.scale <= MAX_PRECISION
        case _:
            return
    if not good:
        raise FormatError(
            f"table metadata have the type {str(found)[:100]} of the column {column[:100]}, out of bounds"
        )


def _check_transform(name: str, found: Transform[object, object]) -> None:
    match found:
        case BucketTransform():
            width, what = found.num_buckets, "number of buckets"
        case TruncateTransform():
            width, what = found.width, "truncate width"
        case _:
            return
    if not 0 < width <= MAX_INT:
        raise FormatError(f"Invalid {what}: {str(width)[:40]} (must be > 0 and at most {MAX_INT}), of {name[:100]}")
