"""A quick no is one of PyIceberg's own, and it is there where it should be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, NestedField, StringType, TimestampType

from sealberg.metadata.manifest import DataFileV3
from sealberg.pyiceberg_private import InclusiveMetricsEvaluator
from sealberg.scan.bounds_filter import BoundsFilter

KINDS = {
    "i": IntegerType(),
    "l": LongType(),
    "s": StringType(),
    "d": DateType(),
    "t": TimestampType(),
    "f": DoubleType(),
}
SCHEMA = Schema(*(NestedField(at, name, kind) for at, (name, kind) in enumerate(KINDS.items(), 1)))
IDS = {field.name: field.field_id for field in SCHEMA.fields}


def file_with(
    bounds: dict[str, tuple[Any, Any]], *, record_count: int = 10, types: dict[str, Any] | None = None
) -> DataFileV3:
    kinds = {**KINDS, **(types or {})}
    return DataFileV3.from_args(
        content=DataFileContent.DATA,
        file_path="file:///a",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=record_count,
        file_size_in_bytes=1,
        value_counts={IDS[name]: record_count for name in bounds},
        null_value_counts={IDS[name]: 0 for name in bounds},
        lower_bounds={IDS[name]: to_bytes(kinds[name], lower) for name, (lower, _) in bounds.items()},
        upper_bounds={IDS[name]: to_bytes(kinds[name], upper) for name, (_, upper) in bounds.items()},
    )


def quick(expression: str, file: DataFileV3) -> bool:
    return BoundsFilter(bind(SCHEMA, rewrite_not(parse(expression)), True)).rules_out(file)


@pytest.mark.parametrize(
    ("expression", "is_no"),
    [
        ("l < 5", True),
        ("l < 6", False),
        ("l <= 4", True),
        ("l <= 5", False),
        ("l > 9", True),
        ("l > 8", False),
        ("l >= 10", True),
        ("l >= 9", False),
        ("l = 4", True),
        ("l = 10", True),
        ("l = 7", False),
        ("l in (1, 2, 3)", True),
        ("l in (1, 7)", False),
        ("l in (1, 20)", True),
        ("l in (1, 5)", False),
        ("l in (9, 20)", False),
        ("s = 'a'", True),
        ("s = '\u00e9'", True),
        ("s = 'car'", False),
        ("s > 'd'", True),
        ("not l >= 5", True),
        ("s = 'car' and l < 5", True),
        ("f is null and l < 5", True),
        ("l < 5 or s = 'car'", False),
        ("l != 100", False),
        ("l not in (100, 101)", False),
        ("s like 'zz%'", False),
        ("f < -100.0", False),
        ("i < -100", False),
        ("true", False),
    ],
)
def test_what_bounds_rule_out_is_seen(expression: str, is_no: bool) -> None:
    file = file_with({"l": (5, 9), "s": ("bat", "cat"), "f": (0.5, 1.5)})
    assert quick(expression, file) is is_no, "i has no bounds, f may have NaN, and parts of an OR say little"


def test_an_unknown_count_is_no_reason_for_a_no() -> None:
    assert not quick("l < 5", file_with({"l": (5, 9)}, record_count=-1))
    assert not quick("l < 5", file_with({}))


def test_a_column_that_was_widened_is_compared_by_what_its_bounds_meant() -> None:
    was_int = file_with({"l": (-5, 9)}, types={"l": IntegerType()})
    assert quick("l < -5", was_int)
    assert not quick("l < -4", was_int)
    was_date = file_with({"t": (20_000, 20_001)}, types={"t": DateType()})
    assert not quick("t > '2000-01-01T00:00:00'", was_date), "days are no microseconds"


VALUES = {
    "i": some.integers(-5, 5).map(str),
    "l": some.integers(-5, 5).map(str),
    "s": some.text("a\u00e9\u00df\U0001f511", max_size=2).map(lambda text: f"'{text}'"),
}
BOUNDS = {"i": some.integers(-5, 5), "l": some.integers(-5, 5), "s": some.text("a\u00e9\u00df\U0001f511", max_size=2)}


@some.composite
def predicates(draw: Any) -> str:
    name = draw(some.sampled_from(list(VALUES)))
    if draw(some.booleans()):
        values = draw(some.lists(VALUES[name], min_size=2))
        return f"{name} {draw(some.sampled_from(['in', 'not in']))} ({', '.join(values)})"
    return f"{name} {draw(some.sampled_from(['=', '!=', '<', '<=', '>', '>=']))} {draw(VALUES[name])}"


EXPRESSIONS = some.recursive(
    predicates(),
    lambda inner: (
        some.builds("(({}) {} ({}))".format, inner, some.sampled_from(["and", "or"]), inner)
        | some.builds("not ({})".format, inner)
    ),
    max_leaves=4,
)


@given(EXPRESSIONS, some.fixed_dictionaries({name: some.tuples(kind, kind) for name, kind in BOUNDS.items()}))
def test_a_quick_no_is_a_no_of_pyiceberg(expression: str, pairs: dict[str, tuple[Any, Any]]) -> None:
    file = file_with({name: (min(pair), max(pair)) for name, pair in pairs.items()})
    if quick(expression, file):
        assert not InclusiveMetricsEvaluator(SCHEMA, parse(expression)).eval(file)
