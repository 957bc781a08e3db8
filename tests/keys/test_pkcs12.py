"""PKCS12 with secret keys, against java.security.KeyStore and keytool, and every store that must be refused."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.programs import commands as programs
from sealberg.errors import (
    ConfigError,
    FormatError,
    IntegrityError,
    SealbergError,
    UnsupportedError,
    WrongKeyError,
)
from sealberg.keys.keystore import der, pkcs12
from sealberg.keys.keystore.jwk import MasterKey
from sealberg.keys.keystore.kms import JavaKeystoreKms

if TYPE_CHECKING:
    from collections.abc import Callable

CHECK = Path(__file__).parents[1] / "java" / "Pkcs12Check.java"
PASSWORD = "open sesame"
CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEYS = tuple(MasterKey.made(f"k{length}", bytes(range(length)), CREATED) for length in (16, 24, 32))


def sealed(keys: tuple[MasterKey, ...] = KEYS, password: str = PASSWORD) -> bytes:
    return pkcs12.seal(keys, password, iterations=3)


def java(*arguments: str | Path) -> str:
    classes = programs.compile_java(CHECK)
    command = [str(programs.jdk().java), "-Xshare:auto", "-cp", str(classes), "Pkcs12Check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
class TestJava:
    def test_opens_what_we_seal(self, tmp_path: Path) -> None:
        store = tmp_path / "ours.p12"
        store.write_bytes(pkcs12.seal((*KEYS, MasterKey.made("Mixed Case/ключ", bytes(16), None)), PASSWORD))
        listed = java("list", store, PASSWORD).splitlines()
        ms = int(CREATED.timestamp() * 1000)
        assert listed[:3] == [f"{key.id} AES {key.key.hex()} {ms}" for key in KEYS]
        # A key without a creation time is as old as time itself. (Java's own output may not be UTF-8.)
        assert listed[3].startswith("mixed case/")
        assert listed[3].endswith(f" AES {'00' * 16} 0")

    def test_writes_what_we_open(self, tmp_path: Path) -> None:
        store = tmp_path / "theirs.p12"
        java("write", store, PASSWORD, *(f"K{len(key.key)}={key.key.hex()}" for key in KEYS))
        opened = pkcs12.open(store.read_bytes(), PASSWORD)
        assert sorted((key.id, key.key) for key in opened) == [(key.id, key.key) for key in KEYS]
        ages = [(datetime.now(UTC) - key.created).total_seconds() for key in opened if key.created]
        assert len(ages) == 3
        assert all(-5 < age < 300 for age in ages)

    def test_store_is_a_kms_here_and_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = tmp_path / "theirs.p12"
        java("write", store, PASSWORD, f"keyA={bytes(32).hex()}")
        monkeypatch.setenv("KEYSTORE_PASSWORD", PASSWORD)
        kms = JavaKeystoreKms.from_properties({"kms.client.keystore.path": str(store)})
        kek = bytes(range(16))
        assert java("unwrap", store, PASSWORD, "keyA", kms.wrap(kek, "keyA").hex()) == f"{kek.hex()}\n"

    def test_keytool_makes_a_store_that_we_open(self, tmp_path: Path) -> None:
        store = tmp_path / "keytool.p12"
        keytool(store, "-genseckey", "-alias", "HR", "-keyalg", "AES", "-keysize", "256")
        (key,) = pkcs12.open(store.read_bytes(), PASSWORD)
        assert (key.id, len(key.key)) == ("hr", 32)
        assert java("list", store, PASSWORD).split()[2] == key.key.hex()

    def test_certificates_beside_the_keys_are_passed_over(self, tmp_path: Path) -> None:
        store = tmp_path / "keytool.p12"
        keytool(store, "-genseckey", "-alias", "hr", "-keyalg", "AES", "-keysize", "128")
        keytool(store, "-genkeypair", "-alias", "web", "-keyalg", "EC", "-dname", "CN=web")
        assert [key.id for key in pkcs12.open(store.read_bytes(), PASSWORD)] == ["hr"]

    def test_key_of_another_algorithm_is_refused(self, tmp_path: Path) -> None:
        store = tmp_path / "theirs.p12"
        java("write", store, PASSWORD, f"mac={bytes(32).hex()}:HmacSHA256")
        with pytest.raises(UnsupportedError, match="mac is a key of type"):
            pkcs12.open(store.read_bytes(), PASSWORD)

    def test_store_of_the_old_algorithms_is_refused_by_name(self, tmp_path: Path) -> None:
        store = tmp_path / "old.p12"
        legacy = "-J-Dkeystore.pkcs12.legacy"
        keytool(store, "-genseckey", "-alias", "hr", "-keyalg", "AES", "-keysize", "128", legacy)
        with pytest.raises(UnsupportedError, match="expected PBES2"):
            pkcs12.open(store.read_bytes(), PASSWORD)


def keytool(store: Path, *arguments: str) -> None:
    place = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD]
    subprocess.run([str(programs.jdk().keytool), *arguments, *place], capture_output=True, timeout=60, check=True)


def test_open_gives_back_ids_keys_and_times() -> None:
    assert pkcs12.open(sealed(), PASSWORD) == KEYS


def test_no_key_is_seen_in_the_store() -> None:
    store = sealed()
    assert not any(key.key in store for key in KEYS)


def test_two_ids_that_java_could_not_tell_apart_are_refused() -> None:
    with pytest.raises(ConfigError, match="share the alias hr"):
        sealed((MasterKey.made("hr", bytes(16), None), MasterKey.made("HR", bytes(16), None)))


@pytest.mark.parametrize("password", ["", "pässword", "new\nline"])
def test_password_that_java_could_not_use_is_refused(password: str) -> None:
    with pytest.raises(ConfigError, match="password") as caught:
        sealed(password=password)
    assert not password or password not in str(caught.value)


def test_empty_store_is_refused() -> None:
    with pytest.raises(ConfigError, match="no master key"):
        sealed(())


def test_wrong_password_is_refused_without_showing_it() -> None:
    with pytest.raises(WrongKeyError, match="wrong password") as caught:
        pkcs12.open(sealed(), "not this")
    assert "not this" not in str(caught.value)


def test_every_cut_is_refused() -> None:
    store = sealed(KEYS[:1])
    for length in range(len(store)):
        with pytest.raises(FormatError):
            pkcs12.open(store[:length], PASSWORD)


@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_every_flipped_byte_is_refused(bit: int) -> None:
    store = sealed(KEYS[:1])
    for place in range(len(store)):
        altered = store[:place] + bytes([store[place] ^ bit]) + store[place + 1 :]
        try:
            opened = pkcs12.open(altered, PASSWORD)
        except (IntegrityError, WrongKeyError, UnsupportedError):
            continue
        # The parameters of the MAC's algorithm are no part of what is computed, here as in Java.
        assert opened == KEYS[:1]
        assert store[place - 1 : place + 1] == b"\x05\x00" or store[place] == 0x05


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(FormatError, match="1 trailing bytes after the last value"):
        pkcs12.open(sealed() + b"\0", PASSWORD)


def edited(edit: Callable[[bytes], bytes], *, key: MasterKey = KEYS[0]) -> bytes:
    """A store whose safes were edited, with a MAC that fits."""
    pfx = der.Reader(sealed((key,))).enter()
    pfx.take_integer()
    safes = edit(pkcs12._data(pfx.enter()))
    mac = pkcs12._mac_data(safes, PASSWORD, 2)
    return der.encode(der.SEQUENCE, der.integer(3), pkcs12._content(safes), mac)


def test_bag_without_an_alias_is_refused() -> None:
    other = der.oid("1.2.840.113549.1.9.22")
    with pytest.raises(FormatError, match="without an alias"):
        pkcs12.open(edited(lambda safes: safes.replace(der.oid(pkcs12.FRIENDLY_NAME), other)), PASSWORD)


def test_entry_under_another_password_is_refused() -> None:
    """The MAC is right, the entry's salt is not: as if it had another password."""
    salt = der.encode(der.OCTETS, bytes(20))

    def other_salt(safes: bytes) -> bytes:
        start = safes.index(b"\x04\x14")  # the first OCTET STRING of 20 bytes
        return safes[:start] + salt + safes[start + len(salt) :]

    with pytest.raises(WrongKeyError, match="entry k16"):
        pkcs12.open(edited(other_salt), PASSWORD)


