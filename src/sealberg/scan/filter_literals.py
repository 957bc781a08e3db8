"""Literals that the type of their column does not hold, replaced so that the filter means the same.

    int < 2**40        every number:  NOT NULL               float < 1e300      every number but infinity:  < infinity
    int > 2**40        none:          false                  float > 1e300      infinity alone:             >= infinity
    int = 2**40        none:          false                  float = infinity   the infinity of the type float

PyIceberg and Java bind the first to "true", which matches nulls and NaN as well, so that a delete would remove them;
and take infinity for a literal that no float equals.

    double in (0, 5, 6)      = 0 or in (5, 6)            double not in (0, 5, 6)   null, or != 0 and not in (5, 6)

pyarrow compares 0.0 and -0.0 as equal, and tells them apart in a set.

    decimal(9, 2) = 1.1      = 1.10                      decimal(9, 2) < 1.111     <= 1.11
    decimal(9, 2) = 1.111    false                       decimal(9, 2) in (1.1)    = 1.10

PyIceberg and Java refuse a decimal literal of another scale than the column's.
"""

from __future__ import annotations

import math
from decimal import MAX_PREC, ROUND_FLOOR, Context, Decimal
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
from pyiceberg.expressions.literals import DecimalLiteral, FloatLiteral, LongLiteral
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.types import DecimalType, DoubleType, FloatType, IntegerType, LongType

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
                value, found = expression.literal.value, self._type(expression.term)
                if found is not None and type(found) in RANGES and isinstance(value, int | float):
                    return _compared(expression, type(found), value)
                if isinstance(found, DecimalType) and _is_exact(expression.literal):
                    return _compared_decimal(expression, found, Decimal(value))
            case SetPredicate(term=Reference()):
                found = self._type(expression.term)
                if isinstance(found, FloatType | DoubleType):
                    return _one_of(expression, type(found))
                if isinstance(found, DecimalType):
                    return _one_decimal_of(expression, found)
        return expression

    def _type(self, term: Any) -> IcebergType | None:
        try:
            return self._schema.find_field(term.name, self._case_sensitive).field_type
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
    if kind is not FloatType or isinstance(leaf, EqualTo | NotEqualTo):
        return _beyond(leaf, of_numbers)
    # Beyond all numbers is infinity still.
    again = of_numbers[0] if isinstance(leaf, of_numbers) else of_none[1]
    return cast("BooleanExpression", again(leaf.term, FloatLiteral(math.copysign(math.inf, value))))


def _beyond(leaf: LiteralPredicate, of_numbers: tuple[Any, ...]) -> BooleanExpression:
    """Compared with what no value is, where comparisons of these kinds hold for every value."""
    return NotNull(term=leaf.term) if isinstance(leaf, (NotEqualTo, *of_numbers)) else AlwaysFalse()


def _compared_decimal(leaf: LiteralPredicate, kind: DecimalType, value: Decimal) -> BooleanExpression:
    if value.as_tuple().exponent == -kind.scale and isinstance(leaf.literal, DecimalLiteral) and _fits(value, kind):
        return leaf
    if not _fits(value, kind):
        return _beyond(leaf, LOWER if value > 0 else HIGHER)
    floor = _floor(value, kind)
    again: Any = type(leaf)
    if floor != value:
        if isinstance(leaf, EqualTo | NotEqualTo):
            return _beyond(leaf, ())
        again = LessThanOrEqual if isinstance(leaf, LOWER) else GreaterThan
    return cast("BooleanExpression", again(leaf.term, DecimalLiteral(floor)))


def _one_decimal_of(leaf: SetPredicate, kind: DecimalType) -> BooleanExpression:
    if not all(map(_is_exact, leaf.literals)):
        return leaf
    values = {Decimal(each.value) for each in leaf.literals}
    floors = {_floor(value, kind) for value in values if _fits(value, kind)}
    again: Any = type(leaf)
    return cast("BooleanExpression", again(leaf.term, {DecimalLiteral(each) for each in floors & values}))


def _is_exact(literal: Any) -> bool:
    return isinstance(literal, LongLiteral) or (isinstance(literal, DecimalLiteral) and literal.value.is_finite())


def _fits(value: Decimal, kind: DecimalType) -> bool:
    return value.copy_abs() <= Decimal((0, (9,) * kind.precision, -kind.scale))  # abs rounds to 28 digits


def _floor(value: Decimal, kind: DecimalType) -> Decimal:
    """The greatest decimal of the scale that is not greater; of a value that fits."""
    return value.quantize(Decimal((0, (1,), -kind.scale)), ROUND_FLOOR, Context(prec=MAX_PREC))


def _one_of(leaf: SetPredicate, kind: type[IcebergType]) -> BooleanExpression:
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
