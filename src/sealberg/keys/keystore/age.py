"""The part of age v1 that a keystore needs: encryption with a passphrase.

    age-encryption.org/v1
    -> scrypt <salt, 16 bytes> <log2 of N>
    <file key (16) sealed under scrypt(passphrase), 32 bytes>
    --- <HMAC of the header up to here, 32 bytes>
    nonce (16) | chunk | chunk | ...        a chunk: up to 64 KiB of ciphertext | tag (16)

Binary values of the header are base64 without padding. Each chunk is ChaCha20-Poly1305 under
HKDF(file key, nonce). The chunk's nonce is its index and a flag for the last chunk, so chunks can
be neither reordered nor removed. Any age program opens these files.

Spec: https://c2sp.org/age. Recipients other than scrypt are refused. This module does no I/O.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from sealberg.errors import (
    AuthenticationError,
    BadMagicError,
    ConfigError,
    FormatError,
    UnsupportedError,
    WrongPassphraseError,
)

MAGIC: Final = b"age-encryption.org/v1\n"
WORK_FACTOR: Final = 17  # 128 MiB and about 0.4 s
# The work factor is read from the file before anything is authenticated, so it is limited, as in age.
MAX_WORK_FACTOR: Final = 22
FILE_KEY_LENGTH: Final = 16
NONCE_LENGTH: Final = 16
TAG_LENGTH: Final = 16
CHUNK_LENGTH: Final = 64 * 1024

_LABEL: Final = b"age-encryption.org/v1/scrypt"
# A scrypt recipient must be the only recipient, so exactly one form of header is valid.
_HEADER: Final = re.compile(
    re.escape(MAGIC) + rb"-> scrypt ([A-Za-z0-9+/]{22}) ([1-9][0-9]?)\n([A-Za-z0-9+/]{43})\n--- ([A-Za-z0-9+/]{43})\n"
)
_STANZA: Final = re.compile(rb"-> ([!-~]+)[ \n]")
_ARMOR_BEGIN: Final = b"-----BEGIN AGE ENCRYPTED FILE-----"
_ARMOR_END: Final = b"-----END AGE ENCRYPTED FILE-----"


def seal(plain: bytes, passphrase: str, *, work_factor: int = WORK_FACTOR) -> bytes:
    """Encrypt with a passphrase; `work_factor` is the log2 of scrypt's N."""
    return _seal(
        plain, passphrase, work_factor, salt=os.urandom(16), file_key=os.urandom(16), nonce=os.urandom(NONCE_LENGTH)
    )


def open(sealed: bytes, passphrase: str) -> bytes:  # noqa: A001 (the pair of seal)
    """Decrypt a binary or armored file; returns only the whole authenticated content."""
    sealed, header = _header(sealed)
    salt, body, mac = (_unbase64(header[group]) for group in (1, 3, 4))
    work = int(header[2])
    if work > MAX_WORK_FACTOR:
        raise FormatError(f"age header has the scrypt work factor 2^{work}, expected at most 2^{MAX_WORK_FACTOR}")
    try:
        file_key = ChaCha20Poly1305(_wrap_key(passphrase, salt, work)).decrypt(bytes(12), body, None)
    except InvalidTag:
        # No cause: its traceback would hold the passphrase.
        raise WrongPassphraseError("wrong passphrase, or the age header was altered") from None
    try:
        _mac(file_key, sealed[: header.start(4) - 1]).verify(mac)
    except InvalidSignature:
        raise AuthenticationError("the age header was altered: its MAC does not match") from None
    return _open_payload(file_key, sealed[header.end() :])


def work_factor(sealed: bytes) -> int:
    """The work factor in the header, which is authenticated only after `open` has succeeded."""
    return int(_header(sealed)[1][2])


def _header(sealed: bytes) -> tuple[bytes, re.Match[bytes]]:
    if sealed.lstrip().startswith(_ARMOR_BEGIN):
        sealed = _dearmor(sealed)
    header = _HEADER.match(sealed)
    if header is None:
        raise _header_error(sealed)
    return sealed, header


def _seal(plain: bytes, passphrase: str, work_factor: int, *, salt: bytes, file_key: bytes, nonce: bytes) -> bytes:
    # Only known-answer tests may choose the random values.
    if not passphrase:
        raise ConfigError("empty passphrase, expected at least one character")
    if not 1 <= work_factor <= MAX_WORK_FACTOR:
        raise ConfigError(f"scrypt work factor must be 1 to {MAX_WORK_FACTOR}, found {work_factor}")
    body = ChaCha20Poly1305(_wrap_key(passphrase, salt, work_factor)).encrypt(bytes(12), file_key, None)
    header = MAGIC + b"-> scrypt %s %d\n%s\n---" % (_base64(salt), work_factor, _base64(body))
    header += b" %s\n" % _base64(_mac(file_key, header).finalize())
    cipher = _payload_cipher(file_key, nonce)
    chunks = [plain[start : start + CHUNK_LENGTH] for start in range(0, len(plain), CHUNK_LENGTH)] or [b""]
    last = len(chunks) - 1
    sealed = [cipher.encrypt(_chunk_nonce(i, last=i == last), chunk, None) for i, chunk in enumerate(chunks)]
    return header + nonce + b"".join(sealed)


