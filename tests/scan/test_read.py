"""Rows of a file as the table has them today: evolved columns, deletes by value, lineage, filters, order."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, NotEqualTo, Reference
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    UUIDType,
)

from kit.tables.small_tables import SmallTable
from sealberg.errors import AuthenticationError, FormatError, PlaintextFileError, UnsupportedError
from sealberg.scan import metadata_columns as lineage
from sealberg.scan.equality_deletes import ValueSet
from sealberg.scan.ordered_streams import in_order

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

LINEAGE = ("_row_id", "_last_updated_sequence_number")


def field(number: int, name: str, kind: IcebergType, **more: Any) -> NestedField:
    return NestedField(number, name, kind, required=more.pop("required", False), **more)


ID = field(1, "id", LongType(), required=True)
SCHEMA = Schema(ID, field(2, "name", StringType()))


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": one, "name": f"n{one}"} for one in ids]


def read(small: SmallTable, *arguments: Any, **scan: Any) -> list[dict[str, Any]]:
    found = small.table().scan(*arguments, **scan)
    whole = found.to_arrow()
    assert found.to_arrow_batch_reader().read_all().equals(whole)
    listed: list[dict[str, Any]] = whole.to_pylist()
    return listed


def formats(test: Any) -> Any:
    return pytest.mark.parametrize("make", ["parquet", "avro"])(test)


def evolved(tmp_path: Path, make: str, old: Schema, new: Schema, written: Any) -> list[dict[str, Any]]:
    """What the rows of the old schema are under the new one."""
    small = SmallTable(tmp_path, old, new)
    small.snapshot(getattr(small, make)(written, old))
    return read(small)


# -- evolution --------------------------------------------------------------------------------


@formats
def test_columns_are_found_by_their_ids(tmp_path: Path, make: str) -> None:
    old = Schema(ID, field(2, "name", StringType()), field(3, "gone", StringType()))
    # A new column has the old name of another one, and the order is another one, too.
    new = Schema(field(4, "name", LongType()), field(2, "title", StringType()), ID)
    assert evolved(tmp_path, make, old, new, [{"id": 1, "name": "x", "gone": "y"}]) == [
        {"name": None, "title": "x", "id": 1}
    ]


@formats
def test_types_are_widened(tmp_path: Path, make: str) -> None:
    old = Schema(field(1, "i", IntegerType()), field(2, "f", FloatType()), field(3, "d", DecimalType(4, 2)))
    new = Schema(field(1, "i", LongType()), field(2, "f", DoubleType()), field(3, "d", DecimalType(20, 2)))
    assert evolved(tmp_path, make, old, new, [{"i": 1, "f": 0.5, "d": Decimal("1.25")}]) == [
        {"i": 1, "f": 0.5, "d": Decimal("1.25")}
    ]


def test_a_date_becomes_a_timestamp(tmp_path: Path) -> None:
    old, new = Schema(field(1, "d", DateType())), Schema(field(1, "d", TimestampType()))
    assert evolved(tmp_path, "parquet", old, new, [{"d": dt.date(2024, 2, 29)}]) == [{"d": dt.datetime(2024, 2, 29)}]  # noqa: DTZ001


def test_a_type_that_cannot_be_widened_is_refused(tmp_path: Path) -> None:
    old, new = Schema(field(1, "d", LongType())), Schema(field(1, "d", IntegerType()))
    with pytest.raises(UnsupportedError, match="type long cannot be read as int"):
        evolved(tmp_path, "parquet", old, new, [{"d": 1}])


@formats
def test_nested_columns_evolve_and_what_was_null_stays_null(tmp_path: Path, make: str) -> None:
    def schema(*inner: NestedField) -> Schema:
        struct = StructType(*inner)
        return Schema(
            field(1, "s", struct),
            field(2, "l", ListType(20, StructType(*_moved(inner, 30)), element_required=False)),
            field(3, "m", MapType(40, StringType(), 41, StructType(*_moved(inner, 50)), value_required=False)),
        )

    old = schema(field(10, "a", IntegerType()), field(11, "b", StringType()))
    new = schema(field(11, "bb", StringType()), field(10, "a", LongType()), field(12, "c", LongType()))
    one, as_new = {"a": 1, "b": "x"}, {"bb": "x", "a": 1, "c": None}
    written = [
        {"s": one, "l": [one, None], "m": [("k", one), ("n", None)]},
        {"s": None, "l": None, "m": None},
        {"s": {"a": None, "b": None}, "l": [], "m": []},
    ]
    assert evolved(tmp_path, make, old, new, written) == [
        {"s": as_new, "l": [as_new, None], "m": [("k", as_new), ("n", None)]},
        {"s": None, "l": None, "m": None},
        {"s": {"bb": None, "a": None, "c": None}, "l": [], "m": []},
    ]


def _moved(fields: tuple[NestedField, ...], by: int) -> list[NestedField]:
    return [field(one.field_id + by, one.name, one.field_type) for one in fields]


def test_a_part_of_a_struct_can_be_selected(tmp_path: Path) -> None:
    small = SmallTable(
        tmp_path, Schema(ID, field(2, "s", StructType(field(3, "a", LongType()), field(4, "b", LongType()))))
    )
    small.snapshot(small.parquet([{"id": 1, "s": {"a": 2, "b": 3}}, {"id": 2, "s": {"a": 4, "b": 5}}]))
    assert read(small, "s.a = 4", selected_fields=("s.b",)) == [{"s": {"b": 5}}]


DEFAULTS: list[tuple[IcebergType, Any]] = [
    (LongType(), 7),
    (StringType(), "x"),
    (DecimalType(9, 2), Decimal("1.20")),
    (DateType(), dt.date(2024, 1, 2)),
    (UUIDType(), uuid.UUID(int=5)),
]


@formats
@pytest.mark.parametrize(("kind", "value"), DEFAULTS, ids=str)
def test_rows_older_than_a_column_have_its_initial_default(
    tmp_path: Path, make: str, kind: IcebergType, value: Any
) -> None:
    added = field(2, "new", kind, required=True, initial_default=value, write_default=value)
    assert evolved(tmp_path, make, Schema(ID), Schema(ID, added), [{"id": 1}]) == [{"id": 1, "new": value}]


def test_an_initial_default_inside_a_struct_does_not_fill_a_null_struct(tmp_path: Path) -> None:
    old = Schema(field(1, "s", StructType(field(2, "a", LongType()))))
    new = Schema(field(1, "s", StructType(field(2, "a", LongType()), field(3, "b", LongType(), initial_default=9))))
    found = evolved(tmp_path, "parquet", old, new, [{"s": {"a": 1}}, {"s": None}])
    assert found == [{"s": {"a": 1, "b": 9}}, {"s": None}]


def test_a_required_column_that_nobody_has_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="column new is required"):
        evolved(tmp_path, "parquet", Schema(ID), Schema(ID, field(2, "new", LongType(), required=True)), [{"id": 1}])


def test_the_partition_knows_the_value_of_a_column_that_the_file_lacks(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"), spec_id=0)
    small = SmallTable(tmp_path, SCHEMA, specs=[spec])
    small.snapshot(small.parquet([{"id": 1}], Schema(ID), partition=("here",)))
    assert read(small) == [{"id": 1, "name": "here"}]
    assert read(small, "name = 'here'") == [{"id": 1, "name": "here"}]
    assert read(small, "name = 'there'") == []


def test_a_snapshot_is_read_and_filtered_with_the_schema_that_it_had(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA, Schema(ID))
    small.schema = small.schemas[0]
    old = small.snapshot(small.parquet(rows(1, 2)))
    assert read(small, "name = 'n2'", snapshot_id=old) == rows(2)
    assert read(small) == [{"id": 1}, {"id": 2}]


# -- equal rows -------------------------------------------------------------------------------


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
    with pytest.raises(FormatError, match="column 99, which no schema of the table has"):
        small.table().scan().to_arrow()


def test_vectors_positions_and_equal_rows_add_up(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    one, other = small.parquet(rows(1, 2, 3, 4, 5)), small.avro(rows(6, 7, 8, 9))
    small.snapshot(one, other)
    small.snapshot(small.vector({one: [0]}), small.position_deletes((other, 3)))
    small.snapshot(small.equality_deletes([{"id": 3}, {"id": 7}], Schema(ID), 1))
    small.snapshot(small.equality_deletes([{"name": "n5"}], Schema(SCHEMA.fields[1]), 2, avro=True))
    assert read(small) == rows(2, 4, 6, 8)
    assert read(small, "id > 2", limit=2) == rows(4, 6)
    assert small.table().scan("id > 2").count() == 3


def test_a_set_of_rows_has_no_false_friends() -> None:
    # Every pair of 200 x 200, of which those on the diagonal are looked for.
    numbers = list(range(200))
    values = ValueSet([pa.chunked_array([numbers]), pa.chunked_array([[str(one) for one in numbers]])])
    pairs = list(itertools.product(numbers, numbers))
    found = values.contains([pa.array([one for one, _ in pairs]), pa.array([str(other) for _, other in pairs])])
    assert [pair for pair, is_in in zip(pairs, found.to_pylist(), strict=True) if is_in] == [(n, n) for n in numbers]


# -- lineage ----------------------------------------------------------------------------------


@formats
def test_rows_inherit_their_ids_and_ages_unless_they_moved(tmp_path: Path, make: str) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(getattr(small, make)(rows(1, 2)))
    moved = Schema(*SCHEMA.fields, lineage.ROW_ID, lineage.LAST_UPDATED)
    kept = {"id": 3, "name": "n3", "_row_id": 77, "_last_updated_sequence_number": 1}
    changed = {"id": 4, "name": "n4", "_row_id": 78, "_last_updated_sequence_number": None}
    new = {"id": 5, "name": "n5", "_row_id": None, "_last_updated_sequence_number": None}
    small.snapshot(getattr(small, make)([kept, changed, new], moved))
    found = read(small, selected_fields=("id", *LINEAGE))
    assert [tuple(row.values()) for row in found] == [(1, 0, 1), (2, 1, 1), (3, 77, 1), (4, 78, 2), (5, 4, 2)]


def test_a_file_without_a_first_row_id_gives_its_rows_none() -> None:
    positions = pa.array([0, 1])
    assert lineage.row_ids(None, None, positions).to_pylist() == [None, None]
    assert lineage.last_updated(None, None, 5, 2).to_pylist() == [None, None]
    assert lineage.last_updated(None, 0, 5, 2).to_pylist() == [5, 5]


@formats
def test_positions_and_ids_are_those_of_the_file_whatever_is_left_of_it(tmp_path: Path, make: str) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    more = {"row_group_rows": 10} if make == "parquet" else {}
    one = getattr(small, make)(rows(*range(100)), **more)
    small.snapshot(one)
    small.snapshot(small.vector({one: [41, 43, 99]}))
    found = read(small, "id >= 40 and id < 45 or id > 97", selected_fields=("_pos", "_row_id", "_file"))
    expected = [40, 42, 44, 98]
    assert found == [{"_pos": one_, "_row_id": one_, "_file": str(one.file_path)} for one_ in expected]
    assert small.table().scan().count() == 97


def test_row_groups_beside_the_filter_are_not_read(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    one = small.parquet(rows(*range(10_000)), row_group_rows=1000)
    small.snapshot(one)
    path = tmp_path / str(one.file_path).rpartition("/")[2]
    content = bytearray(path.read_bytes())
    content[len(content) // 100] ^= 1  # in the first row group
    path.write_bytes(content)
    assert [row["id"] for row in read(small, "id in (5005, 7007)")] == [5005, 7007]
    with pytest.raises(AuthenticationError, match=path.name):
        small.table().scan().to_arrow()


def test_a_column_of_the_table_goes_before_one_of_ours(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, Schema(ID, field(2, "_pos", StringType())))
    small.snapshot(small.parquet([{"id": 1, "_pos": "mine"}]))
    assert read(small, selected_fields=("_pos", "_row_id")) == [{"_pos": "mine", "_row_id": 0}]


def test_an_unknown_column_is_still_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="_nothing"):
        SmallTable(tmp_path, SCHEMA).table().scan(selected_fields=("_nothing", "_row_id")).to_arrow()


# -- filters, limits, order -------------------------------------------------------------------


def test_a_filter_means_the_same_for_old_and_new_files(tmp_path: Path) -> None:
    old, new = Schema(ID, field(2, "x", FloatType())), Schema(ID, field(2, "x", DoubleType()))
    small = SmallTable(tmp_path, old, new)
    small.snapshot(small.parquet([{"id": 1, "x": 0.1}], old), small.parquet([{"id": 2, "x": 0.1}], new))
    # What was a float is not exactly 0.1 as a double.
    assert [row["id"] for row in read(small, "x = 0.1")] == [2]
    assert [row["id"] for row in read(small, "x > 0.1")] == [1]


def test_names_with_dots_and_other_cases_are_found(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, Schema(ID, field(2, "a.b", LongType()), field(3, "Upper", LongType())))
    small.snapshot(small.parquet([{"id": 1, "a.b": 1, "Upper": 1}, {"id": 2, "a.b": 2, "Upper": 2}]))
    assert [row["id"] for row in read(small, "upper = 2", case_sensitive=False)] == [2]
    assert [row["id"] for row in read(small, "a.b = 1")] == [1]


VALUES: list[tuple[IcebergType, Any, Any]] = [
    (UUIDType(), uuid.UUID(int=5), uuid.UUID(int=6)),
    (BinaryType(), b"a", b"b"),
    (FixedType(2), b"aa", b"bb"),
    (DecimalType(20, 3), Decimal("1.250"), Decimal("2.500")),
    (TimeType(), dt.time(1, 2, 3), dt.time(2, 3, 4)),
    (TimestampType(), dt.datetime(2024, 1, 1), dt.datetime(2025, 1, 1)),  # noqa: DTZ001
    (DateType(), dt.date(2024, 1, 1), dt.date(2025, 1, 1)),
    (DoubleType(), 1.5, 2.5),
]


@pytest.mark.parametrize(("kind", "low", "high"), VALUES, ids=str)
def test_columns_of_any_type_are_filtered_and_compared(tmp_path: Path, kind: IcebergType, low: Any, high: Any) -> None:
    small = SmallTable(tmp_path, Schema(field(1, "v", kind)))

    def as_arrow(value: Any) -> Any:
        return value.bytes if isinstance(value, uuid.UUID) else value

    def count(row_filter: Any) -> int:
        return len(read(small, row_filter))

    small.snapshot(small.parquet([{"v": as_arrow(low)}, {"v": as_arrow(high)}, {"v": None}]))
    reference: Any = Reference("v")
    tests: list[Any] = [EqualTo, NotEqualTo, GreaterThan]
    assert [count(test(reference, low)) for test in tests] == [1, 1, 1]
    assert [count(test(reference, high)) for test in tests] == [1, 1, 0]
    assert count("v is null") == 1
    small.snapshot(small.equality_deletes([{"v": as_arrow(low)}, {"v": None}], small.schema, 1))
    assert read(small) == [{"v": high}]


def test_a_filter_on_a_column_with_a_default_knows_the_default(tmp_path: Path) -> None:
    new = Schema(ID, field(2, "late", LongType(), initial_default=7))
    small = SmallTable(tmp_path, Schema(ID), new)
    small.snapshot(small.parquet([{"id": 1}], Schema(ID)), small.parquet([{"id": 2, "late": 8}], new))
    assert [row["id"] for row in read(small, "late = 7")] == [1]
    assert [row["id"] for row in read(small, "late != 7")] == [2]


def test_rows_come_in_the_order_of_files_and_a_limit_cuts_them(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(*(small.parquet(rows(*range(10 * i, 10 * i + 10))) for i in range(12)))
    assert [row["id"] for row in read(small)] == list(range(120))
    for limit in (0, 1, 10, 11, 119, 500):
        assert [row["id"] for row in read(small, limit=limit)] == list(range(min(limit, 120)))


def test_scans_read_in_turns_do_not_block_each_other(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(*(small.parquet(rows(i)) for i in range(20)))
    readers = [small.table().scan().to_arrow_batch_reader() for _ in range(8)]
    turns = [[batch["id"].to_pylist() for batch in batches] for batches in zip(*readers, strict=True)]
    assert turns == [[[i]] * 8 for i in range(20)]


def test_columns_can_come_as_dictionaries(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(small.parquet(rows(1, 2)), small.parquet(rows(3)))
    for found in (
        small.table().scan().to_arrow(dictionary_columns=("name", "id")),
        small.table().scan().to_arrow_batch_reader(dictionary_columns=("name", "id")).read_all(),
    ):
        assert isinstance(found.schema.field("name").type, pa.DictionaryType)
        assert found.schema.field("id").type == pa.int64(), "numbers stay as they are"
        assert found.to_pylist() == rows(1, 2, 3)


def test_an_empty_table_has_the_columns_of_its_schema(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    scan = small.table().scan(selected_fields=("*", "_row_id"))
    assert (scan.to_arrow().num_rows, scan.to_arrow().column_names) == (0, ["id", "name", "_row_id"])
    assert (scan.count(), scan.plan_files()) == (0, [])


def test_appends_between_two_snapshots(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    first = small.snapshot(small.parquet(rows(1)))
    second = small.snapshot(small.parquet(rows(2)))
    small.snapshot(small.parquet(rows(3)), operation=Operation.OVERWRITE)
    last = small.snapshot(small.parquet(rows(4)))
    table = small.table()
    assert sorted(table.incremental_append_scan().to_arrow()["id"].to_pylist()) == [1, 2, 4]
    some = table.incremental_append_scan(from_snapshot_id_exclusive=first, selected_fields=("id", *LINEAGE))
    assert sorted(tuple(row.values()) for row in some.to_arrow().to_pylist()) == [(2, 1, 2), (4, 3, 4)]
    assert some.to_arrow_batch_reader().read_all().equals(some.to_arrow())
    up_to = table.incremental_append_scan(from_snapshot_id_exclusive=first, to_snapshot_id_inclusive=second)
    assert up_to.to_arrow().to_pylist() == rows(2)
    with pytest.raises(ValueError, match="not a parent ancestor"):
        table.incremental_append_scan(from_snapshot_id_exclusive=last + 1).plan_files()


# -- keys -------------------------------------------------------------------------------------


def test_a_file_without_a_key_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(small.parquet(rows(1)), small.parquet(rows(2), sealed=False))
    with pytest.raises(PlaintextFileError, match="allow-plaintext-files"):
        small.table().scan().to_arrow()
    allowed = small.table(**{"encryption.allow-plaintext-files": "true"})
    assert allowed.scan().to_arrow().to_pylist() == rows(1, 2)


def test_a_plaintext_file_in_the_place_of_an_encrypted_one_is_refused_even_then(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    one = small.parquet(rows(1))
    small.snapshot(one)
    path = tmp_path / str(one.file_path).rpartition("/")[2]
    size = path.stat().st_size
    pq.write_table(pa.table({"id": [666]}), path)
    path.write_bytes(path.read_bytes().ljust(size, b"\x00")[:size])
    with pytest.raises(FormatError, match=path.name):
        small.table(**{"encryption.allow-plaintext-files": "true"}).scan().to_arrow()


def test_a_table_without_encryption_is_read_as_well(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA, encrypted=False)
    small.snapshot(small.parquet(rows(*range(50)), row_group_rows=10))
    small.snapshot(small.equality_deletes([{"id": 42}], Schema(ID), 1))
    found = read(small, "id > 40 and id < 45", selected_fields=("id", "_row_id"))
    assert found == [{"id": one, "_row_id": one} for one in (41, 43, 44)]


def test_an_encrypted_file_in_a_table_without_encryption_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    sealed = SmallTable(tmp_path / "other", SCHEMA).parquet(rows(1))
    small = SmallTable(tmp_path, SCHEMA, encrypted=False)
    small.snapshot(sealed)
    with pytest.raises(PlaintextFileError, match="Cannot decrypt file"):
        small.table().scan().to_arrow()


def test_an_error_of_the_storage_names_the_file(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    one = small.parquet(rows(1))
    small.snapshot(one)
    (tmp_path / str(one.file_path).rpartition("/")[2]).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        small.table().scan().to_arrow()
    assert str(one.file_path) in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


# -- streams in order -------------------------------------------------------------------------


def test_no_more_streams_are_open_than_the_window_has_and_none_runs_far_ahead() -> None:
    lock, open_now, most, taken = threading.Lock(), 0, 0, 0

    def stream(number: int) -> Generator[int]:
        nonlocal open_now, most, taken
        with lock:
            open_now += 1
            most = max(most, open_now)
        try:
            for item in range(10):
                with lock:
                    taken += 1
                yield 100 * number + item
        finally:
            with lock:
                open_now -= 1

    with ThreadPoolExecutor(4) as pool:
        items = in_order(pool, (stream(n) for n in range(6)), window=3, budget=2, weigh=lambda _: 1)
        seen = []
        for item in items:
            seen.append(item)
            assert taken <= len(seen) + 3 * 2 + 2
    assert seen == [100 * n + item for n in range(6) for item in range(10)]
    assert (most, open_now) == (3, 0)


def test_who_stops_early_leaves_no_stream_open() -> None:
    closed: list[int] = []

    def stream(number: int) -> Generator[int]:
        try:
            while True:
                yield number
        finally:
            closed.append(number)

    with ThreadPoolExecutor(2) as pool:
        items = in_order(pool, (stream(n) for n in range(5)), window=3, budget=4, weigh=lambda _: 1)
        assert next(items) == 0
        items.close()  # type: ignore[attr-defined]
    assert sorted(closed) in ([0], [0, 1], [0, 1, 2]), "those that had begun"


def test_an_error_comes_after_the_items_before_it() -> None:
    def stream(number: int) -> Generator[int]:
        yield number
        if number == 1:
            raise RuntimeError("broken")

    with ThreadPoolExecutor(2) as pool:
        items = in_order(pool, (stream(n) for n in range(4)), window=4, budget=1, weigh=lambda _: 1)
        assert [next(items), next(items)] == [0, 1]
        with pytest.raises(RuntimeError, match="broken"):
            next(items)
