"""What must hold before a statement of DDL changes a table. Each error names the column and says what is wrong with it.

    add_partition_field: no column ID; the columns are: id, name, ts
    set_identifier_fields: name may be null; the column of an identifier field must be NOT NULL

PyIceberg checks some of this as well, with errors that show its own objects. `refusals` makes what is left of those
errors of ours.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationError
from pyiceberg.types import DoubleType, FloatType, PrimitiveType, StructType

from sealberg.errors import ConfigError, SealbergError
from sealberg.spark.driver.descriptions import column_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import Transform
    from pyiceberg.types import NestedField


@contextmanager
def refusals(procedure: str) -> Iterator[None]:
    """Whatever PyIceberg refuses in the block, as our error."""
    try:
        yield
    except SealbergError:
        raise
    except (ValueError, ValidationError) as error:
        raise ConfigError(f"{procedure}: {error}") from error


def column(procedure: str, schema: Schema, name: str, *, case_sensitive: bool = True) -> NestedField:
    try:
        return schema.find_field(name, case_sensitive)
    except ValueError:
        known = ", ".join(schema.column_names)
        raise ConfigError(f"{procedure}: no column {name}; the columns are: {known}") from None


def check_transform(procedure: str, field: NestedField, transform: Transform[object, object]) -> None:
    if not transform.can_transform(field.field_type):
        raise ConfigError(f"{procedure}: there is no {transform} of {field.name}, which is of type {field.field_type}")


def check_new_partition_field(
    procedure: str, spec: PartitionSpec, field: NestedField, transform: Transform[object, object], without: str = ""
) -> None:
    """Refuse a field that the spec has already; `without` is a field that goes in the same change."""
    for known in spec.fields:
        if known.source_id == field.field_id and str(known.transform) == str(transform) and known.name != without:
            raise ConfigError(f"{procedure}: the table is partitioned by {_shown(known, field)} already")


def _shown(known: PartitionField, field: NestedField) -> str:
    return f"{known.transform} of {field.name} (partition field {known.name})"


def check_identifier_field(procedure: str, schema: Schema, name: str) -> None:
    """As in Iceberg: a primitive column, never null, no float, and in structs that are never null."""
    found = column(procedure, schema, name)
    kind = found.field_type
    if not isinstance(kind, PrimitiveType) or isinstance(kind, FloatType | DoubleType):
        raise ConfigError(f"{procedure}: {name} is of type {kind}, which is not allowed for an identifier field")
    for above, part in _down_to(procedure, schema, found, name):
        if not part.required:
            raise ConfigError(
                f"{procedure}: {above} may be null; the column of an identifier field, and structs around it, must be "
                "NOT NULL"
            )


def _down_to(procedure: str, schema: Schema, found: NestedField, name: str) -> Iterator[tuple[str, NestedField]]:
    """The structs around a column, from the outermost to the column, each with its name."""
    try:
        path = column_path(schema, found.field_id)
    except ConfigError:
        raise ConfigError(f"{procedure}: {name} is in a list or a map, and cannot be an identifier field") from None
    fields = schema.fields
    for at, part in enumerate(path, 1):
        field = next(each for each in fields if each.name == part)
        yield ".".join(path[:at]), field
        fields = field.field_type.fields if isinstance(field.field_type, StructType) else ()
