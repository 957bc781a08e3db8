"""Schemas that change under rows that are already there, and sort orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from kit.tables import tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "n", IntegerType(), required=False),
    NestedField(3, "f", FloatType(), required=False),
    NestedField(4, "where", StructType(NestedField(5, "city", StringType(), required=False)), required=False),
    NestedField(6, "tags", ListType(7, StringType(), element_required=False), required=False),
)
ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "n": pa.array([2**31 - 1, None], pa.int32()),
        "f": pa.array([1.5, None], pa.float32()),
        "where": [{"city": "Ulm"}, None],
        "tags": [["a", None], []],
    }
)
FORMATS = pytest.mark.parametrize("kind", ["parquet", "avro"])


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


@pytest.mark.slow
@FORMATS
def test_columns_are_added_dropped_renamed_reordered_and_widened(catalog: EncryptedSqlCatalog, kind: str) -> None:
    table = tables.make(catalog, SCHEMA, **{"write.format.default": kind})
    table.append(ROWS)
    with table.update_schema() as change:
        change.update_column("n", LongType())
        change.update_column("f", DoubleType())
        change.rename_column("tags", "labels")
        change.rename_column("where.city", "town")
        change.add_column(("where", "street"), StringType())
        change.add_column("more", StringType())
        change.move_first("more")
        change.delete_column("id")
    table.append(pa.table({"n": [2**40], "where": [{"town": "Bonn", "street": "Am Hof"}]}))
    assert table.scan().to_arrow().column_names == ["more", "n", "f", "where", "labels"]
    assert tables.rows(table) == tables.in_order(
        [
            {
                "more": None,
                "n": 2**31 - 1,
                "f": 1.5,
                "where": {"town": "Ulm", "street": None},
                "labels": ["a", None],
            },
            {"more": None, "n": None, "f": None, "where": None, "labels": []},
            {"more": None, "n": 2**40, "f": None, "where": {"town": "Bonn", "street": "Am Hof"}, "labels": None},
        ]
    )
    assert len(tables.rows(table, row_filter="where.town = 'Ulm'")) == 1
    assert len(tables.rows(table, row_filter=f"n > {2**31 - 2}")) == 2
    table.delete("where.town = 'Ulm'")
    assert len(tables.rows(table)) == 2
    tables.check_lineage(table)


def test_a_name_that_is_used_again_is_another_column(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(ROWS)
    with table.update_schema() as change:
        change.delete_column("n")
    with table.update_schema() as change:
        change.add_column("n", StringType())
    assert [row["n"] for row in tables.rows(table)] == [None, None]
    table.delete("id = 1")
    table.append(pa.table({"id": [3], "n": ["text"]}))
    assert {row["id"]: row["n"] for row in tables.rows(table)} == {2: None, 3: "text"}


@FORMATS
def test_the_initial_default_is_read_and_the_write_default_is_written(catalog: EncryptedSqlCatalog, kind: str) -> None:
    table = tables.make(catalog, SCHEMA, **{"write.format.default": kind})
    table.append(ROWS)
    with table.update_schema() as change:
        change.add_column("level", IntegerType(), required=True, default_value=1)
        change.add_column("price", DecimalType(9, 2), default_value=None)
        change.add_column("word", StringType(), default_value="old")
    assert [(row["level"], row["word"]) for row in tables.rows(table, "level", "word")] == [(1, "old"), (1, "old")]
    with table.update_schema() as change:
        change.set_default_value("level", 2)
        change.set_default_value("word", "new")
    table.append(pa.table({"id": pa.array([3], pa.int64())}))
    found = {row["id"]: (row["level"], row["word"]) for row in tables.rows(table)}
    assert found == {1: (1, "old"), 2: (1, "old"), 3: (2, "new")}
    assert [row["id"] for row in tables.rows(table, row_filter="level = 2")] == [3]
    assert sorted(row["id"] for row in tables.rows(table, row_filter="word = 'old'")) == [1, 2]
    table.delete("id = 1")  # the others move, and what was read as a default is stored from now on
    assert {row["id"]: (row["level"], row["word"]) for row in tables.rows(table)} == {2: (1, "old"), 3: (2, "new")}
    again = catalog.load_table(table.name())
    assert {row["id"]: row["level"] for row in tables.rows(again)} == {2: 1, 3: 2}


def test_a_required_column_becomes_optional_and_null_comes_in(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, Schema(NestedField(1, "id", LongType(), required=True)))
    arrow = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table.append(pa.table({"id": [1]}, schema=arrow))
    nothing = pa.table({"id": pa.array([None], pa.int64())})
    with pytest.raises(ValueError, match="Mismatch"):
        table.append(nothing)
    with table.update_schema() as change:
        change.make_column_optional("id")
    table.append(nothing)
    assert sorted(map(str, table.scan().to_arrow()["id"].to_pylist())) == ["1", "None"]


def test_an_older_snapshot_is_read_with_its_own_schema(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(ROWS)
    old = tables.head(table).snapshot_id
    with table.update_schema() as change:
        change.rename_column("n", "number")
        change.delete_column("f")
    table.append(pa.table({"id": pa.array([3], pa.int64())}))
    assert table.scan(snapshot_id=old).to_arrow().column_names == ["id", "n", "f", "where", "tags"]
    assert len(tables.rows(table, row_filter="n is null", snapshot_id=old)) == 1


def test_upsert_and_overwrite_work_across_schemas(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, Schema(*SCHEMA.fields[:3]), **{"write.update.mode": "merge-on-read"})
    table.append(ROWS.select(["id", "n", "f"]))
    with table.update_schema() as change:
        change.add_column("note", StringType())
        change.rename_column("n", "number")
    new: dict[str, Any] = {"id": [2, 5], "number": pa.array([7, 8], pa.int32()), "note": ["x", "y"]}
    result = table.upsert(pa.table(new), ["id"])
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    found = {row["id"]: (row["number"], row["note"]) for row in tables.rows(table)}
    assert found == {1: (2**31 - 1, None), 2: (7, "x"), 5: (8, "y")}
    tables.check_lineage(table)


def test_a_sort_order_is_kept(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    with table.update_sort_order() as change:
        change.desc("id", IdentityTransform(), NullOrder.NULLS_LAST)
    table.append(ROWS)
    again = catalog.load_table(table.name())
    (field,) = again.sort_order().fields
    assert (field.source_id, field.direction, field.null_order) == (1, SortDirection.DESC, NullOrder.NULLS_LAST)
    assert tables.rows(again) == tables.in_order(ROWS.to_pylist())
