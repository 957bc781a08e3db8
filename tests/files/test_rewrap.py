"""Files copied under another key without decoding: pyarrow reads the same rows, statistics, indexes and metadata."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from files.test_module_walk import parquet_file
from kit.tables.java_pages import pages_of_version_2
from sealberg.errors import AuthenticationError, BadMagicError, FormatError, PlaintextFileError, UnsupportedError
from sealberg.files.parquet.module_walk import ModuleWalk
from sealberg.files.parquet.plain_walk import PlainWalk
from sealberg.files.parquet.reader import EncryptedParquetReader, decryption_properties
from sealberg.files.parquet.rewrap import Rewrapped, check_rewrapped, rewrap
from sealberg.files.parquet.writer import encryption_properties
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from sealberg.format.key_metadata import KeyMetadata

ROWS = 3000
POINT = pa.struct([("x", pa.float64()), ("y", pa.int32())])
TAGS = pa.list_(pa.field("element", pa.string()))


def rows(count: int = ROWS) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": pa.array([None if n % 7 == 0 else f"name {n % 50}" for n in numbers]),
            "price": pa.array([Decimal(n) / 100 for n in numbers], pa.decimal128(12, 2)),
            "when": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(n) for n in numbers]),
            "tags": pa.array([[f"t{n % 3}", None] if n % 2 else [] for n in numbers], TAGS),
            "place": pa.array([{"x": n / 2, "y": None} for n in numbers], POINT),
            "props": pa.array([[("k", n)] for n in numbers], pa.map_(pa.string(), pa.int32())),
            "flag": pa.array([n % 5 == 0 for n in numbers]),
        }
    ).replace_schema_metadata({"owner": "the test"})


def plain(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(
        table, out, **{"row_group_size": 1000, "write_page_index": True, "max_rows_per_page": 300, **options}
    )
    return out.getvalue()


def copied(stored: bytes, key: KeyMetadata | None, target: KeyMetadata | None) -> tuple[bytes, Rewrapped]:
    sink = io.BytesIO()
    file = rewrap(stored, key, sink, target)
    check_rewrapped(sink.getvalue(), file, where="the copy")
    return sink.getvalue(), file


def read(stored: bytes, key: KeyMetadata | None) -> tuple[pa.Table, pq.FileMetaData]:
    keys = None if key is None else decryption_properties(key)
    with pq.ParquetFile(pa.BufferReader(stored), decryption_properties=keys) as file:
        return file.read(), file.metadata


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
def test_the_copy_under_a_key_has_the_same_rows_and_statistics(codec: str) -> None:
    source = plain(rows(), compression=codec)
    stored, file = copied(source, None, new_file_key())
    table, metadata = read(stored, file.key_metadata)
    assert table.equals(read(source, None)[0], check_metadata=True)
    before = pq.read_metadata(io.BytesIO(source))
    assert metadata.schema.equals(before.schema)
    assert metadata.metadata == before.metadata
    assert metadata.created_by == before.created_by
    assert _claims(metadata) == _claims(before)
    assert stored[:4] == stored[-4:] == b"PARE"
    assert b"name 1" not in stored


def _claims(metadata: pq.FileMetaData) -> list[object]:
    claims: list[object] = []
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        for column in range(group.num_columns):
            chunk = group.column(column)
            statistics = chunk.statistics.to_dict() if chunk.is_stats_set else None
            claims.append((chunk.path_in_schema, chunk.num_values, chunk.encodings, chunk.compression, statistics))
            claims.append((chunk.has_column_index, chunk.has_offset_index, chunk.has_dictionary_page))
    return claims


@pytest.mark.parametrize("key_length", [16, 24, 32])
def test_the_way_into_a_key_to_another_key_and_back_gives_the_same_parts(key_length: int) -> None:
    source = plain(rows())
    sealed, first = copied(source, None, new_file_key(key_length))
    again, second = copied(sealed, first.key_metadata, new_file_key(key_length))
    back, last = copied(again, second.key_metadata, None)
    assert last.key_metadata is None
    assert first.checksums == second.checksums == last.checksums
    assert read(back, None)[0].equals(read(source, None)[0], check_metadata=True)
    with PlainWalk(source) as old, PlainWalk(back) as new:
        assert _parts(old) == _parts(new)


def _parts(walk: PlainWalk) -> list[tuple[object, bytes]]:
    """All parts but the offset indexes, whose offsets differ: pyarrow writes a bloom filter elsewhere."""
    chunks = walk.footer.chunks()
    return [
        (m.place, bytes(m.plain)) for pair in chunks for m in walk.chunk(*pair) if m.place.kind.name != "OFFSET_INDEX"
    ]


def test_the_claims_for_the_manifest_are_those_of_the_new_file() -> None:
    stored, file = copied(plain(rows()), None, new_file_key())
    assert file.stored_length == len(stored)
    assert file.key_metadata is not None
    assert file.key_metadata.file_length == len(stored)
    assert file.num_rows == ROWS
    with ModuleWalk(stored, file.key_metadata) as walk:
        assert file.split_offsets == [group.start for group in walk.footer.row_groups]
        assert [group.ordinal for group in walk.footer.row_groups] == [0, 1, 2]


def test_a_filter_finds_its_page_in_the_copy_by_the_page_index() -> None:
    stored, file = copied(plain(rows()), None, new_file_key())
    assert file.key_metadata is not None
    with EncryptedParquetReader(pa.BufferReader(stored), file.key_metadata) as reader:
        assert reader.row_groups(pa.dataset.field("id") == 2500) == [2]


def test_bloom_filters_are_kept() -> None:
    source = plain(rows(), bloom_filter_options={"name": {"ndv": 100, "fpp": 0.01}})
    sealed, file = copied(source, None, new_file_key())
    assert file.key_metadata is not None
    back, _ = copied(sealed, file.key_metadata, None)
    with ModuleWalk(sealed, file.key_metadata) as walk:
        assert all(
            (chunk.bloom_filter is not None) == (chunk.leaf.path == ("name",)) for _, chunk in walk.footer.chunks()
        )
    with PlainWalk(source) as old, PlainWalk(back) as new:
        assert _parts(old) == _parts(new)


@pytest.mark.parametrize("count", [0, 1])
def test_files_of_no_and_one_row_are_copied(count: int) -> None:
    stored, file = copied(plain(rows(count)), None, new_file_key())
    assert read(stored, file.key_metadata)[0].equals(rows(count))


def test_pages_of_version_2_without_levels_are_copied() -> None:
    table = pa.table({"id": pa.array(range(ROWS), pa.int64())}, pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    stored, file = copied(plain(table, data_page_version="2.0"), None, new_file_key())
    assert read(stored, file.key_metadata)[0].equals(table)


def test_pages_of_version_2_with_levels_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="of version 2 and has levels"):
        copied(plain(rows(), data_page_version="2.0"), None, new_file_key())


def test_encrypted_pages_of_version_2_by_pyarrow_are_opened() -> None:
    key, sink = new_file_key(), io.BytesIO()
    pq.write_table(rows(), sink, data_page_version="2.0", encryption_properties=encryption_properties(key))
    stored = sink.getvalue()
    opened, _ = copied(stored, key.with_length(len(stored)), None)
    assert read(opened, None)[0].equals(rows())


def test_encrypted_pages_of_version_2_by_java_are_opened_and_not_sealed_again() -> None:
    stored, key = pages_of_version_2()
    opened, _ = copied(stored, key, None)
    table = read(opened, None)[0]
    assert table["id"].to_pylist() == list(range(1000))
    assert table["data"].to_pylist() == [None if n % 3 == 0 else f"d{n}" for n in range(1000)]
    assert table["tags"].to_pylist() == [None if n % 4 == 0 else ["a", f"b{n}"] for n in range(1000)]
    with pytest.raises(UnsupportedError, match="of version 2 and has levels"):
        copied(stored, key, new_file_key())


def test_a_walk_says_that_levels_of_javas_pages_of_version_2_are_not_encrypted() -> None:
    stored, key = pages_of_version_2()
    with ModuleWalk(stored, key) as walk:
        group, chunk = list(walk.footer.chunks())[1]
        with pytest.raises(PlaintextFileError, match="parquet-java encrypts only the values"):
            list(walk.chunk(group, chunk))


def test_altered_values_of_javas_pages_of_version_2_are_refused() -> None:
    stored, key = pages_of_version_2()
    with ModuleWalk(stored, key, clear_levels=True) as walk:
        group, chunk = list(walk.footer.chunks())[1]
        *_, page = (module for module in walk.chunk(group, chunk) if module.place.kind.name == "DATA_PAGE")
    altered = bytearray(stored)
    altered[page.offset + page.stored_length - 20] ^= 1
    with pytest.raises(AuthenticationError):
        copied(bytes(altered), key, None)


def test_page_checksums_of_the_source_are_not_taken_over() -> None:
    source = plain(rows(), write_page_checksum=True)
    stored, file = copied(source, None, new_file_key())
    assert file.key_metadata is not None
    options = {"decryption_properties": decryption_properties(file.key_metadata), "page_checksum_verification": True}
    assert pq.read_table(pa.BufferReader(stored), **options).equals(rows())


@pytest.mark.parametrize("table", ["basic128", "key256", "alltypes", "cow", "rust", "old_append"])
def test_files_by_java_and_rust_are_copied_under_another_key_and_into_plaintext(table: str) -> None:
    stored, key = parquet_file(table)
    sealed, file = copied(stored, key, new_file_key())
    assert read(sealed, file.key_metadata)[0].equals(read(stored, key)[0], check_metadata=True)
    assert read(copied(sealed, file.key_metadata, None)[0], None)[0].equals(read(stored, key)[0])


def test_a_source_of_another_key_is_refused() -> None:
    stored, file = copied(plain(rows()), None, new_file_key())
    assert file.key_metadata is not None
    other = new_file_key().with_length(len(stored))
    with pytest.raises(AuthenticationError):
        copied(stored, other, new_file_key())


def test_an_encrypted_source_without_its_key_is_refused() -> None:
    stored, _ = copied(plain(rows()), None, new_file_key())
    with pytest.raises(BadMagicError, match="no key is known"):
        copied(stored, None, new_file_key())


def test_a_source_with_one_altered_page_is_refused() -> None:
    stored, file = copied(plain(rows()), None, new_file_key())
    altered = bytearray(stored)
    altered[len(stored) // 3] ^= 1
    with pytest.raises(AuthenticationError):
        copied(bytes(altered), file.key_metadata, new_file_key())


def test_a_copy_of_other_pages_fails_the_check() -> None:
    _, file = copied(plain(rows()), None, None)
    other, _ = copied(plain(rows().slice(1)), None, None)
    with pytest.raises(FormatError, match="differs from its source"):
        check_rewrapped(other, file, where="the copy")


def test_a_source_cut_at_any_part_is_refused() -> None:
    source = plain(rows(1000))
    for length in range(0, len(source) - 1, 997):
        with pytest.raises(FormatError):
            copied(source[:length], None, new_file_key())
