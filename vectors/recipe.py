"""AGS1 streams told in words, and the encoder that follows them.

    hex 4147533100001000                               these bytes
    seal 0 010101010101010101010101 count[0:1048577]   blocks of 1 MiB, sealed
    seal 0 010101010101010101010101 68656c6c6f | flip -1 | keep 20

`seal INDEX NONCE PLAIN` cuts the plaintext into blocks of 1 MiB and seals each under the
vector's key, with the vector's AAD prefix and its index as AAD. The index counts up from INDEX,
the nonce from NONCE, as one big-endian number. A plaintext is hex digits, or `count[a:b]`: the
bytes from a to b of 00 01 .. fa 00 01 .. without end.

After a bar: `flip N` flips the lowest bit of byte N (from the end when negative) of what the
line made, `keep N` cuts it to its first N bytes.

The cipher is OpenSSL's streaming GCM, through the low-level interface; src/ uses the one-shot one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 1 << 20
PERIOD = 251


def gcm(key: bytes, nonce: bytes, plain: bytes, aad: bytes) -> bytes:
    """nonce | ciphertext | tag."""
    encryptor = Cipher(AES(key), GCM(nonce)).encryptor()
    encryptor.authenticate_additional_data(aad)
    return nonce + encryptor.update(plain) + encryptor.finalize() + encryptor.tag


@dataclass(frozen=True)
class Plain:
    """A plaintext that need not be in memory: hex digits, or `count[a:b]`."""

    start: int
    stop: int
    literal: bytes | None = None

    @classmethod
    def parse(cls, words: str) -> Plain:
        if found := re.fullmatch(r"count\[(\d+):(\d+)\]", words):
            return cls(int(found[1]), int(found[2]))
        literal = bytes.fromhex(words)
        return cls(0, len(literal), literal)

    def __len__(self) -> int:
        return self.stop - self.start

    def part(self, start: int, stop: int) -> bytes:
        """A part of it, as offsets from its own beginning."""
        if self.literal is not None:
            return self.literal[start:stop]
        start, stop = self.start + start, min(self.start + stop, self.stop)
        turns = (stop - start) // PERIOD + 2
        return (bytes(range(PERIOD)) * turns)[start % PERIOD :][: max(0, stop - start)]

    def blocks(self) -> Iterator[bytes]:
        for start in range(0, max(1, len(self)), BLOCK):
            yield self.part(start, start + BLOCK)


def build(recipe: str, key: bytes, aad_prefix: bytes) -> Iterator[bytes]:
    """Follow a recipe piece by piece, so that a large stream never is in memory at once."""
    for line in recipe.splitlines():
        words, *changes = (part.strip() for part in line.split("|"))
        if changes:
            yield _change(b"".join(_make(words, key, aad_prefix)), changes)
        else:
            yield from _make(words, key, aad_prefix)


def _make(words: str, key: bytes, aad_prefix: bytes) -> Iterator[bytes]:
    verb, *rest = words.split()
    if verb == "hex":
        yield bytes.fromhex("".join(rest))
    elif verb == "seal":
        index, nonce = int(rest[0]), int(rest[1], 16)
        for i, plain in enumerate(Plain.parse("".join(rest[2:])).blocks()):
            aad = aad_prefix + (index + i).to_bytes(4, "little")
            yield gcm(key, (nonce + i).to_bytes(12, "big"), plain, aad)
    else:
        raise ValueError(f"a recipe line begins with hex or seal, found {words!r}")


def _change(piece: bytes, changes: list[str]) -> bytes:
    for change in changes:
        verb, number = change.split()
        if verb == "keep":
            piece = piece[: int(number)]
        elif verb == "flip":
            altered = bytearray(piece)
            altered[int(number)] ^= 1
            piece = bytes(altered)
        else:
            raise ValueError(f"a change is flip or keep, found {change!r}")
    return piece


def measure(recipe: str, key: bytes, aad_prefix: bytes) -> tuple[int, str]:
    """How long the payload gets, and its SHA-256."""
    length, digest = 0, hashlib.sha256()
    for piece in build(recipe, key, aad_prefix):
        length += len(piece)
        digest.update(piece)
    return length, digest.hexdigest()
