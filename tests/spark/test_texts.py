"""Texts with a dictionary, which are made once for each: over batches, row groups, files, nulls and deleted rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables.small_tables import SmallTable
from sealberg.files.file_io import KeyedLocation
from sealberg.files.parquet.reader import EncryptedParquetReader

if TYPE_CHECKING:
    from pathlib import Path

    from kit.programs.spark import SparkKit

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "more", StringType())
)
ROWS = 20_000  # several of Spark's batches, and in one of the files several row groups


def row(number: int, kinds: int) -> dict[str, Any]:
    """Row groups have other texts under the same numbers; one in eleven has none."""
    group = number // 6000
    return {
        "id": number,
        "name": None if number % 11 == 5 else f"name {group} {number % kinds}",
        "more": f"\u00e9 {number}",
    }


@pytest.mark.parametrize("deleted", [False, True])
def test_every_row_has_its_own_text(kit: SparkKit, tmp_path: Path, deleted: bool) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    one = small.parquet([row(number, 7) for number in range(ROWS)], row_group_rows=6000)
    other = small.parquet([row(number, 300) for number in range(ROWS, 2 * ROWS)])
    small.snapshot(one, other)
    if deleted:
        small.snapshot(small.vector({one: range(0, ROWS, 3), other: [1, 2, ROWS - 1]}))
    for file in (one, other):
        assert isinstance(file.file_path, KeyedLocation)
        path = str(file.file_path).removeprefix("file://")
        with EncryptedParquetReader(path, file.file_path.keys) as reader:
            groups = [reader.metadata.row_group(at) for at in range(reader.metadata.num_row_groups)]
            assert all(group.column(1).has_dictionary_page for group in groups)
            assert not any(group.column(2).has_dictionary_page for group in groups)
    name = kit.fresh("s")
    kit.catalog.register_table(name.removeprefix("prod."), small.write_metadata())
    wanted = sorted(tuple(one.values()) for one in small.table().scan().to_arrow().to_pylist())
    assert len(wanted) == (2 * ROWS if not deleted else 2 * ROWS - len(range(0, ROWS, 3)) - 3)
    found = kit.spark.table(name).orderBy("id").collect()
    assert [tuple(one) for one in found] == wanted
    counted = kit.sql(f"SELECT name, count(*), min(id) FROM {name} GROUP BY name")
    groups_: dict[Any, list[int]] = {}
    for number, text, _ in wanted:
        groups_.setdefault(text, []).append(number)
    assert {text: (count, least) for text, count, least in counted} == {
        text: (len(ids), min(ids)) for text, ids in groups_.items()
    }
    assert kit.sql(f"SELECT count(*) FROM {name} WHERE name = 'name 1 3'") == [(len(groups_["name 1 3"]),)]
