"""Partition fields and sort fields whose transform fits the type of their column. Java refuses other metadata.

PyIceberg takes them, and fails where a filter is projected or a partition is computed. A column that is gone and a
transform that nobody knows are not looked at: specs of the past may have both, and only a write needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.transforms import UnknownTransform
from pyiceberg.types import PrimitiveType

from sealberg.errors import FormatError

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortField


def check_sources(metadata: TableMetadata) -> None:
    """FormatError for a field of a spec or sort order that cannot be computed from its column."""
    schema = metadata.schema()
    fields: list[PartitionField | SortField] = [field for spec in metadata.partition_specs for field in spec.fields]
    fields += [field for order in metadata.sort_orders for field in order.fields]
    for field in fields:
        name = schema.find_column_name(field.source_id)
        if name is None or isinstance(field.transform, UnknownTransform):
            continue
        found = schema.find_type(field.source_id)
        if not (isinstance(found, PrimitiveType) and field.transform.can_transform(found)):
            raise FormatError(
                f"table metadata have the transform {field.transform} on the column {name[:100]} of type "
                f"{str(found)[:100]}, which it cannot be computed from"
            )
