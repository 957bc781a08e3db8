"""What is special about the statistics of files, by name: lists, dates, floats, UUIDs, structs, missing counts."""

from __future__ import annotations

import struct
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator as InclusiveMetricsEvaluator
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.typedef import Record

from kit.tables.file_columns import ListedFiles
from kit.tables.filter_cases import EPOCH, SCHEMA, ex, file_of
from sealberg.metadata.manifest import DataFileV3
from sealberg.scan.column_filter import MetricsFilter

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression


def may_match(expression: BooleanExpression, name: str, rows: list[Any], **found: Any) -> bool:
    return bool(MetricsFilter(SCHEMA, expression).may_match(ListedFiles([file_of(name, rows, found)]))[0])


def longs(*numbers: int) -> list[bytes]:
    return [struct.pack("<q", number) for number in numbers]


def test_a_list_of_any_length_is_searched() -> None:
    lower, upper = longs(50, 59)
    tens = ex.In("long", [10 * i for i in range(1000)] + [7])
    assert may_match(tens, "long", [50], lower=lower, upper=upper)
    lower, upper = longs(51, 59)
    assert not may_match(tens, "long", [51], lower=lower, upper=upper), "no multiple of ten is in 51..59"
    texts = ex.In("string", [f"k{i:04}" for i in range(0, 3000, 10)])
    assert not may_match(texts, "string", [""], lower=b"k0011", upper=b"k0019")
    assert may_match(texts, "string", [""], lower=b"k0011", upper=b"k0020")


def test_a_list_with_values_too_large_for_the_column_does_not_hold_its_greatest() -> None:
    most = struct.pack("<i", 2**31 - 1)
    excluded = ex.NotIn("int", [3_000_000_000, 5])
    assert may_match(excluded, "int", [2**31 - 1], lower=most, upper=most, nulls=0, values=1)
    assert not may_match(ex.In("int", [3_000_000_000, 4_000_000_000]), "int", [1], lower=most, upper=most)


def test_bounds_of_what_was_a_date_count_days() -> None:
    lower, upper = (struct.pack("<i", (day - EPOCH).days) for day in (date(2026, 1, 1), date(2026, 1, 3)))
    assert may_match(ex.EqualTo("ts", "2026-01-02T00:00:00"), "ts", [0], lower=lower, upper=upper)
    assert not may_match(ex.EqualTo("ts", "2026-01-04T00:00:00"), "ts", [0], lower=lower, upper=upper)
    assert not may_match(ex.LessThan("ts", "2026-01-01T00:00:00"), "ts", [0], lower=lower, upper=upper)


def test_a_float_is_compared_as_the_reader_compares_it() -> None:
    bound = struct.pack("<f", 0.1)
    assert may_match(ex.EqualTo("float", 0.1), "float", [0.1], lower=bound, upper=bound)
    assert not InclusiveMetricsEvaluator(SCHEMA, ex.EqualTo("float", 0.1)).eval(
        file_of("float", [0.1], {"lower": bound, "upper": bound})
    ), "PyIceberg skips the file; once it does not, this exception goes"


@pytest.mark.parametrize(("lower", "upper", "value", "kept"), [
    (0x01, 0x90, 0x50, True),
    (0x91, 0x3F, 0x50, True),   # row groups 00-3f, 40-90, 91-ff, joined by Java
    (0xA0, 0xFF, 0x05, True),   # row groups 01-90, a0-ff
    (0x30, 0x50, 0x60, True),   # row groups 30-50, 51-90
    (0x10, 0x90, 0x05, False),
    (0x10, 0x90, 0x91, False),
])  # fmt: skip
def test_uuids_that_java_may_hold_are_not_skipped(lower: int, upper: int, value: int, kept: bool) -> None:
    bounds = {"lower": bytes([lower] * 16), "upper": bytes([upper] * 16)}
    assert may_match(ex.EqualTo("uuid", bytes([value] * 16)), "uuid", [b""], **bounds) is kept


def test_uuid_bounds_of_one_row_group_are_exact() -> None:
    class Files(ListedFiles):
        row_group_counts = pa.array([1, 2, None], pa.int32())

    bounds = {"lower": bytes([0x30] * 16), "upper": bytes([0x50] * 16)}
    files = Files([file_of("uuid", [b""], bounds)] * 3)
    for value, kept in (
        (bytes([0x60] * 16), [False, True, True]),
        (bytes([0x50] * 15 + [0x51]), [False, True, True]),
        (bytes([0x50] * 16), [True, True, True]),
        (bytes([0x20] * 16), [False, False, False]),
    ):
        assert MetricsFilter(SCHEMA, ex.EqualTo("uuid", value)).may_match(files).tolist() == kept


