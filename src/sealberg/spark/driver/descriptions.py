"""Descriptions of tables for Java: columns, partitions, properties, and the handle that later requests name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DoubleType, FloatType, PrimitiveType, StructType, UUIDType

from sealberg.errors import ConfigError
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.spark.driver.partitions import UNITS
from sealberg.spark.driver.scan_options import scan_options
from sealberg.spark.metadata_tables.unified_partition import partition_schema
from sealberg.spark.protocol.handles import TableHandle
from sealberg.spark.protocol.tables import RowLevelModes, TableDescription, TransformField
from sealberg.spark.types import read_schema, spark_schema
from sealberg.write.row_changes import row_level_mode

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.sorting import SortField
    from pyiceberg.types import NestedField

    from sealberg.spark.protocol.tables import ScanOptions
    from sealberg.write.row_changes import RowLevelMode

PROVIDER: Final = "iceberg"
ACCEPT_ANY_SCHEMA: Final = "write.spark.accept-any-schema"
AUTO_EVOLUTION: Final = "write.spark.auto-schema-evolution.enabled"


def describe(table: Table, snapshot: Snapshot | None, *, past: bool = False) -> TableDescription:
    """All that Java needs to know of a table at a snapshot."""
    description = describe_metadata(table.name(), table.metadata, snapshot, past=past)
    return with_handle(description, metadata_location=table.metadata_location)


def with_handle(description: TableDescription, **changes: object) -> TableDescription:
    """The description, with other fields in its handle."""
    handle: TableHandle = replace(description.handle, **changes)  # type: ignore[arg-type]
    return replace(description, handle=handle)


def describe_metadata(
    name: tuple[str, ...], metadata: TableMetadata, snapshot: Snapshot | None, *, past: bool = False
) -> TableDescription:
    schema = metadata.schema()
    if past and snapshot is not None and snapshot.schema_id is not None:
        schema = metadata.schema_by_id(snapshot.schema_id) or schema
    summary = snapshot.summary if snapshot is not None else None
    handle = TableHandle(
        tuple(name), str(metadata.table_uuid), schema.schema_id, past, snapshot.snapshot_id if snapshot else None
    )
    return TableDescription(
        handle,
        ".".join(name),
        spark_schema(schema),
        read_schema(schema),
        tuple(_partition(field, schema) for field in metadata.spec().fields if _is_shown(field, schema)),
        spark_schema(partition_schema(metadata)),
        {
            **metadata.properties,
            "format-version": str(metadata.format_version),
            "provider": PROVIDER,
            "location": metadata.location,
            **_derived_properties(metadata),
        },
        record_count=int((summary["total-records"] if summary else None) or 0),
        size_in_bytes=int((summary["total-files-size"] if summary else None) or 0),
        filterable_columns=filterable_columns(metadata, schema),
        scan_options=_scan_options(name, metadata),
        accepts_any_schema=accepts_any_schema(metadata),
        evolves_schema=metadata.properties.get(AUTO_EVOLUTION, "true").lower() == "true",
        row_level_modes=row_level_modes(metadata),
    )


def _derived_properties(metadata: TableMetadata) -> dict[str, str]:
    """What SHOW TBLPROPERTIES shows of the sort order and the identifier fields, as Iceberg's connector does."""
    schema, order = metadata.schema(), metadata.sort_order_by_id(metadata.default_sort_order_id)
    fields = ", ".join(_sort_text(field, schema) for field in order.fields) if order is not None else ""
    identifiers = ",".join(sorted(schema.identifier_field_names()))
    shown = {"sort-order": fields, "identifier-fields": identifiers and f"[{identifiers}]"}
    return {name: value for name, value in shown.items() if value}


def _sort_text(field: SortField, schema: Schema) -> str:
    name, width = transform(field)
    column = schema.find_column_name(field.source_id) or ""
    arguments = {"bucket": f"{width}, {column}", "truncate": f"{column}, {width}"}  # the order that Java shows
    term = column if name == "identity" else f"{name}({arguments.get(name, column)})"
    return f"{term} {field.direction.name} NULLS {'FIRST' if field.null_order == NullOrder.NULLS_FIRST else 'LAST'}"


def accepts_any_schema(metadata: TableMetadata) -> bool:
    return bool(metadata.properties.get(ACCEPT_ANY_SCHEMA, "false").lower() == "true")


def _scan_options(name: tuple[str, ...], metadata: TableMetadata) -> ScanOptions | None:
    """None if a property cannot be read: Java asks for the options of each scan then, and a scan gets the error."""
    try:
        return scan_options(".".join(name), metadata)
    except ConfigError:
        return None


def row_level_modes(metadata: TableMetadata) -> RowLevelModes:
    encrypted = KEY_ID_PROPERTY in metadata.properties

    def mode(command: str) -> RowLevelMode | None:
        try:
            return row_level_mode(metadata.properties, command, encrypted=encrypted)
        except ConfigError:
            return None

    return RowLevelModes(mode("delete"), mode("update"), mode("merge"))


# -- columns ------------------------------------------------------------------------------------------


def _is_shown(field: PartitionField, schema: Schema) -> bool:
    return not isinstance(field.transform, VoidTransform) and field.source_id in schema.field_ids


def _partition(field: PartitionField, schema: Schema) -> TransformField:
    return TransformField(*transform(field), quoted(schema, field.source_id))


def quoted(schema: Schema, field_id: int) -> str:
    """A column as Spark parses it, whatever characters are in its name."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in column_path(schema, field_id))


def column_path(schema: Schema, field_id: int) -> tuple[str, ...]:
    """The names from the top of the schema down to a column inside structs; a name may hold a dot."""
    pending: list[tuple[tuple[str, ...], NestedField]] = [((), field) for field in schema.fields]
    for above, field in pending:
        path = (*above, field.name)
        if field.field_id == field_id:
            return path
        if isinstance(field.field_type, StructType):
            pending += [(path, inner) for inner in field.field_type.fields]
    raise ConfigError(f"no column with the id {field_id} in {schema}")


def transform(field: PartitionField | SortField) -> tuple[str, int]:
    """The name and the width of a transform, by the names of Spark's functions."""
    kind, _, width = str(field.transform).rstrip("]").partition("[")
    return UNITS.get(kind, kind), int(width or 0)


def filterable_columns(metadata: TableMetadata, schema: Schema) -> tuple[str, ...]:
    """The columns whose name never meant another column or another type: Parquet's own filters go by name.

    Columns that can be NaN are left out: writers leave NaN out of statistics, and to Spark NaN is greater than every
    number. Columns of uuids are left out, too: a uuid is bytes in a file and text in Spark.
    """
    meanings: dict[str, set[tuple[int, str]]] = {}
    for former in metadata.schemas:
        for field_id in former.field_ids:
            name = (former.find_column_name(field_id) or "").lower()
            meanings.setdefault(name, set()).add((field_id, str(former.find_type(field_id))))
    found = []
    for field_id in schema.field_ids:
        name, kind = schema.find_column_name(field_id) or "", schema.find_type(field_id)
        plain = isinstance(kind, PrimitiveType) and not isinstance(kind, FloatType | DoubleType | UUIDType)
        if plain and len(meanings.get(name.lower(), ())) == 1:
            found.append(name)
    return tuple(found)
