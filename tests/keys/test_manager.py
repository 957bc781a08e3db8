"""The manager against the golden chain, and the rules that keep a table readable."""

from __future__ import annotations

import base64
import pickle
from itertools import count
from typing import TYPE_CHECKING

import pytest

from sealberg.errors import (
    AuthenticationError,
    ConfigError,
    IntegrityError,
    KeyDisabledError,
    KeyringError,
    MissingLengthError,
    WrongKeyError,
)
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.kek_cache import KekCache
from sealberg.keys.keyring import EncryptedKey, Keyring
from sealberg.keys.kms.client import GeneratedKey, KmsClient, WrappedKey
from sealberg.keys.kms.memory import MemoryKms, UnitestKms
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = 86_400_000
WRAPPED = "AAECAwQFBgcICQoLsOUOyy8P+L6l57ZE4oPEyYRa3kej5osMjhiFklvxu0k="
SEALED = "DA0ODxAREhMUFRYXj6NsqaudaBEPW57u0uxxiZaRfC6StGgvASHo8M/wBStJNNo1zuNkgU8PsvSSjdob4C4HKOB+8w=="
LIST_KEY = KeyMetadata(b"0123456789012345", b"1234567890123456", 4321)
GOLDEN = Keyring(
    (
        EncryptedKey("KEK", base64.b64decode(WRAPPED), "keyA", {"KEY_TIMESTAMP": "1750000000000"}),
        EncryptedKey("LIST", base64.b64decode(SEALED), "KEK"),
    )
)


class CountingKms(MemoryKms):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__({"hr": b"h" * 32, "other": b"o" * 16})
        self.wraps = self.unwraps = 0

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        self.wraps += 1
        return super().wrap(key, master_key_id)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        self.unwraps += 1
        return super().unwrap(wrapped, master_key_id)


def manager(
    kms: KmsClient | None = None,
    *,
    now: Callable[[], int] = lambda: 1_800_000_000_000,
    master: str = "hr",
    **settings: object,
) -> EncryptionManager:
    made = EncryptionSettings("db.t", master, **settings)  # type: ignore[arg-type]
    return EncryptionManager(made, kms=kms or CountingKms(), now_ms=now)


# -- known answers ----------------------------------------------------------------------------


def test_opens_the_golden_chain() -> None:
    assert manager(UnitestKms.from_properties({}), master="keyA").open_list_key(GOLDEN, "LIST") == LIST_KEY


def test_seals_the_golden_chain_byte_for_byte() -> None:
    """KEK 10..1f of 1750000000000; the nonce 0c..17 comes in as randomness, then the entry's id."""
    given = iter([bytes(range(0x0C, 0x18)), b"i" * 16])
    golden = EncryptionManager(
        EncryptionSettings("db.t", "keyA"),
        kms=UnitestKms.from_properties({}),
        now_ms=lambda: 1_750_000_000_000 + DAY,
        randomness=lambda _: next(given),
    )
    ring, key_id = golden.seal_list_key(Keyring(GOLDEN.entries[:1]), LIST_KEY)
    assert key_id == base64.b64encode(b"i" * 16).decode()
    assert base64.b64encode(ring.entries[1].encrypted_key_metadata).decode() == SEALED
    assert ring.entries[1].to_json().keys() == {"key-id", "encrypted-key-metadata", "encrypted-by-id"}


# -- the life of a table ----------------------------------------------------------------------


def test_the_first_list_key_brings_a_kek_and_later_ones_share_it() -> None:
    """As Java's own test has it: 2 keys, 3 keys after 30 days, 5 keys after 800."""
    now = [1_800_000_000_000]
    keys = manager(now=lambda: now[0])
    ring, first = keys.seal_list_key(Keyring(), LIST_KEY)
    assert len(ring) == 2
    now[0] += 30 * DAY
    ring, second = keys.seal_list_key(ring, LIST_KEY)
    assert len(ring) == 3
    now[0] += 770 * DAY
    ring, third = keys.seal_list_key(ring, LIST_KEY)
    assert len(ring) == 5
    assert [ring.list_key(key)[1].key_id for key in (first, second)] == [ring.entries[0].key_id] * 2
    assert ring.list_key(third)[1].key_id == ring.entries[3].key_id
    for key in (first, second, third):
        assert keys.open_list_key(ring, key) == LIST_KEY


