"""Encrypted Parquet files: written whole or not at all, and read only if every byte is what was written."""

from __future__ import annotations

import gc
import io
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import _get_parquet_writer_kwargs

from kit.tables import golden, golden_files
from kit.tables.streams import flip
from sealberg.errors import (
    AuthenticationError,
    BadMagicError,
    ConfigError,
    IntegrityError,
    PoisonedError,
)
from sealberg.files.parquet.reader import EncryptedParquetReader, open_parquet, translating
from sealberg.files.parquet.writer import (
    EncryptedParquetWriter,
    WrittenParquet,
    encryption_properties,
    write_options,
)
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from sealberg.format.key_metadata import KeyMetadata

    Read: TypeAlias = Callable[[Any, KeyMetadata], pa.Table]


def field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={b"PARQUET:field_id": str(field_id).encode()})


SCHEMA = pa.schema([field("id", pa.int64(), 1), field("name", pa.large_string(), 2)])
ROWS = pa.table({"id": range(20), "name": [f"name {i}" for i in range(20)]}, schema=SCHEMA)


def write(rows: pa.Table = ROWS, keys: KeyMetadata | None = None, **options: Any) -> tuple[bytes, WrittenParquet]:
    sink = io.BytesIO()
    with EncryptedParquetWriter(sink, rows.schema, keys or new_file_key(), options=options, close_sink=False) as writer:
        writer.write(rows)
    return sink.getvalue(), writer.written


@cache
def sample() -> tuple[bytes, KeyMetadata]:
    stored, written = write()
    return stored, written.key_metadata


def by_reader(stored: Any, keys: KeyMetadata) -> pa.Table:
    with EncryptedParquetReader(stored, keys) as reader:
        return pa.Table.from_batches(reader.batches(), reader.schema)


def by_fragment(stored: Any, keys: KeyMetadata) -> pa.Table:
    fragment = open_parquet(stored, keys)
    with translating("the file"):
        return fragment.to_table()


WAYS = [by_reader, by_fragment]
both_ways = pytest.mark.parametrize("read", WAYS)


# -- what is written ----------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("key_length", [16, 24, 32])
def test_rows_come_back(read: Read, key_length: int) -> None:
    stored, written = write(keys=new_file_key(key_length))
    assert read(stored, written.key_metadata).equals(ROWS)


def test_the_file_is_encrypted_from_end_to_end() -> None:
    stored, keys = sample()
    assert stored[:4] == stored[-4:] == b"PARE"
    assert keys.aad_prefix is not None
    for secret in (keys.aad_prefix, keys.encryption_key, b"name"):
        assert secret not in stored
    with pytest.raises(OSError, match="no decryption"):
        pq.read_table(io.BytesIO(stored))


def test_close_tells_length_and_statistics() -> None:
    stored, written = write()
    assert written.stored_length == written.key_metadata.file_length == len(stored)
    assert written.metadata.num_rows == 20
    ids = written.metadata.row_group(0).column(0)
    assert (ids.statistics.min, ids.statistics.max) == (0, 19)
    assert ids.compression == "ZSTD"


def test_field_ids_are_in_the_file() -> None:
    stored, keys = sample()
    with EncryptedParquetReader(stored, keys) as reader:
        assert [one.metadata[b"PARQUET:field_id"] for one in reader.schema] == [b"1", b"2"]


def test_small_batches_make_one_row_group() -> None:
    sink = io.BytesIO()
    with EncryptedParquetWriter(sink, SCHEMA, new_file_key(), close_sink=False) as writer:
        for batch in ROWS.to_batches(max_chunksize=3):
            writer.write(batch)
    assert writer.written.metadata.num_row_groups == 1
    assert by_reader(sink.getvalue(), writer.written.key_metadata).equals(ROWS)


@pytest.mark.parametrize(
    ("options", "groups"), [({"row_group_rows": 7}, [7, 7, 6]), ({"row_group_bytes": 1}, [1] * 20)]
)
def test_row_groups_keep_their_limits(options: dict[str, Any], groups: list[int]) -> None:
    stored, written = write(**options)
    found = [written.metadata.row_group(i).num_rows for i in range(written.metadata.num_row_groups)]
    assert found == groups
    assert by_reader(stored, written.key_metadata).equals(ROWS)


def test_a_row_group_ends_before_it_is_too_large() -> None:
    schema = pa.schema([field("id", pa.int64(), 1)])
    _, written = write(pa.table({"id": range(1000)}, schema=schema), row_group_bytes=2400)
    assert [written.metadata.row_group(i).num_rows for i in range(4)] == [300, 300, 300, 100]


