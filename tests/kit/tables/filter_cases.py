"""Rows of a column, the statistics of a file with these rows, and filters with what they say of a row."""

from __future__ import annotations

import math
import operator
import struct
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as some
from pyiceberg import expressions
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    Or,
)
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
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
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.decimal import decimal_to_unscaled, unscaled_to_decimal

from sealberg.metadata.manifest import DataFileV3

if TYPE_CHECKING:
    from collections.abc import Callable

ex: Any = expressions  # its constructors take names and values, which mypy does not know
EPOCH = date(1970, 1, 1)
LONG = some.integers(-(2**63), 2**63 - 1)
FEW = some.integers(-3, 3)
SPECIAL = some.sampled_from([0.0, -0.0, 1.5, -1.5, 0.1, 0.7, math.inf, -math.inf])
FLOATS = SPECIAL | some.floats(width=32, allow_nan=False)
LETTERS = some.text("ab\u00e9\U0001f511\ud7ff\uffff", max_size=5)
SMALL_BYTES = some.binary(max_size=3) | some.sampled_from([b"\x7f", b"\x80", b"\xff\xff"])
UUIDS = some.sampled_from([0x00, 0x01, 0x7F, 0x80, 0x90, 0xFF]).flatmap(
    lambda first: some.binary(min_size=1, max_size=1).map(lambda last: bytes([first]) + bytes(7) + last + bytes(7))
)
UNSCALED = some.integers(-400, 400) | some.integers(-(10**38) + 1, 10**38 - 1)

# For each type, its values in the form of PyIceberg's literals.
VALUES: dict[str, tuple[Any, some.SearchStrategy[Any]]] = {
    "bool": (BooleanType(), some.booleans()),
    "int": (IntegerType(), FEW | some.integers(-(2**31), 2**31 - 1)),
    "long": (LongType(), FEW | LONG),
    "float": (FloatType(), FLOATS),
    "double": (DoubleType(), FLOATS | some.floats(allow_nan=False)),
    "date": (DateType(), FEW | some.integers(-40_000, 40_000)),
    "time": (TimeType(), some.integers(0, 5) | some.integers(0, 86_399_999_999)),
    "ts": (TimestampType(), some.sampled_from([-86_400_000_000, 0, 1, 86_400_000_000, 86_400_000_001]) | FEW),
    "tstz": (TimestamptzType(), FEW),
    "string": (StringType(), LETTERS),
    "binary": (BinaryType(), SMALL_BYTES),
    "fixed": (FixedType(2), some.binary(min_size=2, max_size=2)),
    "uuid": (UUIDType(), UUIDS),
    "decimal": (DecimalType(38, 2), UNSCALED.map(lambda unscaled: unscaled_to_decimal(unscaled, 2))),
}
FIELDS = {name: NestedField(at, name, kind) for at, (name, (kind, _)) in enumerate(VALUES.items(), 1)}
NANOS = NestedField(90, "nanos", TimestampNanoType())
INNER = NestedField(92, "inner", IntegerType(), required=True)
SCHEMA = Schema(*FIELDS.values(), NANOS, NestedField(91, "s", StructType(INNER)))
OPERATORS: dict[type, Callable[[Any, Any], bool]] = {
    ex.LessThan: operator.lt,
    ex.LessThanOrEqual: operator.le,
    ex.GreaterThan: operator.gt,
    ex.GreaterThanOrEqual: operator.ge,
    ex.EqualTo: operator.eq,
    ex.NotEqualTo: operator.ne,
}


def is_nan(row: Any) -> bool:
    return isinstance(row, float) and math.isnan(row)


# -- the truth: rows, their statistics, and predicates as functions of a row ---------------------------


def truncated_upper(text: str, length: int) -> str | None:
    if len(text) <= length:
        return text
    for at in range(length - 1, -1, -1):
        following = ord(text[at]) + 1
        if following == 0xD800:
            following = 0xE000
        if following <= 0x10FFFF:
            return text[:at] + chr(following)
    return None


def fits_float(value: float) -> bool:
    with np.errstate(over="ignore"):
        return float(np.float32(value)) == value


def stored(name: str, value: Any, *, narrow: bool) -> bytes:
    """A bound as it is stored, in the type that the column was promoted from if `narrow` and the value allows it."""
    kind = VALUES[name][0]
    if narrow and name == "long" and -(2**31) <= value < 2**31:
        return struct.pack("<i", value)
    if narrow and name == "double" and fits_float(value):
        return struct.pack("<f", value)
    if name == "float":
        return struct.pack("<f", value)
    if name == "decimal" and narrow:
        unscaled = decimal_to_unscaled(value)
        return unscaled.to_bytes(20, "big", signed=True)
    return to_bytes(kind, value)