def _open_payload(file_key: bytes, payload: bytes) -> bytes:
    if len(payload) < NONCE_LENGTH + TAG_LENGTH:
        raise FormatError(f"age payload has {len(payload)} bytes, expected at least {NONCE_LENGTH + TAG_LENGTH}")
    cipher = _payload_cipher(file_key, payload[:NONCE_LENGTH])
    step = CHUNK_LENGTH + TAG_LENGTH
    plain = []
    for index, start in enumerate(range(NONCE_LENGTH, len(payload), step)):
        chunk = payload[start : start + step]
        # An empty payload is one empty chunk; no other payload may end in an empty chunk.
        if index > 0 and len(chunk) <= TAG_LENGTH:
            raise FormatError(f"age chunk {index} has {len(chunk)} bytes, expected more than its tag of {TAG_LENGTH}")
        try:
            plain.append(cipher.decrypt(_chunk_nonce(index, last=start + step >= len(payload)), chunk, None))
        except InvalidTag:
            raise AuthenticationError(
                f"age chunk {index} failed authentication: the file was altered, truncated or extended"
            ) from None
    return b"".join(plain)


def _wrap_key(passphrase: str, salt: bytes, work_factor: int) -> bytes:
    # surrogateescape restores the exact bytes of a passphrase from the environment.
    secret = passphrase.encode("utf-8", "surrogateescape")
    try:
        return Scrypt(salt=_LABEL + salt, length=32, n=1 << work_factor, r=8, p=1).derive(secret)
    except MemoryError:
        raise UnsupportedError(
            f"scrypt work factor 2^{work_factor} needs {1 << work_factor >> 10} MiB of memory, more than is available"
        ) from None
    except UnsupportedAlgorithm:
        raise UnsupportedError(
            "age files need scrypt and ChaCha20-Poly1305, which this OpenSSL does not support; a FIPS provider has "
            "neither: use another KMS"
        ) from None


def _mac(file_key: bytes, header: bytes) -> HMAC:
    mac = HMAC(_derive(file_key, b"", b"header"), hashes.SHA256())
    mac.update(header)
    return mac


def _payload_cipher(file_key: bytes, nonce: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(_derive(file_key, nonce, b"payload"))


def _derive(file_key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=info).derive(file_key)


def _chunk_nonce(index: int, *, last: bool) -> bytes:
    return index.to_bytes(11, "big") + bytes([last])


def _base64(value: bytes) -> bytes:
    return base64.b64encode(value).rstrip(b"=")


def _unbase64(text: bytes) -> bytes:
    value = base64.b64decode(text + b"=" * (-len(text) % 4))
    if _base64(value) != text:
        # Otherwise unused bits would allow several encodings of one header.
        raise FormatError("base64 in the age header is not canonical: its unused bits are not zero")
    return value


def _dearmor(text: bytes) -> bytes:
    lines = text.strip().replace(b"\r\n", b"\n").split(b"\n")
    if lines[0] != _ARMOR_BEGIN or lines[-1] != _ARMOR_END:
        raise FormatError("armored age file has no end line, or other text before or after it")
    body = lines[1:-1]
    if any(len(line) != 64 for line in body[:-1]) or not all(0 < len(line) <= 64 for line in body):
        raise FormatError("armored age file has a line whose length is not 64")
    joined = b"".join(body)
    try:
        value = base64.b64decode(joined, validate=True)
    except binascii.Error:
        raise FormatError("armored age file is not base64") from None
    if base64.b64encode(value) != joined:
        raise FormatError("armored age file has base64 that is not canonical")
    return value


def _header_error(sealed: bytes) -> Exception:
    """The error for a header that does not match."""
    if not sealed:
        return FormatError("the file is empty, expected an age file")
    if not sealed.startswith(MAGIC):
        if MAGIC.startswith(sealed):
            return FormatError(f"age header is truncated after {len(sealed)} bytes")
        # The bytes found are not shown: the file may hold a plaintext key.
        return BadMagicError(f"not an age file: expected to begin with {MAGIC[:-1].decode()}")
    stanza = _STANZA.match(sealed, len(MAGIC))
    if stanza and stanza[1] != b"scrypt":
        return UnsupportedError(
            f"age file has a recipient of type {stanza[1].decode()}, expected a passphrase (scrypt)"
        )
    return FormatError("age header is truncated or malformed, expected one scrypt recipient and a MAC")
