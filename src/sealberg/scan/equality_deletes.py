"""Rows by value: is a row, in some of its columns, equal to one of many others?

    values of column 1  ->  code, by the distinct values that are looked for
    (code, values of column 2)  ->  code, by the distinct pairs ... and so on; a row without a code is not there

Null equals null, and NaN equals NaN, as in Java's sets of rows. A column is found by its field id and compared in
the type that the table has for it, so that it may have been renamed, widened or added in between, or dropped since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.types import NestedField, StructType

from sealberg.errors import UnsupportedError
from sealberg.scan.projection import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealberg.scan.projection import Column, Projector


@dataclass(frozen=True)
class KeyColumn:
    """A column that rows are compared by, perhaps inside structs.

    Args:
        field: the top-level column, with nothing in it but the way to the leaf.
        path: the steps down from there.
        field_id: of the leaf itself.
    """

    field: NestedField
    path: tuple[int, ...]
    field_id: int
    type: pa.DataType

    @classmethod
    def of(cls, schema: Schema, field_id: int) -> KeyColumn:
        leaf = schema.find_field(field_id)
        if not leaf.field_type.is_primitive:
            raise UnsupportedError(f"equality deletes by column {field_id}, which is a {leaf.field_type}")
        (top,) = prune_columns(schema, {field_id}, select_full_types=False).fields
        at, steps = top, 0
        while at.field_id != field_id:
            if not isinstance(at.field_type, StructType):
                raise UnsupportedError(f"equality deletes by column {field_id}, which lies in a {at.field_type}")
            (at,) = at.field_type.fields
            steps += 1
        kind = arrow_type(leaf.field_type)
        return cls(top, (0,) * steps, field_id, getattr(kind, "storage_type", kind))

    def values(self, projector: Projector) -> Column:
        """How to make the values out of the batches of a file."""
        whole = projector.column(self.field)
        path = list(self.path)

        def values(batch: pa.RecordBatch) -> pa.Array:
            array = whole(batch)
            array = pc.struct_field(array, path) if path else array
            return array.storage if isinstance(array, pa.ExtensionArray) else array

        return values


class ValueSet:
    """Rows that are looked for, column by column."""

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self._steps: list[tuple[pa.Array, pa.Array | None]] = []
        codes: pa.ChunkedArray | None = None
        for column in columns:
            values = _distinct(column)
            code = pc.index_in(column, value_set=values)
            if codes is None:
                codes = code
                self._steps.append((values, None))
                continue
            pairs = _pairs(codes, code, len(values))
            distinct = _distinct(pairs)
            codes = pc.index_in(pairs, value_set=distinct)
            self._steps.append((values, distinct))

    def contains(self, columns: Sequence[pa.Array]) -> pa.Array:
        """For each row, whether it is one of them."""
        codes: pa.Array | None = None
        for column, (values, pairs) in zip(columns, self._steps, strict=True):
            code = pc.index_in(column, value_set=values)
            codes = code if codes is None else pc.index_in(_pairs(codes, code, len(values)), value_set=pairs)
        assert codes is not None, "there is a column at least"
        return codes.is_valid()


def _distinct(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.unique()


def _pairs(left: pa.Array, right: pa.Array, count: int) -> pa.Array:
    # No more codes than rows on either side, so the product of two fits into 64 bits.
    return pc.add(pc.multiply(left.cast(pa.int64()), pa.scalar(count, pa.int64())), right.cast(pa.int64()))
