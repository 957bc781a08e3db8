"""An `in` of many values, narrowed to the bounds of each file, finds the rows that the general filter finds."""

from __future__ import annotations

import math
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg import expressions
from pyiceberg.expressions.visitors import bind
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from kit.tables.tables import sealed_catalog
from sealberg.scan import narrowed_in
from sealberg.scan.narrowed_in import LEAST, narrowed_ins

if TYPE_CHECKING:
    from pathlib import Path

# mypy takes PyIceberg's expressions for pydantic models without constructors of their own.
And: Any = expressions.And
Or: Any = expressions.Or
In: Any = expressions.In
NotIn: Any = expressions.NotIn

SCHEMA = Schema(
    NestedField(1, "i", IntegerType()),
    NestedField(2, "n", LongType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "d", DateType()),
    NestedField(5, "f", DoubleType()),
    NestedField(6, "inner", StructType(NestedField(7, "n", LongType()))),
)
MANY = range(0, 2 * LEAST, 2)


class Bounds:
    """A data file, as far as bounds matter."""

    def __init__(self, lower: dict[int, bytes] | None, upper: dict[int, bytes] | None) -> None:
        self.lower_bounds, self.upper_bounds = lower, upper


def narrowed(expression: Any) -> Any:
    return narrowed_ins(bind(SCHEMA, expression, case_sensitive=True), SCHEMA)


def between(expression: Any, field_id: int, lower: bytes | None, upper: bytes | None) -> list[Any] | None:
    (part,) = narrowed(expression)
    bounds: Any = Bounds(*({field_id: each} if each is not None else None for each in (lower, upper)))
    found = part.between_bounds(bounds)
    return None if found is None else found.to_pylist()


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little", signed=True)


def test_values_between_the_bounds_both_included() -> None:
    assert between(In("n", MANY), 2, number(4, 8), number(8, 8)) == [4, 6, 8]
    assert between(In("n", MANY), 2, number(5, 8), number(7, 8)) == [6]
    assert between(In("n", MANY), 2, number(5, 8), number(5, 8)) == []
    assert between(In("n", [v - 10 for v in MANY]), 2, number(-9, 8), number(-5, 8)) == [-8, -6]


def test_a_long_that_was_an_int_has_bounds_of_four_bytes() -> None:
    assert between(In("n", MANY), 2, number(4, 4), number(8, 8)) == [4, 6, 8]
    assert between(In("n", [v - 10 for v in MANY]), 2, number(-9, 4), number(-5, 4)) == [-8, -6]


@pytest.mark.parametrize(("lower", "upper"), [(None, b"\0" * 8), (b"\0" * 8, None), (b"\0" * 3, b"\0" * 8)])
def test_without_two_bounds_that_are_understood_nothing_is_narrowed(lower: bytes | None, upper: bytes | None) -> None:
    assert between(In("n", MANY), 2, lower, upper) is None


def test_strings_are_ordered_as_utf_8() -> None:
    values = [f"k{v:04}" for v in MANY] + ["\uffff", "\U0001f600", "é"]
    assert between(In("s", values), 3, b"k0004", b"k0008") == ["k0004", "k0006", "k0008"]
    assert between(In("s", values), 3, b"k9", "\U0001f601".encode()) == ["é", "\uffff", "\U0001f600"]
    assert between(In("s", values), 3, b"k00", b"k0005") == ["k0000", "k0002", "k0004"], "cut short, rounded up"


def test_dates() -> None:
    first = date(2020, 1, 1)
    days = (first - date(1970, 1, 1)).days
    values = [first + timedelta(days=v) for v in MANY]
    assert between(In("d", values), 4, number(days + 1, 4), number(days + 4, 4)) == [values[1], values[2]]


@pytest.mark.parametrize(
    "expression",
    [
        In("f", [float(v) for v in MANY]),
        In("inner.n", MANY),
        In("n", range(LEAST - 1)),
        NotIn("n", MANY),
        Or(In("n", MANY), In("i", MANY)),
        And(In("n", MANY), In("f", [0.5, 1.5])),
    ],
)
def test_other_filters_are_left_to_the_general_one(expression: Any) -> None:
    assert narrowed(expression) == ()


