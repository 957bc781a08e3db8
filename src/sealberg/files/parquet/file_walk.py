"""Visits every part of a Parquet file in order, without decompressing or decoding a value.

    FileWalk ── ModuleWalk   an encrypted file: every part is a module, which is authenticated and opened
             └─ PlainWalk    a plaintext file: the same parts, as they are

    for group, chunk in walk.footer.chunks():
        for module in walk.chunk(group, chunk):  page headers and pages, in file order, then indexes and bloom filter

A walk checks that the number of values in page headers is the number in the footer, that the offset index names the
pages that exist, and (`gaps`) that bytes between the parts are zeros, so that every byte of the file is accounted for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

from sealberg.errors import FormatError, TruncatedError
from sealberg.files.buffer_pool import own_buffers
from sealberg.files.byte_sources import as_source
from sealberg.files.parquet.footer import MAGIC_LENGTH, Range
from sealberg.files.parquet.modules import MAX_ORDINAL, Module, ModuleKind, Place
from sealberg.files.parquet.thrift import decode_struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.files.byte_sources import RangedSource, Source
    from sealberg.files.parquet.footer import ColumnChunk, FileFooter, RowGroup

WINDOW: Final = 4 << 20
DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)


@dataclass(slots=True)
class _Counts:
    """What the page headers of one chunk add up to."""

    values: int = 0
    pages: int = 0


class FileWalk(ABC):
    """One open Parquet file; a subclass sets `size`, `footer_range`, `footer` and knows how a part is stored.

    Args:
        source: a path, a buffer, a file of PyArrow, or a `RangedSource`; closed with the walk.
        where: the name of the file in errors.
    """

    overhead: ClassVar[int]  # the bytes that a stored part has beyond its plain bytes
    size: int
    footer_range: Range
    footer: FileFooter

    def __init__(self, source: Source, *, where: str) -> None:
        self._source = as_source(source)
        self._window = _Window(self._source)
        self._where = where
        self.modules = 1
        self._covered: list[Range] = []

    def _opened(self, size: int, footer_range: Range) -> None:
        self.size, self.footer_range = size, footer_range
        self._covered = [Range(0, MAGIC_LENGTH), footer_range]

    @abstractmethod
    def _module(self, place: Place, offset: int, end: int, length: int | None = None) -> Module:
        """The part at an offset, which must end before `end`.

        Args:
            length: the stored length that a header or the footer claims; None for the headers of pages and filters.
        """

    @abstractmethod
    def _check_chunk(self, group: RowGroup, chunk: ColumnChunk) -> None:
        """Refuse a column chunk that is not stored as its file is."""

    def chunk(self, group: RowGroup, chunk: ColumnChunk) -> Iterator[Module]:
        """Every module of one column chunk; an error ends the chunk, and other chunks can still be walked."""
        self._check_chunk(group, chunk)
        for part in (chunk.pages, chunk.column_index, chunk.offset_index, chunk.bloom_filter):
            if part is not None:
                self._check_inside(part, chunk)
        self._covered += [part for part in (chunk.pages, chunk.column_index, chunk.offset_index) if part is not None]
        pages: list[Range] = []
        counts = _Counts()
        yield from self._counted(self._pages(group, chunk, pages, counts))
        if counts.values != chunk.num_values:
            raise FormatError(
                f"the pages of column {'.'.join(chunk.leaf.path)} of row group {group.index} have {counts.values} "
                f"values, the footer claims {chunk.num_values}"
            )
        if not chunk.leaf.repeated and chunk.num_values != group.num_rows:
            raise FormatError(
                f"column {'.'.join(chunk.leaf.path)} of row group {group.index} has {chunk.num_values} values, "
                f"expected {group.num_rows}, the rows of the row group"
            )
        yield from self._counted(self._indexes(group, chunk, pages))
        yield from self._counted(self._bloom_filter(group, chunk))

    def gaps(self) -> Iterator[Range]:
        """Ranges of the file that belong to no module and hold other bytes than zeros; after all chunks were walked.

        parquet-java pads row groups with zeros on some file systems.
        """
        at = 0
        for part in sorted(self._covered):
            if part.offset > at and any(self._raw(at, part.offset - at)):
                yield Range(at, part.offset - at)
            at = max(at, part.end)

    def close(self) -> None:
        self._window.close()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- parts of a chunk -----------------------------------------------------------------------

    def _pages(self, group: RowGroup, chunk: ColumnChunk, pages: list[Range], counts: _Counts) -> Iterator[Module]:
        at, end = chunk.pages
        end += at
        column = chunk.column
        if chunk.has_dictionary:
            place = Place(ModuleKind.DICTIONARY_PAGE_HEADER, group.ordinal, column)
            header, page = self._page_header(self._module(place, at, end))
            yield header
            if page.kind != DICTIONARY_PAGE:
                raise FormatError(f"the {place} is of a page of type {page.kind}, expected a dictionary page")
            body = self._body(Place(ModuleKind.DICTIONARY_PAGE, group.ordinal, column), header, page, end)
            yield body
            at = body.offset + body.stored_length
        if at != chunk.first_data_page:
            raise FormatError(
                f"the data pages of column {'.'.join(chunk.leaf.path)} of row group {group.index} begin at {at}, "
                f"the footer claims {chunk.first_data_page}"
            )
        while at < end:
            number = counts.pages
            if number > MAX_ORDINAL:
                raise FormatError(f"column {column} of row group {group.index} has more than {MAX_ORDINAL + 1} pages")
            place = Place(ModuleKind.DATA_PAGE_HEADER, group.ordinal, column, number)
            header, page = self._page_header(self._module(place, at, end))
            yield header
            if page.values is None:
                raise FormatError(f"the {header.place} is of a page of type {page.kind}, expected a data page")
            body = self._body(Place(ModuleKind.DATA_PAGE, group.ordinal, column, number), header, page, end)
            yield body
            pages.append(Range(at, header.stored_length + body.stored_length))
            at = body.offset + body.stored_length
            counts.pages += 1
            counts.values += page.values

    def _body(self, place: Place, header: Module, page: PageHeader, end: int) -> Module:
        body = self._page(place, header.offset + header.stored_length, end, page)
        if body.stored_length != page.stored_length:
            raise FormatError(f"the {place} has {body.stored_length} bytes, its header claims {page.stored_length}")
        return body

    def _page(self, place: Place, offset: int, end: int, page: PageHeader) -> Module:
        """The page behind its header."""
        return self._module(place, offset, end, page.stored_length)

    def _page_header(self, header: Module) -> tuple[Module, PageHeader]:
        found, end = (header.struct, len(header.plain)) if header.struct is not None else decode_struct(header.plain)
        if any(header.plain[end:]):  # parquet-java pads headers with zeros
            raise FormatError(f"the {header.place} is followed by {len(header.plain) - end} bytes")
        kind = found.integer(1)
        inner = found.struct({DATA_PAGE: 5, DATA_PAGE_V2: 8}.get(kind, 0))
        values = None if inner is None else inner.integer(1)
        levels = inner.integer(5) + inner.integer(6) if inner is not None and kind == DATA_PAGE_V2 else 0
        return header._replace(struct=found), PageHeader(kind, found.integer(3), values, levels)

    def _indexes(self, group: RowGroup, chunk: ColumnChunk, pages: list[Range]) -> Iterator[Module]:
        if (part := chunk.column_index) is not None:
            yield self._whole(Place(ModuleKind.COLUMN_INDEX, group.ordinal, chunk.column), part)
        if (part := chunk.offset_index) is not None:
            module = self._whole(Place(ModuleKind.OFFSET_INDEX, group.ordinal, chunk.column), part)
            found, _ = decode_struct(module.plain)
            yield module._replace(struct=found)
            named = [Range(page.integer(1), page.integer(2)) for page in found.structs(1)]
            if named != pages:
                raise FormatError(
                    f"the {module.place} names {len(named)} pages that differ from the {len(pages)} pages"
                )

    def _bloom_filter(self, group: RowGroup, chunk: ColumnChunk) -> Iterator[Module]:
        if (part := chunk.bloom_filter) is None:
            return
        end = part.end if part.length else self.footer_range.offset
        header = self._module(Place(ModuleKind.BLOOM_FILTER_HEADER, group.ordinal, chunk.column), part.offset, end)
        struct = header.struct if header.struct is not None else decode_struct(header.plain)[0]
        size = struct.integer(1)
        yield header._replace(struct=struct)
        at = header.offset + header.stored_length
        place = Place(ModuleKind.BLOOM_FILTER_BITSET, group.ordinal, chunk.column)
        bitset = self._module(place, at, end, size + self.overhead)
        yield bitset
        stop = at + bitset.stored_length
        self._covered.append(Range(part.offset, stop - part.offset))
        if bitset.stored_length - self.overhead != size or (part.length and stop != part.end):
            raise FormatError(f"the {bitset.place} has {bitset.stored_length} bytes, its header claims {size}")

    def _whole(self, place: Place, part: Range) -> Module:
        module = self._module(place, part.offset, part.end, part.length)
        if module.stored_length != part.length:
            raise FormatError(f"the {place} has {module.stored_length} bytes, the footer claims {part.length}")
        return module

    def _raw(self, offset: int, length: int) -> Iterator[int]:
        for at in range(offset, offset + length, WINDOW):
            yield from self._window.get(at, min(WINDOW, offset + length - at), offset + length)

    def _counted(self, modules: Iterator[Module]) -> Iterator[Module]:
        for module in modules:
            self.modules += 1
            yield module

    def _check_inside(self, part: Range, chunk: ColumnChunk) -> None:
        if part.offset < MAGIC_LENGTH or part.length < 0 or part.end > self.footer_range.offset:
            raise FormatError(
                f"{part.length} bytes at {part.offset} of column {'.'.join(chunk.leaf.path)} of row group "
                f"{chunk.row_group} are outside of the file"
            )


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What is said of a page before it.

    Attributes:
        values: the number of values of a data page.
        levels: the bytes of the levels of a page of version 2, which are not compressed.
    """

    kind: int
    stored_length: int
    values: int | None
    levels: int = 0


