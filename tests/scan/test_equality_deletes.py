"""Equality deletes: rows that go because their values are deleted."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from kit.tables.scan_rows import ID, SCHEMA, field, read, rows
from kit.tables.small_tables import SmallTable
from sealberg.errors import FormatError
from sealberg.scan.equality_deletes import ValueSet

if TYPE_CHECKING:
    from pathlib import Path


def test_null_equals_null_in_every_column(tmp_path: Path) -> None:
    schema = Schema(field(1, "a", LongType()), field(2, "b", StringType()), field(3, "c", DoubleType()))
    small = SmallTable(tmp_path, schema)
    nan = float("nan")
    values = [(a, b, c) for a in (None, 1, 2) for b in (None, "", "x") for c in (None, 0.0, nan)]
    small.snapshot(small.parquet([dict(zip("abc", value, strict=True)) for value in values]))
    deleted = [(None, None, None), (1, None, 0.0), (2, "x", nan), (1, "", None), (7, "x", 0.0)]
    small.snapshot(small.equality_deletes([dict(zip("abc", value, strict=True)) for value in deleted], schema, 1, 2, 3))
    left = [tuple(row.values()) for row in small.table().scan().to_arrow().to_pylist()]
    # As text, for NaN is not equal to itself in Python.
    assert sorted(map(repr, left)) == sorted({repr(value) for value in values} - {repr(value) for value in deleted})


def test_equality_columns_may_be_renamed_widened_dropped_or_added_since(tmp_path: Path) -> None:
    old = Schema(ID, field(2, "k", IntegerType()), field(3, "gone", StringType()))
    new = Schema(ID, field(2, "key", LongType()), field(4, "late", LongType()))
    small = SmallTable(tmp_path, old, new)
    small.snapshot(
        small.parquet([{"id": 1, "k": 5, "gone": "x"}, {"id": 2, "k": 6, "gone": "y"}, {"id": 3, "k": 7}], old),
        small.parquet([{"id": 4, "key": 7, "late": 8}, {"id": 5, "key": 9, "late": 9}], new),
    )
    small.snapshot(small.equality_deletes([{"key": 5}], Schema(new.fields[1]), 2))
    assert [row["id"] for row in read(small)] == [2, 3, 4, 5]
    small.snapshot(small.equality_deletes([{"gone": "y"}], Schema(old.fields[2]), 3))
    assert [row["id"] for row in read(small)] == [3, 4, 5]
    # The rows of the old file have no `late`, so they have null there.
    small.snapshot(small.equality_deletes([{"key": 7, "late": None}], Schema(*new.fields[1:]), 2, 4))
    assert [row["id"] for row in read(small, selected_fields=("id",))] == [4, 5]


def test_rows_can_be_equal_in_a_field_of_a_struct(tmp_path: Path) -> None:
    schema = Schema(ID, field(2, "s", StructType(field(3, "a", LongType()), field(4, "b", LongType()))))
    small = SmallTable(tmp_path, schema)
    small.snapshot(small.parquet([{"id": 1, "s": {"a": 1, "b": 2}}, {"id": 2, "s": {"a": 3, "b": 2}}, {"id": 3}]))
    small.snapshot(small.equality_deletes([{"s": {"a": 3}}, {"s": None}], Schema(schema.fields[1]), 3))
    assert [row["id"] for row in read(small)] == [1]


def test_equality_deletes_by_a_column_that_never_was_are_refused(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(small.parquet(rows(1)))
    small.snapshot(small.equality_deletes([{"x": 1}], Schema(field(99, "x", LongType())), 99))
    with pytest.raises(FormatError, match="field id 99, which is in no schema of the table"):
        small.table().scan().to_arrow()


def test_vectors_positions_and_equal_rows_add_up(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    file, other = small.parquet(rows(1, 2, 3, 4, 5)), small.avro(rows(6, 7, 8, 9))
    small.snapshot(file, other)
    small.snapshot(small.vector({file: [0]}), small.position_deletes((other, 3)))
    small.snapshot(small.equality_deletes([{"id": 3}, {"id": 7}], Schema(ID), 1))
    small.snapshot(small.equality_deletes([{"name": "n5"}], Schema(SCHEMA.fields[1]), 2, avro=True))
    assert read(small) == rows(2, 4, 6, 8)
    assert read(small, "id > 2", limit=2) == rows(4, 6)
    assert small.table().scan("id > 2").count() == 3


def test_a_set_of_rows_has_no_false_friends() -> None:
    # Every pair of 200 x 200, of which those on the diagonal are looked for.
    numbers = list(range(200))
    values = ValueSet([pa.chunked_array([numbers]), pa.chunked_array([[str(number) for number in numbers]])])
    pairs = list(itertools.product(numbers, numbers))
    found = values.contains([pa.array([number for number, _ in pairs]), pa.array([str(other) for _, other in pairs])])
    assert [pair for pair, is_in in zip(pairs, found.to_pylist(), strict=True) if is_in] == [(n, n) for n in numbers]
