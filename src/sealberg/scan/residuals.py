"""What is left of a filter once the partition of a file is known.

    day(ts) of the file      ts >= '2026-01-02'  AND  id = 5
    2026-01-01               no row matches
    2026-01-02               ts >= '2026-01-02'  AND  id = 5      some rows of that day may be earlier
    2026-01-03                                        id = 5

A predicate on the source of a partition field is replaced by "true" where its strict projection matches the partition
value, and by "false" where its inclusive projection does not. Both are evaluated for all files at once, and one
expression is made for each combination of answers.

A null partition value means that the column is null in every row of the file. Such rows get here what they get where
a table is not partitioned: `!=`, NOT LIKE and NOT NaN do not match them, NOT IN does. The evaluators of PyIceberg and
Java say that all four match, which would let a partition spec decide what a filter finds and what a delete removes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundNotEqualTo,
    BoundNotNaN,
    BoundNotStartsWith,
    BoundPredicate,
    IsNull,
    Or,
    Reference,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import bind, rewrite_not

from sealberg.scan.column_filter import PartitionValues, nullable, partition_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

    from sealberg.scan.column_filter import FileColumns

KEPT: Final = 0
TRUE: Final = 1
FALSE: Final = 2
ANSWERS: Final = 3
NOT_OF_NULL: Final = (BoundNotEqualTo, BoundNotStartsWith, BoundNotNaN)  # other predicates agree on nulls everywhere


@dataclass(frozen=True)
class _Projection:
    """A predicate on one partition field; None where a transform has no projection."""

    strict: BooleanExpression | None
    inclusive: BooleanExpression | None
    is_null: BooleanExpression | None  # of the partition value, if no row with a null matches the predicate


class Residuals:
    """The residuals of one filter for the files of one partition spec."""

    def __init__(
        self, spec: PartitionSpec, schema: Schema, row_filter: BooleanExpression, *, case_sensitive: bool = True
    ) -> None:
        self._filter = row_filter
        self._without_not = rewrite_not(row_filter)
        self._spec = spec
        self._schema = nullable(schema)
        self._partition = partition_schema(spec, schema)
        self._case_sensitive = case_sensitive
        self._constants: list[int] = []
        self._projections: list[Sequence[_Projection]] = []
        for leaf in _leaves(self._without_not):
            bound = bind(self._schema, leaf, case_sensitive)
            self._constants.append({AlwaysTrue: TRUE, AlwaysFalse: FALSE}.get(type(bound), KEPT))
            self._projections.append(self._projected(bound))
        self._made: dict[tuple[int, ...], BooleanExpression] = {}

    def of(self, files: FileColumns, rows: NDArray[np.int64]) -> list[BooleanExpression]:
        """The residual of each of these files; files whose residuals are equal share one object."""
        values = PartitionValues(files)
        codes, patterns = np.zeros(len(rows), np.int64), np.zeros((1, 0), np.uint8)
        for constant, projections in zip(self._constants, self._projections, strict=True):
            answers = np.full(len(rows), constant, np.uint8)
            for each in projections:
                self._answer(answers, each, values, rows)
            # One number for each combination of answers so far.
            found, codes = np.unique(codes * ANSWERS + answers, return_inverse=True)
            patterns = np.column_stack([patterns[found // ANSWERS], (found % ANSWERS).astype(np.uint8)])
        made = [self._residual(tuple(pattern)) for pattern in patterns.tolist()]
        return [made[code] for code in codes.tolist()]

    def _answer(
        self, answers: NDArray[np.uint8], each: _Projection, values: PartitionValues, rows: NDArray[np.int64]
    ) -> None:
        """Answer what this partition field can answer; fields of the same source agree."""
        if each.is_null is not None:
            answers[values.matching(each.is_null)[rows] & (answers == KEPT)] = FALSE
        if each.strict is not None:
            answers[values.matching(each.strict)[rows] & (answers == KEPT)] = TRUE
        if each.inclusive is not None:
            answers[~values.matching(each.inclusive)[rows] & (answers == KEPT)] = FALSE

    def _projected(self, bound: BooleanExpression) -> Sequence[_Projection]:
        if not isinstance(bound, BoundPredicate):
            return ()
        made = []
        for part in self._spec.fields_by_source_id(bound.term.ref().field.field_id):
            strict = part.transform.strict_project(part.name, bound)
            inclusive = part.transform.project(part.name, bound)
            if strict is not None or inclusive is not None:
                is_null = IsNull(term=Reference(part.name)) if isinstance(bound, NOT_OF_NULL) else None
                made.append(_Projection(self._bound(strict), self._bound(inclusive), self._bound(is_null)))
        return made

    def _bound(self, projected: BooleanExpression | None) -> BooleanExpression | None:
        return None if projected is None else bind(self._partition, projected, self._case_sensitive)

    def _residual(self, answers: tuple[int, ...]) -> BooleanExpression:
        if answers not in self._made:
            self._made[answers] = self._combined(self._without_not, iter(answers)) if any(answers) else self._filter
        return self._made[answers]

    def _combined(self, expression: BooleanExpression, answers: Iterator[int]) -> BooleanExpression:
        match expression:
            case And():
                return And(self._combined(expression.left, answers), self._combined(expression.right, answers))
            case Or():
                return Or(self._combined(expression.left, answers), self._combined(expression.right, answers))
            case UnboundPredicate():
                answer = next(answers)
                return {KEPT: expression, TRUE: AlwaysTrue(), FALSE: AlwaysFalse()}[answer]
            case _:
                return expression


def _leaves(expression: BooleanExpression) -> Iterator[UnboundPredicate]:
    if isinstance(expression, And | Or):
        yield from _leaves(expression.left)
        yield from _leaves(expression.right)
    elif isinstance(expression, UnboundPredicate):
        yield expression
