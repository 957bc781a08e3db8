"""Theta sketches: hashes against mmh3 and PyIceberg's bytes, sketches against the package datasketches."""

from __future__ import annotations

import datetime as dt
import os
import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import datasketches
import mmh3
import pyarrow as pa
import pytest
from pyiceberg.conversions import to_bytes
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
    StringType,
    TimestampType,
    TimeType,
    UUIDType,
)

from sealberg.errors import FormatError, UnsupportedError
from sealberg.files.puffin.theta_sketch import NOMINAL, ThetaSketch
from sealberg.files.puffin.value_hash import SketchBuilder, hashes_of

DAY = dt.date(2024, 2, 29)
VALUES: dict[Any, tuple[pa.DataType, list[Any]]] = {
    BooleanType(): (pa.bool_(), [True, False]),
    IntegerType(): (pa.int32(), [0, -1, 1 << 30, -(1 << 31)]),
    LongType(): (pa.int64(), [0, -1, 1 << 62]),
    FloatType(): (pa.float32(), [0.0, -0.0, 1.5]),
    DoubleType(): (pa.float64(), [0.0, -0.0, 1e300]),
    DateType(): (pa.date32(), [DAY, dt.date(1969, 12, 31)]),
    TimeType(): (pa.time64("us"), [dt.time(1, 2, 3, 4)]),
    TimestampType(): (pa.timestamp("us"), [dt.datetime(2024, 2, 29, 1, 2, 3, 4)]),  # noqa: DTZ001 (without a zone)
    StringType(): (pa.string(), ["a", "naïve", "16 bytes exactly", "x" * 100]),
    BinaryType(): (pa.large_binary(), [bytes(range(length)) for length in range(1, 50)]),
    FixedType(20): (pa.binary(20), [b"f" * 20]),
    UUIDType(): (pa.uuid(), [UUID(int=7)]),
    DecimalType(38, 2): (
        pa.decimal128(38, 2),
        [Decimal(text) for text in ("0.00", "-0.01", "1.27", "1.28", "-1.28", "-1.29", "12345678901234567890.12")],
    ),
}


def hashed(values: pa.Array) -> list[int]:
    return [int(each) for part in hashes_of(values) for each in part]


def sketch_of(*arrays: pa.Array) -> ThetaSketch:
    builder = SketchBuilder()
    for array in arrays:
        builder.add(array)
    return builder.sketch()


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_the_hash_of_a_value_is_that_of_its_iceberg_bytes(kind: Any) -> None:
    arrow, values = VALUES[kind]
    expected = [mmh3.hash64(to_bytes(kind, value), 9001, signed=False)[0] >> 1 for value in values]
    assert hashed(pa.array(values, arrow)) == expected


def test_hashes_are_mmh3s_for_every_length() -> None:
    values = [os.urandom(length) for length in range(1, 130)]
    expected = [mmh3.hash64(value, 9001, signed=False)[0] >> 1 for value in values]
    assert hashed(pa.array(values, pa.binary())) == expected


def test_a_slice_is_hashed_without_its_neighbours() -> None:
    for array in (pa.array(["aa", "b", "cccc", "d"]), pa.array([1, 2, 3, 4]), pa.array([Decimal(7), Decimal(8)] * 2)):
        assert hashed(array.slice(1, 2)) == hashed(array)[1:3]


def test_nulls_and_empty_values_count_for_nothing() -> None:
    assert sketch_of(pa.array(["", None, "x"])).estimate == 1
    assert sketch_of(pa.array([None], pa.int64())).estimate == 0


def test_a_dictionary_counts_the_values_that_its_rows_have() -> None:
    used = pa.DictionaryArray.from_arrays(pa.array([0, 0, 2, None]), pa.array(["a", "b", "c"]))
    assert sketch_of(used).encode() == sketch_of(pa.array(["a", "c"])).encode()


def test_nested_columns_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="list"):
        sketch_of(pa.array([[1]]))


@pytest.mark.parametrize("count", [0, 1, 2, NOMINAL - 1, NOMINAL])
def test_datasketches_reads_an_exact_sketch_and_makes_the_same(count: int) -> None:
    made = sketch_of(pa.array(range(count), pa.int64()))
    read = datasketches.compact_theta_sketch.deserialize(made.encode())
    other = datasketches.update_theta_sketch()
    for value in range(count):
        other.update(value)
    assert made.estimate == count == read.get_estimate() == other.get_estimate()
    assert sorted(read) == sorted(other)


def test_datasketches_reads_an_estimating_sketch_and_estimates_the_same() -> None:
    made = sketch_of(*(pa.array(range(at, at + 10_000), pa.int64()) for at in range(0, 100_000, 10_000)))
    read = datasketches.compact_theta_sketch.deserialize(made.encode())
    assert read.is_estimation_mode()
    assert made.estimate == int(read.get_estimate())
    assert made.estimate == pytest.approx(100_000, rel=0.05)
    assert len(made.hashes) == NOMINAL


def test_a_union_is_the_sketch_of_all_values_in_any_order() -> None:
    parts = [sketch_of(pa.array(range(at, at + 6000), pa.int64())) for at in (0, 3000, 9000)]
    whole = sketch_of(pa.array(range(15_000), pa.int64()))
    assert ThetaSketch.union(parts).encode() == ThetaSketch.union(reversed(parts)).encode() == whole.encode()


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_a_sketch_is_read_back(count: int) -> None:
    blob = sketch_of(pa.array(range(count), pa.int64())).encode()
    assert ThetaSketch.decode(blob).encode() == blob


def test_bytes_that_are_no_sketch_are_refused() -> None:
    good = sketch_of(pa.array([1, 2, 3])).encode()
    twice = good[:16] + 2 * good[16:24] + good[32:]
    for bad in (b"", good[:-1], good + bytes(8), b"\x09" + good[1:], good[:1] + b"\x02" + good[2:], twice):
        with pytest.raises(FormatError):
            ThetaSketch.decode(bad)
    above_theta = struct.pack("<BBBBBBHIfqQ", 3, 3, 3, 0, 0, 26, 0x93CC, 1, 1.0, 5, 6)
    with pytest.raises(FormatError, match="below theta"):
        ThetaSketch.decode(above_theta)
