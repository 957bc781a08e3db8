"""Converts schemas between Spark's JSON and PyIceberg's types.

boolean int long float double string binary fixed date time timestamp timestamptz decimal uuid    struct list map
An error names a column whose type Spark or Iceberg does not have.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from sealberg.errors import UnsupportedError
from sealberg.scan import metadata_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELD_ID: Final = "parquet.field.id"
EXISTS_DEFAULT: Final = "EXISTS_DEFAULT"
CURRENT_DEFAULT: Final = "CURRENT_DEFAULT"
COLLATIONS: Final = "__COLLATIONS"

_TO_SPARK: Final[dict[type[IcebergType], str]] = {
    BooleanType: "boolean",
    IntegerType: "integer",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "binary",
    FixedType: "binary",
    DateType: "date",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
    TimeType: "time(6)",
    UUIDType: "string",
}
_FROM_SPARK: Final[dict[str, IcebergType]] = {
    "boolean": BooleanType(),
    "byte": IntegerType(),
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}


# -- Iceberg to Spark -------------------------------------------------------------------------------


def spark_schema(schema: Schema) -> dict[str, Any]:
    """The schema that Spark's users see."""
    return {"type": "struct", "fields": [_field(field, field.name, reading=False) for field in schema.fields]}


def read_schema(schema: Schema) -> dict[str, Any]:
    """The schema for Spark's Parquet reader: field ids, and initial defaults for files that lack a column."""
    fields = (*schema.fields, metadata_columns.ROW_ID, metadata_columns.LAST_UPDATED)
    return {"type": "struct", "fields": [_field(field, field.name, reading=True) for field in fields]}


