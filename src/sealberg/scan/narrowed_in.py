"""An `in` filter of many values, narrowed for each file to the values that lie between the bounds of the file.

    id in (5,000 values), a file with ids 1,000 to 5,999   ──>   id in (63 values)

An upsert asks for its keys in this way. Without bounds a file is asked for all values. A file whose bounds are known
needs no pruning by its own statistics either, if it has one row group: the plan has compared the bounds already.

Only types whose values have one order everywhere are narrowed: integers, dates and strings. Of these, a long may have
bounds of 4 bytes, because it was an int. Bounds of strings may be cut short, the upper bound rounded up; they are
bounds all the same. Floats (NaN, -0.0), decimals, times, UUIDs and binaries are left to the general filter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.expressions import And, BoundIn
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import DateType, IntegerType, LongType, StringType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

LEAST: Final = 64  # values of an `in`; fewer are compared in no time
_NUMBERS: Final = (IntegerType, LongType, DateType)
_WIDTHS: Final = (4, 8)


@dataclass(frozen=True, eq=False)
class NarrowedIn:
    """One `in` of a filter.

    Attributes:
        field: a top-level column.
        order: the values in order, strings as UTF-8: numbers or bytes, as bounds are.
        values: the same values, in the type of the column.
    """

    field: NestedField
    order: Sequence[Any]
    values: pa.Array

    @classmethod
    def of(cls, leaf: BoundIn, schema: Schema) -> NarrowedIn | None:
        """None if the column has a type that is not narrowed, or is nested."""
        field = leaf.term.ref().field
        kind = field.field_type
        if not isinstance(kind, (*_NUMBERS, StringType)) or field.field_id not in _top_level(schema):
            return None
        given = (literal.value for literal in leaf.literals)
        order: list[Any] = sorted(v.encode() for v in given) if isinstance(kind, StringType) else sorted(given)
        stored = pa.array(order, pa.large_binary() if isinstance(kind, StringType) else pa.int64())
        if isinstance(kind, DateType):
            stored = stored.cast(pa.int32())
        return cls(field, order, stored.cast(schema_to_pyarrow(kind)))

    def between_bounds(self, file: DataFile) -> pa.Array | None:
        """The values between the bounds of the file; None if a bound is not known."""
        lower, upper = self._bound(file.lower_bounds), self._bound(file.upper_bounds)
        if lower is None or upper is None:
            return None
        begin, end = bisect_left(self.order, lower), bisect_right(self.order, upper)
        return self.values.slice(begin, max(0, end - begin))

    def _bound(self, bounds: dict[int, bytes] | None) -> Any:
        stored = (bounds or {}).get(self.field.field_id)
        if stored is None or isinstance(self.field.field_type, StringType):
            return stored
        return int.from_bytes(stored, "little", signed=True) if len(stored) in _WIDTHS else None


def narrowed_ins(bound: BooleanExpression, schema: Schema) -> tuple[NarrowedIn, ...]:
    """The parts of a filter that consists of nothing but `in`s joined by AND, one of them with many values; else ()."""
    leaves = list(_conjunction(bound))
    if not all(isinstance(leaf, BoundIn) for leaf in leaves):
        return ()
    ins = [leaf for leaf in leaves if isinstance(leaf, BoundIn)]
    if max(len(leaf.literals) for leaf in ins) < LEAST:
        return ()
    made = [NarrowedIn.of(leaf, schema) for leaf in ins]
    found = tuple(each for each in made if each is not None)
    return found if len(found) == len(made) else ()


def _conjunction(bound: BooleanExpression) -> Iterator[BooleanExpression]:
    if isinstance(bound, And):
        yield from _conjunction(bound.left)
        yield from _conjunction(bound.right)
    else:
        yield bound


def _top_level(schema: Schema) -> set[int]:
    return {field.field_id for field in schema.fields}
