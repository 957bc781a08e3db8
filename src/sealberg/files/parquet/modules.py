"""The modules of an encrypted Parquet file: kinds, AADs, and the cipher that opens and seals them.

    a module: length, u32 LE | nonce (12) | ciphertext | tag (16)          length counts what follows it
    its AAD:  AAD prefix | file unique (8) | kind | row group, u16 LE | column, u16 LE | page, u16 LE

    kind                  0       1         2, 4     3, 5         6, 7      8, 9
                          footer  column    data     dictionary   column,   bloom filter:
                                  metadata  page,    page,        offset    header, bitset
                                            header   header       index
    row group, column     no      yes       yes      yes          yes       yes
    page                  no      no        yes      no           no        no

Specification: https://parquet.apache.org/docs/file-format/data-pages/encryption/ ; this module does no I/O.
"""

from __future__ import annotations

import os
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM

from sealberg.errors import AuthenticationError, FormatError
from sealberg.format.aes_gcm import NONCE_LENGTH, OVERHEAD, check_key_length

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealberg.files.parquet.thrift import Struct
    from sealberg.format.aes_gcm import Bytes

LENGTH_BYTES: Final = 4
MODULE_OVERHEAD: Final = LENGTH_BYTES + OVERHEAD
MAX_ORDINAL: Final = 0x7FFF  # signed 16-bit numbers in both writers


class ModuleKind(IntEnum):
    """The kinds of modules, by their number in the AAD."""

    FOOTER = 0
    COLUMN_METADATA = 1
    DATA_PAGE = 2
    DICTIONARY_PAGE = 3
    DATA_PAGE_HEADER = 4
    DICTIONARY_PAGE_HEADER = 5
    COLUMN_INDEX = 6
    OFFSET_INDEX = 7
    BLOOM_FILTER_HEADER = 8
    BLOOM_FILTER_BITSET = 9

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


class Place(NamedTuple):
    """The position of a module in its file, as its AAD has it; None where the AAD has no such ordinal."""

    kind: ModuleKind
    row_group: int | None = None
    column: int | None = None
    page: int | None = None

    @property
    def aad(self) -> bytes:
        ordinals = (number for number in self[1:] if number is not None)
        return bytes((self.kind,)) + b"".join(number.to_bytes(2, "little") for number in ordinals)

    def __str__(self) -> str:
        names = zip(("row group", "column", "page"), self[1:], strict=True)
        where = ", ".join(f"{name} {number}" for name, number in names if number is not None)
        return f"{self.kind.words} of {where}" if where else self.kind.words


class Module(NamedTuple):
    """One module, authenticated if its file is encrypted; `plain` may be a view that is valid until the next module.

    Attributes:
        plain: empty if the module was authenticated in pieces, which are not kept.
        struct: the decoded Thrift struct of a page header, an offset index or the header of a bloom filter.
    """

    place: Place
    offset: int
    stored_length: int
    plain: memoryview
    struct: Struct | None = None


class ModuleCipher:
    """Opens and seals the modules of one file; safe to share among threads."""

    __slots__ = ("_aad_prefix", "_aes", "_gcm")

    def __init__(self, key: Bytes, aad_prefix: Bytes, file_unique: Bytes) -> None:
        check_key_length(len(key))
        self._gcm = AESGCM(key)
        self._aes = AES(bytes(key))
        self._aad_prefix = bytes(aad_prefix) + bytes(file_unique)

    def open_into(self, place: Place, sealed: memoryview, out: memoryview) -> None:
        """Fill `out` (28 bytes shorter than `sealed`) with the plaintext, or raise and leave zeros.

        Args:
            sealed: nonce, ciphertext and tag, without the length before them.
        """
        try:
            self._gcm.decrypt_into(sealed[:NONCE_LENGTH], sealed[NONCE_LENGTH:], self._aad_prefix + place.aad, out)
        except InvalidTag:
            out[:] = bytes(len(out))  # the cipher has already written unauthenticated plaintext
            raise _altered(place) from None

    def authenticate(self, place: Place, nonce: Bytes, pieces: Iterable[Bytes], tag: Bytes, out: memoryview) -> None:
        """Authenticate a module whose ciphertext comes in pieces; nobody may use its plaintext.

        Args:
            out: scratch memory, 16 bytes longer than the longest piece; holds zeros afterwards.
        """
        opening = Cipher(self._aes, GCM(bytes(nonce))).decryptor()
        opening.authenticate_additional_data(self._aad_prefix + place.aad)
        try:
            for piece in pieces:
                opening.update_into(piece, out)
            opening.finalize_with_tag(bytes(tag))
        except InvalidTag:
            raise _altered(place) from None
        finally:
            out[:] = bytes(len(out))

    def seal_into(self, place: Place, plain: Bytes, out: memoryview) -> None:
        """Fill `out` (32 bytes longer than `plain`) with length, nonce, ciphertext and tag; the nonce is random."""
        body = LENGTH_BYTES + NONCE_LENGTH
        nonce = os.urandom(NONCE_LENGTH)
        out[:LENGTH_BYTES] = (len(out) - LENGTH_BYTES).to_bytes(LENGTH_BYTES, "little")
        out[LENGTH_BYTES:body] = nonce
        self._gcm.encrypt_into(nonce, plain, self._aad_prefix + place.aad, out[body:])


def _altered(place: Place) -> AuthenticationError:
    return AuthenticationError(
        f"the {place} failed authentication: its bytes were altered, the key or the AAD prefix is wrong, or the "
        "module is from another position or file"
    )


def module_length(prefix: Bytes, place: Place, room: int) -> int:
    """The stored length of a module, with its length prefix, from its first four bytes.

    Args:
        room: how many bytes the module may have at most.
    """
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little") + LENGTH_BYTES
    if len(prefix) < LENGTH_BYTES or not MODULE_OVERHEAD <= length <= room:
        raise FormatError(
            f"the {place} claims {length} bytes, expected at least {MODULE_OVERHEAD} and at most {max(room, 0)}"
        )
    return length
