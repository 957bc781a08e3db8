"""Visits every part of a plaintext Parquet file, in the order in which `ModuleWalk` visits an encrypted file.

    PAR1 | header, page, header, page, ... | bloom filters, column indexes, offset indexes | footer | length | PAR1

The parts have the places (kind, row group, column, page) that they would have as modules, so a writer can seal them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from sealberg.errors import BadMagicError, FormatError, TruncatedError, UnsupportedError
from sealberg.files.file_writer import closing_on_error
from sealberg.files.parquet.file_walk import FileWalk, SizedSource
from sealberg.files.parquet.footer import FileFooter, Range
from sealberg.files.parquet.modules import Module, Place
from sealberg.files.parquet.reader import FOOTER_END, MAGIC, PLAIN_MAGIC, TAIL_READ
from sealberg.files.parquet.thrift import decode_struct

if TYPE_CHECKING:
    from sealberg.files.byte_sources import Source
    from sealberg.files.parquet.footer import ColumnChunk, RowGroup

HEADER_READ: Final = 256  # most page headers fit; those with long bounds are read again with more
MAX_HEADER: Final = 16 << 20
ENCRYPTION_ALGORITHM: Final = 8  # in FileMetaData: a footer in plaintext, columns that may be encrypted


class PlainWalk(FileWalk):
    """Opens one plaintext Parquet file and parses its footer."""

    overhead: ClassVar[int] = 0

    def __init__(self, source: Source, *, where: str = "the Parquet file") -> None:
        super().__init__(source, where=where)
        with closing_on_error(self):
            file = SizedSource(self._source)
            stored = _footer(file, where)
            self._opened(file.size(), Range(file.size() - len(stored), len(stored)))
            self.footer = FileFooter.decode(stored[:-FOOTER_END])
            if ENCRYPTION_ALGORITHM in self.footer.raw:
                raise UnsupportedError(f"{where}: columns are encrypted and the footer is not (plaintext footer mode)")

    def _check_chunk(self, group: RowGroup, chunk: ColumnChunk) -> None:
        if 8 in chunk.raw or 1 in chunk.raw:
            what = "is encrypted" if 8 in chunk.raw else "is in another file"
            raise UnsupportedError(f"column {'.'.join(chunk.leaf.path)} of row group {group.index} {what}")

    def _module(self, place: Place, offset: int, end: int, length: int | None = None) -> Module:
        if length is None:
            return self._header(place, offset, end)
        if not 0 <= length <= end - offset:
            raise FormatError(f"the {place} claims {length} bytes, expected at most {max(end - offset, 0)}")
        return Module(place, offset, length, self._window.get(offset, length, end))

    def _header(self, place: Place, offset: int, end: int) -> Module:
        """A Thrift struct, whose length nothing tells but its own bytes."""
        room = min(HEADER_READ, end - offset)
        while True:
            held = self._window.get(offset, room, end)
            try:
                struct, length = decode_struct(held)
            except FormatError:
                if room >= min(end - offset, MAX_HEADER):
                    raise
                room = min(16 * room, end - offset, MAX_HEADER)
            else:
                return Module(place, offset, length, held[:length], struct)


def _footer(file: SizedSource, where: str) -> bytes:
    """The footer with its length and magic."""
    size = file.size()
    if size < len(MAGIC) + FOOTER_END:
        raise FormatError(f"{where}: not a Parquet file: it has {size} bytes")
    tail = file.read_at(min(size, TAIL_READ), size - min(size, TAIL_READ))
    for magic in (file.read_at(len(MAGIC), 0), tail[-len(MAGIC) :]):
        if magic == MAGIC:
            raise BadMagicError(f"{where}: an encrypted Parquet file, and no key is known for it")
        if magic != PLAIN_MAGIC:
            raise BadMagicError(f"{where}: not a Parquet file: found magic {magic.hex()}, expected {PLAIN_MAGIC.hex()}")
    length = int.from_bytes(tail[-FOOTER_END:-4], "little") + FOOTER_END
    if length > size - len(MAGIC):
        raise FormatError(f"{where}: a footer of {length} bytes does not fit into {size}")
    footer = tail[-length:] if length <= len(tail) else file.read_at(length, size - length)
    if len(footer) != length:
        raise TruncatedError(f"{where}: the store returned {len(footer)} of the {length} bytes of the footer")
    return footer
