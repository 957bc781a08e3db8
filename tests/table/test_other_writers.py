"""Other libraries that would write data files of an encrypted table by themselves: refused before the first byte where
they ask this package, and found by verify where they do not."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table.locations import load_location_provider

from kit.tables.tables import sealed_catalog
from sealberg.errors import PlaintextFileError
from sealberg.jobs import verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Any]:
    with sealed_catalog(tmp_path) as catalog:
        made = catalog.create_table("hr.t", ROWS.schema, properties={"encryption.key-id": "hr"})
        made.append(ROWS)
        yield made


def data_files(table: Any, tmp_path: Path) -> set[Path]:
    return {path for path in tmp_path.rglob("*.parquet") if path.is_file()}


def test_who_asks_where_to_put_a_data_file_is_refused(table: Any, tmp_path: Path) -> None:
    places, before = table.location_provider(), data_files(table, tmp_path)
    with pytest.raises(PlaintextFileError, match=r"hr\.t is encrypted, and whoever asks where to put a data file"):
        places.new_data_location("00000-0.parquet")
    usual = load_location_provider(table.location(), table.properties)
    assert places.new_metadata_location("x.avro") == usual.new_metadata_location("x.avro")
    assert places.new_table_metadata_file_location(3).startswith(f"{table.location()}/metadata/00003-")
    assert data_files(table, tmp_path) == before


def test_a_plaintext_table_says_where_its_files_go(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        for version in ("2", "3"):
            made = catalog.create_table(f"hr.v{version}", ROWS.schema, properties={"format-version": version})
            assert made.location_provider().new_data_location("a.parquet") == f"{made.location()}/data/a.parquet"


def test_who_writes_by_the_io_of_the_table_is_refused(table: Any, tmp_path: Path) -> None:
    """As PyIceberg's own writers do, and Ray's tasks with them."""
    before = data_files(table, tmp_path)
    with pytest.raises(PlaintextFileError, match="not written in the clear"):
        list(_dataframe_to_data_files(table.metadata, ROWS, table.io, uuid.uuid4()))
    assert data_files(table, tmp_path) == before


def test_verify_finds_the_file_of_who_asks_nobody(table: Any, tmp_path: Path) -> None:
    """polars writes below the location, and is refused when it commits."""
    polars = pytest.importorskip("polars", reason="polars is a dependency")
    before = data_files(table, tmp_path)
    with pytest.raises(ValueError, match="Cannot write manifest for table version: 3"):
        polars.from_arrow(ROWS).lazy().sink_iceberg(table, mode="append")
    (left,) = data_files(table, tmp_path) - before
    result = verify.plan("hr.t", catalog=table.catalog).execute()
    found = [(each.code, each.file) for each in result.findings]
    assert (result.exit_code, found) == (1, [("plaintext", f"file://{left}")])
    assert table.refresh().scan().to_arrow().num_rows == 3
