"""A row that comes meanwhile and that the filter of a change finds stops the change, whatever the type of its column.

    A stages delete(filter) ── B appends rows ── A commits: refused, or the table has no row that the filter finds

The truth is the reader: it evaluates the filter on rows.
"""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from pyiceberg.exceptions import ValidationException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
)
from pyiceberg.types import IntegerType, LongType, NestedField, StructType

from kit.examples import examples
from kit.tables.filter_cases import VALUES, cases, ex
from kit.tables.tables import sealed_catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.expressions import BooleanExpression

pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match any records")

TRANSFORMS: list[Transform[Any, Any]] = [
    IdentityTransform(),
    BucketTransform(4),
    TruncateTransform(2),
    DayTransform(),
    MonthTransform(),
]
MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with sealed_catalog(tmp_path_factory.mktemp("conflicts")) as made:
        yield made


class Two:
    """A table that two processes have loaded."""

    def __init__(self, catalog: Any, schema: Schema, spec: PartitionSpec | None = None, **properties: str) -> None:
        if catalog.table_exists("hr.t"):
            catalog.purge_table("hr.t")
        given = {"encryption.key-id": "hr", **properties}
        partitions = PartitionSpec() if spec is None else spec
        self.one = catalog.create_table("hr.t", schema, partition_spec=partitions, properties=given)
        self.other = catalog.load_table("hr.t")
        self.arrow = schema.as_arrow()

    def rows(self, values: list[Any]) -> pa.Table:
        return pa.table([pa.array(values, self.arrow.field(0).type)], schema=self.arrow)

    def is_refused(self, expression: Any, values: list[Any]) -> bool:
        """Whether a delete that was staged before somebody appended these values is refused."""
        change = self.one.transaction()
        change.delete(expression)
        self.other.append(self.rows(values))
        try:
            change.commit_transaction()
        except ValidationException:
            return True
        return False


@pytest.mark.slow
@settings(parent=examples(0.3), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(cases(), some.none() | some.sampled_from(TRANSFORMS), some.booleans())
def test_a_matching_row_that_came_meanwhile_is_never_missed(
    catalog: Any,
    case: tuple[str, list[tuple[list[Any], dict[str, Any]]], BooleanExpression, Callable[[Any], bool]],
    transform: Transform[Any, Any] | None,
    in_place: bool,
) -> None:
    name, files, expression, _ = case
    kind = VALUES[name][0]
    spec = None
    if transform is not None and transform.can_transform(kind):
        spec = PartitionSpec(PartitionField(1, 1000, transform, "p"))
    both = Two(catalog, Schema(NestedField(1, name, kind)), spec, **(MERGE_ON_READ if in_place else {}))
    rows = [row for values, _ in files for row in values]
    if not both.is_refused(expression, rows):
        left = catalog.load_table("hr.t").scan(expression).to_arrow()
        assert left.num_rows == 0, (expression, rows, left)


# A value of each type, and one beyond it.
PAIRS: dict[str, tuple[Any, Any]] = {
    "bool": (False, True),
    "int": (5, 7),
    "long": (2**40, 2**41),
    "float": (0.1, 0.7),
    "double": (0.1, 0.7),
    "date": (date(2026, 1, 2), date(2026, 1, 4)),
    "string": ("\U0001f511", "\U0001f512"),
    "binary": (b"\x7f", b"\x80"),
    "fixed": (b"ab", b"zz"),
    "uuid": (UUID(int=1).bytes, UUID(int=2**127 + 5).bytes),
    "decimal": (Decimal("7.01"), Decimal("14.20")),
}


@pytest.mark.parametrize("name", PAIRS)
def test_equal_values_conflict_and_others_do_not(catalog: Any, name: str) -> None:
    low, high = PAIRS[name]
    for expression, refused, passed in (
        (ex.EqualTo("x", low), low, high),
        (ex.In("x", [low, low]), low, high),
        (ex.LessThan("x", high), low, high),
        (ex.LessThanOrEqual("x", low), low, high),
        (ex.GreaterThan("x", low), high, low),
        (ex.GreaterThanOrEqual("x", high), high, low),
        (ex.IsNull("x"), None, low),
        (ex.NotNull("x"), low, None),
    ):
        kind = VALUES[name][0]
        assert Two(catalog, Schema(NestedField(1, "x", kind))).is_refused(expression, [refused]), expression
        assert not Two(catalog, Schema(NestedField(1, "x", kind))).is_refused(expression, [passed]), expression


@pytest.mark.parametrize("name", ["float", "double"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.0, -0.0, 1e-300])
def test_special_numbers_conflict(catalog: Any, name: str, value: float) -> None:
    both = Two(catalog, Schema(NestedField(1, "x", VALUES[name][0])))
    assert both.is_refused(ex.EqualTo("x", value), [value])
    both = Two(catalog, Schema(NestedField(1, "x", VALUES[name][0])))
    assert both.is_refused(ex.IsNaN("x"), [math.nan])


def test_a_required_field_of_a_null_struct_conflicts_with_is_null(catalog: Any) -> None:
    inner = NestedField(2, "a", IntegerType(), required=True)
    both = Two(catalog, Schema(NestedField(1, "x", StructType(inner))))
    assert both.is_refused(ex.IsNull("x.a"), [None])


def test_a_partition_field_of_a_column_that_the_filter_does_not_know_conflicts(catalog: Any) -> None:
    both = Two(catalog, Schema(NestedField(1, "x", LongType())))
    change = both.one.transaction()
    change.delete(ex.EqualTo("x", 1))
    with both.other.update_schema() as schema:
        schema.add_column("y", LongType())
    with both.other.update_spec() as spec:
        spec.add_identity("y")
    both.other.append(pa.table({"x": [1], "y": [2]}))
    with pytest.raises(ValidationException, match="Found conflicting files"):
        change.commit_transaction()
