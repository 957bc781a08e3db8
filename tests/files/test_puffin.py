"""Puffin files of deletion vectors, inside AGS1: Java's bytes, every length checked, one blob by one request."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import zstandard

from kit.tables import golden_files
from kit.tables.streams import BLOCK, KEY, Watched, flip, sealed, trusted
from sealberg.errors import BadMagicError, ConfigError, FormatError, IntegrityError, TruncatedError, UnsupportedError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.puffin.container import (
    Blob,
    Footer,
    PuffinWriter,
    WrittenPuffin,
    read_blob,
    read_deletion_vector,
    read_footer,
)
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.files.seal import open_bytes, seal_bytes
from sealberg.keys.file_key import new_file_key

VECTORS = {
    "s3://b/one.parquet": DeletionVector.of([1, 5, 9]),
    "s3://b/two.parquet": DeletionVector.of(range(1000)),
    "s3://b/thrée.parquet": DeletionVector.of([]),
}


def write(vectors: dict[str, DeletionVector]) -> tuple[bytes, WrittenPuffin]:
    sink = io.BytesIO()
    with PuffinWriter(Ags1Writer(sink, new_file_key(), close_sink=False)) as writer:
        for name, vector in vectors.items():
            writer.add(name, vector)
    return sink.getvalue(), writer.close()


def opened(plain: bytes) -> Ags1Reader:
    stored, keys = seal_bytes(plain)
    return Ags1Reader(stored, keys)


def puffin(footer: Any, blobs: bytes = b"") -> bytes:
    """A plain Puffin file, by hand."""
    text = footer if isinstance(footer, bytes) else json.dumps(footer).encode()
    return b"PFA1" + blobs + b"PFA1" + text + len(text).to_bytes(4, "little") + bytes(4) + b"PFA1"


def test_several_vectors_come_back_from_one_file() -> None:
    stored, written = write(VECTORS)
    assert stored[:4] == b"AGS1"
    assert written.stored_length == written.key_metadata.file_length == len(stored)
    with Ags1Reader(stored, written.key_metadata) as stream:
        assert read_footer(stream) == written.footer
        for (name, vector), blob in zip(VECTORS.items(), written.footer.blobs, strict=True):
            assert blob.properties["referenced-data-file"] == name
            assert read_deletion_vector(stream, blob.offset, blob.length, vector.cardinality) == vector
            assert read_blob(stream, blob) == vector.encode()


def test_a_file_without_vectors_opens() -> None:
    stored, written = write({})
    with Ags1Reader(stored, written.key_metadata) as stream:
        assert read_footer(stream).blobs == ()


@pytest.mark.parametrize("table", ["mor_deletes", "avro"])
def test_java_files_are_written_again_byte_for_byte(table: str) -> None:
    for file in golden_files.files(table, "puffin"):
        with Ags1Reader(file.path, file.keys) as stream:
            java = read_footer(stream)
            sink = io.BytesIO()
            ours = PuffinWriter(
                Ags1Writer(sink, new_file_key(), close_sink=False), created_by=java.properties["created-by"]
            )
            for blob in java.blobs:
                vector = read_deletion_vector(stream, blob.offset, blob.length, int(blob.properties["cardinality"]))
                assert ours.add(blob.properties["referenced-data-file"], vector) == blob
            written = ours.close()
            stream.seek(0)
            assert open_bytes(sink.getvalue(), written.key_metadata) == stream.read()


def test_a_vector_is_read_without_its_footer() -> None:
    vector = DeletionVector.of([7])
    blob = vector.encode()
    plain = b"PFA1" + blob + bytes(3 * BLOCK)
    stored, keys = seal_bytes(plain, KEY)
    source = Watched(stored)
    with Ags1Reader(source, keys) as stream:
        assert read_deletion_vector(stream, 4, len(blob), 1) == vector
    assert source.blocks() == [0]


def test_a_large_footer_is_read_whole() -> None:
    vectors = {f"s3://b/{i:0200}.parquet": DeletionVector.of([i]) for i in range(500)}
    stored, written = write(vectors)
    with Ags1Reader(stored, written.key_metadata) as stream:
        assert read_footer(stream) == written.footer


# -- writing ------------------------------------------------------------------------------------


def test_only_a_sealed_stream_takes_vectors() -> None:
    sink = io.BytesIO()
    with pytest.raises(ConfigError, match="Ags1Writer"):
        PuffinWriter(sink)  # type: ignore[arg-type]
    assert sink.getvalue() == b""
    writer = Ags1Writer(sink, new_file_key())
    writer.write(b"x")
    with pytest.raises(ConfigError, match="start"):
        PuffinWriter(writer)


def test_a_data_file_has_one_vector() -> None:
    writer = PuffinWriter(Ags1Writer(io.BytesIO(), new_file_key()))
    writer.add("a", VECTORS["s3://b/one.parquet"])
    with pytest.raises(ConfigError, match="second"):
        writer.add("a", VECTORS["s3://b/one.parquet"])


def test_a_writer_that_fails_leaves_no_file() -> None:
    sink, keys = io.BytesIO(), new_file_key()
    sealing = Ags1Writer(sink, keys, close_sink=False, threads=1)
    with pytest.raises(ZeroDivisionError), PuffinWriter(sealing) as writer:
        writer.add("a", DeletionVector.of(range(0, 1 << 24, 2)))
        _ = 1 // 0
    assert len(sink.getvalue()) > BLOCK
    with pytest.raises(IntegrityError):
        open_bytes(sink.getvalue(), keys.with_length(len(sink.getvalue())))


# -- reading what is wrong ----------------------------------------------------------------------


def test_storage_cannot_alter_a_vector() -> None:
    stored, written = write(VECTORS)
    blob = written.footer.blobs[1]
    for at in range(len(stored)):
        with Ags1Reader(flip(stored, at), written.key_metadata) as stream, pytest.raises(IntegrityError):
            read_deletion_vector(stream, blob.offset, blob.length)


@pytest.mark.parametrize(("offset", "length"), [(-1, 30), (4, -1), (0, 10**9), (10**9, 1), (4, 41), (5, 42)])
def test_a_vector_elsewhere_is_refused(offset: int, length: int) -> None:
    stored, written = write(VECTORS)
    assert written.footer.blobs[0].length == 46
    with Ags1Reader(stored, written.key_metadata) as stream, pytest.raises(IntegrityError):
        read_deletion_vector(stream, offset, length)


def test_a_stream_of_something_else_is_refused() -> None:
    with Ags1Reader(sealed(BLOCK), trusted(sealed(BLOCK))) as stream, pytest.raises(BadMagicError):
        read_footer(stream)


GOOD: dict[str, Any] = {
    "blobs": [{"type": "t", "fields": [1], "snapshot-id": 1, "sequence-number": 2, "offset": 4, "length": 5}],
    "properties": {"a": "b"},
}


def changed(**blob: Any) -> dict[str, Any]:
    return {**GOOD, "blobs": [{**GOOD["blobs"][0], **blob}]}


def test_a_footer_of_other_kinds_of_blobs_is_read() -> None:
    with opened(puffin(GOOD, b"12345")) as stream:
        footer = read_footer(stream)
        assert footer == Footer((Blob("t", (1,), 4, 5, 1, 2),), {"a": "b"})
        assert read_blob(stream, footer.blobs[0]) == b"12345"


@pytest.mark.parametrize(
    "footer",
    [
        b"{",
        b"\xff",
        b"[" * 100_000,
        [],
        {},
        {"blobs": {}},
        {"blobs": [1]},
        {"blobs": [], "properties": {"a": 1}},
        {"blobs": [], "properties": []},
        changed(type=1),
        changed(fields=1),
        changed(fields=["1"]),
        changed(offset="4"),
        changed(offset=True),
        changed(length=None),
        changed(offset=3),
        changed(offset=5),
        changed(length=6),
        changed(length=-1),
        changed(offset=-(10**30)),
        changed(**{"snapshot-id": 1.5}),
        changed(**{"compression-codec": 1}),
        changed(properties={"a": None}),
    ],
    ids=lambda footer: str(footer)[:60],
)
def test_a_footer_that_makes_no_sense_is_refused(footer: Any) -> None:
    with opened(puffin(footer, b"12345")) as stream, pytest.raises(FormatError):
        read_footer(stream)


@pytest.mark.parametrize("length", range(20))
def test_a_short_file_is_refused(length: int) -> None:
    with opened((b"PFA1" * 5)[:length]) as stream, pytest.raises(TruncatedError):
        read_footer(stream)


def test_magics_lengths_and_flags_are_checked() -> None:
    plain = puffin(GOOD, b"12345")
    footer = len(plain) - 4 - 9
    for at, error in (
        (0, BadMagicError),
        (9, BadMagicError),
        (len(plain) - 1, BadMagicError),
        (len(plain) - 9, FormatError),  # the sign of the length
        (len(plain) - 8, UnsupportedError),  # compressed
        (len(plain) - 7, UnsupportedError),  # who knows
    ):
        with opened(flip(plain, at, 0x80 if error is FormatError else 1)) as stream, pytest.raises(error):
            read_footer(stream)
    for length in (footer + 1, 2**31 - 1):
        lying = plain[:-12] + length.to_bytes(4, "little") + plain[-8:]
        with opened(lying) as stream, pytest.raises(FormatError):
            read_footer(stream)


def test_compressed_blobs_are_decompressed_or_named() -> None:
    stored = zstandard.ZstdCompressor().compress(b"sketch")
    with opened(puffin(changed(**{"compression-codec": "zstd", "length": len(stored)}), stored)) as stream:
        (blob,) = read_footer(stream).blobs
        assert read_blob(stream, blob) == b"sketch"
    with opened(puffin(changed(**{"compression-codec": "zstd"}), b"12345")) as stream:
        (blob,) = read_footer(stream).blobs
        with pytest.raises(FormatError, match="does not decompress"):
            read_blob(stream, blob)
    with opened(puffin(changed(**{"compression-codec": "lz4"}), b"12345")) as stream:
        (blob,) = read_footer(stream).blobs
        with pytest.raises(UnsupportedError, match="lz4"):
            read_blob(stream, blob)
