"""Authenticates every module of an encrypted Parquet file, without decompressing or decoding a value.

    PARE | row group 0: column 0: [dictionary header, page], header, page, header, page, ... column 1: ... | row group 1
         | bloom filters, column indexes, offset indexes | footer: FileCryptoMetaData, module | length | PARE

    with ModuleWalk(source, key_metadata) as walk:
        walk.footer                                  the footer, authenticated and parsed
        for group, chunk in walk.footer.chunks():
            for module in walk.chunk(group, chunk):  every module of the chunk, in file order, then indexes and filter

A walk is about as fast as the cipher. What it checks beside authentication is in file_walk.py.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final

from sealberg.errors import AuthenticationError, FormatError, PlaintextFileError
from sealberg.files.file_writer import closing_on_error
from sealberg.files.parquet.file_walk import WINDOW, FileWalk, SizedSource
from sealberg.files.parquet.footer import FileFooter, Range
from sealberg.files.parquet.modules import (
    LENGTH_BYTES,
    MODULE_OVERHEAD,
    Module,
    ModuleCipher,
    ModuleKind,
    Place,
    module_length,
)
from sealberg.files.parquet.reader import FOOTER_END, checked_footer, read_tail
from sealberg.files.parquet.thrift import decode_struct
from sealberg.format.aes_gcm import NONCE_LENGTH, TAG_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.files.byte_sources import Source
    from sealberg.files.parquet.file_walk import PageHeader
    from sealberg.files.parquet.footer import ColumnChunk, RowGroup
    from sealberg.format.key_metadata import KeyMetadata

PIECE: Final = 256 << 10  # of a large module; stays in the cache of a core
NOT_DECODED: Final = (
    ModuleKind.DATA_PAGE,
    ModuleKind.DICTIONARY_PAGE,
    ModuleKind.COLUMN_INDEX,
    ModuleKind.BLOOM_FILTER_BITSET,
)


class ModuleWalk(FileWalk):
    """Opens one encrypted Parquet file and authenticates its footer.

    Args:
        source: a path, a buffer, a file of PyArrow, or a `RangedSource`; closed with the walk.
        key_metadata: the key, the AAD prefix, and the trusted length if known.
        where: the name of the file in errors.
        discard: for callers that need no plaintext of pages, column indexes and bloom filters. The walk authenticates
            those that are larger than a few MiB in pieces, so that a page of gigabytes needs no memory.
        clear_levels: accept pages of version 2 as parquet-java writes them, with levels that nothing protects.
    """

    overhead: ClassVar[int] = MODULE_OVERHEAD

    def __init__(
        self,
        source: Source,
        key_metadata: KeyMetadata,
        *,
        where: str = "the Parquet file",
        discard: bool = False,
        clear_levels: bool = False,
    ) -> None:
        super().__init__(source, where=where)
        self._discard, self._clear_levels = discard, clear_levels
        self._scratch = memoryview(bytearray(64 << 10))
        with closing_on_error(self):
            file = SizedSource(self._source)
            stored = checked_footer(file, read_tail(file, key_metadata, where), where)
            self._opened(file.size(), Range(file.size() - len(stored), len(stored)))
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

    def _check_chunk(self, group: RowGroup, chunk: ColumnChunk) -> None:
        if not chunk.encrypted:
            raise PlaintextFileError(
                f"column {'.'.join(chunk.leaf.path)} of row group {group.index} is not encrypted with the key of its "
                "file, expected all columns to be encrypted with that key"
            )

    def _page(self, place: Place, offset: int, end: int, page: PageHeader) -> Module:
        """A module; of parquet-java's pages of version 2, levels in the clear and then a module with the values."""
        prefix = int.from_bytes(self._window.get(offset, LENGTH_BYTES, end), "little")
        if not page.levels or prefix + LENGTH_BYTES == page.stored_length:
            return self._module(place, offset, end, page.stored_length)
        if not self._clear_levels:
            raise PlaintextFileError(
                f"the {place} is of version 2, and its levels (which rows are null, where lists end) are in the clear: "
                "parquet-java encrypts only the values of such pages. Set write.parquet.page-version=v1 and run "
                "`sealberg rekey`, which writes the file again with pages of version 1"
            )
        levels = bytes(self._window.get(offset, page.levels, end))
        values = self._module(place, offset + page.levels, end)
        return Module(place, offset, page.levels + values.stored_length, memoryview(levels + bytes(values.plain)))

    def _module(self, place: Place, offset: int, end: int, length: int | None = None) -> Module:  # noqa: ARG002
        prefix = self._window.get(offset, LENGTH_BYTES, end)
        stored = module_length(prefix, place, end - offset)
        if self._discard and stored > WINDOW:
            self._authenticate(place, Range(offset, stored))
            if place.kind in NOT_DECODED:
                return Module(place, offset, stored, memoryview(b""))
        sealed = self._window.get(offset, stored, end)
        return Module(place, offset, stored, self._open(place, sealed[LENGTH_BYTES:]))

    def _open(self, place: Place, sealed: memoryview) -> memoryview:
        out = self._out(len(sealed) - (MODULE_OVERHEAD - LENGTH_BYTES))
        with self._naming():
            self._cipher.open_into(place, sealed, out)
        return out

    def _authenticate(self, place: Place, part: Range) -> None:
        """Authenticate a module in pieces, whatever its length."""
        start, tag_at = part.offset + LENGTH_BYTES + NONCE_LENGTH, part.end - TAG_LENGTH
        tag = bytes(self._window.get(tag_at, TAG_LENGTH, part.end))
        nonce = bytes(self._window.get(start - NONCE_LENGTH, NONCE_LENGTH, tag_at))
        pieces = (self._window.get(at, min(PIECE, tag_at - at), tag_at) for at in range(start, tag_at, PIECE))
        with self._naming():
            self._cipher.authenticate(place, nonce, pieces, tag, self._out(PIECE + TAG_LENGTH))

    def _out(self, length: int) -> memoryview:
        if length > len(self._scratch):
            self._scratch = memoryview(bytearray(max(length, 2 * len(self._scratch))))
        return self._scratch[:length]

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except AuthenticationError as error:
            raise AuthenticationError(f"{self._where}: {error}") from None
