"""Avro lengths that go beyond the file: they must never be answered with the memory of the process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyiceberg.avro import file as avro_file
from pyiceberg.avro.decoder import StreamingBinaryDecoder

import sealberg
from sealberg.metadata import decode_cache as cache
from sealberg.metadata.bounded_decoder import BoundedDecoder

KMS: Final = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
ROWS: Final = pa.table({"name": ["Ada"], "salary": [12]})
LENGTHS: Final = (11, 1000, 1 << 20, 1 << 30, 1 << 33, 1 << 40, (1 << 62) - 1)


def zigzag(number: int) -> bytes:
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


@pytest.mark.parametrize("length", [*LENGTHS, -1, -1000])
@pytest.mark.parametrize("verb", ["read_bytes", "read_utf8", "skip_bytes", "skip_utf8"])
def test_a_length_beyond_the_buffer_is_an_error(verb: str, length: int) -> None:
    with pytest.raises(EOFError):
        getattr(BoundedDecoder(zigzag(length) + b"0123456789"), verb)()


@pytest.mark.parametrize("length", [*LENGTHS, -1])
def test_a_count_beyond_the_buffer_is_an_error(length: int) -> None:
    for verb, more in (("read", ()), ("skip", ()), ("read_ints", ()), ("read_int_bytes_dict", ({},))):
        with pytest.raises(EOFError):
            getattr(BoundedDecoder(b"0123456789"), verb)(length, *more)


@pytest.mark.parametrize(
    ("verb", "data"),
    [
        ("read_int", b""),
        ("read_int", b"\xff" * 5),
        ("skip_int", b"\x80"),
        ("read_boolean", b""),
        ("read_float", b"123"),
        ("read_double", b"1234567"),
        ("skip_boolean", b""),
        ("skip_float", b"123"),
        ("skip_double", b"1234567"),
    ],
)
def test_a_cut_value_is_an_error(verb: str, data: bytes) -> None:
    with pytest.raises(EOFError):
        getattr(BoundedDecoder(data), verb)()


def test_what_is_whole_is_read_as_pyiceberg_reads_it() -> None:
    data = zigzag(-5) + zigzag(3) + b"abc" + zigzag(3) + b"xyz" + b"\x01" + bytes(12) + zigzag(1) + zigzag(2) + b"hi"
    for make in (BoundedDecoder, StreamingBinaryDecoder):
        decoder: Any = make(data)
        found: dict[int, bytes] = {}
        assert [decoder.read_int(), decoder.read_bytes(), decoder.read_utf8()] == [-5, b"abc", "xyz"]
        assert [decoder.read_boolean(), decoder.read_float(), decoder.read_double()] == [True, 0.0, 0.0]
        decoder.read_int_bytes_dict(1, found)
        assert found == {1: b"hi"}
        assert decoder.tell() == len(data)


def test_pyiceberg_opens_every_avro_file_with_it() -> None:
    assert vars(avro_file)["new_decoder"] is BoundedDecoder


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_manifest_list_with_such_a_length_shows_nothing_of_the_memory(
    tmp_path: Path, version: str, length: int
) -> None:
    catalog = sealberg.load_catalog(
        "t", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w", **KMS
    )
    catalog.create_namespace("db")
    properties = {"format-version": version, "write.manifest.compression-codec": "uncompressed"}
    table = catalog.create_table("db.t", ROWS.schema, properties=properties)
    table.append(ROWS)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    place = Path(str(snapshot.manifest_list).removeprefix("file://"))
    raw = place.read_bytes()
    sync = raw[-16:]
    header = raw[: raw.index(sync) + 16].replace(b"\x0edeflate", b"\x08null")
    block = zigzag(length) + b"short"
    place.write_bytes(header + zigzag(1) + zigzag(len(block)) + block + sync)
    cache.clear()
    with pytest.raises((ValueError, EOFError)) as caught:
        catalog.load_table("db.t").scan().to_arrow()
    assert len(json.dumps(str(caught.value))) < 1000
