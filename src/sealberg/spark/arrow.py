"""Arrow columns between a scan of ours and Spark: the same values in the types that Spark's side knows.

    scan        uuid               fixed          large list    time of microseconds
    Spark       its text           binary         list          time of nanoseconds

A column of a struct comes with those of its fields that Spark asked for, in Spark's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.types import FixedType, IcebergType, ListType, MapType, StructType, UUIDType

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable


def to_spark(batch: pa.RecordBatch, columns: dict[str, Any]) -> pa.RecordBatch:
    """The batch as Spark's schema (its JSON) has the columns."""
    fields = columns["fields"]
    if not fields:
        return batch.select([])
    made = [_to_spark(batch.column(one["name"]), one["type"]) for one in fields]
    return pa.RecordBatch.from_arrays(made, [one["name"] for one in fields])


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
    if isinstance(array, pa.ExtensionArray):  # of the types that Iceberg has, uuid alone
        return _converted(array.storage, lambda value: str(UUID(bytes=value)), pa.string())
    if pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    return array.cast(pa.time64("ns")) if pa.types.is_time(array.type) else array


def _struct(array: pa.Array, wanted: list[dict[str, Any]]) -> pa.Array:
    made = [_to_spark(array.field(one["name"]), one["type"]) for one in wanted]
    fields = [pa.field(one["name"], inner.type) for one, inner in zip(wanted, made, strict=True)]
    return pa.StructArray.from_arrays(made, fields=fields, mask=array.is_null())


def from_spark(array: pa.Array, kind: IcebergType, name: str) -> pa.Array:
    """A column that Spark made, in the types of the table; widths may still differ."""
    match kind:
        case StructType():
            inner = [from_spark(array.field(one.name), one.field_type, f"{name}.{one.name}") for one in kind.fields]
            fields = [pa.field(one.name, made.type) for one, made in zip(kind.fields, inner, strict=True)]
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
                raise ConfigError(f"column {name}: a text that is no uuid") from None  # the row is not quoted
            return pa.ExtensionArray.from_storage(pa.uuid(), stored)
        case FixedType():
            try:
                return _converted(array, bytes, pa.binary(len(kind)))
            except pa.ArrowInvalid:
                raise ConfigError(f"column {name}: bytes of another length than {kind}") from None
    return array.cast(pa.time64("us")) if pa.types.is_time(array.type) else array


def _converted(array: pa.Array, convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else convert(value) for value in array.to_pylist()], kind)


def _offsets(array: pa.Array) -> pa.Array:
    """Into all of its values; a copy, since a mask goes with no slice."""
    return pa.array(array.offsets.to_numpy(), pa.int32())
