"""Authenticates every module of an encrypted Parquet file, without decompressing or decoding a value.

    PARE | row group 0: column 0: [dictionary header, page], header, page, header, page, ... column 1: ... | row group 1
         | bloom filters, column indexes, offset indexes | footer: FileCryptoMetaData, module | length | PARE

    with ModuleWalk(source, key_metadata) as walk:
        walk.footer                                  the footer, authenticated and parsed
        for group, chunk in walk.footer.chunks():
            for module in walk.chunk(group, chunk):  every module of the chunk, in file order, then indexes and filter

A walk is about as fast as the cipher. It also checks that the number of values in page headers is the number in the
footer, that the offset index names the pages that exist, and (`gaps`) that bytes between modules are zeros, so that
every byte of the file is accounted for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from sealberg.errors import AuthenticationError, FormatError, PlaintextFileError, TruncatedError
from sealberg.files.byte_sources import as_source
from sealberg.files.file_writer import closing_on_error
from sealberg.files.parquet.footer import FileFooter, Range
from sealberg.files.parquet.modules import (
    LENGTH_BYTES,
    MAX_ORDINAL,
    MODULE_OVERHEAD,
    Module,
    ModuleCipher,
    ModuleKind,
    Place,
    module_length,
)
from sealberg.files.parquet.reader import FOOTER_END, MAGIC, checked_footer, read_tail
from sealberg.files.parquet.thrift import decode_struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.files.byte_sources import Source
    from sealberg.files.parquet.footer import ColumnChunk, RowGroup
    from sealberg.format.key_metadata import KeyMetadata

WINDOW: Final = 4 << 20
DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)


@dataclass(slots=True)
class _Counts:
    """What the page headers of one chunk add up to."""

    values: int = 0
    pages: int = 0


class ModuleWalk:
    """Opens one encrypted Parquet file and authenticates its footer.

    Args:
        source: a path, a buffer, a file of PyArrow, or a `RangedSource`; closed with the walk.
        key_metadata: the key, the AAD prefix, and the trusted length if known.
        where: the name of the file in errors.
    """

    def __init__(self, source: Source, key_metadata: KeyMetadata, *, where: str = "the Parquet file") -> None:
        self._source = as_source(source)
        self._where = where
        self._scratch = memoryview(bytearray(64 << 10))
        with closing_on_error(self):
            file = _SizedSource(self._source)
            self.size = file.size()
            self._window = _Window(self._source, min(WINDOW, self.size))
            stored = checked_footer(file, read_tail(file, key_metadata, where), where)
            self.footer_range = Range(self.size - len(stored), len(stored))
            sealed = memoryview(stored)[:-FOOTER_END]
            crypto, at = decode_struct(sealed)
            algorithm = crypto.struct(1)
            gcm = None if algorithm is None else algorithm.struct(1)
            assert gcm is not None, "checked_footer accepts AES_GCM_V1 only"
            prefix = key_metadata.aad_prefix if key_metadata.aad_prefix is not None else gcm.binary(1)
            self._cipher = ModuleCipher(key_metadata.encryption_key, prefix or b"", gcm.binary(2) or b"")
            place = Place(ModuleKind.FOOTER)
            length = module_length(sealed[at : at + LENGTH_BYTES], place, len(sealed) - at)
            if at + length != len(sealed):
                raise FormatError(f"{where}: {len(sealed) - at - length} bytes follow the footer module")
            self.footer = FileFooter.decode(self._open(place, sealed[at + LENGTH_BYTES :]))
        self.modules = 1
        self._covered: list[Range] = [Range(0, len(MAGIC)), self.footer_range]

    def chunk(self, group: RowGroup, chunk: ColumnChunk) -> Iterator[Module]:
        """Every module of one column chunk; an error ends the chunk, and other chunks can still be walked."""
        if not chunk.encrypted:
            raise PlaintextFileError(
                f"column {'.'.join(chunk.leaf.path)} of row group {group.index} is not encrypted with the key of its "
                "file, expected all columns to be encrypted with that key"
            )
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
            header = self._module(place, at, end)
            page = self._page_header(header)
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
            header = self._module(Place(ModuleKind.DATA_PAGE_HEADER, group.ordinal, column, number), at, end)
            page = self._page_header(header)
            yield header
            if page.values is None:
                raise FormatError(f"the {header.place} is of a page of type {page.kind}, expected a data page")
            body = self._body(Place(ModuleKind.DATA_PAGE, group.ordinal, column, number), header, page, end)
            yield body
            pages.append(Range(at, header.stored_length + body.stored_length))
            at = body.offset + body.stored_length
            counts.pages += 1
            counts.values += page.values

    def _body(self, place: Place, header: Module, page: _PageHeader, end: int) -> Module:
        body = self._module(place, header.offset + header.stored_length, end)
        if body.stored_length != page.stored_length:
            raise FormatError(f"the {place} has {body.stored_length} bytes, its header claims {page.stored_length}")
        return body

    def _page_header(self, header: Module) -> _PageHeader:
        found, end = decode_struct(header.plain)
        if any(header.plain[end:]):  # parquet-java pads headers with zeros
            raise FormatError(f"the {header.place} is followed by {len(header.plain) - end} bytes")
        kind = found.integer(1)
        inner = found.struct({DATA_PAGE: 5, DATA_PAGE_V2: 8}.get(kind, 0))
        return _PageHeader(kind, found.integer(3), None if inner is None else inner.integer(1))

    def _indexes(self, group: RowGroup, chunk: ColumnChunk, pages: list[Range]) -> Iterator[Module]:
        if (part := chunk.column_index) is not None:
            yield self._whole(Place(ModuleKind.COLUMN_INDEX, group.ordinal, chunk.column), part)
        if (part := chunk.offset_index) is not None:
            module = self._whole(Place(ModuleKind.OFFSET_INDEX, group.ordinal, chunk.column), part)
            found, _ = decode_struct(module.plain)
            yield module
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
        size = decode_struct(header.plain)[0].integer(1)
        yield header
        at = header.offset + header.stored_length
        bitset = self._module(Place(ModuleKind.BLOOM_FILTER_BITSET, group.ordinal, chunk.column), at, end)
        yield bitset
        stop = at + bitset.stored_length
        self._covered.append(Range(part.offset, stop - part.offset))
        if bitset.stored_length - MODULE_OVERHEAD != size or (part.length and stop != part.end):
            raise FormatError(f"the {bitset.place} has {bitset.stored_length} bytes, its header claims {size}")

    # -- one module -----------------------------------------------------------------------------

    def _whole(self, place: Place, part: Range) -> Module:
        module = self._module(place, part.offset, part.end)
        if module.stored_length != part.length:
            raise FormatError(f"the {place} has {module.stored_length} bytes, the footer claims {part.length}")
        return module

    def _module(self, place: Place, offset: int, end: int) -> Module:
        """The module at an offset, which must end before `end`."""
        prefix = self._window.get(offset, LENGTH_BYTES, end)
        length = module_length(prefix, place, end - offset)
        sealed = self._window.get(offset, length, end)
        return Module(place, offset, length, self._open(place, sealed[LENGTH_BYTES:]))

    def _open(self, place: Place, sealed: memoryview) -> memoryview:
        length = len(sealed) - (MODULE_OVERHEAD - LENGTH_BYTES)
        if length > len(self._scratch):
            self._scratch = memoryview(bytearray(max(length, 2 * len(self._scratch))))
        out = self._scratch[:length]
        try:
            self._cipher.open_into(place, sealed, out)
        except AuthenticationError as error:
            raise AuthenticationError(f"{self._where}: {error}") from None
        return out

    def _raw(self, offset: int, length: int) -> Iterator[int]:
        for at in range(offset, offset + length, WINDOW):
            yield from self._window.get(at, min(WINDOW, offset + length - at), offset + length)

    def _counted(self, modules: Iterator[Module]) -> Iterator[Module]:
        for module in modules:
            self.modules += 1
            yield module

    def _check_inside(self, part: Range, chunk: ColumnChunk) -> None:
        if part.offset < len(MAGIC) or part.length < 0 or part.end > self.footer_range.offset:
            raise FormatError(
                f"{part.length} bytes at {part.offset} of column {'.'.join(chunk.leaf.path)} of row group "
                f"{chunk.row_group} are outside of the file"
            )


@dataclass(frozen=True, slots=True)
class _PageHeader:
    """The type of a page, its stored length, and its number of values if it is a data page."""

    kind: int
    stored_length: int
    values: int | None


class _Window:
    """Reads the file in pieces of a few MiB, in ascending order mostly."""

    def __init__(self, source: object, size: int) -> None:
        self._source = as_source(source)
        self._buffer = memoryview(bytearray(size))
        self._start = 0
        self._held = memoryview(b"")

    def get(self, offset: int, length: int, ahead: int) -> memoryview:
        """`length` bytes; reads further, up to `ahead`, if they are not in the window."""
        at = offset - self._start
        if at < 0 or at + length > len(self._held):
            wanted = max(length, min(WINDOW, ahead - offset))
            if wanted > len(self._buffer):
                self._buffer = memoryview(bytearray(wanted))
            self._held = memoryview(self._source.read_at(offset, wanted, self._buffer[:wanted]))
            self._start, at = offset, 0
            if len(self._held) < length:
                raise TruncatedError(
                    f"the file is truncated: it ends at {offset + len(self._held)} bytes, expected {offset + length}"
                )
        return self._held[at : at + length]


class _SizedSource:
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
