"""PKCS12 with secret keys, as Java's KeyStore writes it, to share master keys with Java on one machine.

    PFX         version 3 | safes | MAC over the safes
      safe      bags as plaintext, or (certificates) encrypted as a whole
        bag     secretBag | alias, "Time <ms>" as attributes
          key   PKCS8 {AES, key bytes} under PBES2: PBKDF2-HMAC-SHA256, AES-256-CBC

One password protects the store (by the MAC) and each key. Java compares aliases in lower case,
so they are written and read in lower case. RFC 7292 and RFC 8018; the content of a secret bag is
specific to Java. Bags of other types are ignored. This module does no I/O.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from sealberg.errors import ConfigError, FormatError, UnsupportedError, WrongKeyError
from sealberg.format.aes_gcm import KEY_LENGTHS
from sealberg.keys.keystore import der
from sealberg.keys.keystore.jwk import MasterKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Java writes 10 000 and reads any number; 600 000 is OWASP's recommendation for PBKDF2-HMAC-SHA256.
ITERATIONS: Final = 600_000
MAX_ITERATIONS: Final = 5_000_000  # Java's own limit

DATA: Final = "1.2.840.113549.1.7.1"
ENCRYPTED_DATA: Final = "1.2.840.113549.1.7.6"
SECRET_BAG: Final = "1.2.840.113549.1.12.10.1.5"  # noqa: S105 (an object identifier)
SHROUDED_KEY: Final = "1.2.840.113549.1.12.10.1.2"
FRIENDLY_NAME: Final = "1.2.840.113549.1.9.20"
LOCAL_KEY_ID: Final = "1.2.840.113549.1.9.21"
PBES2: Final = "1.2.840.113549.1.5.13"
PBKDF2: Final = "1.2.840.113549.1.5.12"
HMAC_SHA256: Final = "1.2.840.113549.2.9"
SHA256: Final = "2.16.840.1.101.3.4.2.1"
AES: Final = "2.16.840.1.101.3.4.1"
AES_256_CBC: Final = f"{AES}.42"

_PRFS: Final[Mapping[str, str]] = {
    "1.2.840.113549.2.7": "sha1",
    "1.2.840.113549.2.8": "sha224",
    HMAC_SHA256: "sha256",
    "1.2.840.113549.2.10": "sha384",
    "1.2.840.113549.2.11": "sha512",
}
_CIPHERS: Final[Mapping[str, int]] = {f"{AES}.2": 16, f"{AES}.22": 24, AES_256_CBC: 32}
_MACS: Final[Mapping[str, str]] = {
    "1.3.14.3.2.26": "sha1",
    SHA256: "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}


def seal(keys: Iterable[MasterKey], password: str, *, iterations: int = ITERATIONS) -> bytes:
    """A store that Java opens."""
    if not password:
        raise ConfigError("empty password, expected at least one character")
    if not password.isascii() or not password.isprintable():
        # Measured: with any other password Java 17 cannot open the store.
        raise ConfigError("the password of a PKCS12 store must be printable ASCII: Java opens no other store")
    bags: dict[str, bytes] = {}
    for key in keys:
        alias = key.id.lower()
        if alias in bags:
            raise ConfigError(
                f"two master keys share the alias {alias}, because Java compares aliases in lower case; "
                "export them to two stores"
            )
        bags[alias] = _bag(alias, key, password, iterations)
    if not bags:
        raise ConfigError("no master key to export, expected at least one: Java refuses an empty store")
    safe = _content(der.encode(der.SEQUENCE, *bags.values()))
    safes = der.encode(der.SEQUENCE, safe)
    return der.encode(der.SEQUENCE, der.integer(3), _content(safes), _mac_data(safes, password, iterations))


def open(store: bytes, password: str) -> tuple[MasterKey, ...]:  # noqa: A001 (the pair of seal)
    """The AES keys of a store, their ids in lower case."""
    outer = der.Reader(store)
    pfx = outer.enter()
    outer.end()
    if (version := pfx.take_integer()) != 3:
        raise UnsupportedError(f"PKCS12 store has version {version}, expected 3")
    safes = _data(pfx.enter())
    if not pfx.rest:
        raise UnsupportedError("PKCS12 store without a MAC is not supported: alterations could not be detected")
    _check_mac(safes, pfx.enter(), password)
    pfx.end()
    keys: dict[str, MasterKey] = {}
    for key in _secret_keys(safes, password):
        if key.id in keys:
            raise FormatError(f"PKCS12 store has two entries {key.id}")
        keys[key.id] = key
    return tuple(keys.values())


# Writing


def _bag(alias: str, key: MasterKey, password: str, iterations: int) -> bytes:
    algorithm = der.encode(der.SEQUENCE, der.oid(AES))
    pkcs8 = der.encode(der.SEQUENCE, der.integer(0), algorithm, der.encode(der.OCTETS, key.key))
    recipe = Pbes2(os.urandom(20), iterations, "sha256", 32, os.urandom(16))
    shrouded = der.encode(der.SEQUENCE, recipe.encode(), der.encode(der.OCTETS, recipe.encrypt(pkcs8, password)))
    secret = der.encode(
        der.SEQUENCE,
        der.oid(SHROUDED_KEY),
        der.encode(der.CONTEXT_0, der.encode(der.OCTETS, shrouded)),
    )
    created = key.created or datetime.fromtimestamp(0, UTC)
    attributes = der.encode(
        der.SET,
        _attribute(FRIENDLY_NAME, der.encode(der.BMP_STRING, alias.encode("utf-16-be"))),
        _attribute(LOCAL_KEY_ID, der.encode(der.OCTETS, b"Time %d" % (created.timestamp() * 1000))),
    )
    return der.encode(der.SEQUENCE, der.oid(SECRET_BAG), der.encode(der.CONTEXT_0, secret), attributes)


def _attribute(name: str, value: bytes) -> bytes:
    return der.encode(der.SEQUENCE, der.oid(name), der.encode(der.SET, value))


def _content(data: bytes) -> bytes:
    return der.encode(der.SEQUENCE, der.oid(DATA), der.encode(der.CONTEXT_0, der.encode(der.OCTETS, data)))


def _mac_data(safes: bytes, password: str, iterations: int) -> bytes:
    salt = os.urandom(20)
    digest = hmac.digest(_mac_key("sha256", password, salt, iterations), safes, "sha256")
    algorithm = der.encode(der.SEQUENCE, der.oid(SHA256), der.encode(der.NULL))
    info = der.encode(der.SEQUENCE, algorithm, der.encode(der.OCTETS, digest))
    return der.encode(der.SEQUENCE, info, der.encode(der.OCTETS, salt), der.integer(iterations))


# Reading


def _data(content: der.Reader) -> bytes:
    if (kind := content.take_oid()) != DATA:
        raise UnsupportedError(f"PKCS12 store has safes of type {kind}, expected {DATA} (protected by a password)")
    return content.enter(der.CONTEXT_0).take(der.OCTETS)


def _check_mac(safes: bytes, mac: der.Reader, password: str) -> None:
    info = mac.enter()
    algorithm = info.enter().take_oid()
    digest, salt = info.take(der.OCTETS), mac.take(der.OCTETS)
    iterations = _iterations(mac.take_integer() if mac.rest else 1)
    if algorithm not in _MACS:
        raise UnsupportedError(
            f"PKCS12 store has a MAC of type {algorithm}, expected HMAC with one of {', '.join(_MACS.values())}"
        )
    name = _MACS[algorithm]
    if not hmac.compare_digest(hmac.digest(_mac_key(name, password, salt, iterations), safes, name), digest):
        raise WrongKeyError("wrong password, or the PKCS12 store was altered")


def _secret_keys(safes: bytes, password: str) -> Iterator[MasterKey]:
    contents = der.Reader(safes).enter()
    while contents.rest:
        bags = der.Reader(_safe(contents.enter(), password)).enter()
        while bags.rest:
            bag = bags.enter()
            if bag.take_oid() == SECRET_BAG:
                yield _secret_key(bag, password)


def _safe(content: der.Reader, password: str) -> bytes:
    kind = content.take_oid()
    inside = content.enter(der.CONTEXT_0)
    if kind == DATA:
        return inside.take(der.OCTETS)
    if kind != ENCRYPTED_DATA:
        raise UnsupportedError(
            f"PKCS12 store has a safe of type {kind}, expected {DATA} or {ENCRYPTED_DATA} (protected by a password)"
        )
    encrypted = inside.enter()
    encrypted.take_integer()
    info = encrypted.enter()
    info.take_oid()
    return Pbes2.decode(info.enter()).decrypt(info.take(der.CONTEXT_0_OCTETS), password)


def _secret_key(bag: der.Reader, password: str) -> MasterKey:
    secret = bag.enter(der.CONTEXT_0).enter()
    alias, created = _attributes(bag)
    if (kind := secret.take_oid()) != SHROUDED_KEY:
        raise UnsupportedError(f"PKCS12 entry {alias} holds a secret of type {kind}, expected a key as Java writes it")
    shrouded = der.Reader(secret.enter(der.CONTEXT_0).take(der.OCTETS)).enter()
    try:
        plain = Pbes2.decode(shrouded.enter()).decrypt(shrouded.take(der.OCTETS), password)
        pkcs8 = der.Reader(plain).enter()
        pkcs8.take_integer()
        algorithm, key = pkcs8.enter().take_oid(), pkcs8.take(der.OCTETS)
    except FormatError:
        # The MAC matched, so the bytes are unaltered: only the password can differ.
        raise WrongKeyError(f"PKCS12 entry {alias} has another password than the store; use one password") from None
    if algorithm != AES and not algorithm.startswith(f"{AES}."):
        raise UnsupportedError(f"PKCS12 entry {alias} is a key of type {algorithm}, expected AES")
    if len(key) not in KEY_LENGTHS:
        raise FormatError(f"PKCS12 entry {alias} has {len(key)} bytes, expected 16, 24 or 32")
    try:
        return MasterKey.made(alias, key, created)
    except ConfigError as error:
        raise FormatError(f"PKCS12 entry: {error}") from None


def _attributes(bag: der.Reader) -> tuple[str, datetime | None]:
    alias, created = "", None
    attributes = bag.enter(der.SET) if bag.rest else bag
    while attributes.rest:
        attribute = attributes.enter()
        name, values = attribute.take_oid(), attribute.enter(der.SET)
        if name == FRIENDLY_NAME:
            alias = _text(values.take(der.BMP_STRING)).lower()
        elif name == LOCAL_KEY_ID:
            created = _time(values.take(der.OCTETS))
    if not alias:
        raise FormatError("PKCS12 store has an entry without an alias")
    return alias, created


def _text(bmp: bytes) -> str:
    try:
        return bmp.decode("utf-16-be")
    except UnicodeDecodeError:
        raise FormatError("PKCS12 store has an alias that is not UTF-16") from None


def _time(local_key_id: bytes) -> datetime | None:
    """Java's creation time, `Time <ms>`; other programs store other values in this attribute."""
    word, _, digits = local_key_id.partition(b" ")
    if word != b"Time" or not digits.isdigit() or len(digits) > 14:
        return None
    return datetime.fromtimestamp(int(digits) / 1000, UTC) if int(digits) else None


