"""Locations of files, compared whatever their spelling.

normal("file:/x/y")   "/x/y"      file:/x, file:///x and /x are the same file
normal("s3a://b/k")   "s3://b/k"  several schemes name one store
normals([...])                    the same for many locations, most of them in few folders
within(a, b)                      is `a` the folder `b`, or below it? hr/people2 is not below hr/people
Locations                         a set of locations in any spelling
attempt_location(a)               `a` with a random part in its name, for one attempt of a task
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sealberg.files.confined_io import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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


def normals(locations: Iterable[str]) -> Iterator[str]:
    """Each location in one spelling. The spelling of a folder serves the next locations in the same folder."""
    folder, spelled, size, has_scheme = "", "", -1, False
    for location in locations:
        is_inside = size > 0 and location.startswith(folder) and location[size : size + 1] != "/"
        if is_inside and (has_scheme or "://" not in location):  # a scheme may end after the folder: //file://
            yield spelled + location[size:]
            continue
        found = normal(location)
        size = location.rfind("/") + 1
        folder, spelled = location[:size], found[: len(found) - len(location) + size]
        has_scheme = "://" in folder
        yield found


def within(location: str, folder: str) -> bool:
    """Whether the location is the folder or lies below it. A path with `..` lies below nothing."""
    there, top = normal(location), normal(folder).rstrip("/")
    return (there == top or there.startswith(f"{top}/")) and ".." not in there.split("/")


def attempt_location(location: str) -> str:
    """The location with a random part before its ending, for a file that a task writes.

    Two attempts of one task may run at once: Spark repeats tasks that are slow, or whose executor it has lost sight
    of. With one location for both, each would write into the file of the other, and the attempt that fails would delete
    the file of the attempt that succeeds.
    """
    folder, slash, name = location.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    own = os.urandom(4).hex()
    return f"{folder}{slash}{stem}-{own}.{ending}" if dot else f"{location}-{own}"


class Locations:
    """A set of locations in any spelling, in a few bytes each: it keeps 64-bit hashes that differ in every process."""

    def __init__(self, locations: Iterable[str] = ()) -> None:
        self._hashes: set[int] = set()
        self.update(locations)

    def add(self, location: str) -> None:
        self._hashes.add(hash(normal(location)))

    def update(self, locations: Iterable[str]) -> None:
        self._hashes.update(map(hash, normals(locations)))

    def adds(self, location: str) -> bool:
        """Add the location; whether it was not in the set before."""
        before = len(self._hashes)
        self.add(location)
        return len(self._hashes) > before

    def __contains__(self, location: str) -> bool:
        return self.has_normal(normal(location))

    def has_normal(self, location: str) -> bool:
        """Whether the location, which is in the spelling of `normal`, is in the set."""
        return hash(location) in self._hashes

    def __len__(self) -> int:
        return len(self._hashes)
