"""The age file against other hands (rage by pyrage, Debian's age), and every file that must be refused.

The negative cases follow C2SP's CCTV age test kit in kind, one failure each, and are built by the
encoder below, which shares nothing with the module under test.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyrage
import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from kit.programs.commands import need, on_terminal
from sealberg.errors import (
    AuthenticationError,
    BadMagicError,
    ConfigError,
    FormatError,
    SealbergError,
    UnsupportedError,
    WrongPassphraseError,
)
from sealberg.keys.keystore import age

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PASSPHRASE = "correct horse battery staple"
LOW = 2  # scrypt's N = 4: a microsecond, for tests only
CHUNK = 64 * 1024


def b64(value: bytes) -> str:
    return base64.b64encode(value).decode().rstrip("=")


@dataclass
class Forge:
    """An age encoder that can be told to do every step wrong."""

    file_key: bytes = bytes(range(16))
    salt: bytes = bytes(range(100, 116))
    nonce: bytes = bytes(range(50, 66))
    work: str = str(LOW)
    n: int = 1 << LOW
    chunks: list[tuple[int, bool, bytes]] = field(default_factory=lambda: [(0, True, b"age")])
    edit_header: Callable[[str], str] = lambda header: header
    edit_file: Callable[[bytes], bytes] = lambda file: file

    def body(self) -> bytes:
        salt = b"age-encryption.org/v1/scrypt" + self.salt
        key = hashlib.scrypt(PASSPHRASE.encode(), salt=salt, n=self.n, r=8, p=1, dklen=32)
        return ChaCha20Poly1305(key).encrypt(bytes(12), self.file_key, None)

    def stanza(self) -> str:
        return f"-> scrypt {b64(self.salt)} {self.work}\n{b64(self.body())}\n"

    def hkdf(self, salt: bytes, info: bytes) -> bytes:
        secret = hmac.digest(salt or bytes(32), self.file_key, "sha256")
        return hmac.digest(secret, info + b"\x01", "sha256")

    def make(self) -> bytes:
        header = self.edit_header(f"age-encryption.org/v1\n{self.stanza()}---")
        mac = hmac.digest(self.hkdf(b"", b"header"), header.encode(), "sha256")
        cipher = ChaCha20Poly1305(self.hkdf(self.nonce, b"payload"))
        sealed = [cipher.encrypt(i.to_bytes(11, "big") + bytes([last]), data, None) for i, last, data in self.chunks]
        return self.edit_file(f"{header} {b64(mac)}\n".encode() + self.nonce + b"".join(sealed))


def line(pattern: str, replacement: str) -> Callable[[str], str]:
    """Edit the header; the MAC is computed over what comes out."""

    def edit(header: str) -> str:
        edited = re.sub(pattern, replacement, header)
        assert edited != header
        return edited

    return edit


def spare_bit(before: str, behind: str) -> Callable[[str], str]:
    """Set a bit behind the last whole byte of a base64 value: the same bytes, spelt otherwise."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    def edit(header: str) -> str:
        found = re.search(f"({before})(.)({behind})", header)
        assert found
        other = alphabet[alphabet.index(found[2]) | 1]
        assert other != found[2]
        return header.replace(found[0], found[1] + other + found[3])

    return edit


def swap_mac(file: bytes) -> bytes:
    return re.sub(rb"--- .*\n", b"--- " + b64(bytes(32)).encode() + b"\n", file, count=1)


X25519 = "-> X25519 " + "A" * 43 + "\n" + "A" * 43 + "\n"