def test_an_upsert_by_two_columns_is_narrowed_in_both() -> None:
    assert [part.field.name for part in narrowed(And(In("n", MANY), In("s", ["a", "b"])))] == ["n", "s"]


# -- whole tables -------------------------------------------------------------------------------------

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [*range(-300, 300), None]),
    "long": (pa.int64(), [*range(-(2**40), -(2**40) + 600), None]),
    "string": (pa.string(), [*(f"{'long prefix ' * 3}{v:05}é" for v in range(600)), None, ""]),
    "date": (pa.date32(), [*(date(1960, 1, 1) + timedelta(days=v) for v in range(600)), None]),
    "double": (pa.float64(), [*(v / 2 for v in range(-300, 300)), None, math.nan, -0.0]),
}


def matching(table: Any, wanted: list[Any]) -> list[int]:
    found = table.scan(row_filter=In("x", wanted), selected_fields=("n",)).to_arrow()
    return sorted(found["n"].to_pylist())


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("bounds", ["full", "truncate(4)", "counts"])
def test_a_scan_finds_what_the_general_filter_finds(
    tmp_path: Path, kind: str, bounds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow, values = COLUMNS[kind]
    given = pa.table({"n": pa.array(range(len(values)), pa.int64()), "x": pa.array(values, arrow)})
    with sealed_catalog(tmp_path) as catalog:
        properties = {"encryption.key-id": "hr", "write.metadata.metrics.column.x": bounds}
        table: Any = catalog.create_table("hr.narrowed", given.schema, properties=properties)
        step = len(values) // 4
        with table.transaction() as transaction:
            for at in range(0, len(values), step):
                transaction.append(given.slice(at, step))
        wanted = [value for value in values[::3] if value is not None and value == value]  # noqa: PLR0124
        assert len(wanted) >= LEAST
        found = matching(table, wanted)
        monkeypatch.setattr(narrowed_in, "LEAST", 1 << 30)
        assert matching(table, wanted) == found
        expected = {at for at, value in enumerate(values) if value in wanted}
        assert expected <= {*found}


def test_files_from_before_a_promotion_and_without_the_column(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        first = pa.table({"n": pa.array([1, 2, 3], pa.int32())})
        table: Any = catalog.create_table("hr.promoted", first.schema, properties={"encryption.key-id": "hr"})
        table.append(first)
        with table.update_schema() as update:
            update.update_column("n", LongType())
            update.add_column("x", LongType())
        table.append(pa.table({"n": [4, 5, 2**40], "x": [4, None, 2**40]}))
        wanted = [2, 3, 4, 2**40, *range(1000, 1000 + LEAST)]
        assert sorted(table.scan(row_filter=In("n", wanted)).to_arrow()["n"].to_pylist()) == [2, 3, 4, 2**40]
        assert sorted(table.scan(row_filter=In("x", wanted)).to_arrow()["n"].to_pylist()) == [4, 2**40]


def test_an_upsert_updates_and_inserts_what_it_names(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        given = pa.table({"id": pa.array(range(1000), pa.int64()), "v": ["old"] * 1000})
        properties = {"encryption.key-id": "hr", "write.update.mode": "merge-on-read"}
        table: Any = catalog.create_table("hr.upserted", given.schema, properties=properties)
        for at in range(0, 1000, 250):
            table.append(given.slice(at, 250))
        keys = [*range(0, 1000, 7), -5, 5000]
        result = table.upsert(pa.table({"id": keys, "v": ["new"] * len(keys)}), join_cols=["id"])
        assert (result.rows_updated, result.rows_inserted) == (len(keys) - 2, 2)
        found = table.scan().to_arrow()
        assert sorted(found.filter(pa.compute.equal(found["v"], "new"))["id"].to_pylist()) == sorted(keys)
        assert found.num_rows == 1002
