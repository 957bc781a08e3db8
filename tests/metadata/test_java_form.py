"""What Iceberg Java expects of our tables, told by running it, and pinned here without it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.errors import ConfigError
from sealberg.files.file_io import EncryptingFileIO
from sealberg.metadata import decode_cache as cache
from sealberg.metadata import java_json
from sealberg.metadata.schema_json import field_json
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "data", StringType(), required=False),
)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    made = EncryptedSqlCatalog(
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


def table(catalog: EncryptedSqlCatalog, properties: Mapping[str, str] | None = None) -> CatalogTable:
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
    catalog: EncryptedSqlCatalog, name: str, codec: str
) -> None:
    made = table(catalog, {"write.manifest.compression-codec": name, "write.avro.compression-codec": "gzip"})
    made.append(rows(1, 2))
    snapshot = made.current_snapshot()
    assert snapshot is not None
    assert isinstance(made.io, EncryptingFileIO)
    for manifest in snapshot.manifests(made.io):
        with made.io.new_input(manifest.manifest_path).open() as stream:
            assert f"avro.codec{chr(2 * len(codec))}{codec}".encode() in stream.read(100_000)
    cache.clear()
    assert made.scan().to_arrow()["id"].to_pylist() == [1, 2]


def test_an_unknown_codec_of_manifests_is_refused(catalog: EncryptedSqlCatalog) -> None:
    with pytest.raises(ConfigError, match="Unsupported compression codec: lz77"):
        table(catalog, {"write.manifest.compression-codec": "lz77"}).append(rows(1))


def test_the_codec_of_avro_data_files_is_not_that_of_manifests(catalog: EncryptedSqlCatalog) -> None:
    made = table(catalog, {"write.avro.compression-codec": "uncompressed"})
    made.append(rows(1))
    assert made.scan().to_arrow()["id"].to_pylist() == [1]


def test_an_upsert_in_which_every_row_is_known_inserts_none(catalog: EncryptedSqlCatalog) -> None:
    made = table(catalog)
    made.append(rows(1, 2, 3))
    done = made.upsert(pa.table({"id": [2], "data": ["new"]}), join_cols=["id"])
    assert (done.rows_updated, done.rows_inserted) == (1, 0)
    assert sorted(made.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "data": "d1"}, {"id": 2, "data": "new"}, {"id": 3, "data": "d3"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (BinaryType(), b"\x00\xff\xab", '"00FFAB"'),
        (FixedType(2), b"\x01\xfe", '"01FE"'),
        (DecimalType(9, 2), Decimal("1.25"), '"1.25"'),
        (DecimalType(9, 2), Decimal("1.5"), '"1.50"'),
        (DecimalType(9, 2), Decimal(0), '"0.00"'),
        (DecimalType(9, 0), Decimal(100), '"100"'),
        (DecimalType(38, 10), Decimal("1E-10"), '"0.0000000001"'),
        (DecimalType(38, 0), Decimal("9" * 38), f'"{"9" * 38}"'),
        (TimeType(), dt.time(1, 2), '"01:02:00"'),
        (TimeType(), dt.time(1, 2, 30, 100000), '"01:02:30.1"'),
        (TimestampType(), dt.datetime(2020, 1, 2, 3, 4, 50), '"2020-01-02T03:04:50"'),  # noqa: DTZ001
        (TimestampType(), dt.datetime(2020, 1, 2, 3, 4, 5, 678), '"2020-01-02T03:04:05.000678"'),  # noqa: DTZ001
        (TimestampType(), dt.datetime(2020, 1, 2, 3, 4, 5, 500000), '"2020-01-02T03:04:05.5"'),  # noqa: DTZ001
        (TimestamptzType(), dt.datetime(2020, 1, 2, tzinfo=dt.UTC), '"2020-01-02T00:00:00+00:00"'),
        (TimestamptzType(), dt.datetime(2020, 1, 2, 0, 0, 0, 120000, dt.UTC), '"2020-01-02T00:00:00.12+00:00"'),
        (FloatType(), 0.1, "0.1"),
        (FloatType(), 1e10, "1.0E10"),
        (FloatType(), 1.4e-45, "1.4E-45"),
        (FloatType(), 3.4028234663852886e38, "3.4028235E38"),
        (DoubleType(), 5e-324, "4.9E-324"),
        (DoubleType(), 0.5, "0.5"),
    ],
)
def test_a_default_value_is_spelt_as_in_java(kind: PrimitiveType, value: Any, text: str) -> None:
    """Java hashes what it would have written itself: another spelling is another table to it."""
    field = NestedField(1, "a", kind, required=False, initial_default=value, write_default=value)
    written = java_json.dumps(field_json(field))
    assert written.endswith(f'"initial-default":{text},"write-default":{text}}}')


def test_a_default_value_that_a_decimal_cannot_hold_is_refused() -> None:
    field = NestedField(1, "a", DecimalType(9, 2), required=False, initial_default=Decimal("1.255"))
    with pytest.raises(ConfigError, match=r"1\.255 is not a decimal\(9, 2\)"):
        field_json(field)
