"""Avro data files that are refused, and the options of the writer."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from files.test_avro import joined, read, record, table_of, write
from files.test_avro_ranges import NUMBERED, ids
from kit.tables.streams import flip
from sealberg.errors import (
    BadMagicError,
    ConfigError,
    FormatError,
    IntegrityError,
    SealbergError,
    TruncatedError,
    UnsupportedError,
)
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.avro.container import header_bytes
from sealberg.files.avro.data_file import EncryptedAvroWriter, write_options
from sealberg.files.seal import open_bytes, seal_bytes
from sealberg.keys.file_key import new_file_key

# -- what is refused ----------------------------------------------------------------------------


def test_only_a_sealed_stream_takes_rows() -> None:
    sink = io.BytesIO()
    with pytest.raises(ConfigError, match="Ags1Writer"):
        EncryptedAvroWriter(sink, NUMBERED)  # type: ignore[arg-type]
    assert sink.getvalue() == b""
    writer = Ags1Writer(sink, new_file_key())
    writer.write(b"x")
    with pytest.raises(ConfigError, match="start"):
        EncryptedAvroWriter(writer, NUMBERED)


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"id": [1]}),
        pa.table({"text": ["secret"], "id": [1]}),
        pa.table({"id": ["secret"], "text": ["x"]}),
        pa.table({"id": pa.array([1, None]), "text": ["secret", "x"]}),
    ],
    ids=["missing", "order", "type", "null"],
)
def test_rows_that_do_not_fit_are_refused_and_leave_no_file(rows: pa.Table) -> None:
    sink, keys = io.BytesIO(), new_file_key()
    writer = EncryptedAvroWriter(Ags1Writer(sink, keys, close_sink=False), NUMBERED)
    with pytest.raises(ConfigError) as refused:
        writer.write(rows)
        writer.close()
    if rows.column_names == ["id", "text"] and rows.num_rows == 2:
        assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None or isinstance(refused.value.__cause__, ValueError)
    with pytest.raises(IntegrityError):
        open_bytes(sink.getvalue(), keys.with_length(len(sink.getvalue())))
    with pytest.raises(SealbergError):
        writer.close()


def test_storage_cannot_alter_a_row() -> None:
    rows = table_of([{"id": 1, "text": "x"}], NUMBERED)
    stored, written = write(rows, NUMBERED)
    for at in range(len(stored)):
        with pytest.raises(IntegrityError):
            read(flip(stored, at), written.key_metadata, NUMBERED)


def refused(plain: bytes, kind: type[Exception]) -> None:
    stored, keys = seal_bytes(plain)
    with pytest.raises(kind):
        read(stored, keys, NUMBERED)


def test_a_container_that_makes_no_sense_is_refused() -> None:
    sync = bytes(range(16))
    good = record({"name": "id", "type": "long", "field-id": 1})
    head = header_bytes(good, "null", {}, sync)
    row = b"\x02" + b"\x02" + b"\x0e" + sync  # one row of one byte, 7
    stored, keys = seal_bytes(head + row)
    assert ids(read(stored, keys, NUMBERED)) == [7]
    refused(b"PFA1" + bytes(100), BadMagicError)
    refused(head[:-1], TruncatedError)
    refused(head[:9], IntegrityError)
    refused(head + row[:-1], FormatError)
    refused(head + b"\x02\x02\x0e" + bytes(16), FormatError)  # another marker
    refused(head + b"\x01\x02\x0e" + sync, FormatError)  # minus one row
    refused(head + b"\x02\x01\x0e" + sync, FormatError)  # minus one byte
    refused(head + b"\x04\x02\x0e" + sync, FormatError)  # two rows in one byte
    refused(head + b"\xff" * 12, FormatError)  # an endless number
    refused(header_bytes(good, "lzma", {}, sync), UnsupportedError)
    refused(header_bytes(good, "deflate", {}, sync) + row, FormatError)
    refused(header_bytes(good, "snappy", {}, sync) + row, FormatError)
    refused(header_bytes(good, "zstandard", {}, sync) + row, FormatError)
    refused(header_bytes("long", "null", {}, sync) + row, FormatError)
    refused(header_bytes({"type": "long"}, "null", {}, sync) + row, FormatError)
    refused(header_bytes({"type": "record", "name": "x"}, "null", {}, sync) + row, FormatError)
    refused(header_bytes(record({"name": "id", "type": "long"}), "null", {}, sync) + row, FormatError)  # no ids
    refused(header_bytes(record({"name": "id", "type": "what", "field-id": 1}), "null", {}, sync) + row, FormatError)
    itself = record({"name": "id", "type": "table", "field-id": 1})
    refused(header_bytes(itself, "null", {}, sync) + row, FormatError)


# -- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, ("deflate", 4)),
        ({"write.avro.compression-codec": "GZIP", "write.avro.compression-level": "3"}, ("deflate", 3)),
        ({"write.avro.compression-codec": "zstd"}, ("zstandard", 1)),
        ({"write.avro.compression-codec": "snappy", "write.avro.compression-level": "3"}, ("snappy", None)),
        ({"write.avro.compression-codec": "uncompressed"}, ("null", None)),
    ],
)
def test_options_are_those_of_java(properties: dict[str, str], expected: tuple[str, int | None]) -> None:
    options = write_options(properties)
    assert (options["codec"], options["level"]) == expected
    rows = table_of([{"id": 1, "text": "x"}], NUMBERED)
    stored, written = write(rows, NUMBERED, **options)
    assert joined(read(stored, written.key_metadata, NUMBERED), NUMBERED).equals(rows)


@pytest.mark.parametrize(
    "properties",
    [
        {"write.avro.compression-codec": "lzma"},
        {"write.avro.compression-level": "high"},
        {"write.avro.compression-level": "99"},
    ],
)
def test_options_that_make_no_sense_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(properties.values()))):
        write_options(properties)