@some.composite
def columns(draw: Any) -> tuple[str, list[Any], dict[str, Any]]:
    """A column's name, its rows, and the statistics of a file with these rows."""
    name = draw(some.sampled_from(list(VALUES)))
    values = VALUES[name][1]
    if name == "ts" and draw(some.booleans()):  # was a date
        days = draw(some.lists(some.none() | some.integers(-2, 2), min_size=1, max_size=4))
        rows: list[Any] = [None if day is None else day * 86_400_000_000 for day in days]
        present: list[Any] = [day for day in days if day is not None]
        statistics = (
            {"lower": struct.pack("<i", min(present)), "upper": struct.pack("<i", max(present))} if present else {}
        )
        return name, rows, {**statistics, "values": len(rows), "nulls": rows.count(None)}
    if name in ("float", "double"):
        values = values | some.just(math.nan)
    rows = draw(some.lists(some.none() | values, min_size=1, max_size=4))
    if name == "float":
        rows = [None if row is None else float(np.float32(row)) for row in rows]
    present = [row for row in rows if row is not None and not is_nan(row)]
    nans = sum(is_nan(row) for row in rows)
    found: dict[str, Any] = {"values": len(rows), "nulls": rows.count(None), "nans": nans}
    if name not in ("float", "double"):
        del found["nans"]
    if present:
        lower, upper = min(present), max(present)
        if name == "string":
            length = draw(some.integers(1, 3))
            lower, upper = lower[:length], truncated_upper(upper, length)
        elif name == "binary":
            lower = lower[:1]
        elif name == "uuid" and draw(some.booleans()):  # one row in each row group, joined in Java's order
            lower, upper = min(present, key=signed), max(present, key=signed)
        narrow = draw(some.booleans())
        found["lower"] = stored(name, lower, narrow=narrow)
        if upper is not None:
            found["upper"] = stored(name, upper, narrow=narrow)
        if nans and draw(some.booleans()):  # ORC
            found["lower"] = found["upper"] = stored(name, math.nan, narrow=False)
    for missing in draw(some.sets(some.sampled_from(["values", "nulls", "nans", "lower", "upper"]), max_size=2)):
        found.pop(missing, None)
    return name, rows, found


def signed(uuid: bytes) -> tuple[int, int]:
    high, low = struct.unpack(">qq", uuid)
    return high, low


def file_of(name: str, rows: list[Any], found: dict[str, Any], *, partition: Record | None = None) -> DataFileV3:
    at = FIELDS[name].field_id

    def statistic(key: str) -> dict[int, Any] | None:
        return {at: found[key]} if key in found else None

    return DataFileV3.from_args(
        content=DataFileContent.DATA,
        file_path="file:///a",
        file_format=FileFormat.PARQUET,
        partition=partition or Record(),
        record_count=len(rows),
        file_size_in_bytes=1,
        value_counts=statistic("values"),
        null_value_counts=statistic("nulls"),
        nan_value_counts=statistic("nans"),
        lower_bounds=statistic("lower"),
        upper_bounds=statistic("upper"),
    )


@some.composite
def predicates(draw: Any, name: str) -> tuple[BooleanExpression, Callable[[Any], bool]]:
    """A predicate, and what it says of a row. Null matches a negation, as in Java: whoever differs matches less."""
    _, values = VALUES[name]

    def rounded(value: Any) -> Any:
        return float(np.float32(value)) if name == "float" else value

    which = draw(some.integers(0, 9))
    if which == 0:
        return ex.IsNull(name), lambda row: row is None
    if which == 1:
        return ex.NotNull(name), lambda row: row is not None
    if which == 2:
        return ex.IsNaN(name), is_nan
    if which == 3:
        return ex.NotNaN(name), lambda row: not is_nan(row)
    if which == 4 and name == "string":
        prefix = draw(LETTERS)
        if draw(some.booleans()):
            return ex.StartsWith(name, prefix), lambda row: row is not None and row.startswith(prefix)
        return ex.NotStartsWith(name, prefix), lambda row: row is None or not row.startswith(prefix)
    if which in (5, 6):
        listed = draw(some.lists(values, min_size=2, max_size=4))
        literals = [literal_of(name, value) for value in listed]
        among = {rounded(value) for value in listed}
        if which == 5:
            return ex.In(name, literals), lambda row: row is not None and row in among
        # pyarrow distinguishes 0.0 from -0.0 in lists.
        return ex.NotIn(
            name, literals
        ), lambda row: row is None or row not in among or (isinstance(row, float) and row == 0)
    kind = draw(some.sampled_from(list(OPERATORS)))
    value = draw(values)
    compare = OPERATORS[kind]
    if kind is ex.NotEqualTo:
        return ex.NotEqualTo(name, literal_of(name, value)), lambda row: row is None or row != rounded(value)
    return kind(name, literal_of(name, value)), lambda row: row is not None and compare(row, rounded(value))


def literal_of(name: str, value: Any) -> Any:
    if name == "date":
        return EPOCH + timedelta(days=value)
    if name in ("ts", "tstz"):
        return datetime.fromisoformat("1970-01-01") + timedelta(microseconds=value)
    return value


@some.composite
def filters(draw: Any, name: str) -> tuple[BooleanExpression, Callable[[Any], bool]]:
    left, left_says = draw(predicates(name))
    match draw(some.integers(0, 3)):
        case 0:
            right, right_says = draw(predicates(name))
            return And(left, right), lambda row: left_says(row) and right_says(row)
        case 1:
            right, right_says = draw(predicates(name))
            return Or(left, right), lambda row: left_says(row) or right_says(row)
        case _:
            return left, left_says


@some.composite
def cases(draw: Any) -> tuple[str, list[tuple[list[Any], dict[str, Any]]], BooleanExpression, Callable[[Any], bool]]:
    name, rows, found = draw(columns())
    expression, says = draw(filters(name))
    others = [each for each in draw(some.lists(columns(), max_size=2)) if each[0] == name]
    return name, [(rows, found), *((more, theirs) for _, more, theirs in others)], expression, says
