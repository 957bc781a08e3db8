"""Converts between Iceberg's types, Avro's schemas and Arrow's arrays; fields are matched by id.

    Iceberg          Avro                                       what the codec sees
    date             int, date                                  days
    time             long, time-micros                          microseconds
    timestamp(tz)    long, timestamp-micros, adjust-to-utc      microseconds
    timestamp(tz)_ns long, timestamp-nanos, adjust-to-utc       nanoseconds
    decimal(p, s)    fixed, decimal                             big-endian two's complement
    uuid, fixed      fixed                                      bytes
    list             array, element-id; optional elements in a union with null
    map              map, key-id, value-id; with keys other than strings an array of records, logicalType map
    struct           record r<field id>

The codec (fastavro) works on numbers and bytes only: `flattened` removes logical types from the schema, because
fastavro converts them to Python's dates and decimals, which cannot hold all values of the types. `flattened` also
writes out each use of a named type, because a projection may drop the first use, which holds the definition.

PyIceberg's converter is not used: it loses optional list elements and map values, defines a named type twice, and
converts all maps to arrays. Specification: https://iceberg.apache.org/spec/#avro
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import FIELD_ID_PROP, ICEBERG_FIELD_NAME_PROP, make_compatible_name
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
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)
from pyiceberg.utils.decimal import decimal_required_bytes

from sealberg.errors import ConfigError, FormatError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

LOGICAL: Final = "iceberg-logical-type"  # the attribute in which `flattened` keeps the logical type
DAY_MICROS: Final = 86_400_000_000

_NAMES: Final[dict[type[IcebergType], Any]] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    UnknownType: "null",
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    TimestamptzType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    TimestampNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    TimestamptzNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}

# The Avro types of a column that can be read as the table's type: the same type, or one before a type promotion.
PLAIN_KINDS: Final[dict[type[IcebergType], tuple[str, ...]]] = {
    BooleanType: ("boolean",),
    IntegerType: ("int",),
    LongType: ("int", "long"),
    FloatType: ("float",),
    DoubleType: ("float", "double"),
    StringType: ("string",),
    BinaryType: ("bytes",),
}
# By logical type in the file: the factor to the unit of the table's type.
_MICROS: Final = {"timestamp-micros": 1, "local-timestamp-micros": 1, "timestamp-millis": 1000, "date": DAY_MICROS}
_NANOS: Final = {"timestamp-nanos": 1, "local-timestamp-nanos": 1, "date": DAY_MICROS * 1000}
TIMES: Final[dict[type[IcebergType], dict[str, int]]] = {
    DateType: {"date": 1},
    TimeType: {"time-micros": 1},
    TimestampType: _MICROS,
    TimestamptzType: {name: units for name, units in _MICROS.items() if name == "timestamp-micros"},
    TimestampNanoType: _NANOS,
    TimestamptzNanoType: {"timestamp-nanos": 1},
}


# -- schemas ------------------------------------------------------------------------------------


def avro_schema(struct: StructType, name: str = "table") -> dict[str, Any]:
    """The Avro schema for a file with these columns, attribute by attribute in Java's order."""
    return _SchemaMaker().record(struct, name)


