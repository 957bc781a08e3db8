"""Which of many files may hold rows that match a filter, decided on whole columns of their statistics.

    FileColumns       the entries of a manifest as columns: counts and bounds by field id, partition values
    MetricsFilter     by record counts, null and NaN counts, and bounds
    PartitionFilter   by partition values

The answer "no" is certain: no row of the file matches. Where Iceberg's implementations differ about a row (does a null
match `x != 5`?), a file with such a row is kept, and the reader of the rows decides.

The rules are those of Java's InclusiveMetricsEvaluator and of PyIceberg's, which look at one file at a time, with
these differences: a list of any length is searched for IN; bounds of a column that was a date are read as days;
UUIDs as said in `ordered_values`; a float literal is rounded as the reader rounds it; a file whose values all equal
the literal does not match `!=`, as in Java; and a required field in an optional struct can be null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNaN,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotNaN,
    BoundNotNull,
    BoundNotStartsWith,
    BoundPredicate,
    BoundReference,
    BoundSetPredicate,
    BoundStartsWith,
    BoundUnaryPredicate,
    Or,
)
from pyiceberg.expressions.literals import AboveMax, BelowMin
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType, UUIDType

from sealberg.scan.ordered_values import SortedValues, bound_column, comparable, has_order, is_float, partition_column

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.types import IcebergType

    from sealberg.scan.ordered_values import Column

    Mask = NDArray[np.bool_]

# Literals that no value of the column's type can equal; their own value is the nearest one.
OUTSIDE: Final = (AboveMax, BelowMin)


class FileColumns(Protocol):
    """Many files as columns; each array has one value for each file.

    Methods of field ids return null where a file has no such statistic, and None if no file has one.
    """

    def __len__(self) -> int: ...

    @property
    def record_counts(self) -> pa.Int64Array: ...

    def lower_bounds(self, field_id: int) -> pa.BinaryArray | None: ...

    def upper_bounds(self, field_id: int) -> pa.BinaryArray | None: ...

    def value_counts(self, field_id: int) -> pa.Int64Array | None: ...

    def null_value_counts(self, field_id: int) -> pa.Int64Array | None: ...

    def nan_value_counts(self, field_id: int) -> pa.Int64Array | None: ...

    def partition_values(self, partition_field_id: int) -> pa.Array:
        """The values of a partition field, in the Arrow type of the field's result; null where they are null."""
        ...


@runtime_checkable
class RowGroups(Protocol):
    """Files whose number of row groups is known, by their split offsets; null where it is not."""

    @property
    def row_group_counts(self) -> pa.Array: ...


class MetricsFilter:
    """Evaluates a filter against the statistics of files.

    Args:
        schema: the schema that the filter is bound to.
        row_filter: an unbound expression.
        include_empty_files: whether files without rows are kept if nothing else excludes them.
    """

    def __init__(
        self,
        schema: Schema,
        row_filter: BooleanExpression,
        *,
        case_sensitive: bool = True,
        include_empty_files: bool = False,
    ) -> None:
        self.bound = bind(nullable(schema), rewrite_not(row_filter), case_sensitive)
        self._include_empty_files = include_empty_files
        self._sorted: dict[int, SortedValues] = {}  # by the `id` of an IN, which lives as long as this filter

    def may_match(self, files: FileColumns) -> Mask:
        """For each file, whether it may hold a row that matches the filter."""
        counts = np.asarray(files.record_counts.to_numpy(zero_copy_only=False))
        # A negative count is unknown: Iceberg once imported Avro files so.
        kept = _evaluated(self.bound, len(files), _Metrics(files, self._sorted_values).may_match) | (counts < 0)
        return kept if self._include_empty_files else kept & (counts != 0)

    def _sorted_values(self, leaf: BoundIn) -> SortedValues:
        found = self._sorted.get(id(leaf))
        if found is None:
            found = self._sorted[id(leaf)] = SortedValues(sorted(_values(leaf)))
        return found


class PartitionFilter:
    """Evaluates a filter on partition values, as `inclusive_projection` makes it from a row filter."""

    def __init__(
        self,
        spec: PartitionSpec,
        schema: Schema,
        partition_filter: BooleanExpression,
        *,
        case_sensitive: bool = True,
    ) -> None:
        self._bound = bind(partition_schema(spec, schema), rewrite_not(partition_filter), case_sensitive)

    def may_match(self, files: FileColumns) -> Mask:
        """For each file, whether its partition may hold a row that matches the filter."""
        return PartitionValues(files).matching(self._bound)


