"""Metadata columns: `_file`, `_pos` and the row lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    StringType,
)

from kit.tables.scan_rows import ID, LINEAGE, SCHEMA, field, formats, read, rows
from kit.tables.small_tables import SmallTable
from sealberg.errors import AuthenticationError
from sealberg.scan import metadata_columns

if TYPE_CHECKING:
    from pathlib import Path


@formats
def test_rows_inherit_their_ids_and_ages_unless_they_moved(tmp_path: Path, make: str) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(getattr(small, make)(rows(1, 2)))
    moved = Schema(*SCHEMA.fields, metadata_columns.ROW_ID, metadata_columns.LAST_UPDATED)
    kept = {"id": 3, "name": "n3", "_row_id": 77, "_last_updated_sequence_number": 1}
    changed = {"id": 4, "name": "n4", "_row_id": 78, "_last_updated_sequence_number": None}
    new = {"id": 5, "name": "n5", "_row_id": None, "_last_updated_sequence_number": None}
    small.snapshot(getattr(small, make)([kept, changed, new], moved))
    found = read(small, selected_fields=("id", *LINEAGE))
    assert [tuple(row.values()) for row in found] == [(1, 0, 1), (2, 1, 1), (3, 77, 1), (4, 78, 2), (5, 4, 2)]


def test_a_file_without_a_first_row_id_gives_its_rows_none() -> None:
    positions = pa.array([0, 1])
    assert metadata_columns.row_ids(None, None, positions).to_pylist() == [None, None]
    assert metadata_columns.last_updated(None, None, 5, 2).to_pylist() == [None, None]
    assert metadata_columns.last_updated(None, 0, 5, 2).to_pylist() == [5, 5]


@formats
def test_positions_and_ids_are_those_of_the_file_whatever_is_left_of_it(tmp_path: Path, make: str) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    more = {"row_group_rows": 10} if make == "parquet" else {}
    file = getattr(small, make)(rows(*range(100)), **more)
    small.snapshot(file)
    small.snapshot(small.vector({file: [41, 43, 99]}))
    found = read(small, "id >= 40 and id < 45 or id > 97", selected_fields=("_pos", "_row_id", "_file"))
    expected = [40, 42, 44, 98]
    assert found == [{"_pos": position, "_row_id": position, "_file": str(file.file_path)} for position in expected]
    assert small.table().scan().count() == 97


def test_row_groups_beside_the_filter_are_not_read(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    file = small.parquet(rows(*range(10_000)), row_group_rows=1000)
    small.snapshot(file)
    path = tmp_path / str(file.file_path).rpartition("/")[2]
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
