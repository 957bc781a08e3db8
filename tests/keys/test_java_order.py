"""An id that a java.util.HashMap yields before others."""

from __future__ import annotations

import base64
import random

from sealberg.keys import java_order
from sealberg.keys.java_order import MASKS, first_in_java, spread


def test_hashes_are_those_of_java() -> None:
    # "hello".hashCode() is 99162322, "\\uD83D\\uDE00".hashCode() is 1772899 in Java 17
    assert spread("hello") == 99162322 ^ (99162322 >> 16)
    assert spread("\U0001f600") == 1772899 ^ (1772899 >> 16)
    assert spread("") == 0


def test_a_new_id_comes_before_the_older_ones_in_maps_of_all_sizes() -> None:
    dice = random.Random(7)

    def draw() -> str:
        return base64.b64encode(dice.randbytes(16)).decode()

    older = "AAAAAAAAAAAAAAAAAAAADg=="
    assert all(spread(older) & mask for mask in MASKS)
    found = first_in_java(draw, [older])
    assert all(spread(found) & mask < spread(older) & mask for mask in MASKS)


def test_the_present_size_of_the_map_comes_before_sizes_that_it_may_get() -> None:
    """In 2,000 draws no id precedes this one in maps of all sizes; most precede it in all but the smallest."""
    dice = random.Random(7)

    def draw() -> str:
        return base64.b64encode(dice.randbytes(16)).decode()

    older = "jvhRl+M6CrwX/o3l7jPwdA=="
    assert [spread(older) & mask for mask in MASKS[:3]] == [1, 17, 17]
    assert spread(first_in_java(draw, [older], 2)) & MASKS[0] == 0
    assert spread(first_in_java(draw, [older], 11)) & MASKS[0] == 0
    grown = spread(first_in_java(draw, [older], 12))
    assert grown & MASKS[1] < 17
    assert spread(first_in_java(draw, [older], 10**6)) & MASKS[-1] < spread(older) & MASKS[-1]


def test_without_others_the_first_draw_is_taken() -> None:
    drawn = iter(["a", "b"])
    assert first_in_java(lambda: next(drawn), []) == "a"


def test_many_ids_are_hashed_at_once_as_one_by_one() -> None:
    dice = random.Random(8)
    alike = [base64.b64encode(dice.randbytes(16)).decode() for _ in range(500)]
    for ids in (alike, [*alike, "short"], [*alike, "\U0001f600"], ["", ""]):
        assert java_order._spread_all(ids).tolist() == [spread(each) for each in ids]
