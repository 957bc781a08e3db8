"""Turns decoded Avro columns into the columns of a table: by field id, in the types of the table.

    column_decoder.py's columns f0, f1 ...   numbers, bytes, lists, structs; a map is a list of structs (f0, f1)
    the columns of the table                 renamed, reordered, promoted; missing columns are null or their default

values.py does the same for rows that fastavro decoded, and has the table of types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import DecimalType, FixedType, ListType, MapType, StructType, UnknownType, UUIDType

from sealberg.errors import FormatError
from sealberg.files.avro.values import LOGICAL, PLAIN_KINDS, TIMES, branch_of, by_id, decimals, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.types import IcebergType


def table_columns(
    schema: dict[str, Any],
    struct: StructType,
    arrow: Sequence[pa.Field],
    count: int,
    column: Callable[[int], pa.Array],
) -> list[pa.Array]:
    """The columns of `struct`; `column` gives the decoded column of the n-th field of the file's record."""
    numbers = {id(field): number for number, field in enumerate(schema["fields"])}
    found = by_id(schema)
    made = []
    for field, target in zip(struct.fields, arrow, strict=True):
        there = found.get(field.field_id)
        if there is None:
            made.append(missing(field, target, count))
        elif there["type"] == "null":  # has no bytes, so it is not decoded
            made.append(_array(pa.nulls(count), {"type": "null"}, field.field_type, target.type, field.name))
        else:
            values = column(numbers[id(there)])
            made.append(_array(values, branch_of(there["type"]), field.field_type, target.type, field.name))
    return made


def _array(  # noqa: PLR0911 (one a type)
    values: pa.Array, schema: dict[str, Any], kind: IcebergType, arrow: pa.DataType, name: str
) -> pa.Array:
    avro, logical = schema["type"], schema.get(LOGICAL)
    match kind:
        case StructType() if avro == "record":
            inner = [arrow.field(i) for i in range(arrow.num_fields)]
            made = table_columns(schema, kind, inner, len(values), _children(values))
            return pa.StructArray.from_arrays(made, fields=inner, mask=_nulls(values))
        case ListType() if avro == "array" and logical != "map":
            items = branch_of(schema["items"])
            inner = _array(values.values, items, kind.element_type, arrow.value_type, f"{name}.element")
            return pa.LargeListArray.from_arrays(values.offsets, inner, type=arrow, mask=_nulls(values))
        case MapType() if avro == "map" or logical == "map":
            return _map_array(values, schema, kind, arrow, name)
        case DecimalType() if logical == "decimal" and schema.get("scale", 0) == kind.scale:
            if schema["precision"] <= kind.precision:
                is_number = pa.types.is_decimal(values.type)
                return values.cast(arrow) if is_number else decimals(values.to_pylist(), arrow)
        case UUIDType() if avro == "fixed" and schema["size"] == 16:
            return pa.ExtensionArray.from_storage(arrow, values.cast(pa.binary(16)))
        case FixedType() if avro == "fixed" and schema["size"] == len(kind):
            return values.cast(arrow)
        case UnknownType():
            return pa.nulls(len(values), arrow)
        case _ if logical is None and avro in PLAIN_KINDS.get(type(kind), ()):
            return values.cast(arrow)
        case _ if logical in TIMES.get(type(kind), {}):
            return _times(values, TIMES[type(kind)][logical], arrow)
    raise FormatError(f"column {name} is {logical or avro} in the Avro file, which cannot be read as {kind}")


def _map_array(values: pa.Array, schema: dict[str, Any], kind: MapType, arrow: pa.DataType, name: str) -> pa.Array:
    if schema["type"] == "map":
        at, schemas = (0, 1), ({"type": "string"}, branch_of(schema["values"]))
    else:
        entries = {field["name"]: (i, field) for i, field in enumerate(branch_of(schema["items"])["fields"])}
        at = entries["key"][0], entries["value"][0]
        schemas = branch_of(entries["key"][1]["type"]), branch_of(entries["value"][1]["type"])
    child = _children(values.values)
    keys = _array(child(at[0]), schemas[0], kind.key_type, arrow.key_type, f"{name}.key")
    items = _array(child(at[1]), schemas[1], kind.value_type, arrow.item_type, f"{name}.value")
    return pa.MapArray.from_arrays(values.offsets.cast(pa.int32()), keys, items, type=arrow, mask=_nulls(values))


def _times(values: pa.Array, units: int, arrow: pa.DataType) -> pa.Array:
    numbers = values.cast(pa.int32() if pa.types.is_date32(arrow) else pa.int64())
    return (numbers if units == 1 else pc.multiply_checked(numbers, units)).view(arrow)


def _children(values: pa.StructArray) -> Callable[[int], pa.Array]:
    """The n-th field of the file's record, null where the struct is null."""
    by_name = dict(zip((field.name for field in values.type), values.flatten(), strict=True))

    def child(number: int) -> pa.Array:
        found = by_name.get(f"f{number}")
        return pa.nulls(len(values)) if found is None else found  # a field of type null is not decoded

    return child


def _nulls(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None