def test_a_file_without_rows_opens() -> None:
    stored, written = write(ROWS.slice(0, 0))
    assert by_reader(stored, written.key_metadata).num_rows == 0
    assert by_fragment(stored, written.key_metadata).num_rows == 0


def test_small_decimals_are_integers_as_java_has_them() -> None:
    schema = pa.schema([field("d", pa.decimal128(9, 2), 1)])
    _, written = write(pa.table({"d": []}, schema=schema))
    assert written.metadata.schema.column(0).physical_type == "INT32"


@pytest.mark.parametrize("kind", ["path", "native", "stream", "buffer"])
def test_any_place_will_do(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    with EncryptedParquetWriter(pa.OSFile(str(path), "wb"), SCHEMA, new_file_key()) as writer:
        writer.write(ROWS)
    keys = writer.written.key_metadata
    places: dict[str, Callable[[], Any]] = {
        "path": lambda: path,
        "native": lambda: pa.OSFile(str(path)),
        "stream": lambda: io.BytesIO(path.read_bytes()),
        "buffer": path.read_bytes,
    }
    for read in WAYS:
        assert read(places[kind](), keys).equals(ROWS)


# -- what is not written ------------------------------------------------------------------------


def test_no_key_no_file() -> None:
    sink = io.BytesIO()
    with pytest.raises(ConfigError, match="no key metadata"):
        EncryptedParquetWriter(sink, SCHEMA, None)  # type: ignore[arg-type]
    assert sink.closed


def test_a_key_is_for_one_file() -> None:
    with pytest.raises(ConfigError, match="already written"):
        EncryptedParquetWriter(io.BytesIO(), SCHEMA, sample()[1])
    with pytest.raises(ConfigError, match="AAD prefix"):
        encryption_properties(replace(new_file_key(), aad_prefix=None))


@pytest.mark.parametrize(
    "bad",
    [
        pa.field("x", pa.int64()),
        field("x", pa.large_list(pa.field("element", pa.int64())), 3),
        field("x", pa.struct([pa.field("y", pa.int64())]), 3),
        field("x", pa.map_(field("key", pa.string(), 4).with_nullable(False), pa.field("value", pa.int64())), 3),
    ],
)
def test_a_field_without_id_is_refused(bad: pa.Field) -> None:
    with pytest.raises(ConfigError, match="field_id"):
        EncryptedParquetWriter(io.BytesIO(), pa.schema([bad]), new_file_key())


def test_rows_of_another_schema_are_refused_and_the_file_goes_on() -> None:
    sink = io.BytesIO()
    with EncryptedParquetWriter(sink, SCHEMA, new_file_key(), close_sink=False) as writer:
        with pytest.raises(ConfigError, match="another schema"):
            writer.write(pa.table({"id": [1]}))
        writer.write(ROWS)
    assert by_reader(sink.getvalue(), writer.written.key_metadata).equals(ROWS)


def half_written(sink: Any, keys: KeyMetadata) -> EncryptedParquetWriter:
    """Some row groups are at the sink already."""
    writer = EncryptedParquetWriter(sink, SCHEMA, keys, options={"row_group_rows": 5}, close_sink=False)
    writer.write(ROWS)
    return writer


@pytest.mark.slow
@pytest.mark.parametrize("end", ["abort", "exception", "forgotten"])
def test_a_writer_that_ends_early_leaves_no_file(end: str) -> None:
    sink, keys = io.BytesIO(), new_file_key()
    writer = half_written(sink, keys)
    before = len(sink.getvalue())
    assert before > 500, "there is something that a footer could make a file of"
    if end == "abort":
        writer.abort()
        with pytest.raises(ConfigError, match="successful close"):
            _ = writer.written
        with pytest.raises(ValueError, match="closed"):
            writer.write(ROWS)
    elif end == "exception":
        with pytest.raises(ZeroDivisionError), writer:
            _ = 1 // 0
    del writer
    gc.collect()
    assert len(sink.getvalue()) == before, "nobody adds a footer, not even a finalizer"
    with pytest.raises(IntegrityError):
        by_reader(sink.getvalue(), keys)


class Full(io.BytesIO):
    """A disk with room for some bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > self.room:
            raise OSError(28, "no space left")
        return super().write(data)

    def close(self) -> None:
        self.kept = self.getvalue()
        super().close()


@pytest.mark.slow
@pytest.mark.parametrize("room", [4, 300, 1200])
def test_a_full_disk_leaves_no_file(room: int) -> None:
    sink, keys = Full(room), new_file_key()
    with pytest.raises(OSError, match="no space left"), EncryptedParquetWriter(sink, SCHEMA, keys) as writer:
        writer.write(ROWS)
    assert sink.closed
    gc.collect()
    with pytest.raises(IntegrityError):
        by_reader(sink.kept, keys)


def test_a_sink_that_takes_little_at_a_time_gets_all() -> None:
    class Slow(io.BytesIO):
        def write(self, data: Any, /) -> int:
            return super().write(data[:7])

    sink = Slow()
    with EncryptedParquetWriter(sink, SCHEMA, new_file_key(), close_sink=False) as writer:
        writer.write(ROWS)
    assert by_reader(sink.getvalue(), writer.written.key_metadata).equals(ROWS)


def test_a_sink_that_takes_nothing_poisons() -> None:
    class Stuck(io.BytesIO):
        def write(self, data: Any, /) -> int:
            return 0

    with (
        pytest.raises(PoisonedError, match="accepted 0"),
        EncryptedParquetWriter(Stuck(), SCHEMA, new_file_key()) as writer,
    ):
        writer.write(ROWS)


# -- reading parts ------------------------------------------------------------------------------


def test_row_groups_are_picked_by_statistics() -> None:
    stored, written = write(row_group_rows=5)
    with EncryptedParquetReader(stored, written.key_metadata) as reader:
        assert reader.row_groups() == [0, 1, 2, 3]
        assert reader.row_groups(ds.field("id") == 7) == [1]
        assert reader.row_groups(ds.field("id") > 100) == []
        (batch,) = reader.batches(["name"], row_groups=[1])
        assert batch.to_pydict() == {"name": [f"name {i}" for i in range(5, 10)]}


def test_files_of_several_keys_make_one_dataset() -> None:
    fragments = [open_parquet(stored, written.key_metadata) for stored, written in (write(), write())]
    dataset = ds.FileSystemDataset(fragments, SCHEMA, fragments[0].format)
    assert dataset.count_rows(filter=ds.field("id") < 5) == 10


def test_a_large_footer_is_read_whole() -> None:
    schema = pa.schema([field(f"column_{i}", pa.int64(), i) for i in range(1200)])
    stored, written = write(pa.table({name: [1] for name in schema.names}, schema=schema))
    assert int.from_bytes(stored[-8:-4], "little") > 1 << 16
    for read in WAYS:
        assert read(stored, written.key_metadata).num_columns == 1200
    with pytest.raises(BadMagicError):
        by_reader(flip(stored, 0), written.key_metadata)


@pytest.mark.parametrize("table", [name for name in golden.TABLES if name != "avro"])
def test_java_files_open(table: str) -> None:
    for file in golden_files.files(table, "parquet"):
        assert by_reader(file.path, file.keys).num_rows == file.entry["record_count"]
        assert by_fragment(file.path, file.keys).num_rows == file.entry["record_count"]
        with pytest.raises(AuthenticationError):
            by_reader(file.path, replace(file.keys, aad_prefix=bytes(16)))


# -- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"write.parquet.compression-codec": "gzip", "write.parquet.compression-level": "5"},
        {"write.parquet.compression-codec": "uncompressed"},
        {"write.parquet.page-size-bytes": "1234", "write.parquet.dict-size-bytes": "99"},
        {"write.parquet.page-row-limit": "77"},
    ],
)
def test_options_are_those_of_pyiceberg(properties: dict[str, str]) -> None:
    ours, theirs = write_options(properties), _get_parquet_writer_kwargs(properties)
    assert {name: ours[name] for name in theirs} == theirs


def test_row_group_limits_are_options() -> None:
    assert write_options({})["row_group_rows"] == 1 << 20
    assert write_options({})["row_group_bytes"] == 128 << 20
    found = write_options({"write.parquet.row-group-limit": "9", "write.parquet.row-group-size-bytes": "8"})
    assert (found["row_group_rows"], found["row_group_bytes"]) == (9, 8)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy", "lz4", "brotli", "uncompressed"])
def test_every_codec_writes(codec: str) -> None:
    stored, written = write(**write_options({"write.parquet.compression-codec": codec}))
    assert by_reader(stored, written.key_metadata).equals(ROWS)


@pytest.mark.parametrize(
    ("name", "value"),
    [("page-size-bytes", "many"), ("page-row-limit", "0"), ("compression-codec", "lzo"), ("compression-level", "x")],
)
def test_a_property_that_makes_no_sense_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=value):
        write_options({f"write.parquet.{name}": value})