GOOD = {
    "plain": Forge(),
    "empty payload": Forge(chunks=[(0, True, b"")]),
    "one full chunk": Forge(chunks=[(0, True, bytes(CHUNK))]),
    "two full chunks": Forge(chunks=[(0, False, bytes(CHUNK)), (1, True, bytes(CHUNK))]),
    "a work factor of two digits": Forge(work="10", n=1 << 10),
}
BAD = {
    "version unsupported": (Forge(edit_header=line("v1", "v1234")), BadMagicError),
    "header in CRLF": (Forge(edit_header=line("\n", "\r\n")), BadMagicError),
    "stanza missing": (Forge(edit_header=line("(?s)-> .*---", "---")), FormatError),
    "x25519 only": (Forge(edit_header=line("(?s)-> .*---", X25519 + "---")), UnsupportedError),
    "scrypt and x25519": (Forge(edit_header=line("---", X25519 + "---")), FormatError),
    "x25519 and scrypt": (Forge(edit_header=line("-> scrypt", X25519 + "-> scrypt")), UnsupportedError),
    "scrypt twice": (Forge(edit_header=line("(?s)(-> .*)---", r"\1\1---")), FormatError),
    "scrypt in upper case": (Forge(edit_header=line("scrypt", "SCRYPT")), UnsupportedError),
    "extra argument": (Forge(edit_header=line(r"(-> .*)", r"\1 1234")), FormatError),
    "long file key": (Forge(file_key=bytes(17)), FormatError),
    "short file key": (Forge(file_key=bytes(15)), FormatError),
    "long salt": (Forge(salt=bytes(17)), FormatError),
    "short salt": (Forge(salt=bytes(15)), FormatError),
    "salt missing": (Forge(edit_header=line("scrypt .* ", "scrypt ")), FormatError),
    "salt not canonical": (Forge(edit_header=spare_bit(r"-> scrypt \S{21}", " ")), FormatError),
    "body not canonical": (Forge(edit_header=spare_bit(r"\n\S{42}", "\n---")), FormatError),
    "body padded": (Forge(edit_header=line("\n---", "=\n---")), FormatError),
    "work factor missing": (Forge(edit_header=line(r" \d+\n", "\n")), FormatError),
    "work factor in hex": (Forge(work="0x2"), FormatError),
    "work factor with a leading zero": (Forge(work="02"), FormatError),
    "work factor with a leading plus": (Forge(work="+2"), FormatError),
    "work factor with a space before": (Forge(work=" 2"), FormatError),
    "work factor with letters behind": (Forge(work="2a"), FormatError),
    "negative work factor": (Forge(work="-2"), FormatError),
    "work factor of zero": (Forge(work="0", n=2), FormatError),
    "work factor too high": (Forge(work="23"), FormatError),
    "work factor overflow": (Forge(work="18446744073709551618"), FormatError),
    "work factor of another": (Forge(work="3"), WrongPassphraseError),
    "other passphrase": (Forge(n=8), WrongPassphraseError),
    "mac missing": (Forge(edit_file=lambda file: re.sub(rb"--- .*\n", b"---\n", file, count=1)), FormatError),
    "mac without space": (Forge(edit_file=lambda file: file.replace(b"--- ", b"---", 1)), FormatError),
    "mac with two spaces": (Forge(edit_file=lambda file: file.replace(b"--- ", b"---  ", 1)), FormatError),
    "mac of another header": (Forge(edit_file=swap_mac), AuthenticationError),
    "no payload": (Forge(edit_file=lambda file: file[: -(16 + 3 + 16)]), FormatError),
    "short nonce": (Forge(edit_file=lambda file: file[: -(16 + 3 + 16) + 10]), FormatError),
    "no chunk": (Forge(chunks=[]), FormatError),
    "chunk without a tag": (Forge(edit_file=lambda file: file[:-16]), FormatError),
    "not final": (Forge(chunks=[(0, False, b"age")]), AuthenticationError),
    "not final, full": (Forge(chunks=[(0, False, bytes(CHUNK))]), AuthenticationError),
    "two final chunks": (Forge(chunks=[(0, True, bytes(CHUNK)), (1, True, b"age")]), AuthenticationError),
    "last chunk empty": (Forge(chunks=[(0, False, bytes(CHUNK)), (1, True, b"")]), FormatError),
    "short chunk inside": (Forge(chunks=[(0, False, bytes(9)), (1, True, bytes(CHUNK))]), AuthenticationError),
    "chunk missing": (Forge(chunks=[(0, False, bytes(CHUNK)), (2, True, b"age")]), AuthenticationError),
    "chunks swapped": (Forge(chunks=[(1, False, bytes(CHUNK)), (0, True, b"age")]), AuthenticationError),
    "one byte behind": (Forge(edit_file=lambda file: file + b"\0"), AuthenticationError),
    "a chunk behind": (Forge(edit_file=lambda file: file + bytes(CHUNK + 16)), AuthenticationError),
    "empty": (Forge(edit_file=lambda file: file[:0]), FormatError),
    "garbage before": (Forge(edit_file=lambda file: b"x" + file), BadMagicError),
}


