"""Bloom filters by the table's properties: read, refused where they make no sense, written into every Parquet file."""

from __future__ import annotations

import io
import tempfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from kit.tables import tables
from sealberg.errors import ConfigError, IntegrityError
from sealberg.files.parquet import spool
from sealberg.files.parquet.bloom_filters import BloomFilter, BloomFilters, IgnoredPropertyWarning
from sealberg.files.parquet.module_walk import ModuleWalk
from sealberg.files.parquet.plain_walk import PlainWalk
from sealberg.files.parquet.reader import EncryptedParquetReader
from sealberg.files.parquet.writer import EncryptedParquetWriter, WrittenParquet, encryption_properties
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from pathlib import Path

    from sealberg.files.parquet.file_walk import FileWalk
    from sealberg.format.key_metadata import KeyMetadata

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


def test_a_plain_table_gets_its_bloom_filters(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "n": [1, 2]})
    with tables.sealed_catalog(tmp_path) as catalog:
        plain = catalog.create_table("hr.plain", rows.schema, properties={"format-version": "3", f"{ON}id": "true"})
        plain.append(rows)
        (file,) = tables.data_files(plain)
        columns = pq.read_metadata(str(file.file_path).removeprefix("file://")).row_group(0)
        assert [columns.column(at).bloom_filter_offset is None for at in range(2)] == [False, True]


# -- encrypted files ----------------------------------------------------------------------------


def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


ROWS = pa.table(
    {"id": range(100_000), "name": [f"n{at % 9_999}" for at in range(100_000)]},
    pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2)]),
)
FILTERS = {"name": {"fpp": 0.01, "ndv": 10_000}}
OPTIONS = {"bloom_filter_options": FILTERS, "row_group_rows": 40_000}


def write(sink: Any, key: KeyMetadata, rows: pa.Table = ROWS) -> WrittenParquet:
    with EncryptedParquetWriter(sink, rows.schema, key, options=OPTIONS, close_sink=False) as writer:
        writer.write(rows)
    return writer.written


def test_pyarrow_cannot_encrypt_a_file_with_bloom_filters() -> None:
    """When this fails, pyarrow can: let it, and remove spool.py."""
    with pytest.raises(OSError, match="Encryption is not currently supported with bloom filter"):
        properties = encryption_properties(new_file_key())
        pq.write_table(ROWS, io.BytesIO(), bloom_filter_options=FILTERS, encryption_properties=properties)


@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(0, 0), ROWS.slice(0, 1)])
def test_an_encrypted_file_has_the_bloom_filters_that_pyarrow_makes(rows: pa.Table) -> None:
    sink = io.BytesIO()
    written = write(sink, new_file_key(), rows)
    stored = sink.getvalue()
    assert len(stored) == written.stored_length == written.key_metadata.file_length
    with EncryptedParquetReader(stored, written.key_metadata) as reader:
        assert pa.Table.from_batches(reader.batches(), reader.schema).equals(rows)
        assert reader.metadata.num_row_groups == written.metadata.num_row_groups
        for at in range(reader.metadata.num_row_groups):
            group, said = reader.metadata.row_group(at), written.metadata.row_group(at)
            assert [group.column(n).to_dict() for n in range(2)] == [said.column(n).to_dict() for n in range(2)]
    if not rows:  # pyarrow writes a row group without rows, with offsets that lead nowhere
        return
    plain = io.BytesIO()
    pq.write_table(rows, plain, bloom_filter_options=FILTERS, row_group_size=40_000)
    assert filters_of(ModuleWalk(stored, written.key_metadata)) == filters_of(PlainWalk(plain.getvalue()))


def filters_of(walk: FileWalk) -> list[bytes]:
    """Headers and bits of all filters; every byte of the file belongs to some part of it."""
    with walk:
        parts = (module for group, chunk in walk.footer.chunks() for module in walk.chunk(group, chunk))
        found = [bytes(module.plain) for module in parts if "BLOOM" in module.place.kind.name]
        assert list(walk.gaps()) == []
    assert len(found) == 2 * len(walk.footer.row_groups)
    return found


@pytest.mark.parametrize("in_memory", [spool.IN_MEMORY, 1])
def test_what_waits_in_the_spool_is_sealed(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Watched(tempfile.SpooledTemporaryFile[bytes]):
        def close(self) -> None:
            if not self.closed:
                assert self._rolled is (in_memory == 1)  # type: ignore[attr-defined]
                self.seek(0)
                seen.append(self.read())
            super().close()

    monkeypatch.setattr(spool, "IN_MEMORY", in_memory)
    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", Watched)
    rows = ROWS.set_column(1, ROWS.field(1), pa.array(["a secret name"] * len(ROWS)))
    write(io.BytesIO(), new_file_key(), rows)
    assert len(seen) == 1
    assert seen[0].startswith(b"AGS1")
    assert len(seen[0]) > 10_000
    assert b"a secret name" not in seen[0]
    assert b"PAR1" not in seen[0]


class Sink(io.BytesIO):
    """Takes a few bytes at a time, and has room for some."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: Any, /) -> int:
        if self.tell() >= self.room:
            raise OSError(28, "no space left")
        return super().write(memoryview(data).cast("B")[:5000])


def test_a_sink_that_takes_little_at_a_time_gets_all() -> None:
    sink, key = Sink(1 << 30), new_file_key()
    written = write(sink, key)
    with EncryptedParquetReader(sink.getvalue(), written.key_metadata) as reader:
        assert pa.Table.from_batches(reader.batches(), reader.schema).equals(ROWS)


@pytest.mark.parametrize("end", ["abort", "full"])
def test_a_writer_that_ends_early_leaves_no_file_and_no_spool(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    class Kept(tempfile.SpooledTemporaryFile[bytes]):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            opened.append(self)

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", Kept)
    sink, key = Sink(10_000), new_file_key()
    writer = EncryptedParquetWriter(sink, ROWS.schema, key, options=OPTIONS, close_sink=False)
    writer.write(ROWS)
    if end == "abort":
        writer.abort()
        assert sink.getvalue() == b""
    else:
        with pytest.raises(OSError, match="no space left"):
            writer.close()
        assert len(sink.getvalue()) >= 10_000
    assert [file.closed for file in opened] == [True]
    with pytest.raises(IntegrityError), EncryptedParquetReader(sink.getvalue(), key):
        pass
