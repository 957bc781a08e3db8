"""Spark's filters as Iceberg's expressions.

    AndFilter(left, right)      CompareFilter("lt", "a.b", 3)      ──>  And(...)      LessThan("a.b", 3)

For Spark, NaN is greater than every number; Iceberg's bounds leave NaN out. So a translated "greater than" also
matches NaN, and "not less than" on a float or double column is not translated.

In SQL, a comparison with null is neither true nor false; in Iceberg, null differs from every value. So `Not` is
pushed down to the comparisons, and a negated comparison requires that the column is not null.
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
    TransformFilter,
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
    """All filters as one expression, for deletes. Raises an error if Iceberg has no equal expression for a filter."""
    expression: BooleanExpression = AlwaysTrue()
    for each in filters:
        translated = _expression(each, schema, negated=False)
        bind(schema, translated, case_sensitive=True)
        expression = And(expression, translated)
    return expression


def inclusive(filters: Iterable[Filter], schema: Schema) -> BooleanExpression:
    """The filters that can be translated, as one expression, to skip files. Spark filters the rows again."""
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
        case TransformFilter():
            raise _untranslatable(node.predicate, f"{node.transform} of it is a transform, expected the column itself")
    predicate = _predicate(node, schema, negated=negated)
    if not negated:
        return predicate
    if isinstance(node, IsNullFilter | NotNullFilter) or (isinstance(node, CompareFilter) and node.op == NULL_SAFE):
        return Not(predicate)
    return And(NotNull(term=Reference(node.column)), Not(predicate))


def _predicate(node: Predicate, schema: Schema, *, negated: bool) -> BooleanExpression:
    if "`" in node.column:
        raise _untranslatable(node, "the column name needs backticks, expected a name without dots in its parts")
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
        raise _untranslatable(node, "in Spark NaN is greater than every number, and Iceberg's bounds leave NaN out")
    return comparison


def _check_uuids(node: Predicate, schema: Schema) -> None:
    """Refuse strings that are not in canonical form: Spark compares the strings, Iceberg the bytes of the UUIDs."""
    if not isinstance(schema.find_type(node.column), UUIDType):
        return
    match node:
        case InFilter():
            values = node.values
        case CompareFilter():
            values = (node.value,)
            if node.op == "starts-with":
                raise _untranslatable(node, "Iceberg cannot compare a uuid with a prefix")
        case _:
            return
    if any(str(UUID(value)) != value for value in values):
        raise _untranslatable(node, "a value is not a UUID in lower case with hyphens")


def _untranslatable(node: Predicate, reason: str) -> ValueError:
    return ValueError(f"cannot translate the filter on column {node.column} to Iceberg: {reason}")
