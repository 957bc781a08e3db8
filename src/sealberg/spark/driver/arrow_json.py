"""Columns and values of Arrow as JSON, for rows that Python makes and Spark shows.

json_field(pa.field("summary", pa.map_(...)))   a field of a Spark schema, in Spark's own JSON
json_value(value, type)                         numbers, booleans and texts as they are; the rest:

binary     base64                  struct   an array, in the order of its fields
decimal    text                    list     an array
date       days since 1970         map      an array of arrays of two: key, value
timestamp  microseconds            float    a text if it is not finite
time       nanoseconds
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from typing import Any, Final

import pyarrow as pa

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def json_field(field: pa.Field, *, moment: bool = False) -> dict[str, Any]:
    """A column. With `moment`, timestamps without a zone are moments in UTC, as in PyIceberg's metadata tables."""
    return {"name": field.name, "type": _type(field.type, moment=moment), "nullable": field.nullable, "metadata": {}}


def _type(kind: pa.DataType, *, moment: bool) -> Any:  # noqa: PLR0911 (one a type)
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [json_field(field) for field in kind]}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _type(kind.key_type, moment=False),
            "valueType": _type(kind.item_type, moment=False),
            "valueContainsNull": True,
        }
    if _is_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type, moment=False), "containsNull": True}
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "long" if kind.bit_width == 64 else "integer"
    if pa.types.is_floating(kind):
        return "double" if kind.bit_width == 64 else "float"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if moment or kind.tz else "timestamp_ntz"
    if pa.types.is_date(kind):
        return "date"
    return "binary" if _is_binary(kind) else "string"


def json_value(value: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911 (one a type)
    """A value of this type, as pyarrow gives it to Python."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return [json_value(value[field.name], field.type) for field in kind]
    if pa.types.is_map(kind):
        return [[json_value(key, kind.key_type), json_value(item, kind.item_type)] for key, item in value]
    if _is_list(kind):
        return [json_value(item, kind.value_type) for item in value]
    if _is_binary(kind):
        return base64.b64encode(value).decode()
    match value:
        case bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case dt.datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return (moment - EPOCH) // dt.timedelta(microseconds=1)
        case dt.date():
            return (value - EPOCH.date()).days
        case dt.time():
            whole = dt.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
            return (whole // dt.timedelta(microseconds=1) + value.microsecond) * 1000
    return str(value)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
