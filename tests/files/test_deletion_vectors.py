"""Deletion vectors: a set of positions and its blob, byte for byte Java's, and no blob that lies."""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from kit.tables import golden_files
from kit.tables.streams import flip
from sealberg.errors import BadMagicError, ConfigError, FormatError, IntegrityError, TrailingBytesError, TruncatedError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.puffin.container import read_blob, read_footer
from sealberg.files.puffin.deletion_vector import MAGIC, MAX_POSITION, DeletionVector

# One for each kind of container, and for a border of it.
SHAPES: dict[str, list[int]] = {
    "none": [],
    "first": [0],
    "array": list(range(0, 40_000, 13)),
    "full array": list(range(0, 8192, 2)),
    "bit set": list(range(0, 8194, 2)),
    "runs": [*range(10, 500), *range(1000, 3000)],
    "full": list(range(1 << 16)),
    "containers": [i << 16 for i in range(6)],
    "runs and arrays": [*range(100_000), 200_000, 300_000, 400_001, 500_003],
    "three with runs": [*range(1000), 1 << 16, 2 << 16],
    "beyond 32 bits": [5, 2**32 - 1, 2**32, 2**33 + 7, MAX_POSITION],
}
shapes = pytest.mark.parametrize("positions", SHAPES.values(), ids=SHAPES)


def blob_of(vector: bytes) -> bytes:
    """A blob around any bytes, by hand."""
    body = MAGIC + vector
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


@shapes
def test_positions_come_back(positions: list[int]) -> None:
    vector = DeletionVector.of(positions)
    blob = vector.encode()
    again = DeletionVector.decode(blob, len(positions))
    assert again == vector
    assert list(again) == again.positions().to_pylist() == positions
    assert again.cardinality == len(again) == len(positions)
    assert again.encode() == blob


@given(st.sets(st.integers(0, MAX_POSITION) | st.integers(0, 300_000), max_size=300))
def test_any_set_of_positions_comes_back(positions: set[int]) -> None:
    assert list(DeletionVector.decode(DeletionVector.of(positions).encode())) == sorted(positions)


def test_the_bytes_are_those_of_the_specification() -> None:
    vector = struct.pack("<QI", 1, 0) + struct.pack("<IIHHI3H", 12346, 1, 0, 2, 16, 3, 5, 9)
    assert DeletionVector.of([9, 3, 5]).encode() == blob_of(vector)
    runs = struct.pack("<QI", 1, 0) + struct.pack("<HHBHHHHH", 12347, 0, 1, 0, 99, 1, 7, 99)
    assert DeletionVector.of(range(7, 107)).encode() == blob_of(runs)


def test_java_vectors_come_back_byte_for_byte() -> None:
    found = golden_files.files("mor_deletes", "puffin")
    assert len(found) >= 10
    for file in found:
        entry = file.entry
        with Ags1Reader(file.path, file.keys) as stream:
            blob = stream.read_at(entry["content_offset"], entry["content_size_in_bytes"])
            cardinalities = {b.offset: int(b.properties["cardinality"]) for b in read_footer(stream).blobs}
            assert any(read_blob(stream, b) == blob for b in read_footer(stream).blobs)
        vector = DeletionVector.decode(blob, entry["record_count"])
        assert vector.encode() == blob
        assert vector.cardinality == cardinalities[entry["content_offset"]]


def test_java_empty_bitmaps_in_gaps_are_read() -> None:
    # Java has a bitmap for every upper half up to the last one.
    empty = struct.pack("<II", 12346, 0)
    last = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, 8)
    vector = struct.pack("<QI", 3, 0) + empty + struct.pack("<I", 1) + empty + struct.pack("<I", 2) + last
    assert list(DeletionVector.decode(blob_of(vector))) == [2**33 + 8]


# -- a set --------------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", [[], [0], [7, 70_000, 2**32 - 1], list(range(0, 300_000, 3)), list(range(9_000))])
def test_small_positions_are_one_bitmap_of_32_bits(positions: list[int]) -> None:
    assert list(BitMap.deserialize(DeletionVector.of(positions).bitmap())) == positions


