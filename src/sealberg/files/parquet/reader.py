"""Reads one encrypted Parquet file: Parquet modular encryption with the file's own key.

    PARE | modules: 4-byte length, nonce (12), ciphertext, tag (16) | footer | footer length, u32 LE | PARE
    footer: FileCryptoMetaData, plaintext | the file's metadata, a module like the others

All modules are AES-GCM with the key of the file; the AAD of a module is the AAD prefix, eight random bytes of
the file, and the position of the module in the file. The prefix is not in the file: it comes from the key metadata.

GCM authenticates everything but the two magics, the lengths and FileCryptoMetaData. Altered magics and lengths
cause errors, but FileCryptoMetaData names the algorithm, and with AES_GCM_CTR_V1 pages are not authenticated. An
attacker with access to the storage could name that algorithm, so a file must name AES_GCM_V1 before it is read.

Specification: https://parquet.apache.org/docs/file-format/data-pages/encryption/ ; the cryptography is pyarrow's.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from sealberg.errors import AuthenticationError, BadMagicError, FormatError, TrailingBytesError, TruncatedError
from sealberg.files.file_writer import closing_on_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sealberg.format.key_metadata import KeyMetadata

MAGIC: Final = b"PARE"
PLAIN_MAGIC: Final = b"PAR1"
FOOTER_END: Final = 8  # the footer's length and the magic
TAIL_READ: Final = 1 << 16  # as in pyarrow; most footers fit
STREAM_BUFFER: Final = 1 << 20  # of each column, if a file is streamed; four times as much for each request to a server


def decryption_properties(key_metadata: KeyMetadata) -> pe.FileDecryptionProperties:
    """pyarrow's decryption properties for one file; with them, pyarrow refuses a plaintext file."""
    return pe.create_decryption_properties(key_metadata.encryption_key, aad_prefix=key_metadata.aad_prefix)


class SizedFile(Protocol):
    """The two methods of a pyarrow file that the checks of a footer need."""

    def size(self) -> int: ...

    def read_at(self, nbytes: int, offset: int, /) -> bytes: ...


