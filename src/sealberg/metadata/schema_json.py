"""Schemas, partition specs and sort orders as Iceberg Java writes them: the same order and names of members."""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.conversions import to_json
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from sealberg.errors import ConfigError
from sealberg.metadata import java_json

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.types import PrimitiveType


def schema_json(schema: Schema) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        out["identifier-field-ids"] = list(schema.identifier_field_ids)
    out["fields"] = [field_json(field) for field in schema.fields]
    return out


def field_json(field: NestedField) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": field.field_id,
        "name": field.name,
        "required": field.required,
        "type": type_json(field.field_type),
    }
    if field.doc is not None:
        out["doc"] = field.doc
    for name, value in (("initial-default", field.initial_default), ("write-default", field.write_default)):
        if value is not None:
            out[name] = _default_json(field.field_type, value)
    return out


def type_json(kind: IcebergType) -> Any:
    match kind:
        case StructType():
            return {"type": "struct", "fields": [field_json(field) for field in kind.fields]}
        case ListType():
            return {
                "type": "list",
                "element-id": kind.element_id,
                "element": type_json(kind.element_type),
                "element-required": kind.element_required,
            }
        case MapType():
            return {
                "type": "map",
                "key-id": kind.key_id,
                "key": type_json(kind.key_type),
                "value-id": kind.value_id,
                "value": type_json(kind.value_type),
                "value-required": kind.value_required,
            }
        case _:
            return str(kind)


def spec_json(spec: PartitionSpec) -> dict[str, Any]:
    return {
        "spec-id": spec.spec_id,
        "fields": [
            {
                "name": field.name,
                "transform": str(field.transform),
                "source-id": field.source_id,
                "field-id": field.field_id,
            }
            for field in spec.fields
        ],
    }


def sort_order_json(order: SortOrder) -> dict[str, Any]:
    return {
        "order-id": order.order_id,
        "fields": [
            {
                "transform": str(field.transform),
                "source-id": field.source_id,
                "direction": field.direction.value,
                "null-order": field.null_order.value,
            }
            for field in order.fields
        ],
    }


def _default_json(kind: IcebergType, value: Any) -> Any:
    match kind:
        case FloatType():
            return java_json.Number.read(java_json.single(value))
        case DoubleType():
            return java_json.Number.read(java_json.double(value))
        case DecimalType():
            return _decimal(kind, value)
    text = to_json(cast("PrimitiveType", kind), value)  # only primitive types have defaults
    match kind:
        case FixedType() | BinaryType():
            return text.upper()
        case TimeType() | TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
            # Java omits trailing zeros of the fraction of a second.
            return re.sub(r"(\.\d*?)0+(?!\d)", lambda found: found[1].rstrip("."), text, count=1)
    return text


def _decimal(kind: DecimalType, value: Any) -> str:
    """The decimal with all digits of its scale and without an exponent: Java reads no other form."""
    try:
        scaled = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), context=Context(prec=38, traps=[Inexact]))
    except (Inexact, InvalidOperation):
        raise ConfigError(f"default value {value} is not a {kind}") from None
    return f"{scaled:f}"
