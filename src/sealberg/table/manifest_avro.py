"""PyIceberg's Avro reader, with doubles that are read exactly.

    identity(double) ──> partition struct of a manifest entry ──> 8 bytes ──> the same double

The compiled decoder of PyIceberg 0.12.0 passes a double through a C float: 0.9 becomes 0.8999999761581421 and 1e308
becomes infinity. A filter would miss the file, and a rewritten manifest would keep the wrong value for good. The
readers below take the eight bytes themselves, so the value does not depend on PyIceberg's release.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import DoubleReader, OptionReader, StructReader
from pyiceberg.typedef import StructProtocol

if TYPE_CHECKING:
    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.avro.reader import Reader

_DOUBLE: Final = struct.Struct("<d")

D = TypeVar("D", bound=StructProtocol)


class ExactAvroFile(AvroFile[D]):
    """An Avro file whose doubles are exact."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.reader = _exact(self.reader)
        return self


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
