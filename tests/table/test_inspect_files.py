"""`inspect.files` and its kin are made of columns: the tables that PyIceberg makes of objects, whatever is in them."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.inspect import InspectTable
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, UUIDType

from kit.tables.evolved_table import SCHEMA, evolved_table
from kit.tables.tables import sealed_catalog
from sealberg.table.files_table import REDACTED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.table.base import EncryptedTable

OF_SNAPSHOT = ("files", "data_files", "delete_files")
ENTRIES = "entries"
OF_ALL = ("all_files", "all_data_files", "all_delete_files")
SEALED = {"encryption.key-id": "hr", "format-version": "3"}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as made:
        yield made


def check(table: EncryptedTable, name: str, *given: Any) -> pa.Table:
    """The table of this name, which is PyIceberg's."""
    found = getattr(table.inspect, name)(*given)
    expected: pa.Table = getattr(InspectTable, name)(table.inspect, *given)
    found.validate(full=True)
    assert found.schema == expected.schema
    mine, theirs = found.to_pylist(), expected.to_pylist()
    if name in OF_ALL:  # PyIceberg's are in no order
        mine, theirs = (sorted(rows, key=lambda row: str(row["file_path"])) for rows in (mine, theirs))
    assert repr(mine) == repr(theirs), "NaN and -0.0 are told apart by their text"
    return found


def test_every_kind_of_file_of_every_snapshot_is_shown_as_by_pyiceberg(tmp_path: Path) -> None:
    table = evolved_table(tmp_path).table()
    for name in (*OF_SNAPSHOT, ENTRIES):
        assert check(table, name).num_rows > 2
        for snapshot in table.metadata.snapshots:
            check(table, name, snapshot.snapshot_id)
    for name in OF_ALL:
        assert check(table, name).num_rows > 2
    specs = {row["spec_id"] for row in table.inspect.files().to_pylist()}
    assert specs == {0, 1, 2, 3, 4}


def test_files_that_were_removed_are_not_shown(catalog: EncryptedSqlCatalog) -> None:
    table: Any = catalog.create_table("hr.t", SCHEMA, properties={**SEALED, "write.delete.mode": "merge-on-read"})
    for first in (0, 10):
        table.append(pa.table({"id": [first, first + 1], "Town": ["a", None]}, schema=SCHEMA.as_arrow()))
    table.delete("id < 5")
    table.delete("id = 10")
    assert [check(table, name).num_rows for name in OF_SNAPSHOT] == [2, 1, 1]
    assert check(table, ENTRIES)["status"].to_pylist().count(2) == 0, "its manifest list names no manifest of the first"
    (removing,) = (
        each for each in table.metadata.snapshots if "deleted-data-files" in each.summary.additional_properties
    )
    assert check(table, ENTRIES, removing.snapshot_id)["status"].to_pylist().count(2) == 1
    for name in OF_ALL:
        check(table, name)


def test_readable_metrics_of_every_type_are_those_of_pyiceberg(catalog: EncryptedSqlCatalog) -> None:
    zone = dt.UTC
    columns = {
        "flag": [True, False, None],
        "small": pa.array([1, -5, None], pa.int32()),
        "large": [2**62, -(2**62), None],
        "short": pa.array([0.5, math.nan, -0.0], pa.float32()),
        "real": [math.inf, -0.0, math.nan],
        "money": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(20, 2)),
        "day": [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None],
        "time": pa.array([dt.time(1, 2, 3, 4), dt.time(0), None], pa.time64("us")),
        "at": pa.array([dt.datetime(1960, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 1, 1), None], pa.timestamp("us")),  # noqa: DTZ001
        "when": pa.array([dt.datetime(2024, 1, 1, tzinfo=zone), None, None], pa.timestamp("us", "UTC")),
        "name": ["a long text that is cut at sixteen", "\U0001f512ß", None],
        "raw": pa.array([b"\xff" * 20, b"\x00", None], pa.binary()),
        "fixed": pa.array([b"\x01\x02\x03", b"\xff\x00\xff", None], pa.binary(3)),
        "inner": [{"x": 1}, {"x": None}, None],
        "list": [[1, 2], [], None],
        "nothing": pa.array([None, None, None], pa.int64()),
    }
    rows = pa.table(columns)
    table: Any = catalog.create_table("hr.t", rows.schema, properties=SEALED)
    table.append(rows)
    table.append(rows.slice(0, 1))
    table.append(rows.slice(1, 2))
    check(table, ENTRIES)
    found = check(table, "files")
    metrics = found["readable_metrics"].to_pylist()
    assert metrics[0]["small"]["lower_bound"] is not None
    assert metrics[0]["inner"]["lower_bound"] is None
    assert len(metrics) == 3