# Key derivation


def _iterations(count: int) -> int:
    if not 1 <= count <= MAX_ITERATIONS:
        raise FormatError(f"PKCS12 store has {count} iterations, expected 1 to {MAX_ITERATIONS}")
    return count


def _mac_key(name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """RFC 7292, B.2, for the MAC (ID 3), whose key is never longer than one digest."""
    block = hashlib.new(name).block_size
    value = bytes([3]) * block + _filled(salt, block) + _filled(_bmp(password), block)
    for _ in range(iterations):
        value = hashlib.new(name, value).digest()
    return value


def _bmp(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass") + b"\0\0"


def _filled(value: bytes, block: int) -> bytes:
    length = -(-len(value) // block) * block
    return (value * (length // len(value) + 1))[:length] if value else b""


@dataclass(frozen=True, slots=True)
class Pbes2:
    """The parameters of PBES2: PBKDF2 derives a key from a password, and AES-CBC encrypts with that key."""

    salt: bytes
    iterations: int
    prf: str
    key_length: int
    iv: bytes

    @classmethod
    def decode(cls, algorithm: der.Reader) -> Pbes2:
        if (scheme := algorithm.take_oid()) != PBES2:
            raise UnsupportedError(
                f"PKCS12 entry is encrypted with {scheme}, expected PBES2 ({PBES2}), "
                "which Java writes since 8u301, 11.0.12 and 16"
            )
        recipe = algorithm.enter()
        derive, cipher = recipe.enter(), recipe.enter()
        if (name := derive.take_oid()) != PBKDF2:
            raise UnsupportedError(f"PKCS12 entry has the key derivation {name}, expected PBKDF2 ({PBKDF2})")
        kdf = derive.enter()
        salt, iterations = kdf.take(der.OCTETS), _iterations(kdf.take_integer())
        if kdf.next_is(der.INTEGER):
            kdf.take_integer()  # the key length, which the cipher implies
        prf = kdf.enter().take_oid() if kdf.rest else "1.2.840.113549.2.7"
        if prf not in _PRFS:
            raise UnsupportedError(f"PKCS12 entry has the PBKDF2 function {prf}, expected HMAC with SHA-1 or SHA-2")
        if (name := cipher.take_oid()) not in _CIPHERS:
            raise UnsupportedError(f"PKCS12 entry has the cipher {name}, expected AES-CBC")
        iv = cipher.take(der.OCTETS)
        if len(iv) != 16:
            raise FormatError(f"AES-CBC initialization vector has {len(iv)} bytes, expected 16")
        return cls(salt, iterations, _PRFS[prf], _CIPHERS[name], iv)

    def encode(self) -> bytes:
        """The encoding that Java writes: HMAC-SHA256 and AES-256 only."""
        assert self.prf == "sha256"
        assert self.key_length == 32
        prf = der.encode(der.SEQUENCE, der.oid(HMAC_SHA256), der.encode(der.NULL))
        salt, length = der.encode(der.OCTETS, self.salt), der.integer(self.key_length)
        kdf = der.encode(der.SEQUENCE, salt, der.integer(self.iterations), length, prf)
        derive = der.encode(der.SEQUENCE, der.oid(PBKDF2), kdf)
        cipher = der.encode(der.SEQUENCE, der.oid(AES_256_CBC), der.encode(der.OCTETS, self.iv))
        return der.encode(der.SEQUENCE, der.oid(PBES2), der.encode(der.SEQUENCE, derive, cipher))

    def encrypt(self, plain: bytes, password: str) -> bytes:
        pad = PKCS7(128).padder()
        encryptor = self._cipher(password).encryptor()
        return encryptor.update(pad.update(plain) + pad.finalize()) + encryptor.finalize()

    def decrypt(self, encrypted: bytes, password: str) -> bytes:
        if not encrypted or len(encrypted) % 16:
            raise FormatError(f"AES-CBC ciphertext has {len(encrypted)} bytes, expected a positive multiple of 16")
        decryptor = self._cipher(password).decryptor()
        unpad = PKCS7(128).unpadder()
        try:
            return unpad.update(decryptor.update(encrypted) + decryptor.finalize()) + unpad.finalize()
        except ValueError:
            raise FormatError("AES-CBC padding is wrong: wrong password, or altered bytes") from None

    def _cipher(self, password: str) -> Cipher[modes.CBC]:
        secret = password.encode("utf-8", "surrogateescape")
        key = hashlib.pbkdf2_hmac(self.prf, secret, self.salt, self.iterations, self.key_length)
        return Cipher(algorithms.AES(key), modes.CBC(self.iv))
