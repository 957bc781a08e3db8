"""Avro data files, written because a table asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables import tables
from sealberg.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))
ROWS = pa.table({"id": list(range(200)), "name": ["the same words again and again"] * 200})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def test_codecs_are_honoured_and_every_file_is_sealed(catalog: EncryptedSqlCatalog) -> None:
    sizes = {}
    for codec in ("uncompressed", "gzip", "zstd", "snappy"):
        table = tables.make(catalog, SCHEMA, **{"write.format.default": "avro", "write.avro.compression-codec": codec})
        table.append(ROWS)
        (file,) = tables.data_files(table)
        content = tables.local(file.file_path).read_bytes()
        assert file.file_format == FileFormat.AVRO
        assert content[:4] == b"AGS1"
        assert file.file_size_in_bytes == len(content)
        assert file.record_count == 200
        assert tables.rows(table) == tables.in_order(ROWS.to_pylist())
        sizes[codec] = len(content)
    assert all(2 * size < sizes["uncompressed"] for codec, size in sizes.items() if codec != "uncompressed")


def test_files_of_both_formats_are_read_deleted_and_rewritten_together(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, **{"write.delete.mode": "merge-on-read"})
    table.append(ROWS.slice(0, 100))
    table.transaction().set_properties({"write.format.default": "avro"}).commit_transaction()
    table.append(ROWS.slice(100))
    before = tables.lineage(table)
    table.delete("id in (5, 105)")
    assert {file.file_format for file in tables.data_files(table)} == {FileFormat.PARQUET, FileFormat.AVRO}
    assert len(tables.delete_files(table)) == 2
    table.transaction().set_properties({"write.delete.mode": "copy-on-write"}).commit_transaction()
    table.delete("id in (6, 106)")  # the Parquet file is written again, as Avro
    assert {file.file_format for file in tables.data_files(table)} == {FileFormat.AVRO}
    assert tables.lineage(table) == {key: value for key, value in before.items() if key not in (5, 6, 105, 106)}
    tables.check_lineage(table)


def test_avro_in_a_table_that_is_not_encrypted_is_refused_before_a_byte_is_written(
    catalog: EncryptedSqlCatalog, tmp_path: Path
) -> None:
    table = tables.make_open(catalog, SCHEMA, **{"write.format.default": "avro"})
    before = tables.stored(tmp_path)
    with pytest.raises(UnsupportedError, match="Avro"):
        table.append(ROWS)
    assert tables.stored(tmp_path) == before
