"""The partition of a file in the fields of all partition specs of its table, as Iceberg Java unifies them.

    spec 0: p                       partition struct<p:string, id_bucket:int>
    spec 1: p, bucket(4, id)  ──>   a file of spec 0: {p: "a", id_bucket: null}

A uuid is a string and a fixed is binary, as Spark has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import BinaryType, FixedType, IcebergType, NestedField, StringType, UUIDType

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table.metadata import TableMetadata


class UnifiedField(NamedTuple):
    """A partition field, whichever specs have it."""

    field_id: int
    name: str
    kind: IcebergType
    is_uuid: bool


def partition_fields(metadata: TableMetadata) -> list[UnifiedField]:
    """The fields of all specs by field id; a field has its newest name.

    Left out are fields whose column was dropped, as in Java.
    """
    columns = metadata.schema()
    found: dict[int, tuple[PartitionField, UnifiedField]] = {}
    for spec in sorted(metadata.specs().values(), key=lambda spec: -spec.spec_id):
        for field in spec.fields:
            if field.source_id not in columns.field_ids:
                continue
            known = found.get(field.field_id)
            # Tables of version 1 keep a dropped field as a void one, which does not tell the type.
            if known is None or (_is_void(known[0]) and not _is_void(field)):
                kind = field.transform.result_type(columns.find_type(field.source_id))
                name = field.name if known is None else known[1].name
                found[field.field_id] = (
                    field,
                    UnifiedField(field.field_id, name, spark_kind(kind), isinstance(kind, UUIDType)),
                )
    return [found[field_id][1] for field_id in sorted(found)]


def partition_schema(metadata: TableMetadata) -> Schema:
    """The fields of the metadata column `_partition`."""
    fields = partition_fields(metadata)
    return Schema(*(NestedField(field.field_id, field.name, field.kind, required=False) for field in fields))


def _is_void(field: PartitionField) -> bool:
    return isinstance(field.transform, VoidTransform)


def spark_kind(kind: IcebergType) -> IcebergType:
    """The type with those types of Spark's that have no counterpart in it."""
    if isinstance(kind, UUIDType):
        return StringType()
    return BinaryType() if isinstance(kind, FixedType) else kind
