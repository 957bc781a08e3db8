"""Locations of files, compared whatever their spelling.

normal("file:/x/y")   "/x/y"      file:/x, file:///x and /x are the same file
normal("s3a://b/k")   "s3://b/k"  several schemes name one store
within(a, b)                      is `a` the folder `b`, or below it? hr/people2 is not below hr/people
Locations                         a set of locations in any spelling
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealberg.files.confined_io import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable


def normal(location: str) -> str:
    """The location in one spelling, to compare locations of different writers."""
    location = str(location)
    scheme, there, rest = location.partition("://")
    if not there:
        head, colon, tail = location.partition(":")
        scheme, rest = (head, tail) if colon and head == "file" else ("", location)
    family = FAMILIES.get(scheme.lower(), scheme.lower())
    if family == "file":
        return "/" + rest.lstrip("/")
    return f"{family}://{rest}"


def within(location: str, folder: str) -> bool:
    """Whether the location is the folder or lies below it. A path with `..` lies below nothing."""
    there, top = normal(location), normal(folder).rstrip("/")
    return (there == top or there.startswith(f"{top}/")) and ".." not in there.split("/")


class Locations:
    """A set of locations in any spelling, in a few bytes each: it keeps 64-bit hashes that differ in every process."""

    def __init__(self, locations: Iterable[str] = ()) -> None:
        self._hashes: set[int] = set()
        self.update(locations)

    def add(self, location: str) -> None:
        self._hashes.add(hash(normal(location)))

    def update(self, locations: Iterable[str]) -> None:
        self._hashes.update(hash(normal(location)) for location in locations)

    def adds(self, location: str) -> bool:
        """Add the location; whether it was not in the set before."""
        before = len(self._hashes)
        self.add(location)
        return len(self._hashes) > before

    def __contains__(self, location: str) -> bool:
        return hash(normal(location)) in self._hashes

    def __len__(self) -> int:
        return len(self._hashes)
