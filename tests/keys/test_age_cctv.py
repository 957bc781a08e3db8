"""The age vectors of C2SP's CCTV: 143 files, each with one thing to accept or to refuse.

A keystore reads files under a passphrase only, so a file for another recipient must be refused by name. What
such a file says of the payload and of the armor is tried all the same, with the file key that the vector names.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from sealberg.errors import (
    AuthenticationError,
    FormatError,
    IntegrityError,
    SealbergError,
    UnsupportedError,
    WrongKeyError,
)
from sealberg.keys.keystore import age

FOLDER = Path(__file__).parents[2] / "vectors" / "cctv_age"
ARMOR = b"-----BEGIN AGE"


@dataclass(frozen=True)
class Vector:
    name: str
    fields: dict[str, list[str]]
    file: bytes

    @property
    def expect(self) -> str:
        return self.fields["expect"][0]

    @property
    def payload(self) -> str | None:
        return self.fields.get("payload", [None])[0]


def load(path: Path) -> Vector:
    head, _, body = path.read_bytes().partition(b"\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.decode().splitlines():
        name, _, value = line.partition(": ")
        fields.setdefault(name, []).append(value)
    assert set(fields) <= {
        "expect", "payload", "identity", "passphrase", "armored", "file key", "comment", "compressed"
    }  # fmt: skip
    return Vector(path.name, fields, zlib.decompress(body) if "compressed" in fields else body)


VECTORS = [load(path) for path in sorted(FOLDER.iterdir()) if not path.suffix and path.name != ".gitattributes"]
# What each outcome is here. A tag that fails under a passphrase cannot be told from a wrong passphrase.
OUTCOMES: dict[str, tuple[type[SealbergError], ...]] = {
    "no match": (WrongKeyError, UnsupportedError),
    "HMAC failure": (AuthenticationError,),
    "header failure": (FormatError, UnsupportedError),
    "payload failure": (FormatError, AuthenticationError),
    "armor failure": (FormatError,),
}


def test_there_are_as_many_as_were_taken() -> None:
    assert len(VECTORS) == 143
    assert sum("passphrase" in vector.fields for vector in VECTORS) == 26


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_file_opens_or_is_refused_as_the_vector_says(vector: Vector) -> None:
    passphrase = vector.fields.get("passphrase", ["password"])[0]
    if "passphrase" not in vector.fields:
        with pytest.raises(SealbergError):
            age.open(vector.file, passphrase)
    elif vector.expect == "success":
        assert hashlib.sha256(age.open(vector.file, passphrase)).hexdigest() == vector.payload
    else:
        with pytest.raises(OUTCOMES[vector.expect]):
            age.open(vector.file, passphrase)


@pytest.mark.parametrize(
    "vector", [each for each in VECTORS if "armored" in each.fields], ids=lambda vector: vector.name
)
def test_the_armor_is_read_or_refused(vector: Vector) -> None:
    if vector.expect == "armor failure":
        with pytest.raises(FormatError):
            age._header(vector.file)
    else:
        inside = age._dearmor(vector.file)
        assert inside.startswith(age.MAGIC) == (vector.expect != "header failure")


@pytest.mark.parametrize(
    "vector",
    [each for each in VECTORS if each.expect in {"success", "payload failure"} and "file key" in each.fields],
    ids=lambda vector: vector.name,
)
def test_the_payload_opens_under_its_file_key_whoever_the_recipient_is(vector: Vector) -> None:
    file = age._dearmor(vector.file) if "armored" in vector.fields else vector.file
    header = re.match(rb"age-encryption\.org/v1\n(?:[^\n]*\n)*?--- [^\n]*\n", file)
    assert header is not None
    key = bytes.fromhex(vector.fields["file key"][0])
    if vector.expect == "success":
        assert hashlib.sha256(age._open_payload(key, file[header.end() :])).hexdigest() == vector.payload
    else:
        with pytest.raises(IntegrityError):
            age._open_payload(key, file[header.end() :])
