"""What Iceberg Java expects of our tables, told by running it, and pinned here without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from sealberg.errors import ConfigError
from sealberg.files.file_io import SealedFileIO
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.catalogs.sql import SealedSqlCatalog
from sealberg.table.manifest_cache import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "data", StringType(), required=False),
)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SealedSqlCatalog]:
    made = SealedSqlCatalog(
        "ours",
        **{
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"file://{tmp_path}/wh",
            "encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS",
        },
    )
    made.create_namespace("db")
    yield made
    made.close()


def table(catalog: SealedSqlCatalog, properties: Mapping[str, str] | None = None) -> CatalogTable:
    made = catalog.create_table("db.t", SCHEMA, properties={"encryption.key-id": "keyA", **(properties or {})})
    assert isinstance(made, CatalogTable)
    return made


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "data": [f"d{one}" for one in ids]})


@pytest.mark.parametrize(
    ("name", "codec"),
    [("gzip", "deflate"), ("zstd", "zstandard"), ("snappy", "snappy"), ("uncompressed", "null"), ("GZIP", "deflate")],
)
def test_manifests_have_the_codec_of_their_own_property_and_are_read_again(
    catalog: SealedSqlCatalog, name: str, codec: str
) -> None:
    made = table(catalog, {"write.manifest.compression-codec": name, "write.avro.compression-codec": "gzip"})
    made.append(rows(1, 2))
    snapshot = made.current_snapshot()
    assert snapshot is not None
    assert isinstance(made.io, SealedFileIO)
    for manifest in snapshot.manifests(made.io):
        with made.io.new_input(manifest.manifest_path).open() as stream:
            assert f"avro.codec{chr(2 * len(codec))}{codec}".encode() in stream.read(100_000)
    SHARED.clear()
    assert made.scan().to_arrow()["id"].to_pylist() == [1, 2]


def test_an_unknown_codec_of_manifests_is_refused(catalog: SealedSqlCatalog) -> None:
    with pytest.raises(ConfigError, match="Unsupported compression codec: lz77"):
        table(catalog, {"write.manifest.compression-codec": "lz77"}).append(rows(1))


def test_the_codec_of_avro_data_files_is_not_that_of_manifests(catalog: SealedSqlCatalog) -> None:
    made = table(catalog, {"write.avro.compression-codec": "uncompressed"})
    made.append(rows(1))
    assert made.scan().to_arrow()["id"].to_pylist() == [1]


def test_an_upsert_in_which_every_row_is_known_inserts_none(catalog: SealedSqlCatalog) -> None:
    made = table(catalog)
    made.append(rows(1, 2, 3))
    done = made.upsert(pa.table({"id": [2], "data": ["new"]}), join_cols=["id"])
    assert (done.rows_updated, done.rows_inserted) == (1, 0)
    assert sorted(made.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "data": "d1"}, {"id": 2, "data": "new"}, {"id": 3, "data": "d3"},
    ]  # fmt: skip
