"""A literal that its column cannot hold is compared as a number; a null matches no comparison."""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg import expressions
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, DoubleType, FloatType, IntegerType, LongType, NestedField, StringType

from kit.tables.tables import sealed_catalog
from sealberg.scan.filter_literals import fitted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ex: Any = expressions  # its constructors take names and values, which mypy does not know
COMPARISONS: dict[Any, Callable[[Any, Any], bool]] = {
    ex.LessThan: operator.lt,
    ex.LessThanOrEqual: operator.le,
    ex.GreaterThan: operator.gt,
    ex.GreaterThanOrEqual: operator.ge,
    ex.EqualTo: operator.eq,
    ex.NotEqualTo: operator.ne,
}
LARGE = [2**31, 2**40, -(2**31) - 1, 2**63, -(2**70)]
CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "int": (pa.int32(), [None, 0, 5, 2**31 - 1, -(2**31)], [5, 2**31 - 1, *LARGE]),
    "long": (pa.int64(), [None, 0, 5, 2**63 - 1, -(2**63)], [5, 2**63 - 1, *LARGE]),
    "float": (
        pa.float32(),
        [None, math.nan, math.inf, -math.inf, 0.0, 1.5],
        [1.5, 1e300, -1e300, math.inf, -math.inf],
    ),
    "double": (
        pa.float64(),
        [None, math.nan, math.inf, -math.inf, 0.0, 1.5, 1e301],
        [1.5, 1e300, -1e300, math.inf, -math.inf],
    ),
    "decimal": (
        pa.decimal128(9, 2),
        [None, *map(Decimal, ("0.00", "-1.12", "1.10", "9999999.99", "-9999999.99"))],
        [2, *map(Decimal, ("1.1", "-1.1", "1.101", "-1.111", "9999999.991", "-1E+1000", "1E+9"))],
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("partitioned", [False, True], ids=["unpartitioned", "partitioned"])
@pytest.mark.parametrize("kind", CASES)
def test_scans_and_deletes_compare_numbers(tmp_path: Path, kind: str, partitioned: bool) -> None:
    arrow, values, literals = CASES[kind]
    schema = pa.schema([("id", pa.int64()), ("x", arrow)])
    rows = pa.table({"id": range(len(values)), "x": values}, schema=schema)
    with sealed_catalog(tmp_path) as catalog:
        table: Any = catalog.create_table("hr.t", schema, properties={"encryption.key-id": "hr"})
        if partitioned:
            with table.update_spec() as change:
                change.add_identity("x")
        table.append(rows.slice(0, 1))  # a file of nulls alone
        table.append(rows.slice(1))
        first = table.metadata.current_snapshot_id
        for comparison, holds in COMPARISONS.items():
            for literal in literals:
                for row_filter, sense in ((comparison("x", literal), True), (ex.Not(comparison("x", literal)), False)):
                    found = sorted(table.scan(row_filter=row_filter).to_arrow()["id"].to_pylist())
                    expected = [at for at, value in enumerate(values) if _says(holds, value, literal, sense=sense)]
                    assert found == expected, row_filter
                    assert table.scan(row_filter=row_filter).count() == len(expected), row_filter
        for literal in literals[-3:]:
            table.delete(ex.LessThan("x", literal))
            gone = [at for at, value in enumerate(values) if value is not None and value < literal]
            assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [
                at for at in range(len(values)) if at not in gone
            ]
            table.manage_snapshots().rollback_to_snapshot(first).commit()


def _says(holds: Callable[[Any, Any], bool], value: Any, literal: Any, *, sense: bool) -> bool:
    """What the rewritten filter says: NOT (x < 5) is x >= 5, which NaN does not match."""
    if value is None:
        return False
    if not sense:
        opposites = {
            operator.lt: operator.ge,
            operator.le: operator.gt,
            operator.gt: operator.le,
            operator.ge: operator.lt,
            operator.eq: operator.ne,
            operator.ne: operator.eq,
        }
        holds = opposites[holds]
    return holds(value, literal)


SCHEMA = Schema(
    NestedField(1, "i", IntegerType()),
    NestedField(2, "f", FloatType()),
    NestedField(3, "d", DoubleType()),
    NestedField(4, "n", LongType()),
    NestedField(5, "s", StringType()),
    NestedField(6, "c", DecimalType(9, 2)),
)


def test_a_filter_that_fits_is_the_filter_itself() -> None:
    fits = ex.And(ex.Not(ex.EqualTo("i", 5)), ex.Or(ex.LessThan("f", 1.5), ex.In("d", (math.inf, 1.0))))
    fits = ex.And(fits, ex.EqualTo("c", Decimal("1.10")))
    assert fitted(fits, SCHEMA) is fits
    for other in (ex.AlwaysTrue(), ex.EqualTo("s", "x"), ex.LessThan("nothing", 2**40), ex.IsNull("i")):
        assert fitted(other, SCHEMA) is other


def test_infinity_in_a_list_is_that_of_the_column() -> None:
    made: Any = fitted(ex.Or(ex.IsNull("i"), ex.In("f", (math.inf, 1.5))), SCHEMA)
    assert {type(each).__name__ for each in made.right.literals} == {"FloatLiteral", "DoubleLiteral"}


def test_names_are_found_as_the_scan_finds_them() -> None:
    assert fitted(ex.LessThan("I", 2**40), SCHEMA, case_sensitive=False) == ex.NotNull("I")
    assert isinstance(fitted(ex.LessThan("I", 2**40), SCHEMA), expressions.LessThan)


@pytest.mark.parametrize("arrow", [pa.float32(), pa.float64()], ids=["float", "double"])
def test_both_zeros_are_in_a_set_with_one_of_them(tmp_path: Path, arrow: pa.DataType) -> None:
    rows = pa.table({"id": range(6), "x": pa.array([0.0, -0.0, 1.0, None, math.nan, 5.0], arrow)})
    with sealed_catalog(tmp_path) as catalog:
        table: Any = catalog.create_table("hr.t", rows.schema, properties={"encryption.key-id": "hr"})
        table.append(rows)
        for zero in (0.0, -0.0):
            for row_filter, ids in (
                (ex.In("x", (zero, 5.0)), [0, 1, 5]),
                (ex.In("x", (zero, 5.0, 7.0)), [0, 1, 5]),
                (ex.NotIn("x", (zero, 5.0)), [2, 3, 4]),
                (ex.Not(ex.In("x", (zero, 5.0, 7.0))), [2, 3, 4]),
            ):
                assert table.scan(row_filter=row_filter).to_arrow()["id"].to_pylist() == ids
        table.delete(ex.In("x", (0.0, 5.0)))
        assert table.scan().to_arrow()["id"].to_pylist() == [2, 3, 4]


def test_decimals_are_in_a_set_by_their_values(tmp_path: Path) -> None:
    rows = pa.table({"id": range(4), "x": pa.array([None, *map(Decimal, ("1.10", "2", "3"))], pa.decimal128(9, 2))})
    some = tuple(map(Decimal, ("1.1", "2.000", "2.001", "1E+9")))
    with sealed_catalog(tmp_path) as catalog:
        table: Any = catalog.create_table("hr.t", rows.schema, properties={"encryption.key-id": "hr"})
        table.append(rows)
        for row_filter, ids in (
            (ex.In("x", some), [1, 2]),
            (ex.In("x", some[2:]), []),
            (ex.NotIn("x", some), [0, 3]),
            (ex.Not(ex.In("x", some)), [0, 3]),
            ("x == 1.1", [1]),
            ("x > 1.111", [2, 3]),
        ):
            assert table.scan(row_filter=row_filter).to_arrow()["id"].to_pylist() == ids
        table.delete("x == 1.1")
        assert table.scan().to_arrow()["id"].to_pylist() == [0, 2, 3]