def _field(field: NestedField, path: str, *, reading: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {FIELD_ID: field.field_id}
    if not reading and field.doc:
        metadata["comment"] = field.doc
    if reading and field.initial_default is not None:
        metadata[EXISTS_DEFAULT] = _sql(field.initial_default, field.field_type)
    if not reading and field.write_default is not None:
        # Spark uses CURRENT_DEFAULT for an INSERT without a value, and requires EXISTS_DEFAULT too. A uuid is a string.
        kind = StringType() if isinstance(field.field_type, UUIDType) else field.field_type
        value = _uuid_text(field.write_default) if isinstance(field.field_type, UUIDType) else field.write_default
        metadata[CURRENT_DEFAULT] = metadata[EXISTS_DEFAULT] = _sql(value, kind)
    return {
        "name": field.name,
        "type": _spark_type(field.field_type, path, reading=reading),
        "nullable": reading or not field.required,
        "metadata": metadata,
    }


def _spark_type(kind: IcebergType, path: str, *, reading: bool) -> Any:
    match kind:
        case StructType():
            fields = [_field(field, f"{path}.{field.name}", reading=reading) for field in kind.fields]
            return {"type": "struct", "fields": fields}
        case ListType():
            element = _spark_type(kind.element_type, f"{path}.element", reading=reading)
            return {"type": "array", "elementType": element, "containsNull": reading or not kind.element_required}
        case MapType():
            return {
                "type": "map",
                "keyType": _spark_type(kind.key_type, f"{path}.key", reading=reading),
                "valueType": _spark_type(kind.value_type, f"{path}.value", reading=reading),
                "valueContainsNull": reading or not kind.value_required,
            }
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
    if reading and isinstance(kind, UUIDType):
        return "binary"  # Spark's reader gets bytes from the file, and the Java side turns them into a string
    found = _TO_SPARK.get(type(kind))
    if found is None:
        raise UnsupportedError(f"column {path} is a {kind}, which Spark has no type for; read the table with Python")
    return found


def beyond_spark(schema: Schema, columns: dict[str, Any]) -> bool:
    """Whether Spark's Parquet reader would read some of these columns wrongly.

    It supports no defaults inside structs and none for binary columns, and it reads a uuid as bytes, which the Java
    side turns into a string at the top level only.
    """
    names = {field["name"] for field in columns["fields"]}
    return any(_has_hard_default(field) or _is_hard(field.field_type) for field in schema.fields if field.name in names)


def _has_hard_default(field: NestedField) -> bool:
    return field.initial_default is not None and isinstance(field.field_type, BinaryType | FixedType | UUIDType)


def _is_hard(kind: IcebergType) -> bool:
    match kind:
        case StructType():
            return any(field.initial_default is not None or _is_hard_inside(field.field_type) for field in kind.fields)
        case ListType():
            return _is_hard_inside(kind.element_type)
        case MapType():
            return _is_hard_inside(kind.key_type) or _is_hard_inside(kind.value_type)
    return False


def _is_hard_inside(kind: IcebergType) -> bool:
    return isinstance(kind, UUIDType) or _is_hard(kind)


def _sql(value: Any, kind: IcebergType) -> str:  # noqa: PLR0911 (one a type)
    """A default value as an SQL literal."""
    match kind:
        case BooleanType():
            return str(value).lower()
        case StringType():
            return _quoted(value)
        case BinaryType() | FixedType():
            return f"X'{bytes(value).hex()}'"
        case UUIDType():
            return f"X'{(value if isinstance(value, bytes) else UUID(str(value)).bytes).hex()}'"
        case DateType() | TimeType() | TimestampType() | TimestamptzType():
            return f"CAST({_quoted(_iso(value, kind))} AS {str(_TO_SPARK[type(kind)]).upper()})"
        case DecimalType():
            return f"CAST('{value}' AS DECIMAL({kind.precision}, {kind.scale}))"
        case _:
            return f"CAST('{value}' AS {_spark_type(kind, '', reading=True)})".replace("long", "bigint")


def _uuid_text(value: Any) -> str:
    return str(UUID(bytes=value) if isinstance(value, bytes) else value)


def _iso(value: Any, kind: IcebergType) -> str:
    from pyiceberg.utils import datetime as times

    if isinstance(value, int):
        if isinstance(kind, DateType):
            return times.days_to_date(value).isoformat()
        if isinstance(kind, TimeType):
            return times.micros_to_time(value).isoformat()
        zoned = isinstance(kind, TimestamptzType)
        return (times.micros_to_timestamptz if zoned else times.micros_to_timestamp)(value).isoformat(sep=" ")
    return str(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# -- Spark to Iceberg -------------------------------------------------------------------------------


def iceberg_schema(spark: dict[str, Any]) -> Schema:
    """A schema from Spark's JSON, with provisional field ids; the catalog assigns the final ones."""
    numbers = count(1)
    return Schema(*(_nested_field(field, numbers) for field in spark["fields"]))


def iceberg_type(spark: Any) -> IcebergType:
    return _iceberg_type(spark, count(1), "the column")


def _nested_field(field: dict[str, Any], numbers: Iterator[int]) -> NestedField:
    if COLLATIONS in field.get("metadata", {}):
        found = ", ".join(sorted(set(field["metadata"][COLLATIONS].values())))
        raise UnsupportedError(
            f"column {field['name']}: Iceberg has no collations, found COLLATE {found}; leave it out"
        )
    return NestedField(
        next(numbers),
        field["name"],
        _iceberg_type(field["type"], numbers, field["name"]),
        required=not field["nullable"],
        doc=field.get("metadata", {}).get("comment"),
    )


def _iceberg_type(kind: Any, numbers: Iterator[int], path: str) -> IcebergType:  # noqa: PLR0911 (one a type)
    if isinstance(kind, dict):
        match kind["type"]:
            case "struct":
                return StructType(*(_nested_field(field, numbers) for field in kind["fields"]))
            case "array":
                element = _iceberg_type(kind["elementType"], numbers, f"{path}.element")
                return ListType(next(numbers), element, element_required=not kind["containsNull"])
            case "map":
                return MapType(
                    next(numbers),
                    _iceberg_type(kind["keyType"], numbers, f"{path}.key"),
                    next(numbers),
                    _iceberg_type(kind["valueType"], numbers, f"{path}.value"),
                    value_required=not kind["valueContainsNull"],
                )
        raise UnsupportedError(f"{path}: Iceberg has no type for Spark's {kind['type']}; use another type")
    if decimal := re.fullmatch(r"decimal\((\d+),(-?\d+)\)", kind):
        return DecimalType(int(decimal[1]), int(decimal[2]))
    if re.fullmatch(r"(var)?char\(\d+\)", kind):
        return StringType()
    if re.fullmatch(r"time\([0-6]\)", kind):
        return TimeType()
    if kind not in _FROM_SPARK:
        raise UnsupportedError(f"{path}: Iceberg has no type for Spark's {kind}; use another type")
    return _FROM_SPARK[kind]


def written_schema(spark: dict[str, Any], table: Schema) -> Schema:
    """Spark's rows for a table: as `iceberg_schema`, with uuid and fixed where the table has them.

    Spark has strings and bytes there.
    """
    return Schema(*_fields_as(table.fields, iceberg_schema(spark).fields))


def _fields_as(table: tuple[NestedField, ...], given: tuple[NestedField, ...]) -> Iterator[NestedField]:
    known = {field.name: field.field_type for field in table}
    for field in given:
        kind = _type_as(known.get(field.name, field.field_type), field.field_type)
        yield field.model_copy(update={"field_type": kind})


def _type_as(table: IcebergType, given: IcebergType) -> IcebergType:
    match given, table:
        case (StringType(), UUIDType()) | (BinaryType(), FixedType()):
            return table
        case StructType(), StructType():
            return StructType(*_fields_as(table.fields, given.fields))
        case ListType(), ListType():
            element = _type_as(table.element_type, given.element_type)
            return ListType(given.element_id, element, element_required=given.element_required)
        case MapType(), MapType():
            key, value = _type_as(table.key_type, given.key_type), _type_as(table.value_type, given.value_type)
            return MapType(given.key_id, key, given.value_id, value, value_required=given.value_required)
    return given


# -- Parquet ----------------------------------------------------------------------------------------


def parquet_ids(schema: Schema) -> dict[str, int]:
    """The field ids of a Parquet file, by path, at every level."""
    found: dict[str, int] = {}
    for field in (*schema.fields, metadata_columns.ROW_ID, metadata_columns.LAST_UPDATED):
        found[field.name] = field.field_id
        _ids_below(field.field_type, field.name, found)
    return found


def _ids_below(kind: IcebergType, path: str, found: dict[str, int]) -> None:
    below: list[tuple[str, int, IcebergType]] = []
    match kind:
        case StructType():
            below = [(f"{path}.{field.name}", field.field_id, field.field_type) for field in kind.fields]
        case ListType():
            below = [(f"{path}.list.element", kind.element_id, kind.element_type)]
        case MapType():
            below = [
                (f"{path}.key_value.key", kind.key_id, kind.key_type),
                (f"{path}.key_value.value", kind.value_id, kind.value_type),
            ]
    for where, field_id, inner in below:
        found[where] = field_id
        _ids_below(inner, where, found)


def parquet_kinds(schema: Schema) -> dict[str, int]:
    """The fixed and uuid columns, which Spark would write as plain binary, by path: the length, or -1 for a uuid."""
    by_id = {field_id: path for path, field_id in parquet_ids(schema).items()}
    found = {}
    for field_id in schema.field_ids:
        kind = schema.find_type(field_id)
        if isinstance(kind, UUIDType):
            found[by_id[field_id]] = -1
        elif isinstance(kind, FixedType):
            found[by_id[field_id]] = len(kind)
    return found
