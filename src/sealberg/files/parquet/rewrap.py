"""Copies a Parquet file under another key without decoding it: pages keep their bytes, the rest is written anew.

    rewrap(source, key or None, sink, key or None) -> Rewrapped

    source               target                          what changes
    ------------------   -----------------------------   ----------------------------------------------
    page header          page header                     the stored size of the page; no CRC
    page                 page                            nothing: the same compressed and encoded values
    column index         column index                    nothing
    offset index         offset index                    offsets and sizes
    bloom filter         bloom filter, after its rows    nothing
    footer               footer                          offsets and stored sizes; the mark of encryption

Without a key a file is plaintext. Every part of an encrypted source is authenticated before it is written. A target
with a key has an encrypted footer (`PARE`), AES-GCM modules with random nonces, and does not hold its AAD prefix.

A CRC in a page header is left out: writers disagree whether it is of the plaintext or of the ciphertext.
Pages of version 2 that have levels cannot be sealed: parquet-java leaves levels of such pages in the clear and pyarrow
encrypts the page as a whole, so neither could read what the other expects. `UnsupportedError` says so. Both kinds of
such pages are opened, into a plaintext file.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError, FormatError, UnsupportedError
from sealberg.files.parquet.file_walk import DATA_PAGE_V2
from sealberg.files.parquet.footer import Range
from sealberg.files.parquet.module_sink import ModuleSink
from sealberg.files.parquet.module_walk import ModuleWalk
from sealberg.files.parquet.modules import MAX_ORDINAL, ModuleKind, Place
from sealberg.files.parquet.plain_walk import PlainWalk
from sealberg.files.parquet.thrift import I16, STRUCT, Struct
from sealberg.files.parquet.thrift_writer import changed, encode_struct, i32, i64, structs

if TYPE_CHECKING:
    from sealberg.files.ags1_writer import Sink
    from sealberg.files.byte_sources import Source
    from sealberg.files.parquet.file_walk import FileWalk
    from sealberg.files.parquet.footer import ColumnChunk, FileFooter, RowGroup
    from sealberg.files.parquet.modules import Module
    from sealberg.format.aes_gcm import Bytes
    from sealberg.format.key_metadata import KeyMetadata

PAGE_HEADERS: Final = (ModuleKind.DATA_PAGE_HEADER, ModuleKind.DICTIONARY_PAGE_HEADER)
PAGES: Final = (ModuleKind.DATA_PAGE, ModuleKind.DICTIONARY_PAGE)
SIZE, CRC = 3, 4  # in PageHeader
ENCRYPTED_WITH_FOOTER_KEY: Final = (STRUCT, Struct({1: (STRUCT, Struct({}))}))


@dataclass(frozen=True, slots=True)
class Rewrapped:
    """A finished file.

    Attributes:
        column_sizes: the stored bytes of each column, by field id; columns without a field id are left out.
        columns: the paths of the columns, in file order.
        checksums: one number per column, the sum of the checksums of its pages; see `page_checksums`.
        footer: the plaintext of its footer.
        key_metadata: the key with the length of the file; None for plaintext.
    """

    stored_length: int
    num_rows: int
    split_offsets: list[int]
    column_sizes: dict[int, int]
    columns: tuple[str, ...]
    checksums: tuple[int, ...]
    footer: bytes = field(repr=False)
    key_metadata: KeyMetadata | None = field(repr=False)


def open_walk(source: Source, key: KeyMetadata | None, *, where: str, clear_levels: bool = False) -> FileWalk:
    """The walk of a plaintext file, or with a key of an encrypted file."""
    if key is None:
        return PlainWalk(source, where=where)
    return ModuleWalk(source, key, where=where, clear_levels=clear_levels)


def rewrap(
    source: Source,
    source_key: KeyMetadata | None,
    sink: Sink,
    target_key: KeyMetadata | None,
    *,
    where: str = "the Parquet file",
) -> Rewrapped:
    """Copy a Parquet file; the caller closes the sink, and checks what the store has with `check_rewrapped`.

    Args:
        source: a path, a buffer, a file of PyArrow, or a `RangedSource`; closed at the end.
        source_key: the key metadata of an encrypted source.
        sink: accepts the bytes in order.
        target_key: a new key, with an AAD prefix; None writes plaintext.
        where: the name of the source in errors.
    """
    if target_key is not None and (target_key.aad_prefix is None or target_key.file_length is not None):
        raise ConfigError("the key metadata of a new Parquet file must have an AAD prefix and no length")
    with open_walk(source, source_key, where=where, clear_levels=True) as walk:
        _check_ordinals(walk.footer, where)
        target = _Target(walk, ModuleSink(sink, target_key))
        return target.write(target_key)


def check_rewrapped(source: Source, file: Rewrapped, *, where: str) -> None:
    """Walk the stored target: every byte is read, authenticated if it is encrypted, and compared by checksum."""
    with open_walk(source, file.key_metadata, where=where) as walk:
        found = page_checksums(walk)
        rows = walk.footer.num_rows
        gap = next(walk.gaps(), None)
    if walk.size != file.stored_length or rows != file.num_rows or found != file.checksums or gap is not None:
        raise FormatError(f"{where}: the copy of the Parquet file differs from its source; the copy is not used")


def page_checksums(walk: FileWalk) -> tuple[int, ...]:
    """One number per column, whatever the order and the keys of the row groups: the sum over its pages."""
    sums = [0] * len(walk.footer.leaves)
    for group, chunk in walk.footer.chunks():
        for module in walk.chunk(group, chunk):
            if module.place.kind in PAGES:
                sums[chunk.column] += _checksum(module)
    return tuple(sums)


def _checksum(page: Module) -> int:
    return len(page.plain) << 32 | zlib.crc32(page.plain)


def _check_ordinals(footer: FileFooter, where: str) -> None:
    most = max(len(footer.row_groups), len(footer.leaves))
    if most > MAX_ORDINAL + 1:
        raise UnsupportedError(f"{where}: {most} row groups or columns, an encrypted file has at most 32768")


@dataclass(slots=True)
class _Chunk:
    """Where the parts of one column chunk are in the target.

    Attributes:
        grown: how much longer its page headers are than in the source.
    """

    source: ColumnChunk
    start: int
    dictionary: int | None = None
    pages: list[Range] = field(default_factory=list)
    stored: int = 0
    grown: int = 0
    indexes: dict[ModuleKind, Range] = field(default_factory=dict)
    bloom: list[tuple[Place, bytes]] = field(default_factory=list)
    bloom_range: Range | None = None

    def add_page(self, kind: ModuleKind, page: Range) -> None:
        if kind == ModuleKind.DICTIONARY_PAGE:
            self.dictionary = page.offset
        else:
            self.pages.append(page)
        self.stored += page.length


@dataclass(slots=True)
class _Group:
    """A row group and its number in the target."""

    source: RowGroup
    ordinal: int
    chunks: list[_Chunk] = field(default_factory=list)


class _Target:
    """The file being written."""

    def __init__(self, walk: FileWalk, sink: ModuleSink) -> None:
        self._walk = walk
        self._raw_groups = walk.footer.raw.structs(4)
        self._sink = sink
        self._indexes: list[tuple[_Chunk, Place, bytes]] = []
        self._checksums = [0] * len(walk.footer.leaves)

    def write(self, key: KeyMetadata | None) -> Rewrapped:
        groups: list[_Group] = []
        # A row group without rows holds nothing; pyarrow writes such groups, with offsets that lead nowhere.
        for source in (group for group in self._walk.footer.row_groups if group.num_rows):
            group = _Group(source, len(groups))
            group.chunks += [self._chunk(group, chunk) for chunk in source.chunks]
            for chunk in group.chunks:
                self._write_bloom_filter(chunk)
            groups.append(group)
        for chunk, place, plain in sorted(self._indexes, key=lambda index: index[1].kind):
            chunk.indexes[place.kind] = self._put(place, plain)
        footer = encode_struct(self._footer(groups))
        self._sink.finish(footer)
        length = self._sink.count
        return Rewrapped(
            length,
            self._walk.footer.num_rows,
            [group.chunks[0].start for group in groups if group.chunks],
            _column_sizes(groups),
            tuple(".".join(leaf.path) for leaf in self._walk.footer.leaves),
            tuple(self._checksums),
            footer,
            None if key is None else key.with_length(length),
        )

    def _put(self, place: Place, plain: Bytes) -> Range:
        at = self._sink.count
        return Range(at, self._sink.put(place, plain))

    # -- parts of a chunk -----------------------------------------------------------------------

    def _chunk(self, group: _Group, source: ColumnChunk) -> _Chunk:
        chunk = _Chunk(source, self._sink.count)
        at = chunk.start
        for module in self._walk.chunk(group.source, source):
            place = module.place._replace(row_group=group.ordinal)
            if place.kind in PAGE_HEADERS:
                at = self._sink.count
                chunk.grown += self._put(place, self._page_header(module)).length - module.stored_length
            elif place.kind in PAGES:
                self._checksums[source.column] += _checksum(module)
                self._put(place, module.plain)
                chunk.add_page(place.kind, Range(at, self._sink.count - at))
            elif place.kind == ModuleKind.COLUMN_INDEX:
                self._indexes.append((chunk, place, bytes(module.plain)))
            elif place.kind == ModuleKind.OFFSET_INDEX:
                self._indexes.append((chunk, place, _offset_index(module, chunk.pages)))
            else:
                chunk.bloom.append((place, bytes(module.plain)))
        return chunk

    def _page_header(self, header: Module) -> bytes:
        struct = header.struct
        assert struct is not None, "a walk decodes every page header"
        levels = struct.struct(8) if struct.integer(1) == DATA_PAGE_V2 else None
        if self._sink.encrypted and levels is not None and (levels.integer(5) or levels.integer(6)):
            raise UnsupportedError(
                f"the {header.place} is of version 2 and has levels, which parquet-java and pyarrow encrypt in "
                "different ways"
            )
        plain_size = struct.integer(SIZE) - self._walk.overhead
        return encode_struct(changed(struct, {SIZE: i32(plain_size + self._sink.overhead), CRC: None}))

    def _write_bloom_filter(self, chunk: _Chunk) -> None:
        at = self._sink.count
        for place, plain in chunk.bloom:
            self._put(place, plain)
        if chunk.bloom:
            chunk.bloom_range = Range(at, self._sink.count - at)
            chunk.bloom.clear()

    # -- the footer -----------------------------------------------------------------------------

    def _footer(self, groups: list[_Group]) -> Struct:
        return changed(self._walk.footer.raw, {4: structs([self._row_group(group) for group in groups])})

    def _row_group(self, group: _Group) -> Struct:
        raw, chunks = self._raw_groups[group.source.index], group.chunks
        fields: dict[int, tuple[int, Any] | None] = {
            1: structs([self._column_chunk(chunk) for chunk in chunks]),
            2: i64(raw.integer(2) + sum(chunk.grown for chunk in chunks)),
            6: i64(sum(chunk.stored for chunk in chunks)),
            7: (I16, group.ordinal),
        }
        if 5 in raw and chunks:
            fields[5] = i64(chunks[0].start)
        return changed(raw, fields)

    def _column_chunk(self, chunk: _Chunk) -> Struct:
        raw = chunk.source.raw
        metadata = raw.struct(3)
        assert metadata is not None, "the footer was decoded with it"
        data = chunk.pages[0].offset if chunk.pages else chunk.start + chunk.stored
        bloom = chunk.bloom_range
        offset_index = chunk.indexes.get(ModuleKind.OFFSET_INDEX)
        column_index = chunk.indexes.get(ModuleKind.COLUMN_INDEX)
        inner = changed(
            metadata,
            {
                6: i64(metadata.integer(6) + chunk.grown),
                7: i64(chunk.stored),
                9: i64(data),
                11: None if chunk.dictionary is None else i64(chunk.dictionary),
                14: None if bloom is None else i64(bloom.offset),
                15: None if bloom is None else i32(bloom.length),
            },
        )
        # Deprecated in the format; parquet-java wrote the offset of the first page, others write 0.
        old = raw.optional_integer(2)
        return changed(
            raw,
            {
                2: i64(chunk.start if old else 0),
                3: (STRUCT, inner),
                4: None if offset_index is None else i64(offset_index.offset),
                5: None if offset_index is None else i32(offset_index.length),
                6: None if column_index is None else i64(column_index.offset),
                7: None if column_index is None else i32(column_index.length),
                8: ENCRYPTED_WITH_FOOTER_KEY if self._sink.encrypted else None,
                9: None,
            },
        )


def _offset_index(module: Module, pages: list[Range]) -> bytes:
    struct = module.struct
    assert struct is not None, "a walk decodes every offset index"
    locations = struct.structs(1)
    if len(locations) != len(pages):
        raise FormatError(f"the {module.place} names {len(locations)} pages, the column chunk has {len(pages)}")
    moved = [
        changed(location, {1: i64(page.offset), 2: i32(page.length)})
        for location, page in zip(locations, pages, strict=True)
    ]
    return encode_struct(changed(struct, {1: structs(moved)}))


def _column_sizes(groups: list[_Group]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for chunk in (chunk for group in groups for chunk in group.chunks):
        if (field_id := chunk.source.leaf.field_id) is not None:
            sizes[field_id] = sizes.get(field_id, 0) + chunk.stored
    return sizes