class _SchemaMaker:
    """Defines each named type at its first use; later uses refer to the name."""

    def __init__(self) -> None:
        self._defined: set[str] = set()

    def record(self, struct: StructType, name: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [self._field(field) for field in struct.fields]}

    def _field(self, field: NestedField) -> dict[str, Any]:
        name = make_compatible_name(field.name)
        found: dict[str, Any] = {
            "name": name,
            "type": self._type(field.field_type, field.field_id, optional=field.optional),
        }
        if field.doc is not None:
            found["doc"] = field.doc
        if field.optional:
            found["default"] = None
        if name != field.name:
            found[ICEBERG_FIELD_NAME_PROP] = field.name
        found[FIELD_ID_PROP] = field.field_id
        return found

    def _type(self, kind: IcebergType, field_id: int, *, optional: bool) -> Any:  # noqa: PLR0911 (one a type)
        if optional and not isinstance(kind, UnknownType):  # a union of null and null is invalid
            return ["null", self._type(kind, field_id, optional=False)]
        match kind:
            case StructType():
                return self.record(kind, f"r{field_id}")
            case ListType():
                items = self._type(kind.element_type, kind.element_id, optional=not kind.element_required)
                return {"type": "array", "items": items, "element-id": kind.element_id}
            case MapType():
                return self._map(kind)
            case DecimalType():
                decimal = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
                size = decimal_required_bytes(kind.precision)
                return self._fixed(f"decimal_{kind.precision}_{kind.scale}", size, **decimal)
            case FixedType():
                return self._fixed(f"fixed_{len(kind)}", len(kind))
            case UUIDType():
                return self._fixed("uuid_fixed", 16, logicalType="uuid")
        if type(kind) not in _NAMES:
            raise UnsupportedError(f"Avro data files do not support columns of type {kind}; use Parquet")
        return _NAMES[type(kind)]

    def _map(self, kind: MapType) -> dict[str, Any]:
        key = self._type(kind.key_type, kind.key_id, optional=False)
        value = self._type(kind.value_type, kind.value_id, optional=not kind.value_required)
        if key == "string":
            return {"type": "map", "values": value, "key-id": kind.key_id, "value-id": kind.value_id}
        value_field: dict[str, Any] = {"name": "value", "type": value}
        if not kind.value_required:
            value_field["default"] = None
        value_field[FIELD_ID_PROP] = kind.value_id
        fields = [{"name": "key", "type": key, FIELD_ID_PROP: kind.key_id}, value_field]
        entry = {"type": "record", "name": f"k{kind.key_id}_v{kind.value_id}", "fields": fields}
        return {"type": "array", "items": entry, "logicalType": "map"}

    def _fixed(self, name: str, size: int, **more: Any) -> Any:
        if name in self._defined:
            return name
        self._defined.add(name)
        return {"type": "fixed", "name": name, "size": size, **more}


def flattened(schema: Any) -> Any:
    """The schema for fastavro: no logical types, no defaults, each use of a named type written out under a new name."""
    return _Flattener().type(schema)


class _Flattener:
    def __init__(self) -> None:
        self._named: dict[str, dict[str, Any]] = {}
        self._count = 0

    def type(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self.type(branch) for branch in schema]
        if isinstance(schema, str):
            return self.type(self._named[schema]) if schema in self._named else schema
        if not isinstance(schema, dict):
            raise FormatError(f"an Avro schema holds a {type(schema).__name__}, expected a string, a list or an object")
        if isinstance(schema.get("type"), dict | list):
            return self.type(schema["type"])
        found = {LOGICAL if name == "logicalType" else name: value for name, value in schema.items()}
        found.pop("aliases", None)
        if "name" in found:
            # A recursive type is not expanded, because its name is recorded only after its fields.
            self._count += 1
            found["name"] = f"n{self._count}"
            found.pop("namespace", None)
        for inner in ("items", "values"):
            if inner in found:
                found[inner] = self.type(found[inner])
        if "fields" in found:
            found["fields"] = [
                {k: v for k, v in field.items() if k not in ("default", "aliases")} | {"type": self.type(field["type"])}
                for field in found["fields"]
            ]
        if "name" in schema:
            self._named[schema["name"]] = schema
            if "namespace" in schema:
                self._named[f"{schema['namespace']}.{schema['name']}"] = schema
        return found


