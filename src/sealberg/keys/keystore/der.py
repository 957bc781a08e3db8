"""The part of DER that PKCS12 needs.

    tag (1) | length (1, or 0x80 + n and then n bytes) | content

The reader accepts DER only: definite lengths in their shortest form, tags of one byte, no bytes
after the last value. This module does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sealberg.errors import FormatError

INTEGER: Final = 0x02
OCTETS: Final = 0x04
NULL: Final = 0x05
OID: Final = 0x06
BMP_STRING: Final = 0x1E
SEQUENCE: Final = 0x30
SET: Final = 0x31
CONTEXT_0: Final = 0xA0  # [0] EXPLICIT
CONTEXT_0_OCTETS: Final = 0x80  # [0] IMPLICIT OCTET STRING


def encode(tag: int, *content: bytes) -> bytes:
    value = b"".join(content)
    if len(value) < 0x80:
        return bytes([tag, len(value)]) + value
    length = len(value).to_bytes((len(value).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + value


def integer(number: int) -> bytes:
    """Encode a number of 0 or more; a leading zero keeps the sign bit clear."""
    return encode(INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def oid(dotted: str) -> bytes:
    first, second, *rest = (int(arc) for arc in dotted.split("."))
    content = b""
    for arc in (first * 40 + second, *rest):
        septets = [arc & 0x7F]
        while arc := arc >> 7:
            septets.append(arc & 0x7F | 0x80)
        content += bytes(reversed(septets))
    return encode(OID, content)


@dataclass(slots=True)
class Reader:
    """Reads one value after another; the caller names the tag that must come next."""

    rest: bytes

    def take(self, tag: int) -> bytes:
        """The content of the next value."""
        if not self.rest:
            raise FormatError(f"DER is truncated: expected tag 0x{tag:02x}, found no more bytes")
        if self.rest[0] != tag:
            raise FormatError(f"found DER tag 0x{self.rest[0]:02x}, expected 0x{tag:02x}")
        start, length = self._length()
        if start + length > len(self.rest):
            raise FormatError(f"DER value is truncated: found {max(0, len(self.rest) - start)} of {length} bytes")
        content, self.rest = self.rest[start : start + length], self.rest[start + length :]
        return content

    def enter(self, tag: int = SEQUENCE) -> Reader:
        """A reader for the content of the next value."""
        return Reader(self.take(tag))

    def take_integer(self) -> int:
        content = self.take(INTEGER)
        if not content or content[0] & 0x80 or len(content) > 8:
            raise FormatError("DER integer is empty, negative or longer than 64 bits")
        return int.from_bytes(content, "big")

    def take_oid(self) -> str:
        content = self.take(OID)
        if not content or content[-1] & 0x80 or len(content) > 64:
            raise FormatError("DER object identifier is empty, truncated or longer than 64 bytes")
        arcs, arc = [], 0
        for byte in content:
            arc = arc << 7 | byte & 0x7F
            if not byte & 0x80:
                arcs.append(arc)
                arc = 0
        first = min(arcs[0] // 40, 2)
        return ".".join(str(number) for number in (first, arcs[0] - first * 40, *arcs[1:]))

    def next_is(self, tag: int) -> bool:
        return self.rest[:1] == bytes([tag])

    def end(self) -> None:
        """Refuse bytes after the last value."""
        if self.rest:
            raise FormatError(f"DER has {len(self.rest)} trailing bytes after the last value")

    def _length(self) -> tuple[int, int]:
        """Where the content starts, and how long it is."""
        if len(self.rest) < 2:
            raise FormatError("DER value is truncated before its length")
        short = self.rest[1]
        if short < 0x80:
            return 2, short
        count = short & 0x7F
        digits = self.rest[2 : 2 + count]
        # 0x80 is BER's indefinite length, which DER forbids.
        if not 1 <= count <= 4 or len(digits) < count or digits[0] == 0 or (count == 1 and digits[0] < 0x80):
            raise FormatError("DER length is indefinite, truncated, too long or not in its shortest form")
        return 2 + count, int.from_bytes(digits, "big")