def test_two_bags_of_one_alias_are_refused() -> None:
    def twice(safes: bytes) -> bytes:
        content = der.Reader(safes).enter().enter()
        content.take_oid()
        bags = der.Reader(content.enter(der.CONTEXT_0).take(der.OCTETS)).take(der.SEQUENCE)
        return der.encode(der.SEQUENCE, pkcs12._content(der.encode(der.SEQUENCE, bags, bags)))

    with pytest.raises(FormatError, match="two entries k16"):
        pkcs12.open(edited(twice), PASSWORD)


def test_store_without_a_mac_is_refused() -> None:
    pfx = der.Reader(sealed()).enter()
    pfx.take_integer()
    bare = der.encode(der.SEQUENCE, der.integer(3), pkcs12._content(pkcs12._data(pfx.enter())))
    with pytest.raises(UnsupportedError, match="without a MAC"):
        pkcs12.open(bare, PASSWORD)


def test_absurd_iterations_are_refused_before_they_are_done() -> None:
    count = der.integer(3)
    store = sealed(KEYS[:1])
    assert store.endswith(count)
    pfx = der.Reader(store).enter()
    pfx.take_integer()
    safes = pkcs12._data(pfx.enter())
    mac = pfx.take(der.SEQUENCE).removesuffix(count) + der.integer(5_000_001)
    absurd = der.encode(der.SEQUENCE, der.integer(3), pkcs12._content(safes), der.encode(der.SEQUENCE, mac))
    with pytest.raises(FormatError, match="5000001 iterations"):
        pkcs12.open(absurd, PASSWORD)


@given(st.binary(max_size=100))
def test_foreign_bytes_are_refused_with_a_type(noise: bytes) -> None:
    for store in (noise, der.encode(der.SEQUENCE, der.integer(3), noise)):
        with pytest.raises(SealbergError):
            pkcs12.open(store, PASSWORD)


@given(st.integers(0, 2**63 - 1))
def test_der_integer_comes_back(number: int) -> None:
    assert der.Reader(der.integer(number)).take_integer() == number


@given(st.tuples(st.integers(0, 2), st.integers(0, 39)), st.lists(st.integers(0, 2**40), max_size=6))
def test_der_object_identifier_comes_back(first: tuple[int, int], rest: list[int]) -> None:
    dotted = ".".join(map(str, (*first, *rest)))
    assert der.Reader(der.oid(dotted)).take_oid() == dotted


@pytest.mark.parametrize("length", [0, 1, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x10000])
def test_der_length_comes_back_at_every_edge(length: int) -> None:
    reader = der.Reader(der.encode(der.OCTETS, bytes(length)))
    assert reader.take(der.OCTETS) == bytes(length)
    reader.end()


@pytest.mark.parametrize("length", ["80", "8100", "817f", "82007f", "850000000001", "81", "ff"])
def test_der_length_in_another_form_is_refused(length: str) -> None:
    with pytest.raises(FormatError, match="DER length"):
        der.Reader(bytes([der.OCTETS]) + bytes.fromhex(length)).take(der.OCTETS)
