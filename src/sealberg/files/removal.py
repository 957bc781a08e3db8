"""Deletes one object: the only place of the library that deletes from storage.

    remove_file(io, location)            the regular file of exactly this name
    remove_file(io, location, planned)   the same, if it is still the object that was listed
    remove_version(io, version)          an older version of an object that is gone
    remove_empty_folder(io, location)    a folder of this machine, if there is nothing in it

Links, folders, and names that readers understand differently stay, with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealberg.errors import LocationError, SealbergError, UnsupportedError
from sealberg.files.listing import is_local, leaf_of, local_path, stat_file
from sealberg.files.locations import Location, oddity
from sealberg.files.object_versions import delete_version

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from sealberg.files.listing import Listed
    from sealberg.files.object_versions import Version

CHECKSUMS: Final = b"crc\0"


def remove_file(io: FileIO, location: str, planned: Listed | None = None) -> str | None:
    """None if the file was deleted, "" if there was none, else why it stays."""
    try:
        place = Location.parse(location).text
        found = _found(io, place)
        if isinstance(found, str):
            return found
        if planned is not None and found is not None and not _is_same(planned, found):
            return (
                f"is another object than the one that was listed: it has {found.size} bytes of {found.modified}, "
                f"expected {planned.size} bytes of {planned.modified}"
            )
        io.delete(place)
        _remove_checksums(io, place)
    except FileNotFoundError:
        return ""
    except LocationError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 (libraries of stores raise anything; the other files are still deleted)
        return f"{type(error).__name__}: {error}"
    return None


def remove_version(io: FileIO, version: Version) -> str | None:
    """None if an older version of an object was deleted for good, else why it stays."""
    if not version.is_gone:
        return "another version is at this location now"
    try:
        delete_version(io, version)
    except (SealbergError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def remove_empty_folder(io: FileIO, location: str) -> bool:
    """Remove a folder in which there is nothing; whether it was removed. A link to a folder stays."""
    path = local_path(io, location)
    try:
        if path is None or oddity(location) is not None:
            return False
        Path(path).rmdir()
    except OSError:  # something is in it, it is a link, or it is gone
        return False
    return True


def _remove_checksums(io: FileIO, place: str) -> None:
    """Remove what Hadoop's local file system keeps beside a file, and deletes with it: `.x.parquet.crc`."""
    folder, _, name = place.rpartition("/")
    beside = f"{folder}/.{name}.crc"
    if not is_local(io, place) or isinstance(_found(io, beside), str):
        return
    with leaf_of(io, beside).new_input(beside).open() as stream:  # it has no key, in any table
        is_checksums = bytes(stream.read(len(CHECKSUMS))) == CHECKSUMS
    if is_checksums:
        io.delete(beside)


def _found(io: FileIO, place: str) -> Listed | str | None:
    """What lies there; a text that says why it stays; None where the store does not tell."""
    try:
        found = stat_file(io, place)
    except UnsupportedError:
        return None
    if found is None:
        return ""
    return found if found.problem is None else found.problem


def _is_same(planned: Listed, found: Listed) -> bool:
    if planned.mark and found.mark and planned.mark != found.mark:
        return False
    return planned.size == found.size and planned.modified == found.modified
