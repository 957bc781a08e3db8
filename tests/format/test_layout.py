"""The arithmetic of AGS1: which lengths there are, and where everything is in them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kit.examples import examples
from sealberg.errors import (
    BadMagicError,
    BlockSizeError,
    ConfigError,
    CutBlockError,
    EmptyBlockError,
    HeaderOnlyError,
    SealbergError,
    TooManyBlocksError,
)
from sealberg.format.ags1 import (
    BLOCK_SIZE,
    HEADER,
    MAX_BLOCKS,
    MIN_STORED_LENGTH,
    STORED_BLOCK_SIZE,
    Layout,
    check_header,
)

LONGEST = MAX_BLOCKS * BLOCK_SIZE
LONGEST_STORED = len(HEADER) + MAX_BLOCKS * STORED_BLOCK_SIZE

many = examples(3)


def near(step: int, most: int, reach: int = 40) -> st.SearchStrategy[int]:
    """Numbers up to `most`, most of them close to a multiple of `step`: arithmetic breaks at edges."""
    edges = st.builds(lambda n, d: n * step + d, st.integers(0, most // step), st.integers(-reach, reach))
    return (edges | st.integers(0, most)).map(lambda n: max(0, min(n, most)))


plain_lengths = near(BLOCK_SIZE, 5 * BLOCK_SIZE) | near(BLOCK_SIZE, LONGEST)
layouts = plain_lengths.map(Layout.of_plain)


# -- lengths ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "stored"),
    [(0, 36), (1, 37), (122, 158), (1048575, 1048611), (1048576, 1048612), (1048577, 1048641), (2097152, 2097216)],
)
def test_stored_lengths_are_those_of_java(plain: int, stored: int) -> None:
    assert Layout.of_plain(plain).stored_length == stored


@many
@given(plain_lengths)
@example(0)
@example(LONGEST)
def test_every_plain_length_has_a_layout_that_leads_back_to_it(plain: int) -> None:
    layout = Layout.of_plain(plain)
    assert layout.plain_length == plain
    assert Layout(layout.stored_length) == layout
    assert layout.stored_length == len(HEADER) + 28 * max(1, -(-plain // 2**20)) + plain  # Java's formula


@many
@given(near(STORED_BLOCK_SIZE, 5 * STORED_BLOCK_SIZE) | near(STORED_BLOCK_SIZE, LONGEST_STORED + STORED_BLOCK_SIZE))
@example(LONGEST_STORED)
@example(LONGEST_STORED + 1)
def test_a_stored_length_is_that_of_some_plaintext_or_refused(stored: int) -> None:
    try:
        layout = Layout(stored)
    except SealbergError:
        # Refused: then no plaintext has it. Lengths grow strictly, so its neighbours tell.
        assert stored not in {length.stored_length for length in neighbours(stored)}
    else:
        assert Layout.of_plain(layout.plain_length) == layout


def neighbours(stored: int) -> list[Layout]:
    around = stored - len(HEADER) - 28 * max(1, stored // STORED_BLOCK_SIZE)
    return [Layout.of_plain(n) for n in range(max(0, around - 30), around + 60) if n <= LONGEST]


@many
@given(plain_lengths.filter(lambda n: n < LONGEST))
def test_a_longer_plaintext_has_a_longer_stream(plain: int) -> None:
    assert Layout.of_plain(plain).stored_length < Layout.of_plain(plain + 1).stored_length


@pytest.mark.parametrize("stored", [-1, 0, 3, 4, 7, 8, 9, 35])
def test_less_than_a_header_and_a_block_is_refused(stored: int) -> None:
    with pytest.raises(HeaderOnlyError, match=str(stored)):
        Layout(stored)


@many
@given(st.integers(1, MAX_BLOCKS - 1), st.integers(1, 27))
@example(1, 1)
@example(1, 27)
def test_a_last_block_without_room_for_nonce_and_tag_is_refused(full: int, rest: int) -> None:
    with pytest.raises(CutBlockError, match=f"block {full} "):
        Layout(len(HEADER) + full * STORED_BLOCK_SIZE + rest)


@many
@given(st.integers(1, MAX_BLOCKS - 1))
def test_an_empty_block_after_full_ones_is_refused(full: int) -> None:
    with pytest.raises(EmptyBlockError, match=f"block {full}"):
        Layout(len(HEADER) + full * STORED_BLOCK_SIZE + 28)


def test_the_last_block_that_java_can_count_is_the_last_there_can_be() -> None:
    assert MAX_BLOCKS == 2**31 - 1
    longest = Layout.of_plain(LONGEST)
    assert (longest.block_count, longest.stored_length) == (MAX_BLOCKS, LONGEST_STORED)
    with pytest.raises(TooManyBlocksError):
        Layout.of_plain(LONGEST + 1)
    with pytest.raises(TooManyBlocksError):
        Layout(LONGEST_STORED + 29)


def test_a_negative_plain_length_is_refused() -> None:
    with pytest.raises(ConfigError):
        Layout.of_plain(-1)


# -- blocks -------------------------------------------------------------------------------------


@many
@given(st.data(), layouts)
def test_blocks_follow_each_other_and_fill_the_file(data: st.DataObject, layout: Layout) -> None:
    assert layout.stored_start(0) == len(HEADER)
    assert layout.plain_start(0) == 0
    assert layout.stored_start(layout.block_count) == layout.stored_length
    assert layout.plain_start(layout.block_count) == layout.plain_length
    index = data.draw(st.integers(0, layout.block_count - 1))
    stored = layout.stored_start(index + 1) - layout.stored_start(index)
    plain = layout.plain_start(index + 1) - layout.plain_start(index)
    assert stored == plain + 28
    assert plain == BLOCK_SIZE or index == layout.block_count - 1
    assert 0 < plain <= BLOCK_SIZE or layout.plain_length == 0


@many
@given(st.data(), layouts.filter(lambda layout: layout.plain_length > 0))
def test_block_at_gives_the_block_around_an_offset(data: st.DataObject, layout: Layout) -> None:
    offset = data.draw(near(BLOCK_SIZE, layout.plain_length - 1))
    index = layout.block_at(offset)
    assert 0 <= index < layout.block_count
    assert layout.plain_start(index) <= offset < layout.plain_start(index + 1)


@many
@given(layouts)
def test_offsets_outside_a_stream_are_refused(layout: Layout) -> None:
    plain, stored = layout.plain_length, layout.stored_length
    for call, offset in (
        (layout.block_at, -1),
        (layout.block_at, plain),
        (layout.to_stored, -1),
        (layout.to_stored, plain + 1),
        (layout.to_plain, -1),
        (layout.to_plain, stored + 1),
    ):
        with pytest.raises(ConfigError, match=str(offset)):
            call(offset)


# -- cuts: planners split a file by its stored size, readers go by plain offsets ----------------


@many
@given(st.data(), layouts)
def test_to_plain_undoes_to_stored(data: st.DataObject, layout: Layout) -> None:
    cut = data.draw(near(BLOCK_SIZE, layout.plain_length))
    assert layout.to_plain(layout.to_stored(cut)) == cut


@many
@given(layouts)
def test_ends_of_a_file_are_ends_of_its_plaintext(layout: Layout) -> None:
    assert (layout.to_plain(0), layout.to_plain(layout.stored_length)) == (0, layout.plain_length)
    assert layout.to_stored(layout.plain_length) == layout.stored_length


@many
@given(st.data(), layouts)
def test_stored_cuts_keep_their_order(data: st.DataObject, layout: Layout) -> None:
    low = data.draw(stored_offsets(layout))
    step = data.draw(st.integers(0, 40) | st.integers(0, layout.stored_length))
    assert layout.to_plain(low) <= layout.to_plain(min(low + step, layout.stored_length))


@many
@given(st.data(), layouts.filter(lambda layout: layout.plain_length > 0))
def test_plain_cuts_keep_their_order(data: st.DataObject, layout: Layout) -> None:
    low = data.draw(near(BLOCK_SIZE, layout.plain_length - 1))
    step = data.draw(st.integers(1, 40) | st.integers(1, layout.plain_length))
    assert layout.to_stored(low) < layout.to_stored(min(low + step, layout.plain_length))


@many
@given(st.data(), layouts)
def test_a_cut_inside_a_stored_block_is_a_cut_inside_its_plaintext(data: st.DataObject, layout: Layout) -> None:
    index = data.draw(st.integers(0, layout.block_count - 1))
    cut = data.draw(st.integers(layout.stored_start(index), layout.stored_start(index + 1)))
    assert layout.plain_start(index) <= layout.to_plain(cut) <= layout.plain_start(index + 1)


@many
@given(st.data(), layouts)
def test_splits_of_a_file_cover_its_plaintext_once(data: st.DataObject, layout: Layout) -> None:
    inner = data.draw(st.lists(stored_offsets(layout), max_size=6))
    cuts = [layout.to_plain(cut) for cut in sorted([0, *inner, layout.stored_length])]
    assert (cuts[0], cuts[-1]) == (0, layout.plain_length)
    assert cuts == sorted(cuts)  # so each split begins where the one before it ends


@many
@given(st.data(), layouts.filter(lambda layout: layout.plain_length > 0))
def test_a_cut_stays_in_the_block_of_its_byte(data: st.DataObject, layout: Layout) -> None:
    offset = data.draw(near(BLOCK_SIZE, layout.plain_length - 1))
    index = layout.block_at(offset)
    assert layout.stored_start(index) <= layout.to_stored(offset) < layout.stored_start(index + 1)


def stored_offsets(layout: Layout) -> st.SearchStrategy[int]:
    return near(STORED_BLOCK_SIZE, layout.stored_length)


# -- header -------------------------------------------------------------------------------------


@many
@given(st.binary(max_size=12) | st.binary(max_size=8).map(lambda tail: b"AGS1" + tail) | st.just(HEADER + b"more"))
@example(HEADER)
@example(b"AGS1\x00\x10\x00\x00")
@example(b"AGS1\x00\x00\x10")
def test_only_one_header_passes(header: bytes) -> None:
    if header.startswith(HEADER):
        check_header(header)
        return
    refusal = HeaderOnlyError if len(header) < len(HEADER) else BlockSizeError
    with pytest.raises(refusal if header.startswith(b"AGS1") else BadMagicError):
        check_header(header)


def test_header_is_the_magic_and_one_mebibyte() -> None:
    assert HEADER.hex() == "4147533100001000"
    assert MIN_STORED_LENGTH == 36
