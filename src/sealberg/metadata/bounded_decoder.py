"""PyIceberg's compiled Avro decoder with bounds checks.

The decoder of PyIceberg 0.12.0 does not check lengths against the end of its buffer. For a plaintext manifest that
claims a string of 1000 bytes near its end, the decoder returns memory of the process, which may hold keys; for a
larger claim, the process crashes. An attacker who can write to storage can make such a manifest for a plaintext table.

    BoundedDecoder    decodes integers with the compiled decoder, and reads bytes only within the buffer

BoundedDecoder replaces PyIceberg's decoder for every Avro file that PyIceberg opens, also for manifests of versions 1
and 2. Decrypted manifests are authentic, so the compiled decoder still decodes their blocks.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from pyiceberg.avro import file as avro_file
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder

unbounded_decoder: Final = new_decoder
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_PADDING: Final = bytes(32)  # a truncated integer ends in the padding, not in other memory of the process


class BoundedDecoder(BinaryDecoder):
    """Decodes Avro, and raises EOFError at the end of the buffer."""

    __slots__ = ("_data", "_end", "_fast", "_int", "_tell")

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data) + _PADDING
        self._end = len(data)
        self._fast: Any = unbounded_decoder(self._data)
        self._int, self._tell = self._fast.read_int, self._fast.tell

    def tell(self) -> int:
        return int(self._tell())

    @property
    def at_end(self) -> bool:
        return bool(self._tell() >= self._end)

    def read_int(self) -> int:
        value: int = self._int()
        if self._tell() > self._end:
            raise EOFError("an integer continues after the end of the Avro data")
        return value

    def read(self, n: int) -> bytes:
        at = self._tell()
        if not 0 <= n <= self._end - at:
            raise EOFError(f"expected {n} bytes of Avro data, found {self._end - at}")
        found: bytes = self._fast.read(n)
        return found

    def skip(self, n: int) -> None:
        if not 0 <= n <= self._end - self._tell():
            raise EOFError(f"expected {n} bytes of Avro data, found {self._end - self._tell()}")
        self._fast.skip(n)

    def read_boolean(self) -> bool:
        return self.read(1) == b"\x01"

    def read_ints(self, count: int) -> tuple[int, ...]:
        if not 0 <= count <= self._end - self._tell():
            raise EOFError(f"expected {count} integers of Avro data, found {self._end - self._tell()} bytes")
        return tuple(self.read_int() for _ in range(count))

    def read_int_bytes_dict(self, count: int, dest: dict[int, bytes]) -> None:
        if not 0 <= count <= self._end - self._tell():
            raise EOFError(f"expected {count} map entries of Avro data, found {self._end - self._tell()} bytes")
        for _ in range(count):
            key = self.read_int()
            dest[key] = self.read_bytes()

    def read_bytes(self) -> bytes:
        return self.read(self.read_int())

    def read_utf8(self) -> str:
        return self.read_bytes().decode("utf-8")

    def read_float(self) -> float:
        return float(_FLOAT.unpack(self.read(4))[0])

    def read_double(self) -> float:
        return float(_DOUBLE.unpack(self.read(8))[0])

    def skip_int(self) -> None:
        self.read_int()

    def skip_boolean(self) -> None:
        self.skip(1)

    def skip_float(self) -> None:
        self.skip(4)

    def skip_double(self) -> None:
        self.skip(8)

    def skip_bytes(self) -> None:
        self.skip(self.read_int())

    def skip_utf8(self) -> None:
        self.skip_bytes()


avro_file.new_decoder = BoundedDecoder  # type: ignore[attr-defined,assignment]
