"""The module walk: every module of files by Java, Rust and pyarrow is authenticated, and every damage is found."""

from __future__ import annotations

import os
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kit.tables import corpus
from sealberg.errors import FormatError, IntegrityError
from sealberg.files.file_io import EncryptingFileIO, KeyedLocation
from sealberg.files.parquet.module_walk import ModuleWalk
from sealberg.files.parquet.modules import ModuleKind, Place
from sealberg.files.parquet.thrift import decode_struct
from sealberg.files.parquet.writer import EncryptedParquetWriter, write_options
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from sealberg.format.key_metadata import KeyMetadata


def parquet_file(table: str) -> tuple[bytes, KeyMetadata]:
    """The first Parquet data file of a table of the corpus."""
    opened = corpus.opened(table)
    assert isinstance(opened.io, EncryptingFileIO)
    snapshot = opened.metadata.snapshots[-1]
    for manifest in snapshot.manifests(opened.io):
        for entry in manifest.fetch_manifest_entry(opened.io):
            location = entry.data_file.file_path
            if entry.data_file.file_format.value == "PARQUET":
                assert isinstance(location, KeyedLocation)
                with opened.io.raw_input(location).open() as stream:
                    return bytes(stream.read()), location.keys
    raise AssertionError("no Parquet file")


def walked(content: bytes, key: KeyMetadata) -> dict[Place, tuple[int, int]]:
    """Every module with its offset and length."""
    with ModuleWalk(content, key) as walk:
        found = {
            module.place: (module.offset, module.stored_length)
            for group, chunk in walk.footer.chunks()
            for module in walk.chunk(group, chunk)
        }
        assert list(walk.gaps()) == []
        assert walk.modules == len(found) + 1
        return found


@pytest.mark.parametrize("table", ["basic128", "key256", "alltypes", "cow", "rust", "old_append"])
def test_every_byte_of_a_file_by_another_writer_belongs_to_a_module(table: str) -> None:
    content, key = parquet_file(table)
    modules = walked(content, key)
    assert {ModuleKind.DATA_PAGE, ModuleKind.DATA_PAGE_HEADER} <= {place.kind for place in modules}
    ends = sorted((offset, offset + length) for offset, length in modules.values())
    assert ends[0][0] == 4
    assert all(end == after for (_, end), (after, _) in pairwise(ends))


def test_a_flipped_bit_in_any_module_of_a_java_file_is_found_in_that_module() -> None:
    content, key = parquet_file("alltypes")
    modules = walked(content, key)
    kinds = {place.kind: place for place in modules}
    assert len(kinds) >= 6
    for place in kinds.values():
        offset, length = modules[place]
        for at in (offset + 5, offset + 17, offset + length - 1):
            altered = bytearray(content)
            altered[at] ^= 0x80
            with pytest.raises(IntegrityError, match=f"the {place} failed authentication"):
                walked(bytes(altered), key)


def test_every_flipped_bit_of_a_small_file_is_found() -> None:
    content, key = parquet_file("rust")
    for at in range(0, len(content), 7):
        altered = bytearray(content)
        altered[at] ^= 1
        with pytest.raises(IntegrityError):
            walked(bytes(altered), key)


def test_two_modules_of_one_file_cannot_change_places() -> None:
    content, key = parquet_file("basic128")
    modules = walked(content, key)
    by_length: dict[int, list[int]] = {}
    for offset, length in modules.values():
        by_length.setdefault(length, []).append(offset)
    length, (one, other, *_) = next((length, offsets) for length, offsets in by_length.items() if len(offsets) > 1)
    altered = bytearray(content)
    altered[one : one + length], altered[other : other + length] = (
        content[other : other + length],
        content[one : one + length],
    )
    with pytest.raises(IntegrityError, match="failed authentication"):
        walked(bytes(altered), key)


@pytest.mark.parametrize("key_change", ["key", "prefix"])
def test_another_key_or_prefix_opens_nothing(key_change: str) -> None:
    from dataclasses import replace

    content, key = parquet_file("basic128")
    other = replace(key, encryption_key=bytes(16)) if key_change == "key" else replace(key, aad_prefix=bytes(16))
    with pytest.raises(IntegrityError, match="footer failed authentication"):
        walked(content, other)


@pytest.mark.parametrize(
    "struct",
    [
        pytest.param("15", id="ends in a field"),
        pytest.param("1880808080808080808080808001", id="varint without an end"),
        pytest.param("18ff01", id="binary beyond the end"),
        pytest.param("19fcffffff7f", id="list beyond the end"),
        pytest.param("1c" * 40 + "00" * 41, id="too deep"),
        pytest.param("1f00", id="unknown wire type"),
        pytest.param("1502050215040000", id="field twice"),
    ],
)
def test_malformed_thrift_is_a_format_error(struct: str) -> None:
    with pytest.raises(FormatError, match="Thrift"):
        decode_struct(bytes.fromhex(struct))


@pytest.fixture(scope="module")
def large_pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, KeyMetadata]:
    """Two values of 6 MB, which are one page: three times the window of a walk."""
    field = pa.field("a", pa.binary(), metadata={b"PARQUET:field_id": b"1"})
    table = pa.Table.from_arrays([pa.array([os.urandom(6 << 20), os.urandom(6 << 20)])], schema=pa.schema([field]))
    path = tmp_path_factory.mktemp("large") / "a.parquet"
    options = write_options({"write.parquet.page-size-bytes": str(1 << 30)})
    with EncryptedParquetWriter(path.open("wb"), table.schema, new_file_key(), options=options) as writer:
        writer.write(table)
    return path.read_bytes(), writer.written.key_metadata


def test_a_page_larger_than_the_window_is_authenticated_in_pieces(large_pages: tuple[bytes, KeyMetadata]) -> None:
    content, key = large_pages
    tracemalloc.start()
    with ModuleWalk(content, key, discard=True) as walk:
        ((group, chunk),) = walk.footer.chunks()
        lengths = [module.stored_length for module in walk.chunk(group, chunk)]
        assert list(walk.gaps()) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(lengths) > 12 << 20
    assert peak < 6 << 20


def test_a_change_anywhere_in_a_large_page_is_found(large_pages: tuple[bytes, KeyMetadata]) -> None:
    content, key = large_pages
    with ModuleWalk(content, key) as walk:
        ((group, chunk),) = walk.footer.chunks()
        page = max(walk.chunk(group, chunk), key=lambda module: module.stored_length)
    end = page.offset + page.stored_length
    for at in (
        page.offset + 4,
        page.offset + 15,
        page.offset + 16,
        page.offset + (5 << 20),
        end - 17,
        end - 16,
        end - 1,
    ):
        altered = bytearray(content)
        altered[at] ^= 1
        with (
            ModuleWalk(altered, key, discard=True) as walk,
            pytest.raises(IntegrityError, match=f"the {page.place} failed authentication"),
        ):
            list(walk.chunk(group, chunk))
