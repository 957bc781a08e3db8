"""Turns the columns of a file into columns of the table, matched by field id.

    in the file and the table    renamed, reordered, promoted (int to long, float to double, wider decimals,
                                 date to timestamp), at any depth
    only in the table            the value of an identity partition, else the initial default, else null
    only in the file             left out

A `Projector` is made once per file. It makes Arrow arrays of exactly the types of `schema_to_pyarrow`, so that the
batches of all files of a scan share one schema; a column that already has its type is not copied. With `file_sizes`
a `string` column stays `string`, where `schema_to_pyarrow` would make it `large_string`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UnknownType,
    UUIDType,
)

from sealberg.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.name_mapping import NameMapping

    Convert = Callable[[pa.Array], pa.Array]
    Column = Callable[[pa.RecordBatch], pa.Array]


def schema_of_file(arrow: pa.Schema, name_mapping: NameMapping | None) -> Schema:
    """The schema of a file; field ids that the file lacks come from the name mapping of the table.

    The files of a table have few schemas, so a schema is made once and shared: it takes longer than the rows of a small
    file.
    """
    if name_mapping is not None:
        return pyarrow_to_schema(arrow, name_mapping, format_version=3)
    return _schema_of(arrow.serialize().to_pybytes())  # with the field ids, which pyarrow's own hash leaves out


@lru_cache(maxsize=64)
def _schema_of(arrow: bytes) -> Schema:
    return pyarrow_to_schema(pa.ipc.read_schema(pa.py_buffer(arrow)), None, format_version=3)


def partition_constants(file: DataFile, spec: PartitionSpec | None) -> dict[int, Any]:
    """The values of identity partition columns, which all rows of a file share, by field id."""
    if spec is None:
        return {}
    return {
        field.source_id: file.partition[at]
        for at, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform) and file.partition[at] is not None
    }


class Projector:
    """Makes columns of the table from the batches of one file.

    Args:
        schema: the Iceberg schema of the file.
        arrow: the Arrow schema of the file.
        constants: values of columns that the file may lack, by field id.
        file_sizes: whether strings, binaries and lists keep the offset size (32 or 64 bits) of the file.
    """

    def __init__(
        self, schema: Schema, arrow: pa.Schema, constants: Mapping[int, Any], *, file_sizes: bool = False
    ) -> None:
        self._own = {field.field_id: field for field in schema.fields}
        self._arrow = arrow
        self._constants = constants
        self._file_sizes = file_sizes

    def source(self, field: NestedField) -> str | None:
        """The name of this column in the file; None if the file lacks it."""
        own = self._own.get(field.field_id)
        return None if own is None else own.name

    def column(self, field: NestedField) -> Column:
        """A function from a batch of the file to this top-level column of the table."""
        own = self._own.get(field.field_id)
        target = arrow_type(field.field_type)
        if own is None:
            value = self._missing(field, target)
            return lambda batch: _repeated(value, batch.num_rows)
        arrow = self._arrow.field(own.name).type
        if self._file_sizes:
            target = with_sizes_of(arrow, own.field_type, field.field_type, target)
        convert = self._convert(own.field_type, arrow, field.field_type, target)
        name = own.name
        if convert is None:
            return lambda batch: batch.column(name)
        return lambda batch: convert(batch.column(name))

    def arrow_field(self, field: NestedField, target: pa.Field) -> pa.Field:
        """The Arrow field of a file to be written, with the offset sizes of the rows to write."""
        own = self._own.get(field.field_id)
        if own is None:
            return target
        arrow = self._arrow.field(own.name).type
        return target.with_type(with_sizes_of(arrow, own.field_type, field.field_type, target.type))

    def _convert(
        self, own: IcebergType, arrow: pa.DataType, wanted: IcebergType, target: pa.DataType
    ) -> Convert | None:
        """A function from an array of the file to an array of the table; None where both are equal."""
        match own, wanted:
            case StructType(), StructType():
                return self._struct(own, arrow, wanted, target)
            case ListType(), ListType():
                return self._list(own, arrow, wanted, target)
            case MapType(), MapType():
                return self._map(own, arrow, wanted, target)
            case PrimitiveType(), PrimitiveType():
                return _primitive(own, arrow, wanted, target)
            case _:
                raise FormatError(
                    f"a column of type {own} in the file cannot be read as {wanted}, its type in the table"
                )

    def _struct(self, own: StructType, arrow: pa.DataType, wanted: StructType, target: pa.DataType) -> Convert | None:
        by_id = {field.field_id: field for field in own.fields}
        parts: list[tuple[int | None, Convert | None, pa.Scalar | None]] = []
        for at, field in enumerate(wanted.fields):
            inner = target.field(at).type
            source = by_id.get(field.field_id)
            if source is None:
                parts.append((None, None, self._missing(field, inner)))
                continue
            index = arrow.get_field_index(source.name)
            convert = self._convert(source.field_type, arrow.field(index).type, field.field_type, inner)
            parts.append((index, convert, None))
        if arrow == target and all(index == at and convert is None for at, (index, convert, _) in enumerate(parts)):
            return None
        fields = list(target)

        def convert_struct(array: pa.Array) -> pa.Array:
            children = []
            for index, convert, value in parts:
                child = _repeated(value, len(array)) if index is None else array.field(index)
                children.append(child if convert is None else convert(child))
            mask = array.is_null() if array.null_count else None
            if not children:
                return pa.nulls(len(array), target)
            return pa.StructArray.from_arrays(children, fields=fields, mask=mask)

        return convert_struct

    def _list(self, own: ListType, arrow: pa.DataType, wanted: ListType, target: pa.DataType) -> Convert | None:
        inner = self._convert(own.element_type, arrow.value_type, wanted.element_type, target.value_type)
        if inner is None and arrow == target:
            return None
        large = pa.large_list(arrow.value_field)

        def convert_list(array: pa.Array) -> pa.Array:
            small = pa.types.is_large_list(target) and not pa.types.is_large_list(array.type)
            wide = array.cast(large) if small else array
            values = wide.values if inner is None else inner(wide.values)
            return pa.Array.from_buffers(
                target, len(wide), wide.buffers()[:2], wide.null_count, wide.offset, children=[values]
            )

        return convert_list

    def _map(self, own: MapType, arrow: pa.DataType, wanted: MapType, target: pa.DataType) -> Convert | None:
        key = self._convert(own.key_type, arrow.key_type, wanted.key_type, target.key_type)
        item = self._convert(own.value_type, arrow.item_type, wanted.value_type, target.item_type)
        if key is None and item is None and arrow == target:
            return None
        fields = [target.key_field, target.item_field]

        def convert_map(array: pa.Array) -> pa.Array:
            keys = array.keys if key is None else key(array.keys)
            items = array.items if item is None else item(array.items)
            entries = pa.StructArray.from_arrays([keys, items], fields=fields)
            return pa.Array.from_buffers(
                target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[entries]
            )

        return convert_map

    def _missing(self, field: NestedField, target: pa.DataType) -> pa.Scalar:
        value = self._constants.get(field.field_id, field.initial_default)
        if value is None and field.required:
            raise FormatError(
                f"column {field.name} is required, but the file lacks it and the schema has no initial default for it"
            )
        return scalar(value, target)


def arrow_type(kind: IcebergType) -> pa.DataType:
    """The Arrow type of `schema_to_pyarrow`, without field ids."""
    return schema_to_pyarrow(kind, include_field_ids=False)


def with_sizes_of(arrow: pa.DataType, own: IcebergType, wanted: IcebergType, target: pa.DataType) -> pa.DataType:
    """The target type with 32-bit offsets where the type of the file has them; field ids stay."""
    match own, wanted:
        case StructType(), StructType():
            by_id = {field.field_id: field for field in own.fields}
            fields = []
            for at, field in enumerate(wanted.fields):
                inner, source = target.field(at), by_id.get(field.field_id)
                if source is not None:
                    there = arrow.field(source.name).type
                    inner = inner.with_type(with_sizes_of(there, source.field_type, field.field_type, inner.type))
                fields.append(inner)
            return pa.struct(fields)
        case ListType(), ListType():
            element = with_sizes_of(arrow.value_type, own.element_type, wanted.element_type, target.value_type)
            make = pa.list_ if pa.types.is_list(arrow) else pa.large_list
            return make(target.value_field.with_type(element))
        case MapType(), MapType():
            key = with_sizes_of(arrow.key_type, own.key_type, wanted.key_type, target.key_type)
            item = with_sizes_of(arrow.item_type, own.value_type, wanted.value_type, target.item_type)
            return pa.map_(target.key_field.with_type(key), target.item_field.with_type(item))
        case _:
            small = (target == pa.large_string() and arrow == pa.string()) or (
                target == pa.large_binary() and arrow == pa.binary()
            )
            return arrow if small else target


def scalar(value: Any, target: pa.DataType) -> pa.Scalar:
    """A value of PyIceberg as an Arrow scalar."""
    if isinstance(value, UUID):
        value = value.bytes
    return pa.scalar(value, target)


def _repeated(value: pa.Scalar | None, count: int) -> pa.Array:
    assert value is not None
    if not value.is_valid:
        return pa.nulls(count, value.type)
    if isinstance(value.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(value.type, pa.repeat(value.value, count))
    return pa.repeat(value, count)


_MICROS = (TimestampType, TimestamptzType)
_NANOS = (TimestampNanoType, TimestamptzNanoType)


def _primitive(own: PrimitiveType, arrow: pa.DataType, wanted: PrimitiveType, target: pa.DataType) -> Convert | None:
    if arrow == target:
        return None
    if isinstance(wanted, UUIDType) and own == FixedType(16):
        return lambda array: pa.ExtensionArray.from_storage(target, array)
    if isinstance(own, UnknownType):
        return lambda array: pa.nulls(len(array), target)
    if isinstance(own, _NANOS) and isinstance(wanted, _MICROS):
        # pyarrow reads INT96, which Hive and old versions of Spark wrote, as nanoseconds.
        return lambda array: array.cast(target, safe=False)
    if isinstance(own, TimestamptzType) is not isinstance(wanted, TimestamptzType) and isinstance(own, _MICROS):
        # PyIceberg and Spark read timestamp as timestamptz and the reverse: both store microseconds since the epoch.
        return lambda array: array.view(pa.int64()).view(target)
    if own != wanted and not _may_promote(own, wanted):
        raise UnsupportedError(
            f"a column of type {own} cannot be read as {wanted}: Iceberg does not allow this type promotion"
        )
    return lambda array: array.cast(target)


def _may_promote(own: PrimitiveType, wanted: PrimitiveType) -> bool:
    match own, wanted:
        case (
            (IntegerType(), LongType())
            | (FloatType(), DoubleType())
            | (DateType(), TimestampType() | TimestampNanoType())
            | (StringType() | BinaryType(), StringType() | BinaryType() | GeometryType() | GeographyType())
        ):
            return True
        case DecimalType(), DecimalType():
            return own.scale == wanted.scale and own.precision <= wanted.precision
        case _:
            return False
