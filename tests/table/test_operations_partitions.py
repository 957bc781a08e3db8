"""Partitions: every transform, dynamic overwrite, and specs that change."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg import expressions
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    DoubleType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    UUIDType,
)

from kit.tables import tables
from sealberg.errors import ConfigError
from sealberg.jobs import verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.expressions import BooleanExpression

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.table.catalog_table import CatalogTable

ex: Any = expressions  # its constructors take names and values, which mypy does not know
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "part", StringType(), required=False),
    NestedField(3, "at", TimestampType(), required=False),
    NestedField(4, "x", DoubleType(), required=False),
    NestedField(5, "at_ns", TimestampNanoType(), required=False),
)
START = datetime(1969, 12, 31, 22, 30)  # noqa: DTZ001 (timestamps without a zone)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def spec(source: int, transform: Transform[Any, Any], name: str) -> PartitionSpec:
    return PartitionSpec(PartitionField(source, 1000, transform, name))


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (BucketTransform(0), "Invalid number of buckets: 0"),
        (TruncateTransform(0), "Invalid truncate width: 0"),
    ],
)
def test_a_transform_without_a_width_is_refused(
    catalog: EncryptedSqlCatalog, transform: Transform[Any, Any], message: str
) -> None:
    """Every later write would fail."""
    with pytest.raises(ConfigError, match=message):
        catalog.create_table(
            "hr.t", SCHEMA, partition_spec=spec(1, transform, "p"), properties={"encryption.key-id": "hr"}
        )
    table = catalog.create_table("hr.t", SCHEMA, properties={"encryption.key-id": "hr"})
    with pytest.raises(ConfigError, match=message), table.update_spec() as update:
        update.add_field("id", transform, "p")
    with pytest.raises(ConfigError, match=message), table.update_sort_order() as order:
        order.asc("id", transform)
    assert table.refresh().spec().is_unpartitioned()


BY_PART = spec(2, IdentityTransform(), "part")


def some(numbers: range, part: str | None = "a", x: float | None = 0.0) -> pa.Table:
    times = [None if i % 7 == 6 else START + timedelta(hours=i) for i in numbers]
    return pa.table(
        {
            "id": pa.array(list(numbers), pa.int64()),
            "part": pa.array([part] * len(numbers), pa.string()),
            "at": pa.array(times, pa.timestamp("us")),
            "x": pa.array([x] * len(numbers), pa.float64()),
            "at_ns": pa.array(times, pa.timestamp("us")).cast(pa.timestamp("ns")),
        }
    )


def ids(table: CatalogTable, **scan: Any) -> list[int]:
    return sorted(table.scan(selected_fields=("id",), **scan).to_arrow()["id"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "transform", "row_filter"),
    [
        (1, BucketTransform(4), "id = 17"),
        (1, TruncateTransform(10), "id >= 20 and id < 25"),
        (2, TruncateTransform(2), "part like 'p1%'"),
        (3, YearTransform(), "at >= '1970-01-01T00:00:00'"),
        (3, MonthTransform(), "at < '1970-01-01T00:00:00'"),
        (3, DayTransform(), "at >= '1970-01-01T00:00:00' and at < '1970-01-02T00:00:00'"),
        (3, HourTransform(), "at = '1970-01-01T03:30:00'"),
        (3, IdentityTransform(), "at is null"),
        (5, DayTransform(), "at_ns is not null"),
        (4, IdentityTransform(), "x is nan"),
    ],
)
def test_hidden_partitions_lose_no_row(
    catalog: EncryptedSqlCatalog, source: int, transform: Transform[Any, Any], row_filter: str
) -> None:
    plain = tables.make(catalog, SCHEMA)
    table = tables.make(catalog, SCHEMA, spec(source, transform, "hidden"))
    rows = pa.concat_tables([some(range(i * 5, i * 5 + 5), f"p{i}", float("nan") if i == 3 else i) for i in range(8)])
    for each in (plain, table):
        each.append(rows)
    assert ids(table) == list(range(40))
    assert len(tables.data_files(table)) > 1
    assert ids(table, row_filter=row_filter) == ids(plain, row_filter=row_filter)
    assert 0 < len(ids(table, row_filter=row_filter)) < 40
    assert len(table.scan(row_filter=row_filter).plan_files()) < len(tables.data_files(table))
    table.delete(row_filter)
    plain.delete(row_filter)
    assert ids(table) == ids(plain)
    tables.check_lineage(table)


@pytest.mark.parametrize(
    "transform",
    [IdentityTransform(), TruncateTransform(10), BucketTransform(8)],
    ids=["identity", "truncate", "bucket"],
)
def test_dynamic_overwrite_replaces_just_the_partitions_that_come(
    catalog: EncryptedSqlCatalog, transform: Transform[Any, Any]
) -> None:
    table = tables.make(catalog, SCHEMA, spec(1, transform, "hidden"))
    table.append(some(range(30)))
    new = some(range(10, 12), "new")
    by_value = {i: transform.transform(LongType())(i) for i in range(30)}
    table.dynamic_partition_overwrite(new)
    gone = {by_value[10], by_value[11]}
    assert ids(table) == sorted([10, 11, *(i for i, value in by_value.items() if value not in gone)])
    assert {row["id"] for row in tables.rows(table) if row["part"] == "new"} == {10, 11}
    summary = tables.head(table).summary
    assert summary is not None
    assert summary.operation.value == "overwrite"
    tables.check_lineage(table)


def test_dynamic_overwrite_finds_null_and_nan_partitions(catalog: EncryptedSqlCatalog) -> None:
    by_x = tables.make(catalog, SCHEMA, spec(4, IdentityTransform(), "x"))
    by_x.append(pa.concat_tables([some(range(2), x=None), some(range(2, 4), x=float("nan")), some(range(4, 6), x=1.0)]))
    by_x.dynamic_partition_overwrite(some(range(20, 21), x=float("nan")))
    assert ids(by_x) == [0, 1, 4, 5, 20]
    by_x.dynamic_partition_overwrite(some(range(30, 31), x=None))
    assert ids(by_x) == [4, 5, 20, 30]


def test_dynamic_overwrite_agrees_with_pyiceberg_on_identity_partitions(
    catalog: EncryptedSqlCatalog, tmp_path: Path
) -> None:
    schema = Schema(*SCHEMA.fields[:4])
    with tables.plain_catalog(tmp_path) as plain:
        ours, theirs = tables.make(catalog, schema, BY_PART), tables.make_plain(plain, schema, BY_PART)
        for table in (ours, theirs):
            for part in ("a", "b", None, "c d/e=f"):
                table.append(some(range(3), part).drop_columns(["at_ns"]))
            table.dynamic_partition_overwrite(
                pa.concat_tables([some(range(7, 8), None), some(range(8, 9), "c d/e=f")]).drop_columns(["at_ns"])
            )
        assert tables.rows(ours) == tables.rows(theirs)


def test_dynamic_overwrite_of_an_unpartitioned_table_is_refused(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = tables.make(catalog, SCHEMA)
    before = tables.stored(tmp_path)
    with pytest.raises(ValueError, match="unpartitioned"):
        table.dynamic_partition_overwrite(some(range(3)))
    assert tables.stored(tmp_path) == before


# -- specs that change ------------------------------------------------------------------------


def test_rows_of_all_specs_are_read_deleted_and_rewritten(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, BY_PART, **{"commit.manifest.min-count-to-merge": "2"})
    table.append(pa.concat_tables([some(range(5), "a"), some(range(5, 10), "b")]))
    with table.update_spec() as change:
        change.remove_field("part")
        change.add_field("id", TruncateTransform(10), "tens")
    table.append(some(range(10, 25), "a"))
    with table.update_spec() as change:
        change.remove_field("tens")
    table.append(some(range(25, 30), "b"))
    before = tables.lineage(table)
    assert {file.spec_id for file in tables.data_files(table)} == {0, 1, 2}
    assert ids(table, row_filter="part = 'b'") == [5, 6, 7, 8, 9, 25, 26, 27, 28, 29]
    table.delete("id in (1, 12, 27)")
    assert tables.lineage(table) == {key: value for key, value in before.items() if key not in (1, 12, 27)}
    assert {file.spec_id for file in tables.data_files(table)} == {0, 1, 2}
    tables.check_lineage(table)


def test_a_field_that_comes_back_has_its_old_id(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    """As Java and PyIceberg do it from version 2 on: ids of partition fields are stable."""
    schema = Schema(*SCHEMA.fields[:4])
    with tables.plain_catalog(tmp_path) as plain:
        found = []
        for table in (tables.make(catalog, schema, BY_PART), tables.make_plain(plain, schema, BY_PART)):
            with table.update_spec() as change:
                change.remove_field("part")
            with table.update_spec() as change:
                change.add_field("id", BucketTransform(4), "shard")
            with table.update_spec() as change:
                change.remove_field("shard")
                change.add_identity("part")
            with table.update_spec() as change:
                change.add_field("id", BucketTransform(4))
            specs = sorted(table.metadata.partition_specs, key=lambda one: one.spec_id)
            found.append([[(field.name, field.field_id) for field in one.fields] for one in specs])
            assert table.metadata.last_partition_id == 1001
        assert found[0] == found[1]


def test_a_field_that_comes_back_inside_a_transaction_has_its_old_id(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, BY_PART)
    with table.transaction() as tx:
        with tx.update_spec() as change:
            change.remove_field("part")
        with tx.update_spec() as change:
            change.add_identity("part")
    assert [field.field_id for field in table.spec().fields] == [1000]


def test_a_source_column_of_an_old_spec_can_be_dropped(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, BY_PART)
    table.append(pa.concat_tables([some(range(3), "a"), some(range(3, 6), "b")]))
    with table.update_spec() as change:
        change.remove_field("part")
    with table.update_schema() as columns:
        columns.delete_column("part")
    table.append(some(range(6, 9)).drop_columns(["part"]))
    assert ids(table) == list(range(9))
    table.delete("id in (0, 7)")
    assert ids(table) == [1, 2, 3, 4, 5, 6, 8]
    tables.check_lineage(table)


def test_a_nested_source_column_of_an_old_spec_can_be_dropped(catalog: EncryptedSqlCatalog) -> None:
    where = StructType(NestedField(3, "city", StringType()), NestedField(4, "zip", StringType()))
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "where", where))
    table = tables.make(catalog, schema, PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "where.city")))
    rows = [{"id": number, "where": {"city": "ab"[number % 2], "zip": "1"}} for number in range(6)]
    table.append(pa.Table.from_pylist(rows, schema=schema.as_arrow()))
    with table.update_spec() as change:
        change.remove_field("where.city")
    for dropped, deleted in (("where.city", 0), ("where", 3)):
        with table.update_schema() as columns:
            columns.delete_column(dropped)
        table.delete(f"id = {deleted}")
    assert ids(table) == [1, 2, 4, 5]
    tables.check_lineage(table)
    for level in ("full", "deep"):
        assert not verify.plan(table, catalog=catalog, level=level).execute().findings


def test_dynamic_overwrite_leaves_files_of_older_specs_alone_as_java_does(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(pa.concat_tables([some(range(3), "a"), some(range(3, 6), "b")]))
    with table.update_spec() as change:
        change.add_identity("part")
    table.append(some(range(10, 12), "a"))
    table.dynamic_partition_overwrite(some(range(20, 21), "a"))
    assert ids(table) == [0, 1, 2, 3, 4, 5, 20]
    tables.check_lineage(table)


def test_two_fields_of_one_column_and_a_nested_column_make_partitions(catalog: EncryptedSqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "where", StructType(NestedField(3, "city", StringType(), required=False)), required=False),
    )
    spec = PartitionSpec(
        PartitionField(1, 1000, BucketTransform(2), "shard"),
        PartitionField(1, 1001, TruncateTransform(10), "tens"),
        PartitionField(3, 1002, IdentityTransform(), "city"),
    )
    table = tables.make(catalog, schema, spec)
    table.append(pa.table({"id": list(range(20)), "where": [{"city": "x" if i % 3 else None} for i in range(20)]}))
    assert ids(table, row_filter="id = 13") == [13]
    assert ids(table, row_filter="where.city is null") == list(range(0, 20, 3))
    assert len(table.scan(row_filter="where.city is null and id < 10").plan_files()) <= 2
    tables.check_lineage(table)


def test_rows_without_the_partition_column_take_its_default(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, BY_PART)
    table.append(some(range(3)).drop_columns(["part"]))
    assert ids(table, row_filter="part is null") == [0, 1, 2]


def test_rows_are_found_and_replaced_by_a_uuid_that_partitions_them(catalog: EncryptedSqlCatalog) -> None:
    """PyIceberg reads such a partition as a UUID and looks for bytes, and the rows would be gone without a word."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "u", UUIDType()))
    by_uuid = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "u"))
    table = tables.make(catalog, schema, by_uuid)
    one, other = UUID(int=1), UUID(int=1 << 127)
    rows = pa.table({"id": [1, 2, 3], "u": pa.array([one.bytes, other.bytes, None], pa.uuid())})
    table.append(rows)
    for row_filter, ids in {
        f"u == '{one}'": [1],
        f"u in ('{one}', '{other}')": [1, 2],
        f"u > '{one}'": [2],
        f"u != '{one}'": [2],
        "u is null": [3],
    }.items():
        assert sorted(table.scan(row_filter=row_filter).to_arrow()["id"].to_pylist()) == ids, row_filter
    table.dynamic_partition_overwrite(pa.table({"id": [20], "u": pa.array([other.bytes], pa.uuid())}))
    table.delete(f"u == '{one}'")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [3, 20]


