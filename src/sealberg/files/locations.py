"""Locations of files: parsed once, compared whatever their spelling, and refused where a spelling could mislead.

Location.parse("s3://b/k")   a location that names one object for every reader; others are refused, with the reason
oddity("/w/a#b")             why a location is not normal: "has `#`"; None if it is

normal("file:/x/y")   "/x/y"      file:/x, file:///x and /x are the same file
normal("s3a://b/k")   "s3://b/k"  several schemes name one store
normals([...])                    the same for many locations, most of them in few folders
meanings("/w/a#b")                every object that some reader may find at an odd location
within(a, b)                      is `a` the folder `b`, or below it? hr/people2 is not below hr/people
Locations                         a set of locations in any spelling
on_one_line(a)                    `a` for people, without characters that cannot be seen
attempt_location(a)               `a` with a random part in its name, for one attempt of a task

Readers disagree on odd locations: URL parsers cut `x#1` at the `#` and drop line breaks, a file system follows `..`,
an object store does not. So such a location is neither written nor deleted by; one that is in a table already is
read exactly as it is spelled, and keeps every object alive that it could mean.
"""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from sealberg.errors import LocationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOCAL: Final = "file"
FAMILIES: Final = {
    "": LOCAL,
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
}
AZURE: Final = "abfs"
HADOOP: Final = ("hdfs", "viewfs")  # the same path behind another host name is taken for the same file
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
AUTHORITY: Final = re.compile(r"[A-Za-z0-9._@:$-]*")  # a bucket, a container with its account, a host
_UNSEEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ODD: Final = re.compile(r"[#?\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]|//|/\.{1,2}(?:/|$)")


def split(location: str) -> tuple[str, str, str]:
    """Scheme, authority and path, exactly as they are spelled; a path without a scheme is local.

    Unlike urllib, nothing is dropped: no line break, no fragment, no query.
    """
    location = str(location)
    if (found := _SCHEME.match(location)) is None:
        return "", "", location
    rest = location[found.end() :]
    if not rest.startswith("//"):
        return found[1], "", rest
    authority, slash, path = rest[2:].partition("/")
    return found[1], authority, slash + path


def oddity(location: str) -> str | None:
    """Why the location is not normal; None if it is. One slash at the end of a folder is normal."""
    location = str(location)
    if location.startswith("/") and _ODD.search(location) is None and location.strip("/"):
        return None  # nearly every local file
    scheme, authority, path = split(location)
    family = FAMILIES.get(scheme.lower(), scheme.lower())
    unseen = _UNSEEN.search(location)
    odd = next((part for part in path.removesuffix("/").split("/")[1:] if part in {"", ".", ".."}), None)
    reasons = (
        (not path.strip("/"), "names no file or folder"),
        (unseen is not None, f"has the character U+{ord(unseen[0]):04X}" if unseen else ""),
        ("#" in location, "has `#`"),
        ("?" in location, "has `?`"),
        (family == LOCAL and authority, f"names the host {authority}"),
        (not path.startswith("/"), "is relative"),
        (family != LOCAL and not authority and family not in HADOOP, "names no bucket"),
        (AUTHORITY.fullmatch(authority) is None, f"has {authority!r} in the place of a bucket or a host"),
        (odd is not None, f"has the segment `{odd}`" if odd else "has `//`"),
    )
    return next((reason for is_so, reason in reasons if is_so), None)


@dataclass(frozen=True, slots=True)
class Location:
    """A location that names one object for every reader.

    Attributes:
        text: as it was spelled, without a slash at its end; this is what a FileIO is given.
        place: in the one spelling that is compared.
    """

    text: str = field(compare=False)
    place: str

    @classmethod
    def parse(cls, text: str, what: str = "the location") -> Self:
        """The location.

        Args:
            what: is at this location; begins the message of an error.

        Raises:
            LocationError: the location is not normal.
        """
        text = str(text)
        if (reason := oddity(text)) is not None:
            raise LocationError(
                f"{what} {text[:300]!r} {reason}; expected an absolute path or a URL such as s3://bucket/folder, "
                "without `#`, `?`, control characters, and empty, `.` or `..` segments"
            )
        text = text.removesuffix("/")
        return cls(text, _place(text))

    def within(self, folder: Location) -> bool:
        """Whether this is the folder, or lies below it."""
        return self.place == folder.place or self.place.startswith(f"{folder.place}/")

    @property
    def name(self) -> str:
        return self.text.rpartition("/")[2]

    def __str__(self) -> str:
        return self.text


def meanings(place: str) -> Iterator[str]:
    """Every object that some reader finds at a location in the spelling of `normal`; none if it is a normal one."""
    if _ODD.search(place[place.find("://") + 3 :] if "://" in place else place) is None:
        return
    head, _, rest = place.rpartition("://") if "://" in place else ("", "", place)
    begin = f"{head}://" if head else ""
    for cut in {rest, re.split(r"[#?]", rest, maxsplit=1)[0]}:
        for seen in {cut, _UNSEEN.sub("", cut)}:
            yield begin + seen
            yield begin + re.sub(r"/+", "/", posixpath.normpath(seen))


def normal(location: str) -> str:
    """The location in one spelling, to compare locations of different writers."""
    return next(normals((location,)))


def normals(locations: Iterable[str]) -> Iterator[str]:
    """Each location in one spelling, most of them in few folders: a folder is looked at once."""
    folders: dict[str, str] = {}
    for each in locations:
        location = str(each)
        folder, slash, name = location.rpartition("/")
        if name in {"", ".", ".."} or not slash:  # no file: the text is a folder, or odd
            yield _place(location)
            continue
        if (place := folders.get(folder)) is None:
            place = folders[folder] = _place(f"{folder}/")
        yield place + name


def _place(location: str) -> str:
    """The one spelling. A local path has no links in its folders, so that two paths of one file are equal."""
    scheme, authority, path = split(location)
    family = FAMILIES.get(scheme.lower(), scheme.lower())
    if family == LOCAL:
        return _real(f"/{authority}{path}")
    if family == AZURE:
        authority = authority.partition("@")[0]  # the container; hosts of one account have several names
    elif family in HADOOP:
        authority = ""
    return f"{family}://{authority}{path}"


def _real(path: str) -> str:
    """The path without links and without `.`, `..` and empty segments; a folder keeps the slash at its end."""
    try:
        real = os.path.realpath("/" + path.lstrip("/"))
    except ValueError:  # a zero byte, which no path has
        return path
    return f"{real.rstrip('/')}/" if path.endswith("/") else real


def on_one_line(location: str) -> str:
    """The location for people: a line break in it begins no line that says something else."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", str(location))


def within(location: str, folder: str) -> bool:
    """Whether the location is the folder or lies below it. A path with `..` in an object store lies below nothing."""
    there, top = _place(str(location)), _place(str(folder)).rstrip("/")
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
        self.update((location,))

    def update(self, locations: Iterable[str]) -> None:
        for place in normals(locations):
            self._hashes.add(hash(place))
            self._hashes.update(map(hash, meanings(place)))

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