def test_a_kek_entry_is_written_as_java_writes_it() -> None:
    kek = manager().new_kek()
    assert len(base64.b64decode(kek.key_id)) == 16
    assert kek.encrypted_by_id == "hr"
    assert kek.properties == {"KEY_TIMESTAMP": "1800000000000"}
    assert len(kek.encrypted_key_metadata) == 12 + 16 + 16


@pytest.mark.parametrize("length", [16, 24, 32])
def test_the_table_says_how_long_new_keys_are(length: int) -> None:
    keys = manager(key_length=length)
    made = keys.new_file_key()
    assert (len(made.encryption_key), len(made.aad_prefix or b""), made.file_length) == (length, 16, None)
    assert len(keys.new_kek().encrypted_key_metadata) == 12 + length + 16
    assert keys.new_file_key().encryption_key != made.encryption_key


@pytest.mark.parametrize("kek_length", [16, 24, 32])
def test_a_kek_of_another_length_than_the_table_serves(kek_length: int) -> None:
    ring, key_id = manager(key_length=kek_length).seal_list_key(Keyring(), LIST_KEY)
    later = manager(key_length=16)
    assert later.open_list_key(ring, key_id) == LIST_KEY
    grown, _ = later.seal_list_key(ring, LIST_KEY)
    assert len(grown) == 3  # no new KEK because of its length


def test_unreferenced_keys_do_no_harm() -> None:
    keys = manager()
    stray = EncryptedKey("stray", b"?", "a KEK of a failed attempt")
    ring, key_id = keys.seal_list_key(Keyring((stray,)), LIST_KEY)
    assert keys.open_list_key(ring, key_id) == LIST_KEY
    assert "stray" in ring


# -- the KMS ----------------------------------------------------------------------------------


def test_one_unwrap_serves_every_snapshot() -> None:
    kms = CountingKms()
    writer = manager(kms)
    ring = Keyring()
    ids = []
    for _ in range(20):
        ring, key_id = writer.seal_list_key(ring, LIST_KEY)
        ids.append(key_id)
    assert (kms.wraps, kms.unwraps) == (1, 1)  # the new KEK, wrapped and tried once
    reader = manager(kms)
    for key_id in ids:
        reader.open_list_key(ring, key_id)
    assert (kms.wraps, kms.unwraps) == (1, 2)


def test_a_kms_that_does_not_give_the_key_back_is_found_out_before_anything_is_sealed() -> None:
    class Lossy(CountingKms):
        def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
            return bytes(16)

    with pytest.raises(WrongKeyError, match=r"unwrapped another key than it had wrapped.*table db\.t"):
        manager(Lossy()).seal_list_key(Keyring(), LIST_KEY)


def test_what_the_kms_wants_back_is_kept_in_the_entry() -> None:
    class Versioned(CountingKms):
        def wrap(self, key: bytes, master_key_id: str) -> bytes:
            return WrappedKey(super().wrap(key, master_key_id), {"azure.key-version": "v3"})

        def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
            assert isinstance(wrapped, WrappedKey)
            assert wrapped.properties["azure.key-version"] == "v3"
            return super().unwrap(wrapped, master_key_id)

    kms = Versioned()
    ring, key_id = manager(kms).seal_list_key(Keyring(), LIST_KEY)
    assert dict(ring.entries[0].properties) == {"KEY_TIMESTAMP": "1800000000000", "azure.key-version": "v3"}
    assert manager(kms).open_list_key(Keyring.from_json(ring.to_json()), key_id) == LIST_KEY


def test_an_error_of_the_kms_names_the_table_and_the_kek() -> None:
    class Disabled(CountingKms):
        def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
            raise KeyDisabledError("the key is disabled", provider="fake", key_id=master_key_id, request_id="r-1")

    with pytest.raises(KeyDisabledError) as caught:
        manager(Disabled(), master="keyA").open_list_key(GOLDEN, "LIST")
    said = str(caught.value)
    for fact in ("db.t", "KEK", "keyA", "fake", "r-1"):
        assert fact in said


# -- refusals ---------------------------------------------------------------------------------


