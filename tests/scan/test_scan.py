"""Filters, limits and order of scans; files that must have a key."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, NotEqualTo, Reference
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    LongType,
    NestedField,
    StructType,
    TimestampType,
    TimeType,
    UUIDType,
)

from kit.tables import tables
from kit.tables.scan_rows import ID, LINEAGE, SCHEMA, field, read, rows
from kit.tables.small_tables import SmallTable
from sealberg.errors import FormatError, MissingFileError, PlaintextFileError


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
    file = small.parquet(rows(1))
    small.snapshot(file)
    path = tmp_path / str(file.file_path).rpartition("/")[2]
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
    assert found == [{"id": number, "_row_id": number} for number in (41, 43, 44)]


def test_an_encrypted_file_in_a_table_without_encryption_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    sealed = SmallTable(tmp_path / "other", SCHEMA).parquet(rows(1))
    small = SmallTable(tmp_path, SCHEMA, encrypted=False)
    small.snapshot(sealed)
    with pytest.raises(PlaintextFileError, match="Cannot decrypt file"):
        small.table().scan().to_arrow()


@pytest.mark.parametrize("kind", ["data file", "manifest"])
def test_a_missing_file_is_an_error_of_sealberg_that_names_it(tmp_path: Path, kind: str) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    file = small.parquet(rows(1))
    small.snapshot(file)
    table = small.table()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    gone = {
        "data file": file.file_path,
        "manifest": snapshot.manifests(table.io)[0].manifest_path,
    }[kind]
    Path(str(gone).removeprefix("file://")).unlink()
    with pytest.raises(MissingFileError) as caught:
        small.table().scan().to_arrow()
    assert isinstance(caught.value, FileNotFoundError)
    assert str(gone) in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


def test_a_required_field_is_null_where_its_struct_is(tmp_path: Path) -> None:
    """PyIceberg binds `s.a IS NULL` to "never" if `a` is required, whatever `s` is."""
    inner = NestedField(3, "a", LongType(), required=True)
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "s", StructType(inner), required=False),
    )
    content = [{"id": 1, "s": {"a": 5}}, {"id": 2, "s": None}]
    with tables.sealed_catalog(tmp_path) as catalog:
        table = catalog.create_table("hr.t", schema, properties={"encryption.key-id": "hr"})
        table.append(pa.Table.from_pylist(content, schema=schema_to_pyarrow(schema, include_field_ids=False)))

        def numbers(row_filter: str) -> list[int]:
            return sorted(table.scan(row_filter).to_arrow()["id"].to_pylist())

        assert numbers("s.a IS NULL") == [2]
        assert numbers("s.a IS NOT NULL") == [1]
        assert numbers("s.a IS NULL OR s.a = 5") == [1, 2]
        table.delete("s.a IS NULL")
        assert numbers("id > 0") == [1]
