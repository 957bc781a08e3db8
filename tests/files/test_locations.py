"""Locations are compared whatever their spelling, one at a time or many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sealberg.errors import LocationError
from sealberg.files.file_io import keyed
from sealberg.files.locations import Location, Locations, normal, normals, on_one_line, within

if TYPE_CHECKING:
    from pathlib import Path

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


NORMAL = ["/w/hr/a", "/w/hr/a/", "file:/w/a", "file:///w/a", "s3://b/k", "s3a://b/k/p=a%23b", "hdfs:///w",
          "abfss://c@acc.dfs.core.windows.net/t", "/w/a b;c=d,é"]  # fmt: skip


@pytest.mark.parametrize("text", NORMAL)
def test_a_normal_location_is_parsed(text: str) -> None:
    assert Location.parse(text).text == text.removesuffix("/")


ODD = ["", "/", "file:/", "w/a", "file:w/a", "file://localhost/w", "/w/./a", "/w/../a", "/w//a", "/w/a/..", "s3://b//k",
       "s3:///k", "s3:k", "s3://b", "/w/a#b", "s3://b/a?b", "/w/a\nb", "/w/a\tb", "/w/a\x00", "/w/\udcff", "/w/\u2028",
       "s3://b [/k", "/w/a\x85b"]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_a_location_that_readers_understand_differently_is_refused(text: str) -> None:
    with pytest.raises(LocationError, match="expected an absolute path or a URL"):
        Location.parse(text)


@pytest.mark.parametrize("text", ["/w/a/x#1", "/w/a/x?1", "/w/a/./x", "/w/a//x", "/w/b/../a/x", "/w/a/\nx", "/w/a/x\t"])
def test_an_odd_location_keeps_alive_what_it_could_mean(text: str) -> None:
    assert "/w/a/x" in Locations([text])


def test_an_odd_location_of_a_store_keeps_the_object_of_that_very_name_alive_too() -> None:
    known = Locations(["s3://b/a/../k#1"])
    assert all(each in known for each in ("s3://b/a/../k#1", "s3://b/a/../k", "s3://b/k#1", "s3://b/k"))


def test_links_are_other_names_of_one_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    real, link = Location.parse(f"{tmp_path}/real/x"), Location.parse(f"file:{tmp_path}/link/x")
    assert real == link
    assert link.within(Location.parse(f"{tmp_path}/real"))
    assert f"{tmp_path}/real/x" in Locations([f"{tmp_path}/link/x"])
    assert not within(f"{tmp_path}/real/../other", f"{tmp_path}/real")


def test_a_location_for_people_is_one_line() -> None:
    assert on_one_line("/w/x\nverdict: sound\x1b[2J\udcff") == "/w/x\\u000averdict: sound\\u001b[2J\\udcff"
    assert on_one_line("s3://lake/hr/ä b") == "s3://lake/hr/ä b"