class PartitionValues:
    """The partition values of files, decoded on first use."""

    def __init__(self, files: FileColumns) -> None:
        self._files = files
        self._columns: dict[int, Column] = {}

    def matching(self, bound: BooleanExpression) -> Mask:
        """Where the values match an expression that is bound to the partition's schema and has no NOT."""
        return _evaluated(bound, len(self._files), self._leaf)

    def _column(self, field_id: int, kind: IcebergType) -> Column:
        found = self._columns.get(field_id)
        if found is None:
            found = self._columns[field_id] = partition_column(kind, self._files.partition_values(field_id))
        return found

    def _leaf(self, leaf: BoundPredicate) -> Mask:
        field = leaf.term.ref().field
        kind = field.field_type
        if not has_order(kind) or not isinstance(leaf.term, BoundReference):
            return np.ones(len(self._files), np.bool_)
        column = self._column(field.field_id, kind)
        if isinstance(leaf, BoundUnaryPredicate):
            return _UNARY[type(leaf)](column)
        if isinstance(leaf, BoundSetPredicate):
            found = column.one_of(_values(leaf))
            return ~found if isinstance(leaf, BoundNotIn) else found
        assert isinstance(leaf, BoundLiteralPredicate)
        return _COMPARED[type(leaf)](column, comparable(kind, leaf.literal.value))


_UNARY: Final[dict[type, Callable[[Column], Mask]]] = {
    BoundIsNull: lambda column: ~column.known,
    BoundNotNull: lambda column: column.known,
    BoundIsNaN: lambda column: column.known & np.isnan(column.values),
    BoundNotNaN: lambda column: ~(column.known & np.isnan(column.values)),
}
_COMPARED: Final[dict[type, Callable[[Column, Any], Mask]]] = {
    BoundEqualTo: lambda column, value: column.equal(value),
    BoundNotEqualTo: lambda column, value: ~column.equal(value),
    BoundLessThan: lambda column, value: column.below(value),
    BoundLessThanOrEqual: lambda column, value: column.at_most(value),
    BoundGreaterThan: lambda column, value: column.above(value),
    BoundGreaterThanOrEqual: lambda column, value: column.at_least(value),
    BoundStartsWith: lambda column, value: column.starts_with(value),
    BoundNotStartsWith: lambda column, value: ~column.starts_with(value),
}


class _Metrics:
    """The statistics of files, each decoded on first use."""

    def __init__(self, files: FileColumns, sorted_values: Callable[[BoundIn], SortedValues]) -> None:
        self._files = files
        self._sorted_values = sorted_values
        self._none = np.zeros(len(files), np.bool_)
        self._decoded: dict[tuple[str, int], Any] = {}

    def may_match(self, leaf: BoundPredicate) -> Mask:
        if not isinstance(leaf.term, BoundReference):
            return ~self._none  # a transform of a column: its literal is not in the order of the column's bounds
        return ~self._rules_out(leaf, leaf.term.field)

    def _rules_out(self, leaf: BoundPredicate, field: NestedField) -> Mask:
        if isinstance(leaf, BoundUnaryPredicate):
            return self._unary_ruled_out(leaf, field.field_id)
        if not has_order(field.field_type):
            return self._none
        if isinstance(leaf, BoundNotEqualTo | BoundNotIn | BoundNotStartsWith):
            return self._negation_ruled_out(leaf, field)
        by_counts = self._only("null_value_counts", field.field_id) | self._only("nan_value_counts", field.field_id)
        return by_counts | self._by_bounds(leaf, field)

    def _unary_ruled_out(self, leaf: BoundPredicate, field_id: int) -> Mask:
        match leaf:
            case BoundIsNull():
                return np.asarray(self._count("null_value_counts", field_id) == 0)
            case BoundNotNull():
                return self._only("null_value_counts", field_id)
            case BoundIsNaN():
                return np.asarray(
                    (self._count("nan_value_counts", field_id) == 0) | self._only("null_value_counts", field_id)
                )
        return self._only("nan_value_counts", field_id)

    def _by_bounds(self, leaf: BoundPredicate, field: NestedField) -> Mask:
        if isinstance(leaf, BoundIn):
            values = self._sorted_values(leaf)
            return self._lower(field).gaps(self._upper(field), values) if values else ~self._none
        assert isinstance(leaf, BoundLiteralPredicate)
        value = comparable(field.field_type, leaf.literal.value)
        return _RULED_OUT[type(leaf)](lambda: self._lower(field), lambda: self._upper(field), value)

    def _negation_ruled_out(self, leaf: BoundPredicate, field: NestedField) -> Mask:
        """Where no value is null, and the bounds show that every value is excluded."""
        if is_float(field.field_type):
            return self._none  # NaN and -0.0 are unequal to the bounds for some, and equal for others
        no_nulls = self._count("null_value_counts", field.field_id) == 0
        if not no_nulls.any():
            return self._none
        lower, upper = self._lower(field), self._upper(field)
        if isinstance(leaf, BoundNotIn):
            return np.asarray(no_nulls & lower.same_as(upper) & lower.one_of(_values(leaf)))
        assert isinstance(leaf, BoundLiteralPredicate)
        value: Any = comparable(field.field_type, leaf.literal.value)
        if isinstance(leaf, BoundNotStartsWith):
            return np.asarray(no_nulls & lower.starts_with(value) & upper.starts_with(value))
        return np.asarray(no_nulls & lower.equal(value) & upper.equal(value))

    def _only(self, count: str, field_id: int) -> Mask:
        """Where all values are null, or NaN."""
        known = self._count(count, field_id)
        return np.asarray((known > 0) & (known == self._count("value_counts", field_id)))

    def _count(self, name: str, field_id: int) -> NDArray[np.int64]:
        """A statistic of a column; -1 where a file does not have it."""

        def decoded() -> NDArray[np.int64]:
            found = getattr(self._files, name)(field_id)
            if found is None:
                return np.full(len(self._files), -1, np.int64)
            return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False))

        return np.asarray(self._once((name, field_id), decoded))

    def _lower(self, field: NestedField) -> Any:
        return self._once(("lower", field.field_id), lambda: self._bound(field, self._files.lower_bounds, upper=False))

    def _upper(self, field: NestedField) -> Any:
        return self._once(("upper", field.field_id), lambda: self._bound(field, self._files.upper_bounds, upper=True))

    def _bound(self, field: NestedField, stored: Callable[[int], pa.Array | None], *, upper: bool) -> Column:
        kind, one_row_group = field.field_type, None
        if isinstance(kind, UUIDType) and isinstance(self._files, RowGroups):
            one_row_group = np.asarray(self._files.row_group_counts.fill_null(0).to_numpy(zero_copy_only=False)) == 1
        found = stored(field.field_id)
        return bound_column(kind, found, len(self._files), upper=upper, one_row_group=one_row_group)

    def _once(self, key: tuple[str, int], make: Callable[[], Any]) -> Any:
        if key not in self._decoded:
            self._decoded[key] = make()
        return self._decoded[key]