@pytest.mark.parametrize("name", GOOD)
def test_opens_a_file_built_from_the_spec(name: str) -> None:
    forge = GOOD[name]
    file = forge.make()
    plain = b"".join(data for _, _, data in forge.chunks)
    assert age.open(file, PASSPHRASE) == plain
    assert pyrage.passphrase.decrypt(file, PASSPHRASE) == plain  # the forge is honest


def test_seals_exactly_the_bytes_of_the_spec() -> None:
    forge = Forge()
    sealed = age._seal(b"age", PASSPHRASE, LOW, salt=forge.salt, file_key=forge.file_key, nonce=forge.nonce)
    assert sealed == forge.make()


@pytest.mark.parametrize("name", BAD)
def test_refuses(name: str) -> None:
    forge, kind = BAD[name]
    with pytest.raises(SealbergError) as caught:
        age.open(forge.make(), PASSPHRASE)
    assert type(caught.value) is kind, repr(caught.value)
    assert PASSPHRASE not in str(caught.value)


def test_every_cut_is_refused() -> None:
    file = age.seal(b"a small secret", PASSPHRASE, work_factor=LOW)
    for length in range(len(file)):
        with pytest.raises((FormatError, AuthenticationError)):
            age.open(file[:length], PASSPHRASE)


@pytest.mark.parametrize("bit", [0x01, 0x20, 0x80])
def test_every_flipped_byte_is_refused(bit: int) -> None:
    file = age.seal(b"a small secret", PASSPHRASE, work_factor=LOW)
    for place in range(len(file)):
        altered = file[:place] + bytes([file[place] ^ bit]) + file[place + 1 :]
        with pytest.raises((FormatError, AuthenticationError, WrongPassphraseError, UnsupportedError)):
            age.open(altered, PASSPHRASE)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused_with_a_type(noise: bytes) -> None:
    for file in (noise, age.MAGIC + noise, b"-----BEGIN AGE ENCRYPTED FILE-----\n" + noise):
        with pytest.raises(SealbergError):
            age.open(file, PASSPHRASE)


@pytest.mark.parametrize("length", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1])
def test_what_is_sealed_opens_here_and_in_rage(length: int) -> None:
    plain = os.urandom(length)
    file = age.seal(plain, PASSPHRASE, work_factor=LOW)
    assert age.open(file, PASSPHRASE) == plain
    assert pyrage.passphrase.decrypt(file, PASSPHRASE) == plain


@pytest.mark.parametrize("passphrase", ["x", "pässwörd ключ 🔑", " spaces around ", "p" * 1000])
def test_passphrases_of_any_letters_open_in_rage(passphrase: str) -> None:
    file = age.seal(b"age", passphrase, work_factor=LOW)
    assert pyrage.passphrase.decrypt(file, passphrase) == b"age"


# Files of rage (pyrage 1.4.0). It chooses as much work as takes a second, which is 1 GB of memory on a fast machine.
# These were made while its process was often stopped, so it chose 2^13.
FROM_RAGE = {
    "binary": base64.b64decode(
        "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCBsNmhYR2RJbmVTbnBjeDh1NWxjM253IDEzCjRWK3dmanNSVGJNVTNtVmFx"
        "Y2lPMGRhRFFFSzMrYWMyUzFxMHIvMTdIVHcKLS0tIFhMTVNITmdoNU9aMm9McitrRElPazFpWk1RTGExMTN6aHJSZitBVWNRTFkK"
        "uPAMkQVhMe+EQuy411Esojt2SWAr6DJGuqirph1J++zmv9aYZ6MXSEU="
    ),
    "armored": b"""-----BEGIN AGE ENCRYPTED FILE-----
YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCB0Y1IyUVVPVTU4NW56bnZ6
UGZHNUh3IDEzCnAxdnNZK2hYSW14cDlMQUZuRTVZa3hCRjFJSkFVSEFQQXJyTE9L
ZXpzUncKLS0tIHVoSDZOaXdlZGp4WmZ5S1lKMVMxNnFuOWdWSFM3WTEyVzg0bnlv
RFkzcjQKv1jM5LKwLFmM6nSHouw7y38e6NbvcioX4ulw42alVAxZsKFazBSPCsg=
-----END AGE ENCRYPTED FILE-----
""",
}


@pytest.mark.parametrize("form", FROM_RAGE)
def test_opens_what_rage_made(form: str) -> None:
    assert age.work_factor(FROM_RAGE["binary"]) == 13
    assert age.open(FROM_RAGE[form], PASSPHRASE) == b"from rage"


