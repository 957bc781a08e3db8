"""Converts Arrow columns between the types of a scan and those of Spark.

    scan        uuid               fixed          large list    time in microseconds
    Spark       string             binary         list          time in nanoseconds

A struct gets the fields of Spark's schema, in Spark's order. `declared` makes the types exactly those that Spark has
for its schema, which Spark 4.2 and newer demand of a Python data source: `string` and not `large_string`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pyarrow as pa
from pyiceberg.types import FixedType, IcebergType, ListType, MapType, StructType, UUIDType

from sealberg.errors import ConfigError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

_DECLARED: Final = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def to_spark(batch: pa.RecordBatch, columns: dict[str, Any]) -> pa.RecordBatch:
    """The batch with the columns and types of Spark's schema (its JSON)."""
    fields = columns["fields"]
    if not fields:
        return batch.select([])
    made = [_to_spark(batch.column(field["name"]), field["type"]) for field in fields]
    return pa.RecordBatch.from_arrays(made, [field["name"] for field in fields])


def _to_spark(array: pa.Array, kind: Any) -> pa.Array:
    if isinstance(kind, dict):
        match kind["type"]:
            case "struct":
                return _struct(array, kind["fields"])
            case "array":
                inner = _to_spark(array.values, kind["elementType"])
                return pa.ListArray.from_arrays(_offsets(array), inner, mask=array.is_null())
            case "map":
                keys, items = _to_spark(array.keys, kind["keyType"]), _to_spark(array.items, kind["valueType"])
                return pa.MapArray.from_arrays(_offsets(array), keys, items, mask=array.is_null())
    if isinstance(array, pa.ExtensionArray):  # of Iceberg's types only uuid
        return _converted(array.storage, lambda value: str(UUID(bytes=value)), pa.string())
    if pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    return array.cast(pa.time64("ns")) if pa.types.is_time(array.type) else array


def _struct(array: pa.Array, wanted: list[dict[str, Any]]) -> pa.Array:
    made = [_to_spark(array.field(field["name"]), field["type"]) for field in wanted]
    fields = [pa.field(field["name"], inner.type) for field, inner in zip(wanted, made, strict=True)]
    return pa.StructArray.from_arrays(made, fields=fields, mask=array.is_null())


def declared(batch: pa.RecordBatch, columns: dict[str, Any]) -> pa.RecordBatch:
    """A batch of `to_spark` in exactly the Arrow types of Spark's schema, with what may be null."""
    fields = columns["fields"]
    return batch.cast(pa.schema([_declared_field(field) for field in fields])) if fields else batch


def _declared_field(field: dict[str, Any]) -> pa.Field:
    return pa.field(field["name"], _declared_type(field["type"]), nullable=field["nullable"])


def _declared_type(kind: Any) -> pa.DataType:
    if isinstance(kind, dict):
        match kind["type"]:
            case "struct":
                return pa.struct([_declared_field(field) for field in kind["fields"]])
            case "array":
                element = _declared_type(kind["elementType"])
                return pa.list_(pa.field("element", element, nullable=kind["containsNull"]))
            case "map":
                value = pa.field("value", _declared_type(kind["valueType"]), nullable=kind["valueContainsNull"])
                return pa.map_(_declared_type(kind["keyType"]), value)
    elif decimal := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    elif kind.startswith("time("):
        return pa.time64("ns")
    elif kind in _DECLARED:
        return _DECLARED[kind]
    raise UnsupportedError(f"no table of Iceberg has Spark's type {kind}; use the schema of the table")


def from_spark(array: pa.Array, kind: IcebergType, name: str) -> pa.Array:
    """A column of Spark in the types of the table, except that the width of offsets may differ."""
    match kind:
        case StructType():
            inner = [
                from_spark(array.field(field.name), field.field_type, f"{name}.{field.name}") for field in kind.fields
            ]
            fields = [pa.field(field.name, made.type) for field, made in zip(kind.fields, inner, strict=True)]
            return pa.StructArray.from_arrays(inner, fields=fields, mask=array.is_null())
        case ListType():
            values = from_spark(array.values, kind.element_type, f"{name}.element")
            return pa.ListArray.from_arrays(_offsets(array), values, mask=array.is_null())
        case MapType():
            keys = from_spark(array.keys, kind.key_type, f"{name}.key")
            items = from_spark(array.items, kind.value_type, f"{name}.value")
            return pa.MapArray.from_arrays(_offsets(array), keys, items, mask=array.is_null())
        case UUIDType():
            try:
                stored = _converted(array, lambda value: UUID(value).bytes, pa.binary(16))
            except ValueError:
                # Without the string, which is a value of a row.
                raise ConfigError(f"column {name}: found a string that is not a UUID") from None
            return pa.ExtensionArray.from_storage(pa.uuid(), stored)
        case FixedType():
            try:
                return _converted(array, bytes, pa.binary(len(kind)))
            except pa.ArrowInvalid:
                raise ConfigError(f"column {name}: found a value of another length, expected {kind}") from None
    return array.cast(pa.time64("us")) if pa.types.is_time(array.type) else array


def _converted(array: pa.Array, convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else convert(value) for value in array.to_pylist()], kind)


def _offsets(array: pa.Array) -> pa.Array:
    """The offsets of the array, copied, because pyarrow takes no mask with offsets that are a slice."""
    return pa.array(array.offsets.to_numpy(), pa.int32())
