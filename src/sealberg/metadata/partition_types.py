"""The types of partition values, also where partition specs and columns have changed.

    spec 0: p                              unified    struct<p: string, id_bucket: int>
    spec 1: p, id_bucket: bucket(4, id)
    without the column p                   unified    struct<id_bucket: int>
    spec 2: id_bucket: bucket(8, id)       unified    struct<id_bucket_1001: int, id_bucket: int>

    schema_for    the schema in which every field of one spec finds its column: to read and write partition values
    unified       the fields of several specs as metadata tables and statistics show them
    refuse_unknown    nobody knows the types of the values of an unknown transform

An old spec may use a column that was dropped, whose values have no type in the current schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.transforms import UnknownTransform, VoidTransform
from pyiceberg.types import NestedField, StructType

from sealberg.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table.metadata import TableMetadata


def schema_for(metadata: TableMetadata, spec_id: int) -> Schema:
    """The schema plus dropped columns that the spec uses, whose types the partition values need."""
    schema = metadata.schema()
    missing = {field.source_id for field in metadata.specs()[spec_id].fields} - set(schema.field_ids)
    dropped = []
    for field_id in sorted(missing):
        older = (old.find_field(field_id) for old in reversed(metadata.schemas) if field_id in old.field_ids)
        if (column := next(older, None)) is not None:
            # A new column may have the name of a dropped one, and the struct of a nested one may be gone: a name of its
            # own, beside the other columns. Values are matched by id.
            name = f"{column.name}-dropped-{field_id}"
            dropped.append(column.model_copy(update={"required": False, "name": name}))
    return Schema(*schema.fields, *dropped, schema_id=schema.schema_id) if dropped else schema


def unified(specs: Iterable[PartitionSpec], schema: Schema) -> StructType:
    """The fields of all specs by field id, each with its newest name; as in Java, without fields of dropped columns.

    Java fails where a new field has the name of an old one. Here the old field is shown as NAME_ID, which is how Java
    renames it in tables of version 1.
    """
    kinds: dict[int, PartitionField] = {}
    names: dict[int, str] = {}
    for spec in sorted(specs, key=lambda spec: -spec.spec_id):
        for field in spec.fields:
            if field.source_id not in schema.field_ids:
                continue
            if field.field_id not in names:
                name = field.name
                while name in names.values():
                    name = f"{name}_{field.field_id}"
                names[field.field_id] = name
            # Tables of version 1 keep a removed field as a void one, which does not tell the type.
            if field.field_id not in kinds or isinstance(kinds[field.field_id].transform, VoidTransform):
                kinds[field.field_id] = field
    return StructType(
        *(
            NestedField(
                field_id,
                names[field_id],
                field.transform.result_type(schema.find_type(field.source_id)),
                required=False,
            )
            for field_id, field in sorted(kinds.items())
        )
    )


def refuse_unknown(metadata: TableMetadata) -> None:
    """UnsupportedError for a table with an unknown transform, whose values cannot be shown; as in Java."""
    fields = (field for spec in metadata.specs().values() for field in spec.fields)
    if unknown := sorted({field.name for field in fields if isinstance(field.transform, UnknownTransform)}):
        raise UnsupportedError(
            f"the partition fields {', '.join(unknown)} have transforms that sealberg does not know, so the values "
            "of partitions cannot be shown; metadata tables without the column partition can be read"
        )