class EncryptedParquetReader:
    """Reads one encrypted Parquet file.

    The footer is fetched and checked once and then reused, so that a storage which returns another footer
    the second time gains nothing. A `pyarrow.dataset` fragment fetches the footer again: see `open_parquet`.

    Args:
        source: a path, a pyarrow NativeFile, or a seekable binary file; closed with the reader.
        key_metadata: the key, the AAD prefix, and the trusted length if known.
        where: the name of the file in errors.
        remote: whether each read is a request to a server. If so, the magic at the start of a large file is not
            fetched: no reader uses it, and the magic at the end is checked.
        streamed: read and decode page by page, in little memory, instead of whole column chunks ahead.
    """

    def __init__(
        self,
        source: Any,
        key_metadata: KeyMetadata,
        *,
        where: str | None = None,
        remote: bool = False,
        streamed: bool = False,
    ) -> None:
        self._where = where or _name(source)
        self._stream = _as_native(source)
        with closing_on_error(self):
            tail = read_tail(self._stream, key_metadata, self._where)
            if remote and len(tail) == self._stream.size():
                self._stream.close()
                self._stream = pa.BufferReader(tail)  # the tail is the whole file
            self._footer = pa.py_buffer(checked_footer(self._stream, tail, self._where, head=not remote))
            with translating(self._where):
                keys = decryption_properties(key_metadata)
                # pyarrow reads the metadata from the footer alone.
                metadata = pq.read_metadata(pa.BufferReader(self._footer), decryption_properties=keys)
                self.file = pq.ParquetFile(
                    self._stream,
                    metadata=metadata,
                    decryption_properties=keys,
                    pre_buffer=not streamed,
                    buffer_size=STREAM_BUFFER * (4 if remote else 1) if streamed else 0,
                )
        self._key_metadata = key_metadata

    @property
    def metadata(self) -> pq.FileMetaData:
        return self.file.metadata

    @property
    def schema(self) -> pa.Schema:
        return self.file.schema_arrow

    def row_groups(self, row_filter: ds.Expression | None = None) -> list[int]:
        """The row groups whose statistics do not rule out rows that match the filter."""
        if row_filter is None:
            return list(range(self.metadata.num_row_groups))
        with translating(self._where):
            fragment = _format(self._key_metadata).make_fragment(pa.BufferReader(self._footer))
            return [group.id for group in fragment.subset(row_filter).row_groups]

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        row_groups: Sequence[int] | None = None,
        batch_size: int = 1 << 17,
        threads: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of all row groups, or of the given ones, in file order."""
        groups = self.row_groups() if row_groups is None else list(row_groups)
        names = None if columns is None else list(columns)
        with translating(self._where):
            yield from self.file.iter_batches(
                batch_size=batch_size, row_groups=groups, columns=names, use_threads=threads
            )

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_parquet(source: Any, key_metadata: KeyMetadata, *, where: str | None = None) -> ds.ParquetFileFragment:
    """A fragment for scanners and datasets; each file has its own key and so its own format object.

    Wrap the scan in `translating`. The fragment reads the footer again: a storage that returns another footer the
    second time can make the fragment read pages without authentication (see the module docstring).
    `EncryptedParquetReader` does not have this weakness.
    """
    where = where or _name(source)
    stream = _as_native(source)
    with closing_on_error(stream):
        checked_footer(stream, read_tail(stream, key_metadata, where), where)
        with translating(where):
            fragment = _format(key_metadata).make_fragment(stream)
            fragment.ensure_complete_metadata()
    return fragment


def _format(key_metadata: KeyMetadata) -> ds.ParquetFileFormat:
    options = ds.ParquetFragmentScanOptions(decryption_properties=decryption_properties(key_metadata), pre_buffer=True)
    return ds.ParquetFileFormat(default_fragment_scan_options=options)


def _as_native(source: Any) -> pa.NativeFile:
    if isinstance(source, pa.NativeFile):
        return source
    if isinstance(source, str | os.PathLike):
        return pa.OSFile(os.fspath(source))
    if isinstance(source, bytes | bytearray | memoryview | pa.Buffer):
        return pa.BufferReader(source)
    return pa.PythonFile(source, mode="r")


def _name(source: Any) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else "the Parquet file"


def read_tail(stream: SizedFile, key_metadata: KeyMetadata, where: str) -> bytes:
    """The last bytes of the file (all bytes of a small file), after a check of its length."""
    size, trusted = stream.size(), key_metadata.file_length
    if trusted is not None and size < trusted:
        raise TruncatedError(f"{where}: the file is truncated: it has {size} bytes, its trusted length is {trusted}")
    if trusted is not None and size > trusted:
        raise TrailingBytesError(f"{where}: the file is too long: it has {size} bytes, its trusted length is {trusted}")
    if size < len(MAGIC) + FOOTER_END:
        least = len(MAGIC) + FOOTER_END
        raise FormatError(f"{where}: not a Parquet file: it has {size} bytes, expected at least {least}")
    wanted = min(size, TAIL_READ)
    tail = bytes(stream.read_at(wanted, size - wanted))
    if len(tail) != wanted:
        raise TruncatedError(f"{where}: the store returned {len(tail)} of the last {wanted} bytes of the file")
    return tail


def _check_magic(magic: bytes, where: str) -> None:
    if magic == PLAIN_MAGIC:
        raise BadMagicError(f"{where}: plaintext Parquet in the place of an encrypted file")
    if magic != MAGIC:
        raise BadMagicError(
            f"{where}: not an encrypted Parquet file: found magic {magic.hex()}, expected {MAGIC.hex()}"
        )


def checked_footer(stream: SizedFile, tail: bytes, where: str, *, head: bool = True) -> bytes:
    """The whole footer, after all checks that need no key."""
    size = stream.size()
    if len(tail) == size:
        _check_magic(tail[:4], where)
    elif head:
        _check_magic(bytes(stream.read_at(4, 0)), where)
    _check_magic(tail[-4:], where)
    length = int.from_bytes(tail[-8:-4], "little") + FOOTER_END
    if length > size - len(MAGIC):
        raise FormatError(f"{where}: a footer of {length} bytes does not fit into {size}")
    if length > len(tail):
        tail = bytes(stream.read_at(length, size - length))
    footer = tail[-length:]
    if footer[-FOOTER_END:] != tail[-FOOTER_END:] or len(footer) != length:
        raise FormatError(f"{where}: the file changed while it was read")
    _check_algorithm(footer, where)
    return footer


def _check_algorithm(footer: bytes, where: str) -> None:
    """FileCryptoMetaData must name AES_GCM_V1 and no other algorithm, in Thrift's compact protocol.

    1c                                    field 1, the algorithm: a union
      1c                                  its field 1, AES_GCM_V1: a struct
        18 n .. aad_prefix  28 n .. aad_file_unique  11 supply_aad_prefix    each optional
    00 00                                 the ends of the struct and of the union
    18 n ..  00                           key metadata, optional; the end
    """
    if footer[:2] == b"\x1c\x2c":
        raise FormatError(f"{where}: its pages are encrypted without authentication (AES_GCM_CTR_V1)")
    clear = footer[:-FOOTER_END]
    try:
        valid = clear[:2] == b"\x1c\x1c"
        if valid:
            at = _skip_fields(clear, 2, (BINARY,), (BINARY,), (TRUE, FALSE))
            # The union must end here: a second member would replace the first.
            valid = clear[at] == STOP
            _skip_fields(clear, at + 1, (BINARY,))
    except (IndexError, ValueError):
        valid = False
    if not valid:
        raise FormatError(f"{where}: its footer does not begin with the name of an encryption algorithm")


STOP, TRUE, FALSE, BINARY = 0, 1, 2, 8  # of Thrift's compact protocol


def _skip_fields(footer: bytes, at: int, *kinds: tuple[int, ...]) -> int:
    """Skip the fields of a struct, each of its type and at most once, and its end; returns the next offset.

    Byte strings are short: their length is one byte. EncryptedFooter.java does the same, byte for byte.
    """
    last = 0
    while head := footer[at]:
        step, kind = divmod(head, 16)
        last += step
        if step == 0 or last > len(kinds) or kind not in kinds[last - 1]:
            raise ValueError(head)
        if kind == BINARY and footer[at + 1] > 0x7F:
            raise ValueError(footer[at + 1])
        at += 2 + footer[at + 1] if kind == BINARY else 1
    return at + 1


# -- errors -------------------------------------------------------------------------------------

# Parts of pyarrow's messages about altered bytes. All other errors (network, disk, an invalid filter) are passed on.
_UNAUTHENTIC: Final = ("Failed decryption finalization", "AAD prefix", "AAD Prefix")
_MALFORMED: Final = (
    "ciphertext length",
    "deserialize thrift",
    "Deserializing page header failed",
    "Parquet magic bytes not found",
    "Parquet file size is",
    "Unsupported algorithm",
    "corrupt",
    "decompression failed",
    "Unexpected end of stream",
    "plaintext buffer length",
    "Invalid number of bytes",
)


@contextlib.contextmanager
def translating(where: str) -> Iterator[None]:
    """Translates pyarrow's errors about altered bytes, which may be raised as late as the last batch."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        _translate(error, where)


def _translate(error: Exception, where: str) -> NoReturn:
    text = str(error)
    if getattr(error, "errno", None) is not None:
        raise error
    if "on plaintext file" in text:
        raise BadMagicError(f"{where}: plaintext Parquet in the place of an encrypted file") from error
    if any(part in text for part in _UNAUTHENTIC):
        raise AuthenticationError(
            f"{where}: a part of the file failed authentication: altered bytes, another key or another AAD prefix"
        ) from error
    if any(part in text for part in _MALFORMED):
        raise FormatError(
            f"{where}: a part of the file is malformed: its bytes were altered or damaged, or it has pages of version "
            "2 by Iceberg Java (write.parquet.page-version=v2), whose levels are not encrypted. `sealberg verify` "
            "tells which, and `sealberg rekey` writes such pages again with version 1"
        ) from error
    raise error