class _Window:
    """Reads the file in pieces of a few MiB, in ascending order mostly."""

    def __init__(self, source: RangedSource) -> None:
        self._source = source
        self._buffers = own_buffers()
        self._buffer = self._held = memoryview(b"")
        self._start = 0

    def get(self, offset: int, length: int, ahead: int) -> memoryview:
        """`length` bytes; reads further, up to `ahead`, if they are not in the window."""
        at = offset - self._start
        if at < 0 or at + length > len(self._held):
            wanted = max(length, min(WINDOW, ahead - offset))
            if wanted > len(self._buffer):
                self._buffers.give(self._buffer)
                self._buffer = self._buffers.take(wanted)
            self._held = memoryview(self._source.read_at(offset, wanted, self._buffer[:wanted]))
            self._start, at = offset, 0
            if len(self._held) < length:
                raise TruncatedError(
                    f"the file is truncated: it ends at {offset + len(self._held)} bytes, expected {offset + length}"
                )
        return self._held[at : at + length]

    def close(self) -> None:
        buffer, self._buffer, self._held = self._buffer, memoryview(b""), memoryview(b"")
        self._buffers.give(buffer)


class SizedSource:
    """A source with the methods of a pyarrow file that the footer's checks need."""

    def __init__(self, source: object) -> None:
        self._source = as_source(source)

    def size(self) -> int:
        size = self._source.size
        if size is None:
            raise FormatError("the length of the file is unknown: its source reports no size")
        return size

    def read_at(self, length: int, offset: int) -> bytes:
        return bytes(self._source.read_at(offset, length, memoryview(bytearray(length))))
