"""The leaf columns of a decoded column, with the counts that Iceberg keeps of each leaf.

    id long                     ──> id
    person struct<name, ...>    ──> person.name, ...        a null struct is a null in each of its fields
    tags list<string>           ──> tags.element            an empty or null list is one value that is null
    prices map<string, double>  ──> prices.key, prices.value

Iceberg counts the values of a leaf as Parquet stores them: a value for each element, and one for a list or map without
elements, so that the row is not lost. Whether the latter count as nulls depends on the writer of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import ListType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.types import NestedField


class Leaf(NamedTuple):
    """The values of one leaf in one batch.

    Attributes:
        field: the leaf; its name is the name inside of its parent.
        path: the name with those of all parents.
        values: one for each value of the leaf, null where a parent is null.
        absent: how many lists and maps above the leaf have no elements.
    """

    field: NestedField
    path: str
    values: Any
    absent: int = 0


def leaves(field: NestedField, column: Any, parent: str = "", absent: int = 0) -> Iterator[Leaf]:
    """The leaves of a column of a batch."""
    path = f"{parent}.{field.name}" if parent else field.name
    if isinstance(column, pa.ExtensionArray):  # a UUID is sixteen bytes
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    match field.field_type:
        case StructType() as kind:
            for inner, values in zip(kind.fields, column.flatten(), strict=True):
                yield from leaves(inner, values, path, absent)
        case ListType() as kind:
            yield from leaves(kind.element_field, column.flatten(), path, absent + _without_elements(column))
        case MapType() as kind:
            absent += _without_elements(column)
            yield from leaves(kind.key_field, _entries(column, column.keys), path, absent)
            yield from leaves(kind.value_field, _entries(column, column.items), path, absent)
        case _:
            yield Leaf(field, path, column, absent)


def _without_elements(column: Any) -> int:
    """Lists or maps that are empty or null."""
    if pa.types.is_map(column.type):
        offsets = column.offsets
        lengths = pc.subtract(offsets[1:], offsets[:-1])
    else:
        lengths = pc.list_value_length(column)
    return len(column) - int(pc.sum(pc.greater(lengths, 0)).as_py() or 0)


def _entries(column: Any, of: Any) -> Any:
    """The keys or the values of the maps of a column, which may be a slice of a longer one."""
    start, stop = (column.offsets[at].as_py() for at in (0, len(column)))
    return of.slice(start, stop - start)
