"""Locations are compared whatever their spelling, one at a time or many at a time."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sealberg.files.file_io import keyed
from sealberg.files.locations import Locations, normal, normals

PIECES = st.sampled_from(["file:", "s3:", "s3a:", "gcs:", "/", "//", "///", "a", "b/c", "a:b", "..", "x.parquet", ""])
LOCATIONS = st.lists(st.lists(PIECES, max_size=6).map("".join), max_size=8)


@given(LOCATIONS)
@example(["file:/x", "file:///x", "file://y/z", "file:/y"])
@example(["s3:/k", "s3://b/k", "s3a://b/k", "s3a://b//k"])
@example(["", "a", "/", "//", "/a", "a/b", "a//b"])
@example(["//", "//file://", "/x/a", "/x/b://c"])
def test_many_locations_are_spelled_as_one_is(locations: list[str]) -> None:
    assert list(normals(locations)) == [normal(each) for each in locations]


@pytest.mark.parametrize("spelling", ["file:/x/y", "file:///x/y", "/x/y", "file:////x/y"])
def test_a_set_has_a_location_in_any_spelling(spelling: str) -> None:
    for known in (Locations(["/x/a", spelling, "/x/b"]), Locations([keyed(spelling, b"key")])):
        assert "file:///x/y" in known
        assert known.has_normal("/x/y")
        assert "file:/x" not in known
        assert not known.adds("/x/y")