def test_columns_that_changed_are_shown_as_by_pyiceberg(catalog: EncryptedSqlCatalog) -> None:
    schema = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "gone", LongType()))
    table: Any = catalog.create_table("hr.t", schema, properties=SEALED)
    table.append(pa.table({"id": pa.array([1, -2], pa.int32()), "gone": [3, 4]}))
    with table.update_schema() as update:
        update.update_column("id", LongType())
        update.rename_column("id", "number.of")
        update.delete_column("gone")
        update.add_column("new", LongType())
    table.append(pa.table({"number.of": [2**40], "new": [5]}))
    for name in ("files", "all_files", ENTRIES):
        check(table, name)


def test_uuids_are_shown(catalog: EncryptedSqlCatalog) -> None:
    """PyIceberg's fails: Arrow makes no struct of UUIDs out of objects."""
    schema = Schema(NestedField(1, "id", UUIDType()), NestedField(2, "n", LongType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    one, two = UUID(int=1), UUID(int=2**127)
    for name, by in (("plain", UNPARTITIONED_PARTITION_SPEC), ("by", spec)):
        table: Any = catalog.create_table(f"hr.{name}", schema, partition_spec=by, properties=SEALED)
        ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes, two.bytes], pa.binary(16)))
        table.append(pa.table({"id": ids, "n": [1, 2]}))
        rows = table.inspect.files().to_pylist()
        bounds = [row["readable_metrics"]["id"]["lower_bound"] for row in rows]
        assert bounds == ([one, two] if by is spec else [one])
        assert by is not spec or [row["partition"]["id"] for row in rows] == [one, two]
        assert [row["data_file"]["partition"] for row in table.inspect.entries().to_pylist()] == [
            row["partition"] for row in rows
        ]
        with pytest.raises(pa.ArrowNotImplementedError):
            InspectTable.files(table.inspect)


def test_a_key_is_redacted_and_is_nowhere_in_the_table(catalog: EncryptedSqlCatalog) -> None:
    table: Any = catalog.create_table("hr.t", SCHEMA, properties=SEALED)
    table.append(pa.table({"id": [1], "Town": ["a"]}, schema=SCHEMA.as_arrow()))
    (task,) = table.scan().plan_files()
    files, entries = table.inspect.files(), table.inspect.entries()
    assert files["key_metadata"].to_pylist() == [REDACTED]
    assert [row["key_metadata"] for row in entries["data_file"].to_pylist()] == [REDACTED]
    for found in (files, entries):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.schema) as writer:
            writer.write_table(found)
        assert task.file.key_metadata[:20] not in sink.getvalue().to_pybytes()


def test_without_a_snapshot_there_is_no_file_and_a_wrong_one_is_refused(catalog: EncryptedSqlCatalog) -> None:
    table: Any = catalog.create_table("hr.t", SCHEMA, properties=SEALED)
    for name in (*OF_SNAPSHOT, *OF_ALL):
        assert check(table, name).num_rows == 0
    for name in (*OF_SNAPSHOT, ENTRIES):
        with pytest.raises(ValueError, match="Cannot find snapshot with ID 7"):
            getattr(table.inspect, name)(7)
    with pytest.raises(ValueError, match="the table does not have any"):
        table.inspect.entries()


def test_fields_of_dropped_columns_are_left_out_and_those_of_one_name_told_apart(catalog: EncryptedSqlCatalog) -> None:
    """PyIceberg fails at the one, and takes the other for the same."""
    table: Any = catalog.create_table("hr.t", SCHEMA, properties=SEALED)
    with table.update_spec() as change:
        change.add_identity("Town")
    for town, width in (("a", 4), ("b", 8)):
        with table.update_spec() as change:
            change.add_field("id", BucketTransform(width), "shard")
        table.append(pa.table({"id": [1, 2], "Town": [town, None]}, schema=SCHEMA.as_arrow()))
        with table.update_spec() as change:
            change.remove_field("shard")
    old, new = (BucketTransform(width).transform(LongType()) for width in (4, 8))
    expected = [
        {
            "Town": town if number == 1 else None,
            "shard_1001": old(number) if town == "a" else None,
            "shard": new(number) if town == "b" else None,
        }
        for town in "ab"
        for number in (1, 2)
    ]

    def partitions() -> list[list[dict[str, Any]]]:
        found = table.inspect.partitions(), table.inspect.files(), table.inspect.entries()
        entries = [row["partition"] for row in found[2]["data_file"].to_pylist()]
        return [found[0]["partition"].to_pylist(), found[1]["partition"].to_pylist(), entries]

    def ordered(rows: list[dict[str, Any]]) -> list[str]:
        return sorted(map(repr, rows))

    for rows in partitions():
        assert ordered(rows) == ordered(expected)
    with table.update_spec() as change:
        change.remove_field("Town")
    with table.update_schema() as change:
        change.delete_column("Town")
    left = [{name: value for name, value in each.items() if name != "Town"} for each in expected]
    counted, files, entries = partitions()
    assert ordered(files) == ordered(entries) == ordered(left)
    assert ordered(counted) == sorted(set(ordered(left))), "what differed by the town only is one partition"
    assert sum(table.inspect.partitions()["record_count"].to_pylist()) == 4
