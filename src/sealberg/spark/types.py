"""Schemas between Spark and Iceberg: Spark's JSON on one side, PyIceberg's types on the other.

boolean int long float double string binary fixed date timestamp timestamptz decimal    struct list map
what Spark has no type for, or cannot write (uuid, time, nanoseconds), is refused by name
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
from sealberg.scan import metadata_columns as lineage

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
    """As Spark's users see the table."""
    return {"type": "struct", "fields": [_field(one, one.name, reading=False) for one in schema.fields]}


def read_schema(schema: Schema) -> dict[str, Any]:
    """As Spark's reader looks for the columns: by field id, with defaults for files that are older than a column."""
    fields = (*schema.fields, lineage.ROW_ID, lineage.LAST_UPDATED)
    return {"type": "struct", "fields": [_field(one, one.name, reading=True) for one in fields]}


def _field(one: NestedField, path: str, *, reading: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {FIELD_ID: one.field_id}
    if not reading and one.doc:
        metadata["comment"] = one.doc
    if reading and one.initial_default is not None:
        metadata[EXISTS_DEFAULT] = _sql(one.initial_default, one.field_type)
    if not reading and one.write_default is not None:
        # Spark takes the first for an INSERT without a value, and wants the second beside it. A uuid is text there.
        kind = StringType() if isinstance(one.field_type, UUIDType) else one.field_type
        value = _uuid_text(one.write_default) if isinstance(one.field_type, UUIDType) else one.write_default
        metadata[CURRENT_DEFAULT] = metadata[EXISTS_DEFAULT] = _sql(value, kind)
    return {
        "name": one.name,
        "type": _spark_type(one.field_type, path, reading=reading),
        "nullable": reading or not one.required,
        "metadata": metadata,
    }


def _spark_type(kind: IcebergType, path: str, *, reading: bool) -> Any:
    match kind:
        case StructType():
            fields = [_field(one, f"{path}.{one.name}", reading=reading) for one in kind.fields]
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
        return "binary"  # as Spark's reader gets it from the file; what it makes of that is Java's work
    found = _TO_SPARK.get(type(kind))
    if found is None:
        raise UnsupportedError(f"column {path} is a {kind}, which Spark has no type for")
    return found


def beyond_spark(schema: Schema, columns: dict[str, Any]) -> bool:
    """Whether Spark's Parquet reader would get some of these columns wrong.

    It has no defaults inside structs nor for bytes, and its uuids are bytes, which become text outside of structs only.
    """
    names = {one["name"] for one in columns["fields"]}
    return any(_has_hard_default(one) or _is_hard(one.field_type) for one in schema.fields if one.name in names)


def _has_hard_default(one: NestedField) -> bool:
    return one.initial_default is not None and isinstance(one.field_type, BinaryType | FixedType | UUIDType)


def _is_hard(kind: IcebergType) -> bool:
    match kind:
        case StructType():
            return any(one.initial_default is not None or _is_hard_inside(one.field_type) for one in kind.fields)
        case ListType():
            return _is_hard_inside(kind.element_type)
        case MapType():
            return _is_hard_inside(kind.key_type) or _is_hard_inside(kind.value_type)
    return False


def _is_hard_inside(kind: IcebergType) -> bool:
    return isinstance(kind, UUIDType) or _is_hard(kind)


def _sql(value: Any, kind: IcebergType) -> str:  # noqa: PLR0911 (one a type)
    """A default as Spark reads it back: a literal of SQL."""
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
    """A schema from Spark's JSON; its ids are for the moment, a catalog gives others."""
    numbers = count(1)
    return Schema(*(_nested_field(one, numbers) for one in spark["fields"]))


def iceberg_type(spark: Any) -> IcebergType:
    return _iceberg_type(spark, count(1), "the column")


def _nested_field(one: dict[str, Any], numbers: Iterator[int]) -> NestedField:
    if COLLATIONS in one.get("metadata", {}):
        found = ", ".join(sorted(set(one["metadata"][COLLATIONS].values())))
        raise UnsupportedError(f"column {one['name']}: Iceberg has no collations, found COLLATE {found}; leave it out")
    return NestedField(
        next(numbers),
        one["name"],
        _iceberg_type(one["type"], numbers, one["name"]),
        required=not one["nullable"],
        doc=one.get("metadata", {}).get("comment"),
    )


def _iceberg_type(kind: Any, numbers: Iterator[int], path: str) -> IcebergType:  # noqa: PLR0911 (one a type)
    if isinstance(kind, dict):
        match kind["type"]:
            case "struct":
                return StructType(*(_nested_field(one, numbers) for one in kind["fields"]))
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
        raise UnsupportedError(f"{path}: Spark's type {kind['type']} has no counterpart in Iceberg")
    if decimal := re.fullmatch(r"decimal\((\d+),(-?\d+)\)", kind):
        return DecimalType(int(decimal[1]), int(decimal[2]))
    if re.fullmatch(r"(var)?char\(\d+\)", kind):
        return StringType()
    if re.fullmatch(r"time\([0-6]\)", kind):
        return TimeType()
    if kind not in _FROM_SPARK:
        raise UnsupportedError(f"{path}: Spark's type {kind} has no counterpart in Iceberg")
    return _FROM_SPARK[kind]


# -- Parquet ----------------------------------------------------------------------------------------


def parquet_ids(schema: Schema) -> dict[str, int]:
    """The field id of every level of a file, by its path there."""
    found: dict[str, int] = {}
    for one in (*schema.fields, lineage.ROW_ID, lineage.LAST_UPDATED):
        found[one.name] = one.field_id
        _ids_below(one.field_type, one.name, found)
    return found


def _ids_below(kind: IcebergType, path: str, found: dict[str, int]) -> None:
    below: list[tuple[str, int, IcebergType]] = []
    match kind:
        case StructType():
            below = [(f"{path}.{one.name}", one.field_id, one.field_type) for one in kind.fields]
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
    """The columns that Spark would write as something else, by their path in a file: a length, or -1 for a uuid."""
    by_id = {field_id: path for path, field_id in parquet_ids(schema).items()}
    found = {}
    for field_id in schema.field_ids:
        kind = schema.find_type(field_id)
        if isinstance(kind, UUIDType):
            found[by_id[field_id]] = -1
        elif isinstance(kind, FixedType):
            found[by_id[field_id]] = len(kind)
    return found
