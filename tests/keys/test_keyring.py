"""The keyring: Java's JSON byte for byte, the choice of a KEK, and merges that lose nothing."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.tables import golden
from sealberg.errors import ConfigError, KeyNotFoundError, KeyringError
from sealberg.keys.keyring import KEK_LIFESPAN_MS, EncryptedKey, Keyring

NOW = 1_800_000_000_000
DAY = 86_400_000


def kek(key_id: str, made: int | None = NOW, by: str | None = "hr") -> EncryptedKey:
    return EncryptedKey(key_id, b"wrapped " + key_id.encode(), by, {} if made is None else {"KEY_TIMESTAMP": str(made)})


def list_key(key_id: str, by: str) -> EncryptedKey:
    return EncryptedKey(key_id, b"sealed", by)


@pytest.mark.parametrize("table", golden.TABLES)
def test_parsing_and_writing_gives_the_bytes_of_java(table: str) -> None:
    keys = golden.metadata(table)["encryption-keys"]
    assert json.dumps(Keyring.from_json(keys).to_json()) == json.dumps(keys)


def test_absent_members_are_left_out_and_never_null() -> None:
    assert EncryptedKey("a", b"key").to_json() == {"key-id": "a", "encrypted-key-metadata": "a2V5"}
    assert list(kek("k").to_json()) == ["key-id", "encrypted-key-metadata", "encrypted-by-id", "properties"]


def test_unknown_members_and_properties_survive() -> None:
    entry = {
        "key-id": "a",
        "encrypted-key-metadata": "a2V5",
        "encrypted-by-id": "hr",
        "properties": {"KEY_TIMESTAMP": "1", "azure.key-version": "v7"},
        "invented-later": {"x": [1, None]},
    }
    assert Keyring.from_json([entry]).to_json() == [entry]
    assert pickle.loads(pickle.dumps(Keyring.from_json([entry]))).to_json() == [entry]


@pytest.mark.parametrize(
    ("text", "plain"), [("a2V5", b"key"), ("a2U=", b"ke"), ("a2U", b"ke"), ("aw==", b"k"), ("aw", b"k"), ("", b"")]
)
def test_base64_is_taken_as_the_decoder_of_java_takes_it(text: str, plain: bytes) -> None:
    assert EncryptedKey.from_json({"key-id": "a", "encrypted-key-metadata": text}).encrypted_key_metadata == plain


@pytest.mark.parametrize("text", ["a2V5\n", "a-_5", "aw=", "a2V5=", "a2V5====", "a", "a2 V5", "!"])
def test_other_base64_is_refused(text: str) -> None:
    with pytest.raises(KeyringError, match="not base64"):
        EncryptedKey.from_json({"key-id": "a", "encrypted-key-metadata": text})


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"encrypted-key-metadata": "a2V5"}, "Cannot parse missing string: key-id"),
        ({"key-id": "a"}, "Cannot parse missing string: encrypted-key-metadata"),
        ({"key-id": 1, "encrypted-key-metadata": "a2V5"}, "Cannot parse to a string value"),
        (
            {"key-id": "a", "encrypted-key-metadata": "a2V5", "properties": None},
            "properties of key a are NoneType, expected an object",
        ),
        ({"key-id": "a", "encrypted-key-metadata": "a2V5", "properties": {"a": 1}}, "to a string value"),
        ({"key-id": "a", "encrypted-key-metadata": "a2V5", "properties": {"a": "\ud800"}}, "not valid Unicode"),
        ({"key-id": "\ud800", "encrypted-key-metadata": "a2V5"}, "not valid Unicode"),
        ({"key-id": "a", "encrypted-key-metadata": "a2V5", "encrypted-by-id": 3}, "to a string value"),
        ("a2V5", "entry of encryption-keys is str, expected an object"),
    ],
)
def test_entries_that_java_refuses_are_refused(entry: object, words: str) -> None:
    with pytest.raises(KeyringError, match=words):
        Keyring.from_json([entry])


def test_null_encrypted_by_id_is_read_and_left_out_again() -> None:
    ring = Keyring.from_json([{"key-id": "a", "encrypted-key-metadata": "a2V5", "encrypted-by-id": None}])
    assert "encrypted-by-id" not in ring.to_json()[0]


def test_the_list_itself_may_not_be_null() -> None:
    with pytest.raises(KeyringError, match="encryption-keys is NoneType, expected a list"):
        Keyring.from_json(None)


def test_duplicate_ids_are_refused() -> None:
    with pytest.raises(KeyringError, match="twice"):
        Keyring((kek("a"), kek("a", 5)))


@pytest.mark.parametrize("length", [1, 2, 5])
def test_cycles_are_refused(length: int) -> None:
    with pytest.raises(KeyringError, match="under one another"):
        Keyring(tuple(list_key(str(i), str((i + 1) % length)) for i in range(length)))


@pytest.mark.slow
def test_a_long_chain_is_checked_in_linear_time() -> None:
    """A hundred thousand entries, each under the next: minutes if every start walked the whole way."""
    assert len(Keyring(tuple(list_key(str(i), str(i + 1)) for i in range(100_000)))) == 100_000


# -- the active KEK ---------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "usable"), [(0, True), (730 * DAY - 1, True), (730 * DAY, False), (731 * DAY, False)])
def test_a_kek_is_active_for_less_than_730_days(age: int, usable: bool) -> None:
    ring = Keyring((kek("a", NOW - age),))
    assert (ring.active_kek(NOW, master_key_id="hr") is not None) is usable


def test_the_newest_valid_kek_wins_whatever_the_order() -> None:
    entries = (kek("old", NOW - 9 * DAY), kek("new", NOW - DAY), kek("middle", NOW - 5 * DAY))
    for ring in (Keyring(entries), Keyring(entries[::-1])):
        active = ring.active_kek(NOW, master_key_id="hr")
        assert active is not None
        assert active.key_id == "new"


def test_a_kek_of_the_future_is_refused_beyond_a_day_of_skew() -> None:
    honest = kek("old", NOW - DAY)
    skewed = Keyring((honest, kek("fast clock", NOW + DAY)))
    active = skewed.active_kek(NOW, master_key_id="hr")
    assert active is not None
    assert active.key_id == "fast clock"
    forged = Keyring((honest, kek("forged", NOW + DAY + 1)))
    message = rf"KEK forged .* in the future: found 20.*\+00:00 \({NOW + DAY + 1}\), .* clock is at 20.* \({NOW}\)"
    with pytest.raises(KeyringError, match=message):
        forged.active_kek(NOW, master_key_id="hr")
    far = Keyring((kek("far", 9_223_372_036_854_775_807),))
    with pytest.raises(KeyringError, match="KEK far has a KEY_TIMESTAMP in the future: found 9223372036854775807"):
        far.active_kek(NOW, master_key_id="hr")
    assert forged.active_kek(NOW, master_key_id="finance") is None, "a KEK of another master key is not used"


def test_the_same_wrapped_bytes_under_two_ids_are_refused() -> None:
    """Else a KEK that has served its time could be put into use again under a new id and timestamp."""
    old = kek("old", NOW - 800 * DAY)
    again = EncryptedKey("again", old.encrypted_key_metadata, "hr", {"KEY_TIMESTAMP": str(NOW)})
    with pytest.raises(KeyringError, match="KEKs old and again have the same wrapped bytes"):
        Keyring((old,)).with_keys(again)
    with pytest.raises(KeyringError, match="KEKs again and old have the same wrapped bytes"):
        Keyring.from_json([again.to_json(), old.to_json()])
    assert len(Keyring((list_key("a", "old"), list_key("b", "old"), old))) == 3, "list keys are not KEKs"


def test_only_keks_of_this_master_key_with_a_readable_timestamp_count() -> None:
    ring = Keyring(
        (kek("other", by="finance"), kek("none", None), EncryptedKey("bad", b"", "hr", {"KEY_TIMESTAMP": "x"}))
    )
    assert ring.active_kek(NOW, master_key_id="hr") is None


def test_the_lifespan_can_be_shortened_and_not_lengthened() -> None:
    ring = Keyring((kek("a", NOW - 2 * DAY),))
    assert ring.active_kek(NOW, master_key_id="hr", lifespan_ms=2 * DAY) is None
    assert ring.active_kek(NOW, master_key_id="hr", lifespan_ms=2 * DAY + 1) is not None
    for wrong in (0, -1, KEK_LIFESPAN_MS + 1):
        with pytest.raises(ConfigError, match="at most"):
            ring.active_kek(NOW, master_key_id="hr", lifespan_ms=wrong)


def test_asking_for_the_active_kek_makes_none() -> None:
    ring = Keyring()
    assert ring.active_kek(NOW, master_key_id="hr") is None
    assert len(ring) == 0


# -- the way from a snapshot to its KEK -------------------------------------------------------


def test_a_snapshot_key_id_leads_to_its_entry_and_kek() -> None:
    ring = Keyring((kek("K"), list_key("L", "K")))
    assert [entry.key_id for entry in ring.list_key("L")] == ["L", "K"]


@pytest.mark.parametrize(
    ("entries", "error", "words"),
    [
        ((kek("K"),), KeyNotFoundError, "Cannot find manifest list key metadata with id L"),
        ((kek("L"),), KeyringError, "L is a key encryption key, expected manifest list key metadata"),
        ((kek("K", None), list_key("L", "K")), KeyringError, "Key encryption key must be timestamped"),
        ((list_key("L", "gone"),), KeyNotFoundError, "gone"),
        ((kek("K", by=None), list_key("L", "K")), KeyringError, "KEK K has no encrypted-by-id"),
        ((EncryptedKey("L", b""),), KeyNotFoundError, "None"),
    ],
)
def test_a_broken_way_is_told_in_the_words_of_java(
    entries: tuple[EncryptedKey, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Keyring(entries).list_key("L")


# -- new rings --------------------------------------------------------------------------------


def test_adding_makes_a_new_ring_and_leaves_the_old_one() -> None:
    ring = Keyring((kek("K"),))
    grown = ring.with_keys(list_key("L", "K"))
    assert (len(ring), len(grown)) == (1, 2)


def test_adding_the_same_entry_changes_nothing_and_another_of_its_id_is_refused() -> None:
    ring = Keyring((kek("K"),))
    assert ring.with_keys(kek("K")) == ring
    with pytest.raises(KeyringError, match="cannot add key K: encryption-keys has another key with this id"):
        ring.with_keys(kek("K", 7))


def test_a_key_that_another_one_needs_cannot_be_removed() -> None:
    ring = Keyring((kek("K"), list_key("L", "K")))
    with pytest.raises(KeyringError, match="L is sealed under it"):
        ring.without(["K"])
    assert len(ring.without(["K", "L"])) == 0


def test_two_commits_merge_and_no_key_is_lost() -> None:
    base = Keyring((kek("K"),))
    ours = base.with_keys(list_key("ours", "K"))
    theirs = base.with_keys(kek("K2"), list_key("theirs", "K2"))
    merged = theirs.apply(ours.diff(base))
    assert {entry.key_id for entry in merged} == {"K", "K2", "ours", "theirs"}


def test_a_removal_under_a_key_that_the_other_side_added_is_refused() -> None:
    base = Keyring((kek("K"), kek("K2")))
    with pytest.raises(KeyringError, match="sealed under it"):
        base.with_keys(list_key("theirs", "K")).apply(base.without(["K"]).diff(base))


def test_a_rewrapped_kek_replaces_the_old_entry_in_its_place() -> None:
    base = Keyring((kek("K"), list_key("L", "K")))
    rewrapped = Keyring((EncryptedKey("K", b"wrapped anew", "hr", {"KEY_TIMESTAMP": str(NOW)}), base.entries[1]))
    merged = base.with_keys(list_key("M", "K")).apply(rewrapped.diff(base))
    assert (merged.entries[0].key_id, merged.entries[0].encrypted_key_metadata) == ("K", b"wrapped anew")
    assert len(merged) == 3


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_merging_diffs_equals_set_arithmetic(base_ids: set[int], ours_ids: set[int], theirs_ids: set[int]) -> None:
    def ring(ids: set[int]) -> Keyring:
        return Keyring(tuple(kek(str(i)) for i in sorted(ids)))

    merged = ring(theirs_ids).apply(ring(ours_ids).diff(ring(base_ids)))
    assert {entry.key_id for entry in merged} == {
        str(i) for i in (theirs_ids | (ours_ids - base_ids)) - (base_ids - ours_ids)
    }


def test_repr_shows_ids_and_no_bytes() -> None:
    assert "wrapped" not in repr(Keyring((kek("K"),)))
    assert "K" in repr(Keyring((kek("K"),)))