def test_a_void_field_of_a_required_column_is_null_in_manifests(catalog: EncryptedSqlCatalog) -> None:
    """Tables of version 1 keep such a field for a field that was dropped, and are upgraded with it."""
    schema = Schema(NestedField(1, "id", LongType(), required=True))
    table = tables.make(catalog, schema, spec(1, VoidTransform(), "id_null"))
    rows = pa.table({"id": [1, 2]}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    table.append(rows)
    table.delete("id = 1")
    assert table.scan().to_arrow()["id"].to_pylist() == [2]
    assert [file.partition[0] for file in tables.data_files(table)] == [None]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(
    ("row_filter", "expected"),
    [
        (ex.NotEqualTo("z", 5), [4]),
        (ex.Not(ex.In("z", (5, 6))), [1, 2, 3, 4]),  # by Arrow, as PyIceberg reads
        (ex.NotStartsWith("s", "b"), [4]),
        (ex.NotNaN("f"), [5]),
        (ex.Not(ex.GreaterThan("z", 3)), [4]),
    ],
    ids=["not equal", "not in", "not starts with", "not nan", "not greater"],
)
def test_a_partition_does_not_decide_what_a_filter_says_of_nulls(
    catalog: EncryptedSqlCatalog, row_filter: BooleanExpression, expected: list[int], mode: str
) -> None:
    """PyIceberg's delete removes rows that its scan does not find."""
    schema = pa.schema([("id", pa.int64()), ("z", pa.int64()), ("s", pa.string()), ("f", pa.float64())])
    nulls = [{"id": number, "z": None, "s": None, "f": None} for number in (1, 2)]
    mixed = [{**nulls[0], "id": 3}, {"id": 4, "z": 1, "s": "a", "f": math.nan}, {"id": 5, "z": 5, "s": "b", "f": 1.0}]
    same: Transform[Any, Any] = IdentityTransform()
    fields = [(None, same), ("z", same), ("s", same), ("f", same), ("z", BucketTransform(4)), ("s", BucketTransform(4))]
    for number, (column, transform) in enumerate(fields):
        properties = {"encryption.key-id": "hr", "write.delete.mode": mode}
        table: Any = catalog.create_table(f"hr.n{number}", schema, properties=properties)
        if column is not None:
            with table.update_spec() as change:
                change.add_field(column, transform)
        for rows in (nulls, mixed):
            table.append(pa.Table.from_pylist(rows, schema=schema))
        assert ids(table, row_filter=row_filter) == expected
        assert table.scan(row_filter=row_filter).count() == len(expected)
        table.delete(row_filter)
        assert ids(table) == [each for each in range(1, 6) if each not in expected]
