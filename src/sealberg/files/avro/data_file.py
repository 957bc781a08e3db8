"""Avro data files inside AGS1, read and written as Arrow batches.

    write: batches -> records by columns -> blocks, compressed -> AGS1          (column_encoder.py, container.py)
    read:  a range of the plaintext -> blocks -> polars -> columns by field id -> batches   (column_decoder.py ...)

Ranges that cover a file return each of its rows once (see container.py), so a planner may split the file at any
offset. The positions of rows are known only to a reader that reads all blocks from the start of the file.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException
from pyiceberg.io.pyarrow import schema_to_pyarrow

from sealberg.errors import ConfigError, FormatError
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.avro.arrow_columns import table_columns
from sealberg.files.avro.column_decoder import ColumnDecoder
from sealberg.files.avro.column_encoder import blocks as cut_blocks
from sealberg.files.avro.column_encoder import encode
from sealberg.files.avro.container import (
    CODECS,
    FETCH,
    LEVELS,
    SYNC_SIZE,
    Block,
    Header,
    Span,
    blocks,
    compact,
    compress,
    decompress,
    framed,
    header_bytes,
    read_header,
    varint,
)
from sealberg.files.avro.values import avro_schema, by_id, columns, flattened
from sealberg.files.file_writer import FileWriter
from sealberg.files.thread_pool import in_parallel, thread_count
from sealberg.format.ags1 import BLOCK_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.schema import Schema

    from sealberg.files.ags1_reader import Ags1Reader
    from sealberg.format.key_metadata import KeyMetadata

SYNC_INTERVAL: Final = 64_000  # Java's default
ENCODE_ROWS: Final = 1 << 16  # rows that are encoded at a time
# Iceberg's names of codecs, and Avro's.
NAMES: Final = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}


# -- reading ------------------------------------------------------------------------------------


class AvroRows(NamedTuple):
    """Consecutive rows of the file; `first` is the position of the first row, if known."""

    first: int | None
    batch: pa.RecordBatch


def read_avro(
    stream: Ags1Reader,
    schema: Schema,
    *,
    start: int = 0,
    stop: int | None = None,
    positions: bool = False,
    batch_rows: int = 1 << 16,
) -> Iterator[AvroRows]:
    """The rows of the blocks that begin in `start`..`stop` of the plaintext, as columns of `schema`.

    Args:
        schema: the columns to read, by field id; handles renamed, reordered, promoted and added columns.
        start, stop: plain offsets; `stream.layout.to_plain` converts offsets of the stored file.
        positions: return row positions even if `start` is not 0; this fetches all earlier blocks.
        batch_rows: about how many rows a batch has; a batch holds at least one block.
    """
    stop = stream.plain_length if stop is None else min(stop, stream.plain_length)
    if start < 0:
        raise ConfigError(f"the range to read begins at {start}, expected 0 or more")
    span = Span(stream)
    header = read_header(span)
    decoder = BlockDecoder(header, schema)
    group: list[Block] = []
    for block in blocks(span, header, start, stop, positions=positions):
        group.append(block)
        if sum(block.rows for block in group) >= batch_rows or sum(len(block.raw) for block in group) >= FETCH:
            yield decoder.rows(group)
            group = []
    if group:
        yield decoder.rows(group)


class BlockDecoder:
    """Turns blocks into record batches of one schema."""

    def __init__(self, header: Header, schema: Schema) -> None:
        self._struct = schema.as_struct()
        self._arrow = schema_to_pyarrow(schema)
        self._codec = header.codec
        self._sync = header.sync
        try:
            self._written = flattened(header.schema)
            known = by_id(self._written)
        except (KeyError, TypeError, AttributeError, RecursionError):
            raise FormatError("the schema of an Avro file is malformed") from None
        if self._written.get("type") != "record":
            raise FormatError("the schema of an Avro file is not a record")
        if not known and self._written["fields"]:
            raise FormatError("the schema of an Avro file has no field ids, expected a field-id for each column")
        wanted = {field.field_id for field in schema.fields}
        self._kept = [n for n, field in enumerate(self._written["fields"]) if field.get("field-id") in wanted]
        try:
            self._by_columns = ColumnDecoder(self._written)
        except (KeyError, TypeError, AttributeError, RecursionError):
            raise FormatError("the schema of an Avro file is malformed") from None

    def rows(self, blocks: list[Block]) -> AvroRows:
        fields, plain = self._written["fields"], [(block.rows, self._plain(block)) for block in blocks]
        decoded = [number for number in self._kept if fields[number]["type"] != "null"]
        count = sum(block.rows for block in blocks)
        if decoded and self._by_columns.possible:
            made = self._columns(self._by_columns.decode(plain, decoded))
        else:
            made = columns(self._decode_rows(plain), self._written, self._struct, list(self._arrow))
        # Not from_arrays: a batch without columns would lose its row count.
        packed = (
            pa.StructArray.from_arrays(made, fields=list(self._arrow))
            if made
            else pa.array([{}] * count, pa.struct([]))
        )
        batch = pa.RecordBatch.from_struct_array(packed).replace_schema_metadata(self._arrow.metadata)
        return AvroRows(blocks[0].first, batch)

    def _columns(self, table: pa.Table) -> list[pa.Array]:
        def column(number: int) -> pa.Array:
            return _whole(table[f"f{number}"])

        try:
            return table_columns(self._written, self._struct, list(self._arrow), table.num_rows, column)
        except pa.ArrowException as error:
            raise FormatError(f"a block of an Avro file does not decode ({type(error).__name__})") from None

    def _decode_rows(self, blocks: list[tuple[int, bytes]]) -> list[Any]:
        # The blocks are given to fastavro as an uncompressed file of their own.
        head = header_bytes(self._written, "null", {}, self._sync)
        kept = [self._written["fields"][number] for number in self._kept]
        read = None if len(kept) == len(self._written["fields"]) else {**self._written, "fields": kept}
        raw = b"".join([head, *(framed(rows, plain, self._sync) for rows, plain in blocks)])
        try:
            found = list(fastavro.reader(io.BytesIO(raw), read))
        except (ValueError, LookupError, EOFError, OverflowError, TypeError, SchemaParseException) as error:
            raise FormatError(f"a block of an Avro file does not decode ({type(error).__name__})") from None
        if len(found) != sum(rows for rows, _ in blocks):
            claimed = sum(rows for rows, _ in blocks)
            raise FormatError(f"blocks of an Avro file hold {len(found)} rows, their headers claim {claimed}")
        return found

    def _plain(self, block: Block) -> bytes:
        _, at = varint(block.raw, 0)
        _, at = varint(block.raw, at)
        return decompress(self._codec, block.raw[at:-SYNC_SIZE])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array that begins at offset 0, as `offsets` and `values` of a list need it."""
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 or column.chunk(0).offset else column.chunk(0)


