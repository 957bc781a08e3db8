"""The argument `where` of a procedure, after Spark has parsed, resolved and optimized it.

    row_filter(call)     rows, exactly: what `erase` removes
    file_filter(call)    files that may hold such rows: what `rewrite_data_files` rewrites

    day >= DATE '2026-01-01' AND system.bucket(4, id) = 2
    └─ rows: column bounds and partitions decide   └─ partitions: files of a spec with bucket[4] of id

A transform in the filter is looked up in the partition of a file. If the spec of the file does not have the transform,
the bounds of the column decide, as far as the transform keeps their order: days(ts) does, bucket(4, id) does not. What
is not decided may hold any value, so the file is kept.
"""

from __future__ import annotations

import operator
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform, parse_transform

from sealberg.errors import ConfigError
from sealberg.spark.driver.procedures.signature import parse_identifier
from sealberg.spark.filters import NULL_SAFE, exact
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
    from collections.abc import Callable

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.transforms import Transform

    from sealberg.metadata.manifest import DataFileV3
    from sealberg.spark.driver.procedures.signature import CallContext
    from sealberg.spark.protocol.filters import Filter, Predicate

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    NULL_SAFE: operator.eq,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "starts-with": str.startswith,
}


def row_filter(call: CallContext) -> BooleanExpression:
    """The filter for rows. A transform in it is refused."""
    found = _resolved(call)
    return _exact(call, found, call.table().metadata.schema())


def file_filter(call: CallContext) -> FileFilter | None:
    """The filter for files; None if the call has none."""
    if not call["where"]:
        return None
    found, metadata = _resolved(call), call.table().metadata
    rows = _exact(call, _without_transforms(found, negated=False), metadata.schema())
    return FileFilter(rows, found, metadata)


@dataclass(frozen=True)
class FileFilter:
    """Which files may hold matching rows.

    Attributes:
        rows: the filter without its transforms, which are true in it.
        whole: the filter.
    """

    rows: BooleanExpression
    whole: Filter
    metadata: TableMetadata

    def by_transforms(self, file: DataFileV3) -> bool:
        """Whether the file may hold matching rows, as far as transforms in the filter tell."""
        return _may_match(self.whole, _FileValues(file, self.metadata), negated=False)

    def by_partition(self, file: DataFileV3) -> bool:
        """Whether the partition of the file may have matching rows."""
        spec, schema = self.metadata.specs()[file.spec_id], self.metadata.schema()
        projected = inclusive_projection(schema, spec, case_sensitive=True)(self.rows)
        partition = Schema(*spec.partition_type(schema).fields)
        matches = expression_evaluator(partition, projected, case_sensitive=True)(file.partition)
        return bool(matches) and self.by_transforms(file)


def _resolved(call: CallContext) -> Filter:
    return _plain_names(call.resolve(call.identifier(), call.required("where")))


def _exact(call: CallContext, found: Filter, schema: Schema) -> BooleanExpression:
    try:
        return exact([found], schema)
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise ConfigError(f"{call.procedure}: cannot use the filter {call['where']}: {error}") from error


def _plain_names(node: Filter) -> Filter:
    """Spark quotes a column with an odd name; PyIceberg does not."""
    match node:
        case TrueFilter():
            return node
        case AndFilter() | OrFilter():
            return replace(node, left=_plain_names(node.left), right=_plain_names(node.right))
        case NotFilter():
            return replace(node, child=_plain_names(node.child))
        case TransformFilter():
            return replace(node, predicate=_plain_name(node.predicate))
    return _plain_name(node)


def _plain_name(node: Predicate) -> Predicate:
    parts = parse_identifier(node.column, "the column", resolved=True)
    return node if any("." in part for part in parts) else replace(node, column=".".join(parts))


def _without_transforms(node: Filter, *, negated: bool) -> Filter:
    match node:
        case AndFilter() | OrFilter():
            left, right = (_without_transforms(side, negated=negated) for side in (node.left, node.right))
            return replace(node, left=left, right=right)
        case NotFilter():
            return NotFilter(_without_transforms(node.child, negated=not negated))
        case TransformFilter():
            return NotFilter(TrueFilter()) if negated else TrueFilter()
    return node


# -- transforms -----------------------------------------------------------------------------------


class _FileValues:
    """What is known of the values in a file: its partition, by column and transform, and the bounds of columns."""

    def __init__(self, file: DataFileV3, metadata: TableMetadata) -> None:
        schema, spec = metadata.schema(), metadata.specs()[file.spec_id]
        self._file, self._schema = file, schema
        self.partition = {
            (schema.find_column_name(field.source_id), str(field.transform)): file.partition[at]
            for at, field in enumerate(spec.fields)
        }

    def bounds(self, column: str, transform: Transform[Any, Any]) -> tuple[Any, Any] | None:
        """Of the transform of a column; None if they are not known."""
        field = self._schema.find_field(column)
        low, high = ((by or {}).get(field.field_id) for by in (self._file.lower_bounds, self._file.upper_bounds))
        if low is None or high is None or not transform.preserves_order or isinstance(transform, VoidTransform):
            return None
        try:
            apply = transform.transform(field.field_type)
            found = [apply(from_bytes(field.field_type, bytes(bound))) for bound in (low, high)]  # type: ignore[arg-type]
        except (ValueError, TypeError, IndexError, ArithmeticError, struct.error):
            return None  # bounds of the type that the column had before it was promoted
        return None if None in found else (found[0], found[1])


def _may_match(node: Filter, values: _FileValues, *, negated: bool) -> bool:
    match node:
        case TrueFilter():
            return not negated
        case AndFilter() | OrFilter():
            sides = (_may_match(side, values, negated=negated) for side in (node.left, node.right))
            return all(sides) if isinstance(node, AndFilter) != negated else any(sides)
        case NotFilter():
            return _may_match(node.child, values, negated=not negated)
        case TransformFilter():
            key = node.predicate.column, node.transform
            if key not in values.partition:
                return negated or _within(node.predicate, values.bounds(node.predicate.column, _transform(node)))
            found = _matches(node.predicate, values.partition[key])
            return found is not None and found != negated
    return True  # a predicate on a column: the bounds of the file decide


def _transform(node: TransformFilter) -> Transform[Any, Any]:
    return parse_transform(node.transform)


def _within(predicate: Predicate, bounds: tuple[Any, Any] | None) -> bool:
    """Whether a value between these bounds may match."""
    if bounds is None:
        return True
    low, high = bounds
    match predicate:
        case InFilter():
            return any(low <= value <= high for value in predicate.values if value is not None)
        case CompareFilter(op="eq"):
            return bool(low <= predicate.value <= high)
        case CompareFilter(op="lt" | "lteq"):
            return _COMPARISONS[predicate.op](low, predicate.value)
        case CompareFilter(op="gt" | "gteq"):
            return _COMPARISONS[predicate.op](high, predicate.value)
    return True


def _matches(predicate: Predicate, value: Any) -> bool | None:
    """As SQL does: None if the value is null, where only a test for null is true or false."""
    match predicate:
        case IsNullFilter():
            return value is None
        case NotNullFilter():
            return value is not None
        case InFilter():
            return None if value is None else value in predicate.values
        case CompareFilter():
            if value is None:
                return predicate.value is None if predicate.op == NULL_SAFE else None
            return predicate.value is not None and _COMPARISONS[predicate.op](value, predicate.value)
