"""PyIceberg's Avro reader with exact doubles, partitions of nanoseconds, and limits on the size of blocks.

    identity(double) ──> partition struct of a manifest entry ──> 8 bytes ──> the same double

The compiled decoder of PyIceberg 0.12.0 passes a double through a C float: 0.9 becomes 0.8999999761581421 and 1e308
becomes infinity. A filter would miss the file, and a rewritten manifest would keep the wrong value for ever. The
readers of this module decode the eight bytes themselves, so the value does not depend on PyIceberg's release.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

from pyiceberg.avro.file import AvroFile, Block
from pyiceberg.avro.reader import DoubleReader, OptionReader, StructReader
from pyiceberg.typedef import StructProtocol
from pyiceberg.types import TimestampNanoType
from pyiceberg.utils.schema_conversion import LOGICAL_FIELD_TYPE_MAPPING

from sealberg.errors import FormatError, UnsupportedError
from sealberg.files.avro.container import CODECS, SYNC_SIZE, decompress
from sealberg.files.file_io import EncryptedInputFile
from sealberg.metadata.bounded_decoder import BoundedDecoder, unbounded_decoder

if TYPE_CHECKING:
    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.avro.reader import Reader

# Java and sealberg start a new manifest at 8 MiB; the entries of a very large manifest take some tens of MiB.
MAX_BLOCK: Final = 64 << 20
MAX_MANIFEST: Final = 512 << 20

# PyIceberg writes this logical type and does not know it when it reads. A partition value is the number itself.
LOGICAL_FIELD_TYPE_MAPPING.setdefault(("timestamp-nanos", "long"), TimestampNanoType())

_DOUBLE: Final = struct.Struct("<d")

D = TypeVar("D", bound=StructProtocol)


class ExactAvroFile(AvroFile[D]):
    """An Avro file whose doubles are exact."""

    total = 0

    def __enter__(self) -> Self:
        super().__enter__()
        self.reader = _exact(self.reader)
        return self

    def _read_block(self) -> int:
        """As in PyIceberg, with limits on the size of a decompressed block."""
        assert isinstance(self.decoder, BoundedDecoder)
        try:
            if self.block and self.decoder.read(SYNC_SIZE) != self.header.sync:
                raise FormatError("an Avro block does not end in the file's sync marker")
            ended = self.decoder.at_end
            records, packed = (0, b"") if ended else (self.decoder.read_int(), self.decoder.read_bytes())
        except EOFError as error:  # PyIceberg would take EOFError for the end of the file, and miss entries
            raise FormatError(f"an Avro block is truncated: {error}") from error
        if ended:
            raise EOFError
        codec = self.header.meta.get("avro.codec", "null")
        if codec not in CODECS:
            raise UnsupportedError(f"manifest codec {codec} is not supported, expected one of {', '.join(CODECS)}")
        plain = decompress(codec, packed, MAX_BLOCK)
        self.total += len(plain)
        if self.total > MAX_MANIFEST:
            raise FormatError(f"the entries of the manifest take more than {MAX_MANIFEST} bytes")
        if not 0 <= records <= len(plain):
            raise FormatError(f"an Avro block of {len(plain)} bytes cannot hold {records} entries")
        authentic = isinstance(self.input_file, EncryptedInputFile)
        decoder = unbounded_decoder(plain) if authentic else BoundedDecoder(plain)
        self.block = Block(reader=self.reader, block_records=records, block_decoder=decoder)
        return records


class _ExactDoubleReader(DoubleReader):
    def read(self, decoder: BinaryDecoder) -> float:
        return cast("float", _DOUBLE.unpack(decoder.read(8))[0])


def _exact(reader: Reader) -> Reader:
    """The same reader with exact doubles. Lists and maps of a manifest hold no doubles."""
    match reader:
        case DoubleReader():
            return _ExactDoubleReader()  # type: ignore[no-untyped-call]  # PyIceberg's Reader
        case OptionReader():
            return OptionReader(_exact(reader.option))
        case StructReader():
            fields = tuple((position, _exact(field)) for position, field in reader.field_readers)
            return StructReader(fields, reader.create_struct, reader.struct)
    return reader