@pytest.mark.deep
@pytest.mark.parametrize("armored", [False, True])
def test_opens_what_rage_makes_now(armored: bool) -> None:
    """In a process of its own, with whose end the memory is free again."""
    code = (
        "import pyrage; from sealberg.keys.keystore import age; "
        f"file = pyrage.passphrase.encrypt(b'from rage', {PASSPHRASE!r}, {armored}); "
        f"assert age.open(file, {PASSPHRASE!r}) == b'from rage'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_passphrase_that_is_no_text_keeps_its_bytes() -> None:
    """The environment gives bytes that are not UTF-8 as lone surrogates."""
    passphrase = b"\xff\xfe secret".decode("utf-8", "surrogateescape")
    assert age.open(age.seal(b"age", passphrase, work_factor=LOW), passphrase) == b"age"


def armor(file: bytes, *, width: int = 64, end: str = "\n") -> bytes:
    text = base64.b64encode(file).decode()
    lines = [text[i : i + width] for i in range(0, len(text), width)]
    return end.join(["-----BEGIN AGE ENCRYPTED FILE-----", *lines, "-----END AGE ENCRYPTED FILE-----", ""]).encode()


@pytest.mark.parametrize("length", range(3))
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_armored_file_opens(length: int, end: str) -> None:
    file = age.seal(bytes(length), PASSPHRASE, work_factor=LOW)
    assert age.open(armor(file, end=end), PASSPHRASE) == bytes(length)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace(b"END AGE", b"END PGP"),
        lambda text: text + b"more",
        lambda text: text[:200],
        lambda text: text.replace(b"\n", b"\n\n", 1),
        lambda text: text.replace(b"=", b""),
        lambda text: text[:50] + b"*" + text[51:],
    ],
)
def test_spoilt_armor_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    text = armor(Forge(chunks=[(0, True, b"four")]).make())
    assert b"=" in text
    with pytest.raises(FormatError):
        age.open(spoil(text), PASSPHRASE)


def test_armor_of_another_width_is_refused() -> None:
    with pytest.raises(FormatError, match="64"):
        age.open(armor(Forge().make(), width=60), PASSPHRASE)


def test_an_empty_passphrase_seals_nothing() -> None:
    with pytest.raises(ConfigError, match="empty passphrase"):
        age.seal(b"age", "", work_factor=LOW)


@pytest.mark.parametrize("work_factor", [-1, 0, 23])
def test_absurd_work_factors_are_not_written(work_factor: int) -> None:
    with pytest.raises(ConfigError, match=str(work_factor)):
        age.seal(b"age", PASSPHRASE, work_factor=work_factor)


def test_a_file_that_is_a_key_is_not_shown() -> None:
    with pytest.raises(BadMagicError) as caught:
        age.open(b"0123456789abcdef", PASSPHRASE)
    assert "0123" not in str(caught.value)


class TestDebiansAge:
    def test_opens_our_file(self, tmp_path: Path) -> None:
        program = need("age", apt="age")
        file = tmp_path / "ours.age"
        file.write_bytes(age.seal(b"from sealberg", PASSPHRASE, work_factor=10))
        out = tmp_path / "plain"
        code, said = on_terminal([str(program), "-d", "-o", str(out), str(file)], PASSPHRASE)
        assert code == 0, said
        assert out.read_bytes() == b"from sealberg"

    @pytest.mark.slow  # age takes 2^18 and a second or two
    @pytest.mark.parametrize("more", [[], ["-a"]])
    def test_makes_a_file_that_we_open(self, tmp_path: Path, more: list[str]) -> None:
        program = need("age", apt="age")
        plain = tmp_path / "plain"
        plain.write_bytes(b"from age")
        out = tmp_path / "theirs.age"
        code, said = on_terminal([str(program), "-p", *more, "-o", str(out), str(plain)], PASSPHRASE)
        assert code == 0, said
        assert age.open(out.read_bytes(), PASSPHRASE) == b"from age"


def test_an_openssl_without_scrypt_is_named_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise UnsupportedAlgorithm("This version of OpenSSL does not support scrypt")

    sealed = age.seal(b"keys", "passphrase", work_factor=1)
    monkeypatch.setattr(age, "Scrypt", refuse)
    with pytest.raises(UnsupportedError, match="a FIPS provider has neither"):
        age.open(sealed, "passphrase")
    with pytest.raises(UnsupportedError, match="a FIPS provider has neither"):
        age.seal(b"keys", "passphrase")
