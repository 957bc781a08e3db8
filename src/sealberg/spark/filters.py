"""Spark's filters as Iceberg's expressions.

    AndFilter(left, right)      CompareFilter("lt", "a.b", 3)      ──>  And(...)      LessThan("a.b", 3)

To Spark, NaN is greater than every number; Iceberg's statistics leave NaN out. So "greater than" includes NaN here,
and "not less than" is refused for columns that can be NaN.

In SQL, a comparison with null is neither true nor false; in Iceberg, null differs from every value. So a negation is
pushed down to the comparisons, and a negated comparison asks for a value that is not null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotNull,
    Or,
    Reference,
    StartsWith,
)
from pyiceberg.expressions.visitors import bind
from pyiceberg.types import DoubleType, FloatType, UUIDType

from sealberg.spark.protocol.filters import (
    AndFilter,
    CompareFilter,
    InFilter,
    IsNullFilter,
    NotFilter,
    NotNullFilter,
    OrFilter,
    TrueFilter,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.schema import Schema

    from sealberg.spark.protocol.filters import Filter, Predicate

NULL_SAFE: Final = "eq-null-safe"
_IN: Final[Any] = In  # PyIceberg annotates the values as a set, and takes any iterable
_COMPARISONS: Final[dict[str, Any]] = {
    "eq": EqualTo,
    NULL_SAFE: EqualTo,
    "lt": LessThan,
    "lteq": LessThanOrEqual,
    "gt": GreaterThan,
    "gteq": GreaterThanOrEqual,
    "starts-with": StartsWith,
}


def exact(filters: Iterable[Filter], schema: Schema) -> BooleanExpression:
    """All of the filters as one expression; an error where one has no counterpart. Deletes need every filter."""
    expression: BooleanExpression = AlwaysTrue()
    for each in filters:
        translated = _expression(each, schema, negated=False)
        bind(schema, translated, case_sensitive=True)
        expression = And(expression, translated)
    return expression


def inclusive(filters: Iterable[Filter], schema: Schema) -> BooleanExpression:
    """Those of the filters that Iceberg understands: enough to skip files, since Spark filters the rows again."""
    expression: BooleanExpression = AlwaysTrue()
    for each in filters:
        try:
            expression = And(expression, exact([each], schema))
        except (ValueError, TypeError, KeyError, NotImplementedError):
            continue
    return expression


def _expression(node: Filter, schema: Schema, *, negated: bool) -> BooleanExpression:
    match node:
        case TrueFilter():
            return AlwaysFalse() if negated else AlwaysTrue()
        case AndFilter() | OrFilter():
            left, right = (_expression(side, schema, negated=negated) for side in (node.left, node.right))
            return And(left, right) if isinstance(node, AndFilter) != negated else Or(left, right)
        case NotFilter():
            return _expression(node.child, schema, negated=not negated)
    predicate = _predicate(node, schema, negated=negated)
    if not negated:
        return predicate
    if isinstance(node, IsNullFilter | NotNullFilter) or (isinstance(node, CompareFilter) and node.op == NULL_SAFE):
        return Not(predicate)
    return And(NotNull(term=Reference(node.column)), Not(predicate))


def _predicate(node: Predicate, schema: Schema, *, negated: bool) -> BooleanExpression:
    if "`" in node.column:
        raise ValueError(f"a name with dots: {node.column}")
    _check_uuids(node, schema)
    match node:
        case IsNullFilter():
            return IsNull(term=Reference(node.column))
        case NotNullFilter():
            return NotNull(term=Reference(node.column))
        case InFilter():
            predicate: BooleanExpression = _IN(Reference(node.column), list(node.values))
            return predicate
    return _comparison(node, schema, negated=negated)


def _comparison(node: CompareFilter, schema: Schema, *, negated: bool) -> BooleanExpression:
    comparison: BooleanExpression = _COMPARISONS[node.op](Reference(node.column), node.value)
    if not isinstance(schema.find_type(node.column), FloatType | DoubleType):
        return comparison
    if node.op in ("gt", "gteq"):
        return Or(comparison, IsNaN(term=Reference(node.column)))
    if negated and node.op in ("lt", "lteq"):
        raise ValueError(f"not less than includes NaN: {node.column}")
    return comparison


def _check_uuids(node: Predicate, schema: Schema) -> None:
    """Refuse a text that Spark and Iceberg compare differently: Spark compares letters, Iceberg the bytes of a uuid."""
    if not isinstance(schema.find_type(node.column), UUIDType):
        return
    match node:
        case InFilter():
            values = node.values
        case CompareFilter():
            values = (node.value,)
            if node.op == "starts-with":
                raise ValueError(f"a prefix of a uuid: {node.column}")
        case _:
            return
    if any(str(UUID(value)) != value for value in values):
        raise ValueError(f"a text that is not the canonical text of a uuid: {node.column}")
