"""Vectors of key metadata: blobs by fastavro, and blobs that no codec would write."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import fastavro
from vectors.text import Vector, wrap_hex

if TYPE_CHECKING:
    from collections.abc import Iterator

# What Iceberg Java derives from its schema of field ids 0, 1 and 2: null comes first in an option.
SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "encryption_key", "type": "bytes"},
        {"name": "aad_prefix", "type": ["null", "bytes"]},
        {"name": "file_length", "type": ["null", "long"]},
    ],
}
OLD_SCHEMA = {**SCHEMA, "fields": SCHEMA["fields"][:2]}
FASTAVRO = "fastavro, with the schema of Iceberg Java"
KNOWN = "an independent script; the same bytes from fastavro"
BY_HAND = "written by hand"

KEYS = {16: b"0123456789012345", 24: b"012345678901234567890123", 32: b"01234567890123456789012345678901"}
AAD_PREFIX = b"1234567890123456"
LENGTHS = (0, 63, 2**31, 2**63 - 1)  # beside those of the known answers


def every_vector() -> list[Vector]:
    return [
        *combinations(),
        *lengths(),
        *known_answers(),
        *tolerated(),
        *versions(),
        *cuts(),
        *wrong_sizes(),
        *numbers(),
    ]


def avro(key: bytes, aad_prefix: bytes | None, file_length: int | None, *, old: bool = False) -> bytes:
    out = io.BytesIO(b"\x01")
    out.seek(1)
    record = {"encryption_key": key, "aad_prefix": aad_prefix} | ({} if old else {"file_length": file_length})
    fastavro.schemaless_writer(out, OLD_SCHEMA if old else SCHEMA, record)
    return out.getvalue()


FULL = avro(KEYS[16], AAD_PREFIX, 1048612)  # 01 | 20 key | 02 20 aad | 02 c8808001: 41 bytes


def good(
    name: str,
    about: str,
    key: bytes,
    aad_prefix: bytes | None,
    file_length: int | None,
    *,
    blob: bytes | None = None,
    source: str = FASTAVRO,
) -> Vector:
    """A blob that decodes to these values, and is what they encode to unless it is given."""
    fields = {
        "about": about,
        "source": source,
        "expect": "success",
        "encryption-key": key.hex(),
        "aad-prefix": None if aad_prefix is None else aad_prefix.hex(),
        "file-length": None if file_length is None else str(file_length),
        "canonical": "yes" if blob is None else "no",
        "payload": "hex",
    }
    header = {field: value for field, value in fields.items() if value is not None}
    return Vector(f"key_metadata/{name}", header, wrap_hex(blob or avro(key, aad_prefix, file_length)))


def bad(
    name: str, about: str, blob: bytes, expect: str = "KeyMetadataError", source: str = "fastavro, altered by hand"
) -> Vector:
    header = {"about": about, "source": source, "expect": expect, "payload": "hex"}
    return Vector(f"key_metadata/{name}", header, wrap_hex(blob))


def combinations() -> Iterator[Vector]:
    """Every optional field there or not, for every key size."""
    for size, key in KEYS.items():
        yield good(f"key_{size}", "all three fields", key, AAD_PREFIX, 2097249)
        yield good(f"key_{size}_no_aad", "no AAD prefix", key, None, 36)
        yield good(f"key_{size}_no_length", "no length: as it is before the file is whole", key, AAD_PREFIX, None)
        yield good(f"key_{size}_key_only", "neither AAD prefix nor length", key, None, None)
    yield good("aad_empty", "an empty AAD prefix is not a missing one", KEYS[16], b"", 36)
    yield good("aad_long", "the length of an AAD prefix may need two bytes", KEYS[16], bytes(range(100)), 36)


def lengths() -> Iterator[Vector]:
    for length in LENGTHS:
        yield good(f"length_{length}", f"a file of {length} bytes", KEYS[16], AAD_PREFIX, length)


def known_answers() -> Iterator[Vector]:
    """Bytes that others published; `good` must come to the same."""
    front = "012030313233343536373839303132333435022031323334353637383930313233343536"
    for name, tail, length in (
        ("no_length", "00", None),
        ("36", "0248", 36),
        ("64", "028001", 64),
        ("158", "02bc02", 158),
        ("1048612", "02c8808001", 1048612),
        ("4321", "02c243", 4321),
    ):
        vector = good(f"known_{name}", "a known answer", KEYS[16], AAD_PREFIX, length, source=KNOWN)
        if vector.payload.replace("\n", "") != front + tail:
            raise ValueError(f"{vector.name} is not the known answer")
        yield vector
    vector = good("known_aad_null", "a known answer", KEYS[16], None, 36, source=KNOWN)
    if vector.payload != "012030313233343536373839303132333435000248":
        raise ValueError("known_aad_null is not the known answer")
    yield vector


def tolerated() -> Iterator[Vector]:
    """Blobs that we read and would not write."""
    key = KEYS[16]
    old = avro(key, AAD_PREFIX, None, old=True)
    yield good("two_fields", "Iceberg Java up to 1.10 stopped after the AAD prefix", key, AAD_PREFIX, None, blob=old)
    old = avro(key, None, None, old=True)
    yield good("two_fields_no_aad", "the same without an AAD prefix", key, None, None, blob=old)
    padded = b"\x01\xa0\x00" + key + b"\x82\x00\xa0\x80\x00" + AAD_PREFIX + b"\x82\x00\xc8\x00"
    about = "numbers with needless bytes, which Avro allows"
    yield good("varint_padded", about, key, AAD_PREFIX, 36, blob=padded, source=BY_HAND)


def versions() -> Iterator[Vector]:
    for version in (0, 2, 127, 128, 255):
        about = f"version {version}"
        yield bad(f"version_{version}", about, bytes([version]) + FULL[1:], "KeyMetadataVersionError")
    yield bad("empty", "no bytes at all", b"", source=BY_HAND)


def cuts() -> Iterator[Vector]:
    """A full blob that ends too early. After the AAD prefix it is two_fields, anywhere else it is broken."""
    for name, length in (
        ("version", 1),
        ("key_length", 2),
        ("key", 10),
        ("key_whole", 18),
        ("aad_branch", 19),
        ("aad_length", 20),
        ("aad", 35),
        ("length_branch", 37),
        ("length", 40),
    ):
        yield bad(f"datum_cut_after_{name}", f"the first {length} of {len(FULL)} bytes", FULL[:length])
    yield bad("trailing_byte", "a byte after the record; Java does not look at it", FULL + b"\x00")
    yield bad("trailing_record", "the same record twice", FULL + FULL[1:])
    yield bad("trailing_after_nulls", "a byte after a record that ends in a null", avro(KEYS[16], None, None) + b"\x00")


def wrong_sizes() -> Iterator[Vector]:
    for size in (0, 1, 15, 17, 31, 33):
        key = bytes(range(0x30, 0x30 + size))
        yield bad(f"key_{size}_bytes", f"a key of {size} bytes", avro(key, AAD_PREFIX, 36), source=FASTAVRO)
    yield bad("file_length_negative", "a file of minus one bytes", avro(KEYS[16], AAD_PREFIX, -1), source=FASTAVRO)
    lowest = avro(KEYS[16], AAD_PREFIX, -(2**63))
    yield bad("file_length_lowest", "the lowest number there is", lowest, source=FASTAVRO)


def numbers() -> Iterator[Vector]:
    """Lengths and branches that no writer writes; the blob around them is a good one."""
    key, aad = KEYS[16], AAD_PREFIX
    nothing = b"\x00"
    for name, about, blob in (
        ("key_length_negative", "a key of minus 16 bytes", b"\x1f" + key + nothing + nothing),
        ("key_length_huge", "a key of 2^62 bytes", b"\x80" * 9 + b"\x01" + key + nothing + nothing),
        ("aad_length_negative", "an AAD prefix of minus 16 bytes", b"\x20" + key + b"\x02\x1f" + aad + nothing),
        ("aad_length_huge", "an AAD prefix of 1 GiB", b"\x20" + key + b"\x02\x80\x80\x80\x80\x08" + aad + nothing),
        ("aad_branch_2", "a union of two has no third branch; this one holds nothing", b"\x20" + key + b"\x04\x00"),
        ("aad_branch_2_value", "the same, and it holds bytes", b"\x20" + key + b"\x04\x20" + aad + nothing),
        ("aad_branch_negative", "a branch before the first; it holds nothing", b"\x20" + key + b"\x01\x00"),
        ("aad_branch_negative_value", "the same, and it holds bytes", b"\x20" + key + b"\x01\x20" + aad + nothing),
        ("length_branch_2", "a third branch for the length, with nothing", b"\x20" + key + nothing + b"\x04"),
        ("length_branch_2_value", "the same, and it holds a number", b"\x20" + key + nothing + b"\x04\x48"),
        ("varint_of_eleven_bytes", "36 in eleven bytes", b"\x20" + key + nothing + b"\x02\xc8" + b"\x80" * 9 + b"\x00"),
        ("varint_of_65_bits", "a number that needs 65 bits", b"\x20" + key + nothing + b"\x02" + b"\xff" * 9 + b"\x02"),
        ("varint_endless", "a number that goes on after ten bytes", b"\x20" + key + nothing + b"\x02" + b"\x80" * 11),
    ):
        yield bad(name, about, b"\x01" + blob, source=BY_HAND)