def test_large_positions_are_no_bitmap_of_32_bits() -> None:
    with pytest.raises(ConfigError, match="4294967296"):
        DeletionVector.of([1, 2**32]).bitmap()


def test_a_union_is_a_new_vector() -> None:
    one, other = DeletionVector.of([1, 5]), DeletionVector.of([5, 9])
    assert list(one | other) == [1, 5, 9]
    assert (list(one), list(other)) == ([1, 5], [5, 9])
    with pytest.raises(AttributeError):
        one._bits = other._bits  # type: ignore[misc]


def test_a_union_is_as_short_as_java_would_write_it() -> None:
    union = DeletionVector.of(range(0, 5000, 2)) | DeletionVector.of(range(1, 5000, 2))
    assert union.encode() == DeletionVector.of(range(5000)).encode()


def test_membership() -> None:
    vector = DeletionVector.of([3, 2**40])
    assert 3 in vector
    assert 2**40 in vector
    for absent in (4, -3, 2**64, "3", None):
        assert absent not in vector


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.uint64()])
def test_positions_may_be_an_arrow_array(kind: pa.DataType) -> None:
    array = pa.array([9, 3, 5, 3], kind)
    assert list(DeletionVector.of(array)) == [3, 5, 9]
    assert list(DeletionVector.of(array[1:])) == [3, 5]
    assert list(DeletionVector.of(pa.chunked_array([array[1:2], array[:1]]))) == [3, 9]
    assert list(DeletionVector.of(array[:0])) == []


@pytest.mark.parametrize(
    "bad", [[-1], [MAX_POSITION + 1], [2**64], ["1"], [1.0], [None], pa.array([1, None]), pa.array([-1])], ids=str
)
def test_what_is_no_position_is_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match="position"):
        DeletionVector.of(bad)


@given(st.sets(st.integers(0, 200)), st.integers(0, 200), st.integers(0, 80))
def test_the_mask_keeps_exactly_what_is_not_deleted(positions: set[int], start: int, length: int) -> None:
    vector, rows = DeletionVector.of(positions), range(start, start + length)
    mask = vector.kept(start, start + length)
    kept = list(rows) if mask is None else pa.array(rows, pa.int64()).filter(mask).to_pylist()
    assert kept == [row for row in rows if row not in positions]
    assert vector.deleted_in(start, start + length) == length - len(kept)
    assert (mask is None) == (len(kept) == length)


def test_repr_is_short() -> None:
    assert repr(DeletionVector.of(range(100))) == "DeletionVector(cardinality=100)"


# -- blobs that lie -----------------------------------------------------------------------------


