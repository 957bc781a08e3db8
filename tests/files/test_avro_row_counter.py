"""The rows of an Avro file are counted while it passes by, however it is cut into pieces."""

from __future__ import annotations

import io

import fastavro
import pytest

from sealberg.errors import FormatError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.avro.container import SYNC_SIZE, Span, framed, read_header, varint
from sealberg.files.avro.row_counter import RowCounter
from sealberg.files.seal import seal_bytes

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}


def avro(rows: int, *, interval: int = 50, metadata: dict[str, str] | None = None) -> bytes:
    out, schema = io.BytesIO(), fastavro.parse_schema(SCHEMA)
    fastavro.writer(out, schema, ({"id": i} for i in range(rows)), sync_interval=interval, metadata=metadata)
    return out.getvalue()


def counter_of(plain: bytes) -> RowCounter:
    sealed, key = seal_bytes(plain)
    with Ags1Reader(sealed, key) as stream:
        return RowCounter(read_header(Span(stream)))


@pytest.mark.parametrize("interval", [50, 20_000])  # numbers of one and two bytes, of two and three bytes
@pytest.mark.parametrize("rows", [0, 1, 1000, 40_000])
@pytest.mark.parametrize("piece", [7, 1009, 1 << 20])
def test_rows_are_counted_in_pieces_of_any_size(rows: int, piece: int, interval: int) -> None:
    plain = avro(rows, interval=interval)
    counter = counter_of(plain)
    for at in range(0, len(plain), piece):
        counter.feed(memoryview(plain)[at : at + piece])
    assert counter.finish() == rows


def test_a_cut_or_altered_file_is_found() -> None:
    plain = avro(100)
    counter = counter_of(plain)
    counter.feed(memoryview(plain[:-1]))
    with pytest.raises(FormatError, match="truncated"):
        counter.finish()
    counter = counter_of(plain)
    with pytest.raises(FormatError, match="sync marker"):
        counter.feed(memoryview(plain[:-1] + bytes((plain[-1] ^ 1,))))
    counter = counter_of(plain)
    with pytest.raises(FormatError, match="malformed"):
        counter.feed(memoryview(plain + b"\xff" * 30))


@pytest.mark.parametrize("held", [0, 1, 100, 3 << 19])
def test_a_header_is_read_whole_however_much_of_it_the_caller_has(held: int) -> None:
    plain = avro(10, metadata={"long": "x" * (3 << 19)})  # longer than a block of AGS1
    sealed, key = seal_bytes(plain)
    with Ags1Reader(sealed, key) as stream:
        header = read_header(Span(stream, plain[:held]))
    assert len(header.metadata["long"]) == 3 << 19
    assert plain[header.length - SYNC_SIZE : header.length] == header.sync


@pytest.mark.parametrize("value", [0, -1, 63, 64, -65, 8191, 8192, 1 << 19, 1 << 20, -(1 << 20), (1 << 63) - 1])
def test_a_varint_of_any_length_is_read_and_a_cut_one_refused(value: int) -> None:
    raw = framed(value, b"", b"")[:-1]  # without the length of the payload
    assert varint(b"\xff" + raw + b"\x80\x80\x80", 1, 100) == (value, 101 + len(raw))
    assert varint(raw, 0) == (value, len(raw))
    with pytest.raises(FormatError, match="varint"):
        varint(raw[:-1], 0)
