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

from typing import TYPE_CHECKING, ClassVar

from sealberg.errors import AuthenticationError, FormatError, PlaintextFileError
from sealberg.files.file_writer import closing_on_error
from sealberg.files.parquet.file_walk import FileWalk, SizedSource
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

if TYPE_CHECKING:
    from sealberg.files.byte_sources import Source
    from sealberg.files.parquet.footer import ColumnChunk, RowGroup
    from sealberg.format.key_metadata import KeyMetadata


class ModuleWalk(FileWalk):
    """Opens one encrypted Parquet file and authenticates its footer.

    Args:
        source: a path, a buffer, a file of PyArrow, or a `RangedSource`; closed with the walk.
        key_metadata: the key, the AAD prefix, and the trusted length if known.
        where: the name of the file in errors.
    """

    overhead: ClassVar[int] = MODULE_OVERHEAD

    def __init__(self, source: Source, key_metadata: KeyMetadata, *, where: str = "the Parquet file") -> None:
        super().__init__(source, where=where)
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

    def _module(self, place: Place, offset: int, end: int, length: int | None = None) -> Module:  # noqa: ARG002
        prefix = self._window.get(offset, LENGTH_BYTES, end)
        stored = module_length(prefix, place, end - offset)
        sealed = self._window.get(offset, stored, end)
        return Module(place, offset, stored, self._open(place, sealed[LENGTH_BYTES:]))

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