# -- writing ------------------------------------------------------------------------------------


def write_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """The table's `write.avro.*` properties for `EncryptedAvroWriter`; defaults are Java's."""
    name = properties.get("write.avro.compression-codec") or "gzip"
    if name.lower() not in NAMES:
        raise ConfigError(
            f"Unsupported compression codec: {name} (write.avro.compression-codec must be one of {', '.join(NAMES)})"
        )
    codec = NAMES[name.lower()]
    level = None
    if codec in LEVELS:
        text = properties.get("write.avro.compression-level")
        try:
            level = int(text) if text else LEVELS[codec]
            compress(codec, level, b"")
        except (ValueError, OSError, zlib.error):
            raise ConfigError(f"write.avro.compression-level is {text!r}, which is not a level of {codec}") from None
    return {"codec": codec, "level": level}


@dataclass(frozen=True, slots=True)
class WrittenAvro:
    """A finished file: its length, its number of rows and its key metadata."""

    stored_length: int
    record_count: int
    key_metadata: KeyMetadata = field(repr=False)


class EncryptedAvroWriter(FileWriter):
    """Writes one Avro data file into an AGS1 stream.

    Args:
        sink: the AGS1 stream; any other sink is refused, because an Avro file of an encrypted table is encrypted.
        schema: the columns; rows are Arrow batches of exactly these columns, in this order.
        codec, level: as returned by `write_options`.
        sync_interval: about how many bytes of records a block has.
    """

    def __init__(
        self,
        sink: Ags1Writer,
        schema: Schema,
        *,
        codec: str = "deflate",
        level: int | None = None,
        sync_interval: int = SYNC_INTERVAL,
    ) -> None:
        if not isinstance(sink, Ags1Writer):
            raise ConfigError(f"the sink of an Avro data file is a {type(sink).__name__}, expected an Ags1Writer")
        if sink.tell() != 0:
            raise ConfigError(f"the sink is at position {sink.tell()}, an Avro file starts at position 0")
        if codec not in CODECS:
            raise ConfigError(f"Unsupported compression codec: {codec}")
        self._sink = sink
        self._struct = schema.as_struct()
        self._arrow = schema_to_pyarrow(schema)
        self._codec, self._level, self._interval = codec, level, sync_interval
        self._sync = os.urandom(SYNC_SIZE)
        shown = avro_schema(self._struct)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._count = 0
        metadata = {"iceberg.schema": compact(_schema_json(schema))}
        self._sink.write(header_bytes(shown, codec, metadata, self._sync))

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        with self.aborting():
            for batch in [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches():
                self._take(batch)

    def close(self) -> WrittenAvro:
        if not self._sink.closed:
            with self.aborting():
                self._flush()
            self._sink.close()
        return WrittenAvro(self._sink.stored_length, self._count, self._sink.key_metadata)

    def abort(self) -> None:
        """Give up the file; makes the bytes that were written invalid as a stream."""
        self._sink.abort()
        self._waiting.clear()

    def _take(self, batch: pa.RecordBatch) -> None:
        if self._sink.closed:
            raise ValueError("write to a closed Avro file")
        if batch.schema.names != self._arrow.names:
            raise ConfigError(f"the rows have the columns {batch.schema.names}, the Avro file has {self._arrow.names}")
        try:
            batch = batch.cast(self._arrow)  # lossless: other widths of strings and lists, other units of time
        except (ValueError, pa.ArrowException) as error:
            raise ConfigError(f"the rows have other types than the Avro file: {error}") from error
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= BLOCK_SIZE:
            self._flush()

    def _flush(self) -> None:
        """Write the collected rows; they are collected so that small batches do not make small blocks."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        rows = pa.Table.from_batches(waiting, self._arrow).combine_chunks()
        for batch in rows.to_batches(max_chunksize=ENCODE_ROWS):
            for framed_block in self._blocks(batch):
                self._sink.write(framed_block)
            self._count += batch.num_rows

    def _blocks(self, batch: pa.RecordBatch) -> list[bytes]:
        encoded = encode(batch.columns, self._struct, batch.num_rows)
        cut = cut_blocks(encoded, self._interval)
        made = [b""] * len(cut)

        def pack(first: int, stop: int) -> None:
            for at in range(first, stop):
                rows, plain = cut[at]
                made[at] = framed(rows, compress(self._codec, self._level, bytes(plain)), self._sync)

        in_parallel(pack, 0, len(cut), thread_count(None))  # zlib works without the lock of the interpreter
        return made


def _schema_json(schema: Schema) -> dict[str, Any]:
    """The schema's JSON in Java's order, without `identifier-field-ids` if there are none."""
    found = json.loads(schema.model_dump_json())
    ids = found.get("identifier-field-ids")
    named = {"identifier-field-ids": ids} if ids else {}
    return {"type": "struct", "schema-id": schema.schema_id, **named, "fields": _ordered(found["fields"])}


_FIELD_ORDER: Final = ("id", "name", "required", "type", "doc", "initial-default", "write-default")


def _ordered(found: Any) -> Any:
    if isinstance(found, list):
        return [_ordered(item) for item in found]
    if isinstance(found, dict) and "name" in found:  # a field; the order of types is PyIceberg's, too
        found = {name: found[name] for name in _FIELD_ORDER if name in found}
        return {**found, "type": _ordered(found["type"])}
    if isinstance(found, dict):
        return {name: _ordered(value) for name, value in found.items()}
    return found
