"""The partition of a file in the fields of all partition specs of its table, as Iceberg Java unifies them.

    spec 0: p                       partition struct<p:string, id_bucket:int>
    spec 1: p, bucket(4, id)  ──>   a file of spec 0: {p: "a", id_bucket: null}

A uuid is a string and a fixed is binary, as Spark has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, FixedType, IcebergType, NestedField, StringType, UUIDType

from sealberg.metadata.partition_types import unified

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


class UnifiedField(NamedTuple):
    """A partition field, whichever specs have it."""

    field_id: int
    name: str
    kind: IcebergType
    is_uuid: bool


def partition_fields(metadata: TableMetadata) -> list[UnifiedField]:
    """The fields of all specs by field id."""
    return [
        UnifiedField(field.field_id, field.name, spark_kind(field.field_type), isinstance(field.field_type, UUIDType))
        for field in unified(metadata.specs().values(), metadata.schema()).fields
    ]


def partition_schema(metadata: TableMetadata) -> Schema:
    """The fields of the metadata column `_partition`."""
    fields = partition_fields(metadata)
    return Schema(*(NestedField(field.field_id, field.name, field.kind, required=False) for field in fields))


def spark_kind(kind: IcebergType) -> IcebergType:
    """The type with those types of Spark's that have no counterpart in it."""
    if isinstance(kind, UUIDType):
        return StringType()
    return BinaryType() if isinstance(kind, FixedType) else kind