_Bound = Callable[[], Any]  # the lower or the upper bounds, decoded when they are needed
_RULED_OUT: Final[dict[type, Callable[[_Bound, _Bound, Any], Mask]]] = {
    BoundLessThan: lambda lower, _, value: lower().at_least(value),
    BoundLessThanOrEqual: lambda lower, _, value: lower().above(value),
    BoundGreaterThan: lambda _, upper, value: upper().at_most(value),
    BoundGreaterThanOrEqual: lambda _, upper, value: upper().below(value),
    BoundEqualTo: lambda lower, upper, value: lower().above(value) | upper().below(value),
    BoundStartsWith: lambda lower, upper, value: (
        (lower().above(value) & ~lower().starts_with(value)) | upper().below(value)
    ),
}


def nullable(schema: Schema) -> Schema:
    """The schema, with every field of an optional struct optional.

    PyIceberg binds `s.a IS NULL` to "never" if `a` is required, though `a` is null wherever `s` is.
    """
    fields = [_nullable(field, below_optional=False) for field in schema.fields]
    if all(ours is theirs for ours, theirs in zip(fields, schema.fields, strict=True)):
        return schema
    return Schema(*fields, schema_id=schema.schema_id)


def _nullable(field: NestedField, *, below_optional: bool) -> NestedField:
    changes: dict[str, Any] = {"required": False} if below_optional and field.required else {}
    if isinstance(field.field_type, StructType):
        optional = below_optional or not field.required
        inner = field.field_type.fields
        made = [_nullable(each, below_optional=optional) for each in inner]
        if any(ours is not theirs for ours, theirs in zip(made, inner, strict=True)):
            changes["field_type"] = StructType(*made)
    return field.model_copy(update=changes) if changes else field


def partition_schema(spec: PartitionSpec, schema: Schema) -> Schema:
    """The partition's fields as a schema; all are optional, because a partition can be null."""
    fields = spec.partition_type(schema).fields
    return Schema(*(field.model_copy(update={"required": False}) for field in fields))


def _evaluated(bound: BooleanExpression, count: int, leaf: Callable[[BoundPredicate], Mask]) -> Mask:
    match bound:
        case AlwaysTrue():
            return np.ones(count, np.bool_)
        case AlwaysFalse():
            return np.zeros(count, np.bool_)
        case And():
            left = _evaluated(bound.left, count, leaf)
            return left & _evaluated(bound.right, count, leaf) if left.any() else left
        case Or():
            left = _evaluated(bound.left, count, leaf)
            return left if left.all() else left | _evaluated(bound.right, count, leaf)
        case BoundEqualTo() | BoundNotEqualTo() if isinstance(bound.literal, OUTSIDE):
            return np.full(count, isinstance(bound, BoundNotEqualTo))
        case BoundPredicate():
            return leaf(bound)
    raise TypeError(f"expected a bound expression without NOT, found {bound!r}")


def _values(leaf: BoundSetPredicate) -> list[Any]:
    """The values of IN or NOT IN, without those that no value of the column's type can equal."""
    kind = leaf.term.ref().field.field_type
    literals: set[Any] = leaf.literals
    return [comparable(kind, each.value) for each in literals if not isinstance(each, OUTSIDE)]
