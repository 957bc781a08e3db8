"""`inspect.partitions` counts on columns what PyIceberg counts on objects: the same table, whatever the table holds."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg import expressions
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.inspect import InspectTable
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from kit.tables.evolved_table import BY_TOWN, SCHEMA, SPECS, evolved_table, file
from kit.tables.small_tables import SmallTable
from kit.tables.tables import sealed_catalog
from sealberg.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from sealberg.metadata.manifest import DataFileV3
    from sealberg.table.base import EncryptedTable

FILTERS: Any = expressions  # their constructors take more than their types say


def theirs(table: EncryptedTable, *given: Any, **named: Any) -> pa.Table:
    return InspectTable.partitions(table.inspect, *given, **named)


def check(table: EncryptedTable, *given: Any, **named: Any) -> list[dict[str, Any]]:
    """The rows, which are PyIceberg's."""
    found, expected = table.inspect.partitions(*given, **named), theirs(table, *given, **named)
    assert found.schema == expected.schema
    rows: list[dict[str, Any]] = found.to_pylist()
    assert rows == expected.to_pylist()
    return rows


@pytest.fixture
def evolved(tmp_path: Path) -> SmallTable:
    return evolved_table(tmp_path)


def test_specs_deletes_and_nulls_are_counted_as_by_pyiceberg(evolved: SmallTable) -> None:
    rows = check(evolved.table())
    assert len(rows) > 10
    for name in ("position_delete_file_count", "equality_delete_record_count"):
        assert any(row[name] for row in rows)


def test_every_snapshot_is_counted_as_by_pyiceberg(evolved: SmallTable) -> None:
    table = evolved.table()
    for snapshot in table.metadata.snapshots:
        check(table, snapshot.snapshot_id)
        check(table, snapshot_id=snapshot.snapshot_id, row_filter="Town = 'Bonn'")


@pytest.mark.parametrize(
    "row_filter",
    [
        "id > 7",
        "id < 3 or Town = 'Celle'",
        "Town is null",
        "Town in ('Bonn', 'ü') and id >= 9",
        "Town = 'nowhere'",
        "id = 50",
        FILTERS.AlwaysTrue(),
        FILTERS.IsNull("Town"),
        FILTERS.Not(FILTERS.EqualTo("Town", "Bonn")),
    ],
    ids=str,
)
def test_a_filter_leaves_what_pyiceberg_leaves(evolved: SmallTable, row_filter: Any) -> None:
    check(evolved.table(), row_filter=row_filter)


def test_a_filter_can_ignore_case(evolved: SmallTable) -> None:
    table = evolved.table()
    assert check(table, row_filter="TOWN = 'Bonn'", case_sensitive=False)
    for partitions in (table.inspect.partitions, lambda **named: theirs(table, **named)):
        with pytest.raises(ValueError, match="Could not find field with name TOWN"):
            partitions(row_filter="TOWN = 'Bonn'")


def test_a_table_without_partitions_has_one_row(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(small.parquet([{"id": 1}]))
    small.snapshot(small.parquet([{"id": 2}, {"id": 3}]))
    (row,) = check(small.table())
    assert (row["record_count"], row["file_count"], row["last_updated_snapshot_id"]) == (3, 2, 2000)


def test_of_expired_snapshots_nothing_is_known(evolved: SmallTable) -> None:
    for left in (evolved.metadata.snapshots[-1:], evolved.metadata.snapshots[1::3]):
        evolved.metadata = evolved.metadata.model_copy(
            update={"snapshots": left, "current_snapshot_id": left[-1].snapshot_id}
        )
        rows = check(evolved.table())
        assert any(row["last_updated_at"] is None and row["last_updated_snapshot_id"] is None for row in rows)


def test_of_two_snapshots_of_the_same_time_the_one_of_the_first_file_is_shown(evolved: SmallTable) -> None:
    same = [each.model_copy(update={"timestamp_ms": 1_700_000_000_000}) for each in evolved.metadata.snapshots]
    evolved.metadata = evolved.metadata.model_copy(update={"snapshots": same})
    check(evolved.table())


def test_a_snapshot_that_is_not_there_is_refused_as_by_pyiceberg(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    table = small.table()
    for partitions in (table.inspect.partitions, lambda *given: theirs(table, *given)):
        with pytest.raises(ValueError, match="Cannot find snapshot with ID 7"):
            partitions(7)
        with pytest.raises(ValueError, match="Cannot get a snapshot as the table does not have any"):
            partitions()


def test_a_table_whose_files_are_all_deleted_has_no_partition(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table: Any = catalog.create_table(
            "hr.t", SCHEMA, partition_spec=BY_TOWN, properties={"encryption.key-id": "hr", "format-version": "3"}
        )
        table.append(SCHEMA.as_arrow().empty_table())
        assert check(table) == []
        table.append(pa.table({"id": [1, 2, 3], "Town": ["a", "b", "a"]}, schema=SCHEMA.as_arrow()))
        assert len(check(table)) == 2
        table.delete("Town = 'a'")
        assert [row["partition"] for row in check(table)] == [{"Town": "b"}]
        table.delete("id > 0")
        assert check(table) == []


VALUES: list[tuple[IcebergType, list[Any]]] = [
    (BooleanType(), [True, False]),
    (LongType(), [2**63 - 1, -(2**63), 0]),
    (StringType(), ["", "ß\U0001f512"]),
    (BinaryType(), [b"", b"\x00\xff"]),
    (FixedType(3), [b"\x00\xff\x80"]),
    (DecimalType(38, 10), [Decimal("-12345678901234567890.0123456789"), Decimal("0E-10")]),
    (DateType(), [0, -719162]),
    (TimeType(), [0, 86399999999]),
    (TimestampType(), [-1, 1_700_000_000_000_000]),
    (TimestamptzType(), [0, 1_700_000_000_000_000]),
    (FloatType(), [0.5, math.inf]),
    (DoubleType(), [5e-324, -math.inf]),
]


def by_value(folder: Path, kind: IcebergType, *values: Any) -> SmallTable:
    """A table with a file for each partition value."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", kind))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"), spec_id=1)
    small = SmallTable(folder, schema, specs=[spec])
    ids = Schema(schema.fields[0])
    for half in (values[::2], values[1::2]):
        files = [small.parquet([{"id": at}], ids, partition=(value,)) for at, value in enumerate(half)]
        small.snapshot(*files)
    return small


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda each: str(each)[:20])
def test_partitions_of_every_type_are_those_of_pyiceberg(tmp_path: Path, kind: IcebergType, values: list[Any]) -> None:
    chosen = random.Random(str(kind)).choices([*values, None], k=12)
    assert len(check(by_value(tmp_path, kind, *chosen).table())) == len(set(chosen))


def test_partitions_of_uuids_are_shown(tmp_path: Path) -> None:
    """PyIceberg's fails: Arrow makes no struct of UUIDs out of objects."""
    first, second = UUID(int=7), UUID(int=8)
    table = by_value(tmp_path, UUIDType(), first.bytes, None, first.bytes, second.bytes).table()
    rows = table.inspect.partitions().to_pylist()
    assert [(row["partition"]["p"], row["file_count"]) for row in rows] == [(first, 2), (None, 1), (second, 1)]
    with pytest.raises(pa.ArrowNotImplementedError):
        theirs(table)


def test_partitions_of_days_are_those_of_pyiceberg(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimestampType()))
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "day"), spec_id=1)
    small = SmallTable(tmp_path, schema, specs=[spec])
    small.snapshot(*(small.parquet([{"id": 1}], partition=(each,)) for each in (19000, None, 19001, 19000)))
    assert len(check(small.table())) == 3


