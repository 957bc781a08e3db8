"""Decodes a manifest to Arrow columns by field id, as they are stored: without the fields that entries inherit.

    the manifest's bytes ──> Avro blocks, decompressed within limits ──> polars ──> DecodedColumns

The record of the data file and the record of its partition are not optional, so their bytes are the bytes of their
fields one after another; they are decoded as fields of the entry itself. Where polars cannot decode the schema of a
manifest, its entries are decoded as objects and turned into columns. A caller that needs few fields names them: the
others are passed over. Manifests with one schema can be decoded together: the blocks of one follow those of another.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sealberg.errors import FormatError, TruncatedError
from sealberg.files.avro.column_decoder import ColumnDecoder
from sealberg.files.avro.container import SYNC_SIZE, Header, Span, blocks, decompress, read_header, varint
from sealberg.files.avro.values import LOGICAL, branch_of, flattened
from sealberg.files.file_io import naming
from sealberg.metadata.manifest import read_manifest_file, reading
from sealberg.metadata.manifest_avro import MAX_BLOCK, MAX_MANIFEST
from sealberg.metadata.manifest_fields import (
    BOUNDS,
    COUNTS,
    FILE,
    KEY_METADATA,
    LISTS,
    NUMBERS,
    PARTITION,
    TEXTS,
    DecodedColumns,
    decode_objects,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.io import FileIO

KNOWN: Final = frozenset({*NUMBERS, *TEXTS, *COUNTS, *BOUNDS, *LISTS, KEY_METADATA})


def decode_manifest(io: FileIO, location: str, wanted: frozenset[int] = KNOWN) -> DecodedColumns:
    """The columns of a manifest; `location` carries its key.

    Args:
        wanted: ids of fields of the entry and of its file; partition values are decoded if all are wanted.
    """
    with decoding(location):
        return decode_fetched(io, location, fetch(io, location), wanted, partition=wanted == KNOWN)


def fetch(io: FileIO, location: str) -> bytes:
    """The decrypted Avro file."""
    with io.new_input(location).open() as stream:
        return bytes(stream.read())


def decode_fetched(
    io: FileIO, location: str, raw: bytes, wanted: frozenset[int] = KNOWN, *, partition: bool = True
) -> DecodedColumns:
    """The columns of a manifest whose bytes are there; all columns if polars cannot decode the schema."""
    opened = open_fetched(raw)
    if opened.layout is None:
        return decode_objects(opened.header.schema, read_manifest_file(io, location))
    return opened.layout.decode(opened.blocks, wanted, partition=partition)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpenedManifest:
    """A manifest whose bytes are there.

    Args:
        head: its bytes before the first sync marker.
        layout: how to decode the blocks; None if polars cannot.
        blocks: pairs (claimed rows, plain bytes), decompressed within limits; none without a layout.
    """

    head: bytes
    header: Header
    layout: Layout | None
    blocks: list[tuple[int, bytes]]

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.blocks)

    @property
    def plain_bytes(self) -> int:
        return sum(len(plain) for _, plain in self.blocks)


def open_fetched(raw: bytes, before: OpenedManifest | None = None) -> OpenedManifest:
    """The blocks of a manifest whose bytes are there.

    Args:
        before: a manifest that may begin with the same bytes, whose header is not parsed again then.
    """
    span = Span(_Held(len(raw)), raw)  # type: ignore[arg-type]  # the whole file is held, none is read
    try:
        if before is not None and len(raw) >= before.header.length and raw.startswith(before.head):
            head, layout = before.head, before.layout
            header = replace(before.header, sync=raw[len(head) : before.header.length])
        else:
            header = read_header(span)
            head, layout = raw[: header.length - SYNC_SIZE], _layout(header.metadata["avro.schema"])
        return OpenedManifest(head, header, layout, [] if layout is None else _plain_blocks(span, header))
    except TruncatedError as error:  # the plaintext is: what was cut off the stored file is found by `fetch`
        raise FormatError(str(error)) from error


@contextmanager
def decoding(location: str) -> Iterator[None]:
    """Turns the exceptions of decoders for malformed manifests into one FormatError, which names the manifest."""
    with naming(location), reading(location):
        try:
            yield
        except pa.ArrowException as error:
            # The message is not shown: it may quote the manifest.
            raise FormatError(f"entries of a manifest do not decode ({type(error).__name__})") from None


@dataclass(frozen=True)
class _Held:
    """In place of a stream, where all bytes are in memory."""

    plain_length: int


def _plain_blocks(span: Span, header: Header) -> list[tuple[int, bytes]]:
    found, total = [], 0
    for block in blocks(span, header, 0, span.end, positions=True):
        _, at = varint(block.raw, 0)
        _, at = varint(block.raw, at)
        plain = decompress(header.codec, block.raw[at:-SYNC_SIZE], MAX_BLOCK)
        total += len(plain)
        if total > MAX_MANIFEST:
            raise FormatError(f"the entries of the manifest take more than {MAX_MANIFEST} bytes")
        found.append((block.rows, plain))
    return found


# -- the schema ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Field:
    """A field of the entry, of its file or of its partition.

    Args:
        number: its place in the flat record.
        schema: its type, without the null of an optional field; None if it is always null.
    """

    number: int
    field_id: int
    schema: Any
    of_partition: bool


@dataclass(frozen=True, eq=False)
class Layout:
    """How to decode manifests of one Avro schema; one object for each schema."""

    decoder: ColumnDecoder
    fields: tuple[_Field, ...]

    def decode(self, plain: list[tuple[int, bytes]], wanted: frozenset[int], *, partition: bool) -> DecodedColumns:
        chosen = [each for each in self.fields if (partition if each.of_partition else each.field_id in wanted)]
        table = self.decoder.decode(plain, [each.number for each in chosen if each.schema is not None])
        found: dict[int, pa.Array] = {}
        parts: dict[int, pa.Array] = {}
        for each in chosen:
            if each.schema is None:
                values = pa.nulls(table.num_rows)
            else:
                column = table[f"f{each.number}"]
                values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            if not each.of_partition:
                found[each.field_id] = values
            else:
                parts[each.field_id] = values if each.schema is None else _partition_values(values, each.schema)
        return DecodedColumns(table.num_rows, found, parts)


@lru_cache(maxsize=64)
def _layout(avro_schema: bytes) -> Layout | None:
    """None if polars cannot decode such manifests."""
    entry = flattened(json.loads(avro_schema))
    fields: list[dict[str, Any]] = []
    try:
        chosen = list(_flat(entry, fields, of_partition=False))
    except _NotFlatError:
        return None
    decoder = ColumnDecoder({"type": "record", "fields": fields})
    return Layout(decoder, tuple(map(_without_null, chosen))) if decoder.possible else None


class _NotFlatError(Exception):
    """The record of the file or of the partition is optional."""


def _flat(record: dict[str, Any], into: list[dict[str, Any]], *, of_partition: bool) -> Iterable[_Field]:
    """The fields of the record, in which the records of file and partition are replaced by their fields."""
    for field in record["fields"]:
        field_id, schema = field.get("field-id"), field["type"]
        if not of_partition and field_id in (FILE, PARTITION):
            if not isinstance(schema, dict) or schema.get("type") != "record":
                raise _NotFlatError
            yield from _flat(schema, into, of_partition=field_id == PARTITION)
            continue
        into.append({"name": str(len(into)), "type": schema})
        if isinstance(field_id, int) and (of_partition or field_id in KNOWN):
            yield _Field(len(into) - 1, field_id, schema, of_partition)


def _without_null(field: _Field) -> _Field:
    """The field with its own type; a map of statistics has the key first."""
    if field.schema == "null":
        return replace(field, schema=None)
    schema = branch_of(field.schema)
    is_map = schema.get(LOGICAL) == "map" and not field.of_partition
    if is_map and [each["name"] for each in schema["items"]["fields"]] != ["key", "value"]:
        raise FormatError("a map in a manifest is not made of key and value")
    return replace(field, schema=schema)


def _partition_values(values: pa.Array, schema: dict[str, Any]) -> pa.Array:  # noqa: PLR0911 (one a type)
    """Partition values in Arrow's type for the type in the manifest's schema."""
    kind, logical = schema["type"], schema.get(LOGICAL)
    zone = "UTC" if schema.get("adjust-to-utc") else None
    match kind, logical:
        case "int", "date":
            return values.cast(pa.int32()).view(pa.date32())
        case "long", "time-micros":
            return values.view(pa.time64("us"))
        case "long", "timestamp-micros" | "local-timestamp-micros":
            return values.view(pa.timestamp("us", zone))
        case "long", "timestamp-nanos" | "local-timestamp-nanos":
            return values.view(pa.timestamp("ns", zone))
        case "int", _:
            return values.cast(pa.int32())
        case "string", _:
            return values.cast(pa.string())
        case "bytes", _:
            return values.cast(pa.binary())
        case "fixed", None | "uuid":
            return values.cast(pa.binary(schema["size"]))
    return values
