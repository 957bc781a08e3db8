"""Packed columns hold exactly what was packed, whatever its form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealberg.metadata.packed_column import PackedBytes, PackedNumbers
from sealberg.metadata.packed_groups import PackedLists, PackedStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGS = st.integers(-(2**63), 2**63 - 1)
BOUNDS = pa.list_(pa.struct([("key", pa.int64()), ("value", pa.large_binary())]))
COUNTS = pa.list_(pa.struct([("key", pa.int64()), ("value", pa.int64())]))


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)) | st.lists(st.none() | st.integers(0, 300)))
@settings(deadline=None)
def test_packed_numbers_are_the_numbers(values: list[int | None]) -> None:
    packed = PackedNumbers.of(pa.array(values, pa.int64()))
    assert packed.arrow().to_pylist() == values
    for start, stop in parts(values):
        assert packed.part(start, stop).arrow().to_pylist() == values[start:stop]
    assert packed.arrow(np.arange(0, len(values), 3)).to_pylist() == values[::3]


@given(
    st.binary(max_size=4),
    st.lists(st.none() | st.binary(max_size=3)) | st.lists(st.none() | st.binary(min_size=11, max_size=11)),
)
@settings(deadline=None)
def test_packed_bytes_are_the_bytes(beginning: bytes, ends: list[bytes | None]) -> None:
    values = [None if end is None else beginning + end for end in ends]
    packed = PackedBytes.of(pa.array(values, pa.binary()))
    packed.arrow().validate(full=True)
    assert packed.arrow().to_pylist() == values
    for start, stop in parts(values):
        packed.part(start, stop).arrow().validate(full=True)
        assert packed.part(start, stop).arrow().to_pylist() == values[start:stop]
    assert packed.arrow(np.arange(0, len(values), 3)).to_pylist() == values[::3]


def parts(values: Sequence[Any]) -> list[tuple[int, int]]:
    """Some ranges of rows, empty ones included."""
    third = len(values) // 3
    return [(0, len(values)), (0, third), (third, 2 * third), (2 * third, len(values)), (third, third)]


def statistics_of(maps: Sequence[dict[int, Any] | None], kind: pa.DataType) -> PackedStatistics:
    lists = pa.array([None if each is None else list(each.items()) for each in maps], kind)
    # A slice, as columns of a larger array are.
    padded = pa.concat_arrays([pa.array([[(9, None)]], kind), lists]).slice(1)
    return PackedStatistics.of(padded, numbers=kind == COUNTS)


@st.composite
def regular_bounds(draw: Any) -> list[dict[int, bytes]]:
    """Maps with the same keys, as one writer makes them: some columns of one length, perhaps some of any."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 4, 8, 16, None]), min_size=1, max_size=4))
    count = draw(st.integers(1, 5))

    def value(size: int | None) -> bytes:
        found: bytes = draw(st.binary(max_size=12) if size is None else st.binary(min_size=size, max_size=size))
        return found

    return [{number: value(size) for number, size in enumerate(sizes)} for _ in range(count)]


@given(regular_bounds())
@settings(deadline=None)
def test_regular_bounds_are_the_bounds(maps: list[dict[int, bytes]]) -> None:
    packed = statistics_of(maps, BOUNDS)
    assert packed.dicts(np.arange(len(maps))) == maps
    assert packed.dicts(np.arange(0, len(maps), 2)) == maps[::2]
    for start, stop in parts(maps):
        assert packed.part(start, stop).dicts(np.arange(stop - start)) == maps[start:stop]
    for field_id in maps[0]:
        found = packed.get(field_id)
        assert found is not None
        assert found.arrow().to_pylist() == [each[field_id] for each in maps]


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(LONGS, min_size=width, max_size=width), min_size=1)))
@settings(deadline=None)
def test_regular_counts_are_the_counts(matrix: list[list[int]]) -> None:
    maps = [dict(enumerate(row, 5)) for row in matrix]
    assert statistics_of(maps, COUNTS).dicts(np.arange(len(maps))) == maps


@given(st.lists(st.none() | st.dictionaries(st.integers(1, 3), LONGS), min_size=1))
@settings(deadline=None)
def test_any_counts_are_the_counts(maps: list[dict[int, int] | None]) -> None:
    assert statistics_of(maps, COUNTS).dicts(np.arange(len(maps))) == maps


@pytest.mark.parametrize("lists", [[[4], [5]], [[4, 900], [4]], [None, [1], []], [None, None], []])
def test_lists_are_the_lists(lists: list[list[int] | None]) -> None:
    packed = PackedLists.of(pa.array(lists, pa.list_(pa.int64())))
    assert packed.lists(np.arange(len(lists))) == lists
    for start, stop in parts(lists):
        assert packed.part(start, stop).lists(np.arange(stop - start)) == lists[start:stop]
    assert packed.counts().to_pylist() == [None if each is None else len(each) for each in lists]