def test_a_kek_wrapped_by_a_key_that_the_catalog_does_not_name_is_refused() -> None:
    foreign, key_id = manager(master="other").seal_list_key(Keyring(), LIST_KEY)
    with pytest.raises(IntegrityError, match=r"wrapped by the master key other, expected hr"):
        manager().open_list_key(foreign, key_id)
    trusting = manager(also_trusted=frozenset({"other"}))
    assert trusting.open_list_key(foreign, key_id) == LIST_KEY  # by its own encrypted-by-id


def test_an_altered_timestamp_is_found_out() -> None:
    kek = GOLDEN.entries[0]
    altered = EncryptedKey("KEK", kek.encrypted_key_metadata, "keyA", {"KEY_TIMESTAMP": "1750000000001"})
    with pytest.raises(AuthenticationError, match=r"LIST of table db\.t"):
        manager(UnitestKms.from_properties({}), master="keyA").open_list_key(
            Keyring((altered, GOLDEN.entries[1])), "LIST"
        )


def test_a_kek_of_the_future_neither_seals_nor_opens() -> None:
    now = [1_800_000_000_000]
    keys = manager(now=lambda: now[0])
    ring, key_id = keys.seal_list_key(Keyring(), LIST_KEY)
    now[0] -= DAY  # a day of skew between two writers is nothing to refuse
    assert keys.open_list_key(ring, key_id) == LIST_KEY
    assert len(keys.seal_list_key(ring, LIST_KEY)[0]) == 3
    now[0] -= 1
    with pytest.raises(
        KeyringError, match=r"KEK .* has a KEY_TIMESTAMP in the future: .*1800000000000.* local clock .*1799913599999"
    ):
        keys.open_list_key(ring, key_id)
    with pytest.raises(KeyringError, match="or a clock is wrong"):
        keys.seal_list_key(ring, LIST_KEY)


def test_every_flipped_bit_of_a_sealed_list_key_is_found_out() -> None:
    keys = manager(UnitestKms.from_properties({}), master="keyA")
    sealed = GOLDEN.entries[1].encrypted_key_metadata
    for bit in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(AuthenticationError):
            keys.open_list_key(Keyring((GOLDEN.entries[0], EncryptedKey("LIST", bytes(flipped), "KEK"))), "LIST")


def test_a_list_key_cut_to_nothing_is_refused() -> None:
    keys = manager(UnitestKms.from_properties({}), master="keyA")
    for length in range(28):
        cut = EncryptedKey("LIST", GOLDEN.entries[1].encrypted_key_metadata[:length], "KEK")
        with pytest.raises(AuthenticationError):
            keys.open_list_key(Keyring((GOLDEN.entries[0], cut)), "LIST")


def test_a_kek_of_an_odd_length_is_refused() -> None:
    kms = CountingKms()
    odd = EncryptedKey("K", kms.wrap(b"fifteen bytes!!", "hr"), "hr", {"KEY_TIMESTAMP": "1"})
    with pytest.raises(KeyringError, match="15 bytes"):
        manager(kms).open_list_key(Keyring((odd, EncryptedKey("L", b"", "K"))), "L")


def test_the_key_of_an_unfinished_manifest_list_is_not_sealed() -> None:
    keys = manager()
    with pytest.raises(MissingLengthError):
        keys.seal_list_key(Keyring(), keys.new_file_key())


# -- settings ---------------------------------------------------------------------------------


def test_settings_come_from_properties_as_in_java() -> None:
    settings = EncryptionSettings.from_properties(
        "db.t",
        {"encryption.key-id": "hr", "encryption.data-key-length": "32"},
        {"encryption.kek-cache-ttl-s": "60", "encryption.kek-lifespan-days": "365", "encryption.kms-type": "memory"},
    )
    assert (settings.master_key_id, settings.key_length, settings.cache_ttl_s) == ("hr", 32, 60)
    assert settings.kek_lifespan_ms == 365 * DAY


