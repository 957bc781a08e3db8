"""Everything that is refused on an encrypted table, against the page that names it: no more, and no less."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import StaticTable, Table, Transaction
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.typedef import Record
from pyiceberg.types import GeometryType

from kit.tables import tables
from sealberg import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.table.catalog_table import CatalogTable

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
ROWS = pa.table({"x": [1, 2]})
KEY = {"encryption.key-id": "hr"}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def create(properties: dict[str, str], schema: Any = ROWS.schema) -> Callable[[CatalogTable], Any]:
    return lambda table: table.catalog.create_table("hr.another", schema, properties={**KEY, **properties})


def change(act: Callable[[Any], Any]) -> Callable[[CatalogTable], Any]:
    def do(table: CatalogTable) -> None:
        with table.transaction() as tx:
            act(tx)

    return do


def both(*acts: Callable[[CatalogTable], Any]) -> Callable[[CatalogTable], Any]:
    """Each is refused; the last one with the error that is looked at."""

    def do(table: CatalogTable) -> None:
        for act in acts[:-1]:
            with pytest.raises(errors.SealbergError):
                act(table)
        acts[-1](table)

    return do


def over_a_plain_table(table: CatalogTable) -> None:
    table.catalog.create_table("hr.plain", ROWS.schema)
    table.catalog.create_table_if_not_exists("hr.plain", ROWS.schema, properties=KEY)


def retry_many_times(table: CatalogTable) -> None:
    with table.transaction() as tx:
        tx.set_properties({"commit.retry.num-retries": "many"})
    table.append(ROWS)


def plain_file(table: CatalogTable) -> str:
    path = f"{table.location().removeprefix('file://')}/plain.parquet"
    pq.write_table(ROWS, path)
    return path


def append_file(table: CatalogTable) -> None:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=plain_file(table),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=2,
        file_size_in_bytes=100,
    )
    table.transaction().update_snapshot().fast_append().append_data_file(file)


def set_statistics(table: CatalogTable) -> None:
    puffin = {"snapshot-id": 1, "statistics-path": "file:///t/s.stats", "file-size-in-bytes": 9}
    file = StatisticsFile.model_validate({**puffin, "file-footer-size-in-bytes": 4, "blob-metadata": []})
    table.update_statistics().set_statistics(file).commit()


def write_orc(table: CatalogTable) -> None:
    create({"write.format.default": "orc"})(table).append(ROWS)


def add_geometry(table: CatalogTable) -> None:
    with table.update_schema() as schema:
        schema.add_column("g", GeometryType())


def arrow_scan(table: CatalogTable) -> None:
    ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(table.scan().plan_files())


REFUSED: dict[str, Callable[[CatalogTable], Any]] = {
    "`create_table` with `encryption.key-id` and `format-version` below 3": create({"format-version": "2"}),
    "`create_table` with an unknown `encryption.*` property": create({"encryption.keyid": "hr"}),
    "`create_table_if_not_exists` with a key id where a plaintext table exists": over_a_plain_table,
    "`set_properties` of another `encryption.key-id`, `remove_properties` of it": both(
        change(lambda tx: tx.set_properties({"encryption.key-id": "another"})),
        change(lambda tx: tx.remove_properties("encryption.key-id")),
    ),
    "`set_properties` of a `commit.retry.*` that is no number": retry_many_times,
    "`upgrade_table_version(2)`": change(lambda tx: tx.upgrade_table_version(2)),
    "`add_files`": lambda table: table.add_files([plain_file(table)]),
    "`update_snapshot().fast_append().append_data_file` of a file without a key": append_file,
    "`update_statistics().set_statistics` of a file without a key": set_statistics,
    "`upsert` into a branch that does not exist": lambda table: table.upsert(ROWS, ["x"], branch="nowhere"),
    "`write.format.default` of `orc`": write_orc,
    "columns of type `geometry` and `geography`": add_geometry,
    "`to_daft`": lambda table: table.to_daft(),
    "`to_bodo`": lambda table: table.to_bodo(),
    "DataFusion's `register_table(name, table)`": lambda table: table.__datafusion_table_provider__(),
    "`pl.scan_iceberg(table)`": lambda table: pl.scan_iceberg(table).collect(),
    "`location_provider().new_data_location`": lambda table: table.location_provider().new_data_location("a.parquet"),
    "`sink_iceberg(table)` of polars": lambda table: pl.DataFrame(ROWS).lazy().sink_iceberg(table, mode="append"),
    "PyIceberg's `ArrowScan`": arrow_scan,
    "PyIceberg's `Transaction(table).append`": lambda table: Transaction(table, autocommit=True).append(ROWS),
    "PyIceberg's `StaticTable.from_metadata(...).scan().to_arrow`": lambda table: (
        StaticTable.from_metadata(table.metadata_location).scan().to_arrow()
    ),
}


def named() -> dict[str, tuple[str, str]]:
    """The rows of the page: what is refused, by which error, and what to do instead."""
    section = PAGE.read_text().partition("## What is refused")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {what: (error.strip("`"), instead) for what, error, instead in rows[2:]}


def test_the_page_names_what_is_refused_and_nothing_else() -> None:
    assert list(named()) == list(REFUSED)
    assert all(instead for _, instead in named().values())


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_by_the_error_that_the_page_names(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    table = tables.make(catalog, ROWS.schema)
    table.append(ROWS)
    before = tables.head(table).snapshot_id
    error = named()[what][0]
    with pytest.raises(getattr(errors, error, ValueError)) as caught:
        REFUSED[what](table)
    assert type(caught.value).__name__ == error
    again = catalog.load_table(table.name())
    assert again.scan().to_arrow()["x"].to_pylist() == [1, 2]
    assert tables.head(again).snapshot_id == before


WORKS = {
    Table: "append current_snapshot delete dynamic_partition_overwrite format_version history incremental_append_scan "
    "inspect last_partition_id last_sequence_number location location_provider maintenance manage_snapshots "
    "metadata_location name name_mapping overwrite properties refresh refs scan schema schemas "
    "snapshot_as_of_timestamp snapshot_by_id snapshot_by_name snapshots sort_order sort_orders spec specs to_polars "
    "transaction update_schema update_sort_order update_spec upsert",
    # update_location is PyIceberg's own NotImplementedError
    Transaction: "append commit_transaction delete dynamic_partition_overwrite overwrite remove_properties "
    "set_properties table_metadata update_location update_schema update_snapshot update_sort_order update_spec upsert",
}
ANYWHERE = set(re.findall(r"\w+", " ".join(REFUSED)))


@pytest.mark.parametrize("kind", [Table, Transaction], ids=lambda kind: kind.__name__)
def test_every_method_of_pyiceberg_works_or_is_named_as_refused(kind: type) -> None:
    public = {name for name in dir(kind) if not name.startswith("_")}
    assert public - set(WORKS[kind].split()) - ANYWHERE == set(), "new in PyIceberg: make it work, or refuse it"
