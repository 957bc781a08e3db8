"""Literals that the type of their column does not hold, replaced so that the filter means the same.

    int < 2**40        every number:  NOT NULL               float < 1e300      every number but infinity:  < infinity
    int > 2**40        none:          false                  float > 1e300      infinity alone:             >= infinity
    int = 2**40        none:          false                  float = infinity   the infinity of the type float

PyIceberg and Java bind the first to "true", which matches nulls and NaN as well, so that a delete would remove them;
and take infinity for a literal that no float equals.

    double in (0, 5, 6)      = 0 or in (5, 6)            double not in (0, 5, 6)   null, or != 0 and not in (5, 6)

pyarrow compares 0.0 and -0.0 as equal, and tells them apart in a set.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, cast

from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    NotEqualTo,
    NotNull,
    Or,
    Reference,
    SetPredicate,
)
from pyiceberg.expressions.literals import FloatLiteral
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

RANGES: Final[Mapping[type[IcebergType], tuple[float, float]]] = {
    IntegerType: (IntegerType.min, IntegerType.max),
    LongType: (LongType.min, LongType.max),
    FloatType: (FloatType.min, FloatType.max),
}
# Their constructors take a term and a literal, which mypy does not know.
LOWER: Final[tuple[Any, ...]] = (LessThan, LessThanOrEqual)
HIGHER: Final[tuple[Any, ...]] = (GreaterThan, GreaterThanOrEqual)
EQUAL: Final[Any] = EqualTo
UNEQUAL: Final[Any] = NotEqualTo


def fitted(row_filter: BooleanExpression, schema: Schema, *, case_sensitive: bool = True) -> BooleanExpression:
    """The filter without such literals; the same object if there are none.

    Args:
        row_filter: an unbound expression; columns that the schema lacks are left for those who bind it.
    """
    plain = rewrite_not(row_filter)
    made = _Fitting(schema, case_sensitive).of(plain)
    return row_filter if made is plain else made


class _Fitting:
    def __init__(self, schema: Schema, case_sensitive: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive

    def of(self, expression: BooleanExpression) -> BooleanExpression:
        match expression:
            case And() | Or():
                left, right = self.of(expression.left), self.of(expression.right)
                same = left is expression.left and right is expression.right
                return expression if same else type(expression)(left, right)
            case LiteralPredicate(term=Reference()):
                value, kind = expression.literal.value, self._kind(expression.term)
                if kind is not None and kind in RANGES and isinstance(value, int | float):
                    return _compared(expression, kind, value)
            case SetPredicate(term=Reference()) if self._kind(expression.term) in (FloatType, DoubleType):
                return _one_of(expression, self._kind(expression.term))
        return expression

    def _kind(self, term: Any) -> type[IcebergType] | None:
        try:
            return type(self._schema.find_field(term.name, self._case_sensitive).field_type)
        except ValueError:
            return None


def _compared(leaf: LiteralPredicate, kind: type[IcebergType], value: float) -> BooleanExpression:
    lowest, highest = RANGES[kind]
    if lowest <= value <= highest:
        return leaf
    again: Any = type(leaf)
    if kind is FloatType and math.isinf(value):
        return cast("BooleanExpression", again(leaf.term, FloatLiteral(value)))
    of_numbers, of_none = (LOWER, HIGHER) if value > highest else (HIGHER, LOWER)
    if isinstance(leaf, NotEqualTo):
        return NotNull(term=leaf.term)
    if isinstance(leaf, EqualTo):
        return AlwaysFalse()
    if kind is not FloatType:
        return NotNull(term=leaf.term) if isinstance(leaf, of_numbers) else AlwaysFalse()
    # Beyond all numbers is infinity still.
    again = of_numbers[0] if isinstance(leaf, of_numbers) else of_none[1]
    return cast("BooleanExpression", again(leaf.term, FloatLiteral(math.copysign(math.inf, value))))


def _one_of(leaf: SetPredicate, kind: type[IcebergType] | None) -> BooleanExpression:
    again: Any = type(leaf)
    literals, changed = set(leaf.literals), False
    infinite = {each for each in literals if isinstance(each.value, float) and math.isinf(each.value)}
    if infinite and kind is FloatType:
        literals, changed = {FloatLiteral(each.value) if each in infinite else each for each in literals}, True
    others = {each for each in literals if each.value != 0}
    if len(others) == len(literals):
        return cast("BooleanExpression", again(leaf.term, literals)) if changed else leaf
    [zero] = literals - others
    rest: BooleanExpression = again(leaf.term, others)
    if isinstance(leaf, In):
        return Or(EQUAL(leaf.term, zero), rest)
    return Or(IsNull(term=leaf.term), And(UNEQUAL(leaf.term, zero), rest))