def test_a_field_of_a_null_struct_is_null_though_it_is_required() -> None:
    file = DataFileV3.from_args(
        content=DataFileContent.DATA,
        file_path="file:///a",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=2,
        file_size_in_bytes=1,
        value_counts={92: 2},
        null_value_counts={92: 1},
    )
    assert MetricsFilter(SCHEMA, ex.IsNull("s.inner")).may_match(ListedFiles([file]))[0]
    assert not InclusiveMetricsEvaluator(SCHEMA, ex.IsNull("s.inner")).eval(file), "PyIceberg skips the file"


def test_every_value_equal_to_the_literal_does_not_match_its_negation() -> None:
    five, six = longs(5, 6)
    equal = {"lower": five, "upper": five, "values": 2}
    assert not may_match(ex.NotEqualTo("long", 5), "long", [5, 5], nulls=0, **equal)
    assert not may_match(ex.Not(ex.In("long", [4, 5])), "long", [5, 5], nulls=0, **equal)
    assert may_match(ex.NotEqualTo("long", 5), "long", [5, None], nulls=1, **equal)
    assert may_match(ex.NotEqualTo("long", 5), "long", [5, 5], **equal), "nulls are not counted"
    assert may_match(ex.NotEqualTo("long", 5), "long", [5, 6], lower=five, upper=six, nulls=0, values=2)
    zero = struct.pack("<d", 0.0)
    assert may_match(ex.NotEqualTo("double", 0.0), "double", [0.0], lower=zero, upper=zero, nulls=0, values=1)


def test_files_without_rows_and_files_of_unknown_size() -> None:
    five = struct.pack("<q", 5)
    files = [file_of("long", [5] * n, {"lower": five, "upper": five}) for n in (0, 1)]
    filters = (ex.EqualTo("long", 5), ex.EqualTo("long", 6))
    assert [MetricsFilter(SCHEMA, each).may_match(ListedFiles(files)).tolist() for each in filters] == [
        [False, True],
        [False, False],
    ]
    kept = [MetricsFilter(SCHEMA, each, include_empty_files=True).may_match(ListedFiles(files)) for each in filters]
    assert [each.tolist() for each in kept] == [[True, True], [False, False]]


def test_columns_without_statistics_are_kept() -> None:
    bare = ListedFiles([file_of("long", [1], {})])
    for expression in (
        ex.EqualTo("long", 5),
        ex.IsNull("long"),
        ex.NotNull("long"),
        ex.IsNaN("double"),
        ex.IsNull("nanos"),
        ex.StartsWith("string", "a"),
        ex.NotStartsWith("string", "a"),
        ex.In("uuid", [b"0" * 16, b"1" * 16]),
    ):
        assert MetricsFilter(SCHEMA, expression).may_match(bare)[0], expression


def test_bounds_of_any_arrow_layout_are_read() -> None:
    """Slices, nulls between values, values of several widths, large and view layouts."""

    class Files(ListedFiles):
        def __init__(self, bounds: pa.Array) -> None:
            super().__init__([file_of("long", [1], {})] * len(bounds))
            self.bounds = bounds

        def lower_bounds(self, field_id: int) -> Any:
            return self.bounds

    ints = [struct.pack("<q", 1), None, struct.pack("<i", -7), b"xxx", struct.pack("<q", 2**40), None, b""]
    for made in (
        pa.array(ints, pa.binary()),
        pa.array([b"before", *ints, b"after"], pa.binary()).slice(1, len(ints)),
        pa.array(ints, pa.large_binary()),
        pa.array(ints, pa.binary_view()),
        pa.chunked_array([pa.array(ints[:3], pa.binary()), pa.array(ints[3:], pa.binary())]),
    ):
        kept = MetricsFilter(SCHEMA, ex.LessThanOrEqual("long", 1)).may_match(Files(made))
        assert kept.tolist() == [True, True, True, True, False, True, True], made.type


def test_ten_thousand_files_take_no_time() -> None:
    """Loosely: what is measured exactly is in bench/."""
    import time

    numbers = pa.array([struct.pack("<q", i) for i in range(10_000)], pa.binary())

    class Files(ListedFiles):
        record_counts = pa.array([1] * 10_000, pa.int64())

        def __len__(self) -> int:
            return 10_000

        def lower_bounds(self, field_id: int) -> Any:
            return numbers

        upper_bounds = lower_bounds

        def _column(self, name: str, field_id: int, kind: Any) -> Any:
            return None

    chosen = MetricsFilter(SCHEMA, ex.EqualTo("long", 77))
    took = []
    for _ in range(3):
        began = time.thread_time()  # of this thread: a machine may be busy with other things
        assert chosen.may_match(Files([])).sum() == 1
        took.append(time.thread_time() - began)
    assert min(took) < 0.1
