"""Bloom filters by the table's properties: read, refused where they make no sense, written where pyarrow can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from kit.tables import tables
from sealberg.errors import ConfigError
from sealberg.files.parquet.bloom_filters import BloomFilter, BloomFilters, IgnoredPropertyWarning

if TYPE_CHECKING:
    from pathlib import Path

ON = "write.parquet.bloom-filter-enabled.column."
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "a.b", LongType(), required=False),
    NestedField(3, "tags", ListType(4, StringType(), element_required=False), required=False),
    NestedField(5, "m", MapType(6, StringType(), 7, LongType(), value_required=False), required=False),
    NestedField(8, "s", StructType(NestedField(9, "x", LongType(), required=False)), required=False),
)


@pytest.mark.parametrize(
    ("name", "path"),
    [("id", "id"), ("a.b", "a.b"), ("tags.element", "tags.list.element"), ("m.key", "m.key_value.key"), ("s.x", "s.x")],
)
def test_a_column_is_found_by_its_name_in_iceberg(name: str, path: str) -> None:
    asked = {f"{ON}{name}": "true", f"write.parquet.bloom-filter-ndv.column.{name}": "9"}
    assert BloomFilters.of(asked, SCHEMA).columns == {path: BloomFilter(ndv=9)}


@pytest.mark.parametrize("name", ["gone", "s", "tags", "tags.key", "id.x"])
def test_a_column_that_is_not_there_is_warned_about(name: str) -> None:
    with pytest.warns(IgnoredPropertyWarning, match=f"no column {name}"):
        assert not BloomFilters.of({f"{ON}{name}": "true"}, SCHEMA).columns


@pytest.mark.parametrize(
    ("name", "value"),
    [("enabled.column.id", "42"), ("fpp.column.id", "x"), ("fpp.column.id", "1.5"), ("max-bytes", "0")],
)
def test_a_value_that_makes_no_sense_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=value):
        BloomFilters.of({f"{ON}id": "true", f"write.parquet.bloom-filter-{name}": value}, SCHEMA)


def test_a_filter_of_pyarrow_is_no_larger_than_asked_for(tmp_path: Path) -> None:
    rows, lengths = pa.table({"id": range(100_000)}), []
    for asked in ({}, {"write.parquet.bloom-filter-max-bytes": "4096"}):
        options = BloomFilters.of({f"{ON}id": "true", **asked}, SCHEMA).for_pyarrow()
        pq.write_table(rows, tmp_path / "f", **options)
        lengths.append(pq.read_metadata(tmp_path / "f").row_group(0).column(0).bloom_filter_length)
    assert lengths[0] > 100_000 > 4096 + 64 >= lengths[1]


def test_a_plain_table_gets_its_bloom_filters_and_an_encrypted_one_a_warning(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "n": [1, 2]})
    with tables.sealed_catalog(tmp_path) as catalog:
        plain = catalog.create_table("hr.plain", rows.schema, properties={"format-version": "3", f"{ON}id": "true"})
        plain.append(rows)
        (file,) = tables.data_files(plain)
        columns = pq.read_metadata(str(file.file_path).removeprefix("file://")).row_group(0)
        assert [columns.column(at).bloom_filter_offset is None for at in range(2)] == [False, True]
        sealed = tables.make(catalog, rows.schema, **{f"{ON}id": "true", f"{ON}n": "false"})
        with pytest.warns(UserWarning, match=r"Parquet writer option\(s\) \['\S+column.id'\] not implemented"):
            sealed.append(rows)
