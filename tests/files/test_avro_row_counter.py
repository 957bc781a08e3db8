"""The rows of an Avro file are counted while it passes by, however it is cut into pieces."""

from __future__ import annotations

import io

import fastavro
import pytest

from sealberg.errors import FormatError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.avro.container import Span, read_header
from sealberg.files.avro.row_counter import RowCounter
from sealberg.files.seal import seal_bytes

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}


def avro(rows: int) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(SCHEMA), ({"id": i} for i in range(rows)), sync_interval=50)
    return out.getvalue()


def counter_of(plain: bytes) -> RowCounter:
    sealed, key = seal_bytes(plain)
    with Ags1Reader(sealed, key) as stream:
        return RowCounter(read_header(Span(stream)))


@pytest.mark.parametrize("rows", [0, 1, 1000])
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_rows_are_counted_in_pieces_of_any_size(rows: int, piece: int) -> None:
    plain = avro(rows)
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
