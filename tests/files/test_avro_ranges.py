"""Ranges of Avro data files: any split of a file gives each of its rows once."""

from __future__ import annotations

import io
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    LongType,
    NestedField,
    StringType,
)

from files.test_avro import joined, optional, read, table_of, write
from kit.tables.streams import BLOCK, Watched
from sealberg.errors import (
    ConfigError,
)
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.avro.container import Span, read_header
from sealberg.files.avro.data_file import AvroRows, EncryptedAvroWriter, read_avro
from sealberg.files.seal import open_bytes
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from sealberg.format.key_metadata import KeyMetadata


# -- ranges -------------------------------------------------------------------------------------

NUMBERED = Schema(NestedField(1, "id", LongType(), required=True), optional(2, "text", StringType()))
COUNT = 3000


@cache
def numbered() -> tuple[bytes, KeyMetadata]:
    """Many small Avro blocks over three AGS1 blocks."""
    rows = table_of([{"id": i, "text": f"{i:06} " * 120} for i in range(COUNT)], NUMBERED)
    stored, written = write(rows, NUMBERED, codec="null", sync_interval=16_000)
    assert 2 * BLOCK < len(stored) < 3 * BLOCK
    return stored, written.key_metadata


def ids(found: list[AvroRows]) -> list[int]:
    return [value for rows in found for value in rows.batch.column("id").to_pylist()]


def plain_length() -> int:
    stored, keys = numbered()
    return Ags1Reader(stored, keys).plain_length


def test_a_whole_file_has_positions() -> None:
    found = read(*numbered(), NUMBERED, batch_rows=100)
    assert len(found) > 10
    assert [rows.first for rows in found] == [rows.batch.column("id")[0].as_py() for rows in found]
    assert ids(found) == list(range(COUNT))


@given(st.lists(st.integers(0, 2_600_000), max_size=6), st.booleans())
def test_any_ranges_give_each_row_once(cuts: list[int], positions: bool) -> None:
    edges = [0, *sorted(min(cut, plain_length()) for cut in cuts), plain_length()]
    found = [
        rows
        for start, stop in pairwise(edges)
        for rows in read(*numbered(), NUMBERED, start=start, stop=stop, positions=positions)
    ]
    assert ids(found) == list(range(COUNT))
    for rows in found:
        assert rows.first == rows.batch.column("id")[0].as_py() or (rows.first is None and not positions)


@pytest.mark.slow
@pytest.mark.parametrize("positions", [False, True])
def test_ranges_may_be_cut_at_every_byte_of_a_marker(positions: bool) -> None:
    stored, keys = numbered()
    plain = open_bytes(stored, keys)
    with Ags1Reader(stored, keys) as stream:
        header = read_header(Span(stream))
    marker = plain.index(header.sync, 1_000_000)
    for edge in [*range(header.length - 18, header.length + 2), *range(marker - 2, marker + 18)]:
        before = read(stored, keys, NUMBERED, start=0, stop=edge, positions=positions)
        after = read(stored, keys, NUMBERED, start=edge, positions=positions)
        assert ids(before) + ids(after) == list(range(COUNT)), edge
    # As in Java, a block belongs to where the marker before it begins.
    first = ids(read(stored, keys, NUMBERED, start=marker, stop=marker + 1))
    assert first == ids(read(stored, keys, NUMBERED, start=marker - 5, stop=marker + 16))
    assert first
    assert not read(stored, keys, NUMBERED, start=marker + 1, stop=marker + 16)


def test_stored_cuts_become_plain_cuts() -> None:
    stored, keys = numbered()
    layout = Ags1Reader(stored, keys).layout
    edges = [layout.to_plain(len(stored) * i // 7) for i in range(8)]
    found = [ids(read(stored, keys, NUMBERED, start=a, stop=b)) for a, b in pairwise(edges)]
    assert list(chain(*found)) == list(range(COUNT))
    assert all(found)


def test_only_the_blocks_under_a_range_are_fetched() -> None:
    stored, keys = numbered()
    source = Watched(stored)
    with Ags1Reader(source, keys) as stream:
        found = list(read_avro(stream, NUMBERED, start=2 * BLOCK + 1000))
    assert ids(found)[-1] == COUNT - 1
    assert sorted(set(source.blocks())) == [0, 2], "the header's, and the last"
    source = Watched(stored)
    with Ags1Reader(source, keys) as stream:
        list(read_avro(stream, NUMBERED))
    assert source.blocks() == [0, 1, 2], "each once"
    source = Watched(stored)
    with Ags1Reader(source, keys) as stream:
        list(read_avro(stream, NUMBERED, start=0, stop=1000))
    assert source.blocks() == [0]


def test_a_range_beyond_the_end_is_empty() -> None:
    assert read(*numbered(), NUMBERED, start=plain_length()) == []
    assert read(*numbered(), NUMBERED, start=plain_length() + 5) == []
    with pytest.raises(ConfigError):
        read(*numbered(), NUMBERED, start=-1)


def test_a_file_without_rows_has_none() -> None:
    stored, written = write(schema_to_pyarrow(NUMBERED).empty_table(), NUMBERED)
    assert read(stored, written.key_metadata, NUMBERED) == []
    assert written.record_count == 0


def test_small_batches_do_not_make_small_blocks() -> None:
    sink = io.BytesIO()
    rows = table_of([{"id": i, "text": "x" * 100} for i in range(5000)], NUMBERED)
    with EncryptedAvroWriter(Ags1Writer(sink, new_file_key(), close_sink=False), NUMBERED, codec="null") as writer:
        for batch in rows.to_batches(max_chunksize=10):
            writer.write(batch)
    written = writer.close()
    with Ags1Reader(sink.getvalue(), written.key_metadata) as stream:
        sync = read_header(Span(stream)).sync
        assert stream.read().count(sync) < 15
    assert joined(read(sink.getvalue(), written.key_metadata, NUMBERED), NUMBERED).equals(rows)