def by_id(record: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The fields of a record by field id; fields without an id are ignored."""
    return {field[FIELD_ID_PROP]: field for field in record["fields"] if FIELD_ID_PROP in field}


def branch_of(schema: Any) -> dict[str, Any]:
    """The type as an object, taken out of its union with null."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        if len(others) > 1:
            raise UnsupportedError("an Avro union of several types is not supported, expected null and field type")
        schema = others[0] if others else "null"
    return {"type": schema} if isinstance(schema, str) else schema


# -- Avro to Arrow ------------------------------------------------------------------------------


def columns(rows: list[Any], schema: dict[str, Any], struct: StructType, arrow: Sequence[pa.Field]) -> list[pa.Array]:
    """The columns of `struct` from decoded records; a column missing in the file has its initial default, or null."""
    found = by_id(schema)
    made = []
    for field, target in zip(struct.fields, arrow, strict=True):
        there = found.get(field.field_id)
        if there is None:
            made.append(missing(field, target, len(rows)))
            continue
        name = there["name"]
        values = [None if row is None else row[name] for row in rows]
        made.append(_array(values, branch_of(there["type"]), field.field_type, target.type, field.name))
    return made


def missing(field: NestedField, target: pa.Field, count: int) -> pa.Array:
    if field.initial_default is not None:
        return pa.repeat(pa.scalar(field.initial_default, type=target.type), count)
    if field.required:
        raise FormatError(f"Missing required field: {field.name}")
    return pa.nulls(count, target.type)


def _array(  # noqa: PLR0911 (one a type)
    values: list[Any], schema: dict[str, Any], kind: IcebergType, arrow: pa.DataType, name: str
) -> pa.Array:
    avro, logical = schema["type"], schema.get(LOGICAL)
    match kind:
        case StructType() if avro == "record":
            inner = [arrow.field(i) for i in range(arrow.num_fields)]
            return pa.StructArray.from_arrays(columns(values, schema, kind, inner), fields=inner, mask=_nulls(values))
        case ListType() if avro == "array" and logical != "map":
            items = [item for value in values if value is not None for item in value]
            inner = _array(items, branch_of(schema["items"]), kind.element_type, arrow.value_type, f"{name}.element")
            return pa.LargeListArray.from_arrays(_offsets(values, pa.int64()), inner, type=arrow, mask=_nulls(values))
        case MapType() if avro == "map" or logical == "map":
            return _map_array(values, schema, kind, arrow, name)
        case DecimalType() if logical == "decimal" and schema.get("scale", 0) == kind.scale:
            if schema["precision"] <= kind.precision:
                return decimals(values, arrow)
        case UUIDType() if avro == "fixed" and schema["size"] == 16:
            return pa.ExtensionArray.from_storage(arrow, pa.array(values, pa.binary(16)))
        case FixedType() if avro == "fixed" and schema["size"] == len(kind):
            return pa.array(values, arrow)
        case UnknownType():
            return pa.nulls(len(values), arrow)
        case _ if logical is None and avro in PLAIN_KINDS.get(type(kind), ()):
            return pa.array(values, arrow)
        case _ if logical in TIMES.get(type(kind), {}):
            return _times(values, TIMES[type(kind)][logical], arrow)
    raise FormatError(f"column {name} is {logical or avro} in the Avro file, which cannot be read as {kind}")


def _map_array(values: list[Any], schema: dict[str, Any], kind: MapType, arrow: pa.DataType, name: str) -> pa.Array:
    if schema["type"] == "map":
        pairs = [pair for value in values if value is not None for pair in value.items()]
        key_schema, value_schema = {"type": "string"}, branch_of(schema["values"])
    else:
        entries = {field["name"]: field for field in branch_of(schema["items"])["fields"]}
        pairs = [(entry["key"], entry["value"]) for value in values if value is not None for entry in value]
        key_schema, value_schema = branch_of(entries["key"]["type"]), branch_of(entries["value"]["type"])
    keys = _array([key for key, _ in pairs], key_schema, kind.key_type, arrow.key_type, f"{name}.key")
    items = _array([item for _, item in pairs], value_schema, kind.value_type, arrow.item_type, f"{name}.value")
    return pa.MapArray.from_arrays(_offsets(values, pa.int32()), keys, items, type=arrow, mask=_nulls(values))


def _times(values: list[Any], units: int, arrow: pa.DataType) -> pa.Array:
    numbers = pa.array(values, pa.int32() if pa.types.is_date32(arrow) else pa.int64())
    return (numbers if units == 1 else pc.multiply_checked(numbers, units)).view(arrow)


def decimals(values: list[bytes | None], arrow: pa.DataType) -> pa.Array:
    raw = b"".join(
        bytes(16) if value is None else int.from_bytes(value, "big", signed=True).to_bytes(16, "little", signed=True)
        for value in values
    )
    valid = pa.array([value is not None for value in values], pa.bool_())
    return pa.Array.from_buffers(arrow, len(values), [valid.buffers()[1], pa.py_buffer(raw)])


def _nulls(values: list[Any]) -> pa.Array | None:
    return pa.array([value is None for value in values], pa.bool_()) if None in values else None


def _offsets(values: list[Any], kind: pa.DataType) -> pa.Array:
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + (0 if value is None else len(value)))
    return pa.array(offsets, kind)


# -- Arrow to Avro ------------------------------------------------------------------------------


def decimal_bytes(array: pa.Array, kind: DecimalType) -> list[bytes | None]:
    """The big-endian two's complement of each value."""
    size = decimal_required_bytes(kind.precision)
    raw = memoryview(array.buffers()[1] or b"")[16 * array.offset :]
    limit = 10**kind.precision
    made: list[bytes | None] = []
    for i, valid in enumerate(array.is_valid().to_pylist()):
        number = int.from_bytes(raw[16 * i : 16 * i + 16], "little", signed=True) if valid else 0
        if not -limit < number < limit:
            raise ConfigError(f"a decimal value has more digits than {kind} allows")
        made.append(number.to_bytes(size, "big", signed=True) if valid else None)
    return made
