"""Whole data files in and out of a table, by PyIceberg's `update_snapshot()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions.parser import parse
from pyiceberg.io.pyarrow import _dataframe_to_data_files

from kit.tables import tables
from sealberg.errors import ConfigError, IntegrityError, PlaintextFileError
from sealberg.metadata.manifest import DataFileV3
from sealberg.pyiceberg_private import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.table.catalog_table import CatalogTable

NUMBERS = pa.schema([("x", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def numbers(table: CatalogTable) -> list[int]:
    return sorted(table.scan().to_arrow()["x"].to_pylist())


def written(catalog: EncryptedSqlCatalog, *batches: list[int], **properties: str) -> CatalogTable:
    table = tables.make(catalog, NUMBERS, **properties)
    for batch in batches:
        table.append(pa.table({"x": batch}))
    return table


@pytest.mark.parametrize("method", ["fast_append", "merge_append", "overwrite"])
def test_a_file_that_was_written_with_a_key_comes_in_again(catalog: EncryptedSqlCatalog, method: str) -> None:
    table = written(catalog, [1, 2], [3])
    before = tables.data_files(table)
    table.delete("x > 0")
    with table.transaction() as tx, getattr(tx.update_snapshot({"why": "back"}), method)() as update:
        for file in before:
            update.append_data_file(file)
    assert numbers(table) == [1, 2, 3]
    summary = tables.head(table).summary
    assert summary is not None
    assert (summary.operation.value, summary["why"]) == ("append", "back")
    tables.check_lineage(table)


def test_files_come_and_go_in_one_snapshot(catalog: EncryptedSqlCatalog) -> None:
    table = written(catalog, [1, 2], [3], **{"write.delete.mode": "merge-on-read"})
    table.delete("x = 1")
    old = next(file for file in tables.data_files(table) if file.record_count == 2)
    other = written(catalog, [7])
    with table.transaction() as tx, tx.update_snapshot().overwrite() as update:
        update.delete_data_file(old)
        update.append_data_file(tables.data_files(other)[0])
    assert numbers(table) == [3, 7]
    assert not tables.delete_files(table), "the deletion vector of the file went with the file"
    with pytest.raises(ValidationException, match="Missing required files to delete"):
        table.transaction().update_snapshot().overwrite().delete_data_file(old).commit()


def test_a_delete_takes_files_whose_rows_all_match(catalog: EncryptedSqlCatalog) -> None:
    table = written(catalog, [1, 2], [3], [4, 5])
    with table.transaction() as tx:
        update = tx.update_snapshot().delete()
        update.delete_by_predicate(parse("x > 4"))
        update.delete_by_predicate(parse("x = 3"))
        update.commit()
    assert (update.files_affected, update.rewrites_needed) == (True, True)
    assert numbers(table) == [1, 2, 4, 5]
    before = table.metadata_location
    with table.transaction() as tx, tx.update_snapshot().delete() as update:
        update.delete_by_predicate(parse("x = 9"))
    assert table.metadata_location == before


def test_a_file_without_a_key_or_with_another_one_is_refused(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = written(catalog, [1])
    (file,) = tables.data_files(table)
    bare = DataFileV3(*values_of(file))
    bare[12] = None
    update = table.transaction().update_snapshot().fast_append()
    with pytest.raises(PlaintextFileError, match=r"has no key and the table is encrypted.*table.append"):
        update.append_data_file(bare)
    (other,) = tables.data_files(written(catalog, [2]))
    swapped = DataFileV3(*values_of(file))
    swapped[12] = other.key_metadata
    with pytest.raises(IntegrityError):
        update.append_data_file(swapped)
    before = tables.stored(tmp_path)
    with pytest.raises(PlaintextFileError, match="not written in the clear"):
        list(_dataframe_to_data_files(table.metadata, pa.table({"x": [5]}), table.io))
    assert tables.stored(tmp_path) == before


def test_a_plain_table_takes_files_that_pyiceberg_wrote(catalog: EncryptedSqlCatalog) -> None:
    table = catalog.create_table("hr.plain", NUMBERS, properties={"format-version": "3"})
    with table.transaction() as tx, tx.update_snapshot().fast_append() as update:
        for file in _dataframe_to_data_files(table.metadata, pa.table({"x": [5]}), table.io):
            update.append_data_file(file)
    assert table.scan().to_arrow()["x"].to_pylist() == [5]
    (sealed,) = tables.data_files(written(catalog, [1]))
    with pytest.raises(PlaintextFileError, match="has a key and the table is not encrypted"):
        table.transaction().update_snapshot().fast_append().append_data_file(sealed)


def test_an_append_removes_nothing_and_a_delete_adds_nothing(catalog: EncryptedSqlCatalog) -> None:
    table = written(catalog, [1])
    (file,) = tables.data_files(table)
    with pytest.raises(ConfigError, match=r"use delete\(\) or overwrite\(\)"):
        table.transaction().update_snapshot().fast_append().delete_data_file(file)
    with pytest.raises(ConfigError, match=r"use fast_append\(\) or overwrite\(\)"):
        table.transaction().update_snapshot().delete().append_data_file(file)
