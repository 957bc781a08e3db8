"""A partition is skipped only if no row in it matches, and a residual says of its rows what the filter says."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from pyiceberg import expressions
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
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotNaN,
    BoundNotNull,
    BoundNotStartsWith,
    BoundStartsWith,
    Or,
)
from pyiceberg.expressions.visitors import (
    bind,
    expression_evaluator,
    inclusive_projection,
    residual_evaluator_of,
    rewrite_not,
)
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.decimal import unscaled_to_decimal

from kit.tables.file_columns import ListedFiles
from sealberg.metadata.manifest import DataFileV3
from sealberg.scan.column_filter import PartitionFilter
from sealberg.scan.residuals import Residuals

ex: Any = expressions  # its constructors take names and values, which mypy does not know
SMALL = some.integers(-12, 12)
FLOATS = some.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf])
HOUR = 3_600_000_000
VALUES: dict[str, tuple[Any, some.SearchStrategy[Any]]] = {
    "bool": (BooleanType(), some.booleans()),
    "int": (IntegerType(), SMALL | some.just(2**31 - 1)),
    "long": (LongType(), SMALL),
    "float": (FloatType(), FLOATS),
    "double": (DoubleType(), FLOATS),
    "date": (DateType(), some.integers(-800, 800)),
    "time": (TimeType(), some.integers(0, 9)),
    "ts": (TimestampType(), some.integers(-30 * 24, 30 * 24).map(lambda hours: hours * HOUR) | SMALL),
    "string": (StringType(), some.text("ab\u00e9", max_size=4)),
    "binary": (BinaryType(), some.binary(max_size=3)),
    "fixed": (FixedType(2), some.binary(min_size=2, max_size=2)),
    "uuid": (UUIDType(), some.sampled_from([bytes([first]) + bytes(15) for first in (0, 1, 0x7F, 0x80, 0xFF)])),
    "decimal": (DecimalType(20, 2), some.integers(-400, 400).map(lambda unscaled: unscaled_to_decimal(unscaled, 2))),
}
FIELDS = {name: NestedField(at, name, kind) for at, (name, (kind, _)) in enumerate(VALUES.items(), 1)}
INNER = NestedField(51, "inner", IntegerType(), required=True)
SCHEMA = Schema(*FIELDS.values(), NestedField(50, "s", StructType(INNER)))
TRANSFORMS: list[Transform[Any, Any]] = [
    IdentityTransform(),
    BucketTransform(4),
    TruncateTransform(2),
    TruncateTransform(10),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
    VoidTransform(),
]
NEGATIONS = (BoundNotEqualTo, BoundNotIn, BoundNotNaN, BoundNotStartsWith)
OF_ROWS = (BoundNotIn,)  # what matches a null where rows are filtered, by Arrow
COMPARISONS = (
    ex.LessThan,
    ex.LessThanOrEqual,
    ex.GreaterThan,
    ex.GreaterThanOrEqual,
    ex.EqualTo,
    ex.NotEqualTo,
)
COMPARED: dict[type, Any] = {
    BoundEqualTo: operator.eq,
    BoundNotEqualTo: operator.ne,
    BoundLessThan: operator.lt,
    BoundLessThanOrEqual: operator.le,
    BoundGreaterThan: operator.gt,
    BoundGreaterThanOrEqual: operator.ge,
}


def is_nan(row: Any) -> bool:
    return isinstance(row, float) and math.isnan(row)


def holds(bound: Any, row: Any, of_null: tuple[type, ...] = OF_ROWS) -> bool:
    """Whether a row of one value matches; who asks says which negations match a null."""
    match bound:
        case AlwaysTrue():
            return True
        case AlwaysFalse():
            return False
        case And():
            return all(holds(each, row, of_null) for each in (bound.left, bound.right))
        case Or():
            return any(holds(each, row, of_null) for each in (bound.left, bound.right))
        case BoundIsNull():
            return row is None
        case BoundNotNull():
            return row is not None
    if row is None:
        return isinstance(bound, of_null)
    match bound:
        case BoundIsNaN():
            return is_nan(row)
        case BoundNotNaN():
            return not is_nan(row)
        case BoundIn():
            return row in bound.value_set
        case BoundNotIn():
            return row not in bound.value_set
        case BoundStartsWith():
            return bool(row.startswith(bound.literal.value))
        case BoundNotStartsWith():
            return not row.startswith(bound.literal.value)
    return bool(COMPARED[type(bound)](row, bound.literal.value))


@some.composite
def predicates(draw: Any, name: str) -> Any:
    _, values = VALUES[name]
    if name in ("date", "ts", "time"):  # PyIceberg takes the numbers of days and microseconds
        values = values.map(int)
    kinds = [*COMPARISONS, ex.In, ex.NotIn, ex.IsNull, ex.NotNull]
    kinds += [ex.IsNaN, ex.NotNaN] if name in ("float", "double") else []
    kinds += [ex.StartsWith, ex.NotStartsWith] if name == "string" else []
    kind = draw(some.sampled_from(kinds))
    if kind in (ex.IsNull, ex.NotNull, ex.IsNaN, ex.NotNaN):
        return kind(name)
    if kind in (ex.In, ex.NotIn):
        return kind(name, draw(some.lists(values, min_size=2, max_size=4)))
    return kind(name, draw(values))


def filters(name: str) -> some.SearchStrategy[BooleanExpression]:
    return some.recursive(
        predicates(name),
        lambda inner: some.builds(And, inner, inner) | some.builds(Or, inner, inner) | some.builds(ex.Not, inner),
        max_leaves=3,
    )


@some.composite
def cases(draw: Any) -> tuple[str, PartitionSpec, BooleanExpression, list[Any], list[Record]]:
    name = draw(some.sampled_from(list(VALUES)))
    kind, values = VALUES[name]
    able = [each for each in TRANSFORMS if each.can_transform(kind)]
    chosen = draw(some.lists(some.sampled_from(able), min_size=1, max_size=2))
    spec = PartitionSpec(
        *(PartitionField(FIELDS[name].field_id, 1000 + at, each, f"p{at}") for at, each in enumerate(chosen))
    )
    nan = some.just(math.nan) if name in ("float", "double") else some.nothing()
    rows = draw(some.lists(some.none() | values | nan, min_size=1, max_size=5))
    partitions = [Record(*(each.transform(kind)(row) for each in chosen)) for row in rows]
    return name, spec, draw(filters(name)), rows, partitions


def files_of(spec: PartitionSpec, partitions: list[Record], schema: Schema = SCHEMA) -> ListedFiles:
    return ListedFiles(
        [
            DataFileV3.from_args(
                content=DataFileContent.DATA,
                file_path="file:///a",
                file_format=FileFormat.PARQUET,
                partition=partition,
                record_count=1,
                file_size_in_bytes=1,
            )
            for partition in partitions
        ],
        spec.partition_type(schema),
    )


@pytest.mark.slow
@given(cases())
def test_no_partition_with_a_matching_row_is_skipped_and_no_less_than_by_pyiceberg(
    case: tuple[str, PartitionSpec, BooleanExpression, list[Any], list[Record]],
) -> None:
    _, spec, expression, rows, partitions = case
    projected = inclusive_projection(SCHEMA, spec)(expression)
    kept = PartitionFilter(spec, SCHEMA, projected).may_match(files_of(spec, partitions))
    partition_schema = Schema(*spec.partition_type(SCHEMA).fields)
    theirs = expression_evaluator(partition_schema, projected, True)
    bound = bind(SCHEMA, rewrite_not(expression), True)
    for row, partition, is_kept in zip(rows, partitions, kept, strict=True):
        assert is_kept or not holds(bound, row, NEGATIONS), (expression, row)
        assert is_kept == theirs(partition), (projected, partition)


@pytest.mark.slow
@given(cases())
def test_a_residual_says_of_the_rows_of_its_partition_what_the_filter_says(
    case: tuple[str, PartitionSpec, BooleanExpression, list[Any], list[Record]],
) -> None:
    _, spec, expression, rows, partitions = case
    bound = bind(SCHEMA, rewrite_not(expression), True)
    residuals = Residuals(spec, SCHEMA, expression).of(files_of(spec, partitions), np.arange(len(rows)))
    for row, residual in zip(rows, residuals, strict=True):
        left = bind(SCHEMA, rewrite_not(residual), True)
        assert holds(left, row) is holds(bound, row), (expression, row, residual)


@pytest.mark.slow
@given(cases())
def test_no_residual_is_longer_than_pyicebergs(
    case: tuple[str, PartitionSpec, BooleanExpression, list[Any], list[Record]],
) -> None:
    _, spec, expression, rows, partitions = case
    if any(row is None for row in rows):
        return  # PyIceberg fails
    theirs = residual_evaluator_of(spec, rewrite_not(expression), True, SCHEMA)
    residuals = Residuals(spec, SCHEMA, expression).of(files_of(spec, partitions), np.arange(len(rows)))
    for partition, residual in zip(partitions, residuals, strict=True):
        assert rewrite_not(residual) == theirs.residual_for(partition)


DAYS = PartitionSpec(
    PartitionField(FIELDS["ts"].field_id, 1000, DayTransform(), "day"),
    PartitionField(FIELDS["int"].field_id, 1001, IdentityTransform(), "int"),
)


def test_residuals_are_shared_by_the_partitions_that_answer_alike() -> None:
    expression = And(ex.GreaterThanOrEqual("ts", "1970-01-03T00:00:01"), ex.EqualTo("long", 5))
    partitions = [Record(day, day % 7) for day in range(5)] * 100
    residuals = Residuals(DAYS, SCHEMA, expression).of(files_of(DAYS, partitions), np.arange(500))
    assert len({id(each) for each in residuals}) == 3
    assert residuals[:5] == [AlwaysFalse(), AlwaysFalse(), expression, ex.EqualTo("long", 5), ex.EqualTo("long", 5)]
    assert residuals[2] is expression
    chosen = Residuals(DAYS, SCHEMA, expression).of(files_of(DAYS, partitions), np.array([3, 7]))
    assert chosen == [ex.EqualTo("long", 5), expression]
    assert Residuals(DAYS, SCHEMA, expression).of(files_of(DAYS, partitions), np.array([], np.int64)) == []


def test_a_null_partition_in_a_disjunction_has_a_residual() -> None:
    expression = Or(ex.LessThan("int", 5), ex.EqualTo("long", 1))
    files = files_of(DAYS, [Record(None, None), Record(1, 4)])
    assert Residuals(DAYS, SCHEMA, expression).of(files, np.arange(2)) == [ex.EqualTo("long", 1), AlwaysTrue()]
    with pytest.raises(TypeError, match="NoneType"):  # once PyIceberg has a residual, only our speed is left
        residual_evaluator_of(DAYS, expression, True, SCHEMA).residual_for(Record(None, None))


def test_unpartitioned_files_keep_the_filter_itself() -> None:
    expression = ex.Not(ex.LessThan("int", 5))
    spec = PartitionSpec()
    assert Residuals(spec, SCHEMA, expression).of(files_of(spec, [Record()]), np.array([0]))[0] is expression
    everything = Residuals(spec, SCHEMA, AlwaysTrue()).of(files_of(spec, [Record()]), np.array([0]))
    assert everything == [AlwaysTrue()]


def test_a_field_of_a_null_struct_has_a_null_partition() -> None:
    spec = PartitionSpec(PartitionField(51, 1000, IdentityTransform(), "inner"))
    files = files_of(spec, [Record(None), Record(5)])
    assert PartitionFilter(spec, SCHEMA, ex.IsNull("inner")).may_match(files).tolist() == [True, False]
    assert Residuals(spec, SCHEMA, ex.IsNull("s.inner")).of(files, np.arange(2)) == [AlwaysTrue(), AlwaysFalse()]


def test_a_source_that_was_dropped_is_no_obstacle() -> None:
    spec = PartitionSpec(
        PartitionField(99, 1000, VoidTransform(), "gone"),
        PartitionField(FIELDS["int"].field_id, 1001, IdentityTransform(), "int"),
    )
    files = files_of(spec, [Record(None, 4), Record(None, 5)])
    assert PartitionFilter(spec, SCHEMA, ex.EqualTo("int", 5)).may_match(files).tolist() == [False, True]


def test_a_list_with_values_too_large_for_the_partition_does_not_hold_its_greatest() -> None:
    expression = ex.NotIn("int", [3_000_000_000, 5])
    files = files_of(DAYS, [Record(0, 2**31 - 1), Record(0, 5)])
    assert PartitionFilter(DAYS, SCHEMA, expression).may_match(files).tolist() == [True, False]
    assert Residuals(DAYS, SCHEMA, expression).of(files, np.arange(2)) == [AlwaysTrue(), AlwaysFalse()]
