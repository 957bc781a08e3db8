"""Key metadata of many files at once: what is cut as a matrix is what KeyMetadata decodes one by one."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealberg.errors import KeyMetadataError
from sealberg.files.key_columns import KeyColumns, decode_keys
from sealberg.format.key_metadata import KeyMetadata

KEYS = st.sampled_from([16, 24, 32]).flatmap(lambda size: st.binary(min_size=size, max_size=size))
PREFIXES = st.none() | st.binary(max_size=70)
LENGTHS = st.none() | st.integers(0, 2**63 - 1) | st.integers(0, 1 << 20)
BLOBS = st.builds(KeyMetadata, KEYS, PREFIXES, LENGTHS).map(KeyMetadata.encode)


def one_by_one(blobs: list[bytes | None]) -> KeyColumns:
    found = [None if blob is None else KeyMetadata.decode(blob) for blob in blobs]
    return KeyColumns(
        [None if each is None else each.encryption_key for each in found],
        [None if each is None else each.aad_prefix for each in found],
        [None if each is None else each.file_length for each in found],
    )


@given(st.lists(st.none() | BLOBS))
@settings(deadline=None)
def test_many_blobs_decode_as_one_does(blobs: list[bytes | None]) -> None:
    assert decode_keys(pa.array(blobs, pa.binary())) == one_by_one(blobs)


@pytest.mark.parametrize("key", [16, 24, 32])
def test_blobs_of_one_layout_decode_with_lengths_of_any_size(key: int) -> None:
    lengths = [0, 1, 63, 64, 8191, 8192, 10**6, 10**9, 2**40, 2**62, 2**63 - 1]
    blobs: list[bytes | None] = [
        KeyMetadata(os.urandom(key), os.urandom(16), length).encode() for length in lengths for _ in range(3)
    ]
    assert decode_keys(pa.array(blobs, pa.binary())) == one_by_one(blobs)
    whole = pa.array([b"x", *blobs], pa.binary())
    assert decode_keys(whole.slice(1)) == one_by_one(blobs)


@given(BLOBS, st.integers(0, 60), st.binary(min_size=1, max_size=1))
@settings(deadline=None)
def test_a_changed_blob_among_others_is_refused_or_decoded_alike(blob: bytes, at: int, byte: bytes) -> None:
    changed = blob[: at % len(blob)] + byte + blob[at % len(blob) + 1 :]
    blobs: list[bytes | None] = [blob, changed, blob]
    try:
        expected = one_by_one(blobs)
    except KeyMetadataError as error:
        with pytest.raises(type(error)):
            decode_keys(pa.array(blobs, pa.binary()))
        return
    assert decode_keys(pa.array(blobs, pa.binary())) == expected