@shapes
def test_every_cut_blob_is_refused(positions: list[int]) -> None:
    blob = DeletionVector.of(positions).encode()
    for length in {0, 1, 4, 8, 11, 12, len(blob) // 2, len(blob) - 4, len(blob) - 1} - {len(blob)}:
        with pytest.raises(IntegrityError):
            DeletionVector.decode(blob[:length])


def test_every_altered_byte_is_refused() -> None:
    blob = DeletionVector.of(SHAPES["three with runs"]).encode()
    for at in range(len(blob)):
        with pytest.raises(IntegrityError):
            DeletionVector.decode(flip(blob, at))


def test_each_failure_has_its_type() -> None:
    blob = DeletionVector.of([1, 2, 3]).encode()
    with pytest.raises(BadMagicError):
        DeletionVector.decode(flip(blob, 4))
    with pytest.raises(TruncatedError):
        DeletionVector.decode(blob[:-1])
    with pytest.raises(TrailingBytesError):
        DeletionVector.decode(blob + b"\0")
    with pytest.raises(FormatError, match="checksum"):
        DeletionVector.decode(flip(blob, len(blob) - 1))
    with pytest.raises(FormatError, match="deletion vector has 3 positions, the manifest has a record count of 4"):
        DeletionVector.decode(blob, 4)


def bitmap(*containers: tuple[int, int, bytes], key: int = 0, offset: int | None = None) -> bytes:
    """A bitmap without runs; each container is its key, the cardinality that it claims, and its bytes."""
    at = 8 + 8 * len(containers)
    heads = b"".join(struct.pack("<HH", one, count - 1) for one, count, _ in containers)
    places = b""
    for _, _, raw in containers:
        places += struct.pack("<I", at if offset is None else offset)
        at += len(raw)
    raws = b"".join(raw for _, _, raw in containers)
    return struct.pack("<III", key, 12346, len(containers)) + heads + places + raws


def runs(count: int, *pairs: tuple[int, int]) -> bytes:
    """A bitmap of one run container that claims `count` positions."""
    head = struct.pack("<IHHBHHH", 0, 12347, 0, 1, 0, count - 1, len(pairs))
    return head + b"".join(struct.pack("<HH", *pair) for pair in pairs)


ARRAY = struct.pack("<3H", 1, 2, 3)
LIES = {
    "bit set with fewer bits": (1, bitmap((0, 5000, bytes(8192)))),
    "bit set with more bits": (1, bitmap((0, 5000, b"\xff" * 8192))),
    "array unsorted": (1, bitmap((0, 3, struct.pack("<3H", 1, 3, 2)))),
    "array repeats": (1, bitmap((0, 3, struct.pack("<3H", 1, 2, 2)))),
    "containers unsorted": (1, bitmap((1, 3, ARRAY), (0, 3, ARRAY))),
    "containers repeat": (1, bitmap((1, 3, ARRAY), (1, 3, ARRAY))),
    "offset elsewhere": (1, bitmap((0, 3, ARRAY), offset=0)),
    "runs overlap": (1, runs(8, (0, 3), (2, 3))),
    "run over the edge": (1, runs(11, (0xFFFF, 10))),
    "runs of another number": (1, runs(9, (0, 3), (10, 3))),
    "bitmaps unsorted": (2, bitmap((0, 3, ARRAY), key=1) + bitmap((0, 3, ARRAY), key=0)),
    "bitmaps repeat": (2, bitmap((0, 3, ARRAY)) + bitmap((0, 3, ARRAY))),
    "upper half too large": (1, bitmap((0, 3, ARRAY), key=2**31 - 1)),
    "fewer bitmaps than there are": (0, bitmap((0, 3, ARRAY))),
    "more bitmaps than there are": (2, bitmap((0, 3, ARRAY))),
    "endless bitmaps": (2**63, bitmap((0, 3, ARRAY))),
    "unknown cookie": (1, struct.pack("<II", 0, 99)),
    "too many containers": (1, struct.pack("<III", 0, 12346, 1 << 17)),
}


def test_the_honest_twins_of_the_lies_open() -> None:
    ok = bitmap((0, 3, ARRAY), (1, 65536, b"\xff" * 8192))
    assert DeletionVector.decode(blob_of(struct.pack("<Q", 1) + ok)).cardinality == 3 + 65536
    assert DeletionVector.decode(blob_of(struct.pack("<Q", 1) + runs(8, (0, 3), (10, 3)))).cardinality == 8


@pytest.mark.parametrize(("count", "bitmaps"), LIES.values(), ids=LIES)
def test_a_bitmap_that_lies_about_itself_is_refused(count: int, bitmaps: bytes) -> None:
    with pytest.raises(IntegrityError):
        DeletionVector.decode(blob_of(struct.pack("<Q", count) + bitmaps))


def test_noise_with_a_good_checksum_never_gets_through_to_the_library() -> None:
    noise = random.Random(7)
    good = [DeletionVector.of(positions).encode()[8:-4] for positions in SHAPES.values() if len(positions) < 10_000]
    for _ in range(2000):
        vector = bytearray(noise.choice(good))
        for _ in range(noise.randint(1, 4)):
            vector[noise.randrange(min(len(vector), 80))] = noise.randrange(256)
        try:
            found = DeletionVector.decode(blob_of(bytes(vector)))
        except IntegrityError:
            continue
        positions = list(found)
        assert positions == sorted(set(positions))
        assert len(positions) == found.cardinality