@pytest.mark.parametrize(
    ("table", "catalog", "words"),
    [
        ({}, {}, "has no encryption.key-id"),
        ({"encryption.key-id": "k", "encryption.data-key-length": "15"}, {}, "Invalid data key length: 15"),
        ({"encryption.key-id": "k", "encryption.data-key-length": "x"}, {}, "must be an integer"),
        ({"encryption.key-id": "k"}, {"encryption.kek-lifespan-days": "731"}, "at most 730 days"),
        ({"encryption.key-id": "k"}, {"encryption.kek-lifespan-days": "0"}, "at most 730 days"),
        ({"encryption.key-id": "k"}, {"encryption.kek-lifespan-days": "nan"}, "must be a number"),
        ({"encryption.key-id": "k"}, {"encryption.kek-lifespan-days": "inf"}, "must be a number"),
        ({"encryption.key-id": "k"}, {"encryption.kek-cache-ttl-s": "-1"}, "0 or more"),
        ({"encryption.key-id": "k"}, {"encryption.kek-cache-ttl-s": "soon"}, "must be a number"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(table: dict[str, str], catalog: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        EncryptionSettings.from_properties("db.t", table, catalog)


def test_a_manager_is_rebuilt_from_its_settings_in_another_process() -> None:
    properties = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16}
    settings = EncryptionSettings.from_properties("db.t", {"encryption.key-id": "hr"}, properties)
    keys = EncryptionManager(settings)
    ring, key_id = keys.seal_list_key(Keyring(), LIST_KEY)
    pickled = pickle.dumps(keys)
    assert b"sealberg.keys.kms.memory" not in pickled  # no client, only its settings
    again = pickle.loads(pickled)
    assert len(again.cache) == 0
    assert again.open_list_key(pickle.loads(pickle.dumps(ring)), key_id) == LIST_KEY


def test_settings_do_not_show_the_properties_of_a_catalog() -> None:
    settings = EncryptionSettings("db.t", "hr", kms_properties={"encryption.kms.memory.key.hr": "ab" * 16})
    assert "abab" not in repr(settings)
    assert "abab" not in repr(EncryptionManager(settings))


def test_closing_forgets_the_keys_and_leaves_a_shared_client_alone() -> None:
    kms, cache = CountingKms(), KekCache()
    with EncryptionManager(EncryptionSettings("db.t", "hr"), kms=kms, cache=cache) as keys:
        keys.seal_list_key(Keyring(), LIST_KEY)
        assert len(cache) == 1
    assert len(cache) == 0
    kms.wrap(bytes(16), "hr")


def test_ids_and_nonces_do_not_repeat() -> None:
    keys = manager()
    ring = Keyring()
    for _ in range(50):
        ring, _ = keys.seal_list_key(ring, LIST_KEY)
    nonces = {entry.encrypted_key_metadata[:12] for entry in ring}
    assert len(nonces) == len(ring) == 51


def test_randomness_comes_in_from_outside() -> None:
    counter = count()
    keys = EncryptionManager(
        EncryptionSettings("db.t", "hr"), kms=CountingKms(), randomness=lambda n: bytes([next(counter)]) * n
    )
    assert keys.new_file_key() == KeyMetadata(b"\0" * 16, b"\1" * 16)


def generating(kms: KmsClient) -> EncryptionManager:
    return EncryptionManager(EncryptionSettings("hr.pay", "hr", generates_keks=True), kms=kms)


def test_the_kms_makes_the_kek_if_asked() -> None:
    class Making(CountingKms):
        generates = True

        def generate(self, length: int, master_key_id: str) -> GeneratedKey:
            return GeneratedKey(b"\x5a" * length, MemoryKms.wrap(self, b"\x5a" * length, master_key_id))

    kms = Making()
    entry = generating(kms).new_kek()
    assert kms.wraps == 0
    assert kms.unwrap(entry.encrypted_key_metadata, "hr") == b"\x5a" * 16


def test_a_client_that_cannot_make_keys_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="generate-keks-in-kms=true, and the KMS client memory cannot have its"):
        generating(CountingKms()).new_kek()


def test_a_key_of_another_length_is_refused() -> None:
    class Short(CountingKms):
        generates = True

        def generate(self, length: int, master_key_id: str) -> GeneratedKey:
            return GeneratedKey(b"k" * 8, MemoryKms.wrap(self, b"k" * 16, master_key_id))

    with pytest.raises(KeyringError, match="made a key of 8 bytes, expected 16"):
        generating(Short()).new_kek()


@pytest.mark.parametrize("value", ["yes", "1", ""])
def test_a_flag_is_true_or_false(value: str) -> None:
    with pytest.raises(ConfigError, match="generate-keks-in-kms must be true or false"):
        EncryptionSettings.from_properties(
            "hr.pay", {"encryption.key-id": "hr"}, {"encryption.generate-keks-in-kms": value}
        )
