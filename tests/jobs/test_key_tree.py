"""The state of every KEK follows from its age, the newer KEKs, and the snapshots that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sealberg.errors import KeyringError
from sealberg.jobs.key_tree import age_text, kek_facts, state_text
from sealberg.keys.key_tree import key_tree
from sealberg.keys.keyring import DAY_MS, KEY_TIMESTAMP, EncryptedKey, Keyring

if TYPE_CHECKING:
    from sealberg.jobs.findings import KekFacts

NOW = 2_000 * DAY_MS


def kek(name: str, age_days: float | None, master: str = "hr") -> EncryptedKey:
    stamp = {} if age_days is None else {KEY_TIMESTAMP: str(NOW - int(age_days * DAY_MS))}
    return EncryptedKey(name, name.encode(), master, stamp)


def facts(*keks: EncryptedKey, needed: dict[str, list[int]] | None = None, days: int = 730) -> dict[str, KekFacts]:
    """The facts of KEKs; `needed` says which snapshots are sealed under which KEK."""
    snapshots: list[dict[str, Any]] = []
    lists = []
    for name, ids in (needed or {}).items():
        for each in ids:
            lists.append(EncryptedKey(f"list {each}", b"sealed %d" % each, name))
            snapshots.append({"snapshot-id": each, "key-id": f"list {each}"})
    tree = key_tree(Keyring((*keks, *lists)), snapshots)
    found = kek_facts(tree, now_ms=NOW, master_key_id="hr", lifespan_ms=days * DAY_MS)
    return {each.key_id: each for each in found}


@pytest.mark.parametrize(
    ("age_days", "state"),
    [(0, "active"), (700, "active"), (700.1, "near-end"), (729.9, "near-end"), (730, "past-end"), (-0.9, "active")],
)
def test_the_state_of_a_single_kek_follows_from_its_age(age_days: float, state: str) -> None:
    assert facts(kek("a", age_days))["a"].state == state


def test_a_kek_in_the_future_is_refused_here_as_by_the_keyring() -> None:
    ahead = kek("a", -1.1)
    assert facts(ahead)["a"].state == "future"
    with pytest.raises(KeyringError, match="in the future"):
        ahead.refuse_future(NOW)


@pytest.mark.parametrize("days", [30, 730])
@pytest.mark.parametrize("ages", [(0, 400, 800), (31, 731), (5, 5, 900), (29.5, 30)])
def test_the_active_kek_is_the_one_that_seals_new_keys(ages: tuple[float, ...], days: int) -> None:
    keks = [kek(f"k{at}", age) for at, age in enumerate(ages)]
    seals = Keyring(tuple(keks)).active_kek(NOW, master_key_id="hr", lifespan_ms=days * DAY_MS)
    active = [name for name, each in facts(*keks, days=days).items() if each.state in ("active", "near-end")]
    assert active == ([] if seals is None else [seals.key_id])


def test_an_older_kek_is_retired_and_names_the_snapshots_that_need_it() -> None:
    found = facts(kek("new", 1), kek("old", 800), kek("idle", 900), needed={"new": [7], "old": [3, 2]})
    assert (found["new"].state, found["new"].snapshots) == ("active", (7,))
    assert (found["old"].state, found["old"].snapshots, found["old"].list_keys) == ("retired", (2, 3), 2)
    assert state_text(found["old"], NOW) == "may still unwrap, past its age"
    assert state_text(found["idle"], NOW) == "may still unwrap, past its age, needed by nothing"
    assert state_text(found["new"], NOW) == "active"


def test_a_kek_of_another_master_key_never_seals() -> None:
    found = facts(kek("other", 0, "elsewhere"), kek("own", 701))
    assert (found["other"].state, found["own"].state) == ("retired", "near-end")


def test_a_kek_without_a_timestamp_has_no_age() -> None:
    found = facts(kek("bare", None), needed={"bare": [1]})["bare"]
    assert (found.state, found.made_ms, found.expires_ms) == ("no-timestamp", None, None)
    assert age_text(found, NOW) == "of unknown age"


def test_ages_are_said_in_days() -> None:
    texts = [age_text(facts(kek("a", age))["a"], NOW) for age in (0.5, 1, 12, -3)]
    assert texts == ["made today", "1 day old", "12 days old", "3 days in the future"]
