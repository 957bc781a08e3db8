"""Equality deletes: does a row have, in its key columns, the values of a deleted row?

    value of column 1           ->  code: index among the distinct deleted values
    (code, value of column 2)   ->  code: index among the distinct pairs, and so on for each further column
    a row without a code is not deleted

Null equals null and NaN equals NaN, as in Java's StructLikeSet. Columns are found by field id and compared in the type
of the table, so a column may have been renamed, promoted or added since the delete, or dropped.
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
    """A key column of equality deletes, perhaps nested in structs.

    Args:
        field: the top-level column, pruned to the key column.
        path: the child index at each level below `field`.
        field_id: the id of the key column itself.
        type: its Arrow storage type.
    """

    field: NestedField
    path: tuple[int, ...]
    field_id: int
    type: pa.DataType

    @classmethod
    def of(cls, schema: Schema, field_id: int) -> KeyColumn:
        leaf = schema.find_field(field_id)
        if not leaf.field_type.is_primitive:
            raise UnsupportedError(
                f"cannot apply equality deletes by field id {field_id}: expected a primitive type, "
                f"found {leaf.field_type}"
            )
        (top,) = prune_columns(schema, {field_id}, select_full_types=False).fields
        at, steps = top, 0
        while at.field_id != field_id:
            if not isinstance(at.field_type, StructType):
                raise UnsupportedError(
                    f"cannot apply equality deletes by field id {field_id}: expected it at the top level or in "
                    f"structs, found it in {at.field_type}"
                )
            (at,) = at.field_type.fields
            steps += 1
        kind = arrow_type(leaf.field_type)
        return cls(top, (0,) * steps, field_id, getattr(kind, "storage_type", kind))

    def values(self, projector: Projector) -> Column:
        """A function from a batch of the file to the values of this column."""
        whole = projector.column(self.field)
        path = list(self.path)

        def values(batch: pa.RecordBatch) -> pa.Array:
            array = whole(batch)
            array = pc.struct_field(array, path) if path else array
            return array.storage if isinstance(array, pa.ExtensionArray) else array

        return values


class ValueSet:
    """The values of deleted rows, for tests of membership."""

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
        """For each row, whether its values are in the set."""
        codes: pa.Array | None = None
        for column, (values, pairs) in zip(columns, self._steps, strict=True):
            code = pc.index_in(column, value_set=values)
            codes = code if codes is None else pc.index_in(_pairs(codes, code, len(values)), value_set=pairs)
        assert codes is not None, "equality deletes have at least one key column"
        return codes.is_valid()


def _distinct(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.unique()


def _pairs(left: pa.Array, right: pa.Array, count: int) -> pa.Array:
    # A code is smaller than the number of rows, so the product of two codes fits into 64 bits.
    return pc.add(pc.multiply(left.cast(pa.int64()), pa.scalar(count, pa.int64())), right.cast(pa.int64()))
