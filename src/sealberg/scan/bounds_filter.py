"""Rejects files whose bounds rule the filter out, before PyIceberg's evaluator is called.

    a < 5 AND b = 'x' AND ...       each conjunct that compares an integer, date, time or string column
    the file's bounds of a and b    compared in their stored form: a narrow query rejects most files here

PyIceberg's evaluator handles every expression, and walks it again for every file. Every file rejected here would also
be rejected by that evaluator, except that PyIceberg's does not look at more than 200 values of IN, and a search in the
sorted values does. All other files are passed on to PyIceberg's evaluator.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.expressions import (
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundReference,
)
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.manifest import DataFile

    Value = int | bytes
    RulesOut = Callable[[Value, Value], bool]

# Bytes of a stored bound. A long column promoted from int has bounds of 4 bytes. A timestamp column promoted from
# date has them too, but they count days, so 4 bytes are not accepted for timestamps.
_LENGTHS: Final[dict[type, tuple[int, ...]]] = {
    IntegerType: (4,),
    LongType: (4, 8),
    DateType: (4,),
    TimeType: (8,),
    TimestampType: (8,),
    TimestamptzType: (8,),
    TimestampNanoType: (8,),
    TimestamptzNanoType: (8,),
}


class BoundsFilter:
    """Evaluates one bound filter without NOT against the bounds of many files."""

    def __init__(self, bound: BooleanExpression) -> None:
        self._parts = [made for part in _conjuncts(bound) if (made := _part(part)) is not None]

    def rules_out(self, file: DataFile) -> bool:
        """Whether the bounds show that no row of the file matches; False means unknown."""
        if not self._parts or file.record_count <= 0:
            return False
        lowers, uppers = file.lower_bounds, file.upper_bounds
        if not lowers or not uppers:
            return False
        for field_id, decode, rules_out in self._parts:
            lower, upper = lowers.get(field_id), uppers.get(field_id)
            if lower is None or upper is None:
                continue
            least, most = decode(lower), decode(upper)
            if least is not None and most is not None and rules_out(least, most):
                return True
        return False


def _conjuncts(expression: BooleanExpression) -> Iterator[BooleanExpression]:
    if isinstance(expression, And):
        yield from _conjuncts(expression.left)
        yield from _conjuncts(expression.right)
    else:
        yield expression


def _part(part: BooleanExpression) -> tuple[int, Callable[[bytes], Value | None], RulesOut] | None:
    if not isinstance(part, BoundLiteralPredicate | BoundIn) or not isinstance(part.term, BoundReference):
        return None
    field = part.term.field
    kind: type = type(field.field_type)
    if kind is StringType:
        decode: Callable[[bytes], Value | None] = bytes
        stored: Callable[[Any], Value] = lambda value: value.encode()  # noqa: E731 (as long as its name)
    elif kind in _LENGTHS:
        decode, stored = _number(_LENGTHS[kind]), int
    else:
        return None
    literals = part.literals if isinstance(part, BoundIn) else [part.literal]
    rules_out = _rules_out(part, [stored(literal.value) for literal in literals])
    return None if rules_out is None else (field.field_id, decode, rules_out)


def _number(lengths: tuple[int, ...]) -> Callable[[bytes], int | None]:
    def decode(bound: bytes) -> int | None:
        return int.from_bytes(bound, "little", signed=True) if len(bound) in lengths else None

    return decode


def _rules_out(part: BooleanExpression, values: list[Any]) -> RulesOut | None:
    least, most = min(values), max(values)
    match part:
        case BoundLessThan():
            return lambda lower, _: lower >= most
        case BoundLessThanOrEqual():
            return lambda lower, _: lower > most
        case BoundGreaterThan():
            return lambda _, upper: upper <= least
        case BoundGreaterThanOrEqual():
            return lambda _, upper: upper < least
        case BoundEqualTo() | BoundIn():
            ordered = sorted(values)
            return lambda lower, upper: bisect_left(ordered, lower) == bisect_right(ordered, upper)
    return None
