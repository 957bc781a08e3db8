"""Spark's filters as Iceberg's, from the JSON that the Java side makes of them.

    {"op": "and", "left": ..., "right": ...}      {"op": "lt", "column": "a.b", "value": 3}

To Spark, NaN is greater than every number; to Iceberg's statistics it is nowhere. So what is greater than a number
includes NaN here, and "not less than" is refused for columns that can be NaN.

To SQL, what is compared with null is neither true nor false; to Iceberg, null differs from everything. So a negation
goes down to the comparisons, and there it asks for a value.
"""

from __future__ import annotations

from decimal import Decimal
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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.schema import Schema

_IN: Final[Any] = In  # whose values, its own annotations say, are sets
_COMPARISONS: Final[dict[str, Any]] = {
    "eq": EqualTo,
    "eq-null-safe": EqualTo,
    "lt": LessThan,
    "lteq": LessThanOrEqual,
    "gt": GreaterThan,
    "gteq": GreaterThanOrEqual,
    "starts-with": StartsWith,
}


def exact(nodes: Iterable[dict[str, Any]], schema: Schema) -> BooleanExpression:
    """All of these; whoever deletes rows by them must not lose one."""
    made: BooleanExpression = AlwaysTrue()
    for node in nodes:
        one = _expression(node, schema, negated=False)
        bind(schema, one, case_sensitive=True)
        made = And(made, one)
    return made


def inclusive(nodes: Iterable[dict[str, Any]], schema: Schema) -> BooleanExpression:
    """Those of them that Iceberg understands: enough to leave out files, since Spark filters the rows again."""
    made: BooleanExpression = AlwaysTrue()
    for node in nodes:
        try:
            made = And(made, exact([node], schema))
        except (ValueError, TypeError, KeyError, NotImplementedError):
            continue
    return made


def _expression(node: dict[str, Any], schema: Schema, *, negated: bool) -> BooleanExpression:
    match node["op"]:
        case "true":
            return AlwaysFalse() if negated else AlwaysTrue()
        case "and" | "or" as op:
            left, right = (_expression(node[side], schema, negated=negated) for side in ("left", "right"))
            return And(left, right) if (op == "and") != negated else Or(left, right)
        case "not":
            return _expression(node["child"], schema, negated=not negated)
    made = _predicate(node, schema, negated=negated)
    if not negated:
        return made
    if node["op"] in ("is-null", "not-null", "eq-null-safe"):
        return Not(made)
    return And(NotNull(term=Reference(node["column"])), Not(made))


def _predicate(node: dict[str, Any], schema: Schema, *, negated: bool) -> BooleanExpression:
    column = node["column"]
    if "`" in column:
        raise ValueError(f"a name with dots: {column}")
    _check_uuids(node, schema)
    match node["op"]:
        case "is-null":
            return IsNull(term=Reference(column))
        case "not-null":
            return NotNull(term=Reference(column))
        case "in":
            some: BooleanExpression = _IN(Reference(column), [_value(one) for one in node["values"]])
            return some
    return _comparison(node["op"], column, _value(node["value"]), schema, negated=negated)


def _comparison(op: str, column: str, value: Any, schema: Schema, *, negated: bool) -> BooleanExpression:
    made: BooleanExpression = _COMPARISONS[op](Reference(column), value)
    if not isinstance(schema.find_type(column), FloatType | DoubleType):
        return made
    if op in ("gt", "gteq"):
        return Or(made, IsNaN(term=Reference(column)))
    if negated and op in ("lt", "lteq"):
        raise ValueError(f"what is not less includes NaN: {column}")
    return made


def _check_uuids(node: dict[str, Any], schema: Schema) -> None:
    """To Spark they are texts, which differ if their letters are large or some are missing; to Iceberg they are not."""
    if not isinstance(schema.find_type(node["column"]), UUIDType):
        return
    values = node.get("values", [node["value"]] if "value" in node else [])
    if node["op"] == "starts-with" or any(str(UUID(one)) != one for one in values):
        raise ValueError(f"a text that is not the one of a uuid: {node['column']}")


def _value(value: Any) -> Any:
    return Decimal(value["decimal"]) if isinstance(value, dict) else value