def test_nan_is_one_partition_and_the_zeros_are_two_as_in_java(tmp_path: Path) -> None:
    """PyIceberg has a row for each file of NaN, because NaN is not equal to itself; to it, both zeros are one."""
    small = by_value(tmp_path, DoubleType(), math.nan, 0.0, math.nan, -0.0, -math.nan, 0.0)
    found = small.table().inspect.partitions().to_pylist()
    assert [(repr(row["partition"]["p"]), row["file_count"]) for row in found] == [("nan", 3), ("0.0", 2), ("-0.0", 1)]
    assert [row["file_count"] for row in theirs(small.table()).to_pylist()] == [1, 1, 1, 3]


def test_a_file_whose_values_are_all_excluded_is_not_counted(tmp_path: Path) -> None:
    """As in a scan, and in Java; PyIceberg counts it."""
    small = SmallTable(tmp_path, SCHEMA)
    counts: dict[str, Any] = {"value_counts": {1: 1}, "null_value_counts": {1: 0}}
    small.snapshot(small.parquet([{"id": 5}], **counts), small.parquet([{"id": 6}], **counts))
    table = small.table()
    assert [row["file_count"] for row in theirs(table, row_filter="id != 5").to_pylist()] == [2]
    (row,) = table.inspect.partitions(row_filter="id != 5").to_pylist()
    assert row["file_count"] == len(table.scan("id != 5").plan_files()) == 1


def test_a_filter_by_infinity_finds_the_partition_of_a_float(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.float32())])
    with sealed_catalog(tmp_path) as catalog:
        table: Any = catalog.create_table("hr.t", schema, properties={"encryption.key-id": "hr"})
        with table.update_spec() as change:
            change.add_identity("x")
        table.append(pa.table({"x": [math.inf, 1.5]}, schema=schema))
        found = table.inspect.partitions(row_filter=FILTERS.EqualTo("x", math.inf))
    assert found["partition"].to_pylist() == [{"x": math.inf}]


def test_a_spec_that_the_table_does_not_have_is_an_error_that_names_the_manifest(evolved: SmallTable) -> None:
    evolved.metadata = evolved.metadata.model_copy(update={"partition_specs": list(SPECS[:-1])})
    for name in ("partitions", "files", "all_files", "entries"):
        with pytest.raises(FormatError, match=r"avro: the manifest uses partition spec 4, which is not in"):
            getattr(evolved.table().inspect, name)()


def test_random_tables_are_counted_as_by_pyiceberg(tmp_path: Path) -> None:
    """Many manifests, in which partitions and snapshots are mixed."""
    chance = random.Random(11)
    small = SmallTable(tmp_path, SCHEMA, specs=SPECS)
    template = file(small, "Bonn", 1)
    for _ in range(40):
        small.snapshot(*(file_like(template, chance) for _ in range(chance.randrange(1, 6))))
    table = small.table()
    assert len(check(table)) > 10
    for row_filter in ("Town = 'a'", "Town is null", "Town >= 'b'"):
        check(table, row_filter=row_filter)


def file_like(template: DataFileV3, chance: random.Random) -> DataFileV3:
    town, shard = chance.choice(["a", "b", "c", None]), chance.randrange(3)
    spec_id, values = chance.choice([(1, (town,)), (2, (town, shard)), (3, (None, shard)), (4, (town,)), (0, ())])
    made = type(template).from_args(
        content=chance.choice(list(DataFileContent)),
        file_path=f"file:///none/{chance.random()}",
        file_format=template.file_format,
        partition=type(template.partition)(*values),
        record_count=chance.randrange(4),
        file_size_in_bytes=chance.randrange(1, 1 << 40),
        key_metadata=template.key_metadata,
        equality_ids=[1],
    )
    made.spec_id = spec_id
    return made
