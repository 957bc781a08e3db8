"""Key metadata: the key, the AAD prefix and the length of one file.

    01 | encryption_key: bytes | aad_prefix: null or bytes | file_length: null or long

The first byte is the version; the rest is one Avro binary record without header or schema:
lengths and longs are zigzag varints; a null is `00`, any other optional value is `02` followed by
the value. `file_length` counts the *stored* bytes. Releases of Iceberg Java up to 1.10 ended the
record after `aad_prefix`, under the same version byte, so a record may end there.

Java: StandardKeyMetadata. The blob is in plaintext in `key_metadata` of manifest entries (field 131)
and of manifest lists (field 519), because those files are encrypted as a whole; in the
`encryption-keys` of table metadata the blob is sealed under the KEK. This module does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from sealberg.errors import ConfigError, KeyMetadataError, KeyMetadataVersionError
from sealberg.format.aes_gcm import KEY_LENGTHS, check_key_length

if TYPE_CHECKING:
    from sealberg.format.aes_gcm import Bytes

VERSION: Final = 1
MAX_LONG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KeyMetadata:
    """The key of one file, its AAD prefix, and the stored length that a reader may trust."""

    encryption_key: bytes = field(repr=False, hash=False)
    aad_prefix: bytes | None = None
    file_length: int | None = None

    def __post_init__(self) -> None:
        check_key_length(len(self.encryption_key))
        if self.file_length is not None and not 0 <= self.file_length <= MAX_LONG:
            raise ConfigError(f"file length in key metadata is {self.file_length}, expected 0 to {MAX_LONG}")

    def with_length(self, stored_length: int) -> KeyMetadata:
        """The same key with the stored length of the finished file."""
        return replace(self, file_length=stored_length)

    def encode(self) -> bytes:
        """The blob, byte for byte as Java writes it."""
        return b"".join(
            (
                bytes((VERSION,)),
                _encode_bytes(self.encryption_key),
                b"\x00" if self.aad_prefix is None else b"\x02" + _encode_bytes(self.aad_prefix),
                b"\x00" if self.file_length is None else b"\x02" + _encode_long(self.file_length),
            )
        )

    @classmethod
    def decode(cls, blob: Bytes) -> KeyMetadata:
        """Parse a blob that must hold exactly one record."""
        blob = bytes(blob)
        if not blob:
            raise KeyMetadataError("key metadata are empty, expected a version byte and an Avro record")
        if blob[0] != VERSION:
            raise KeyMetadataVersionError(f"Cannot resolve schema for version: {blob[0]}")
        datum = _Datum(blob, 1)
        key = datum.read_bytes("encryption_key")
        if len(key) not in KEY_LENGTHS:
            raise KeyMetadataError(f"key metadata hold a key of {len(key)} bytes, expected 16, 24 or 32")
        aad_prefix = datum.read_bytes("aad_prefix") if datum.read_branch("aad_prefix") else None
        length = None
        if not datum.at_end():  # old releases end the record here
            length = datum.read_long("file_length") if datum.read_branch("file_length") else None
        if length is not None and length < 0:
            raise KeyMetadataError(f"key metadata hold a negative file length {length}")
        if not datum.at_end():
            raise KeyMetadataError(f"key metadata are followed by {len(blob) - datum.offset} trailing bytes")
        return cls(key, aad_prefix, length)


def _encode_long(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _encode_bytes(value: bytes) -> bytes:
    return _encode_long(len(value)) + value


class _Datum:
    """A cursor over one Avro record. Errors name the field and never show its bytes, which may be a key."""

    __slots__ = ("blob", "offset")

    def __init__(self, blob: bytes, offset: int) -> None:
        self.blob = blob
        self.offset = offset

    def at_end(self) -> bool:
        return self.offset == len(self.blob)

    def read_long(self, name: str) -> int:
        zigzag = 0
        for shift in range(0, 70, 7):
            if self.at_end():
                raise KeyMetadataError(f"key metadata are truncated in {name}")
            byte = self.blob[self.offset]
            self.offset += 1
            zigzag |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise KeyMetadataError(f"key metadata hold a varint of more than 10 bytes in {name}")
        if zigzag >= 1 << 64:
            raise KeyMetadataError(f"key metadata hold a varint of more than 64 bits in {name}")
        return (zigzag >> 1) ^ -(zigzag & 1)

    def read_bytes(self, name: str) -> bytes:
        length = self.read_long(name)
        end = self.offset + length
        if length < 0 or end > len(self.blob):
            raise KeyMetadataError(f"key metadata are truncated in {name}")
        value = self.blob[self.offset : end]
        self.offset = end
        return value

    def read_branch(self, name: str) -> bool:
        branch = self.read_long(name)
        if branch not in (0, 1):
            raise KeyMetadataError(f"key metadata hold the union branch {branch} in {name}, expected 0 or 1")
        return branch == 1
