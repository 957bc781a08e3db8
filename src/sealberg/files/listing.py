"""Lists what lies below a location, in any store that PyIceberg's two FileIOs reach.

list_files(io, "s3://lake/hr/salaries") ──> Listed(location, size, modified, mark, problem)
list_beside(io, "s3://...", [data])     ──> the same, without what lies in some folders of a store of objects
first_file(io, "s3://lake/hr/salaries") ──> one of them, or None: with few requests, however many there are

The location of a listed file is its exact name, and the FileIO of a table opens and deletes that very object. What
is no regular file, or has a name that readers understand differently, is listed with its `problem`. Links are never
followed.
"""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sealberg.errors import UnsupportedError
from sealberg.files.locations import AZURE, FAMILIES, LOCAL, normal, oddity, split
from sealberg.files.vended_io import LentFileIO, VendedFileIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.io import FileIO


class Listed(NamedTuple):
    """An object in storage.

    Attributes:
        mark: what the store knows the object by (inode, ETag), or "": another object at this location has another.
        problem: why it is no file of a table: a link, a device, a name that is not a normal location; None for a file.
        target: what a link leads to.
    """

    location: str
    size: int
    modified: datetime | None
    mark: str = ""
    problem: str | None = None
    target: str | None = None


def list_files(io: FileIO, location: str) -> Iterator[Listed]:
    """All files and links below a location, none if it does not exist; UnsupportedError if the FileIO cannot list."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    leaf = leaf_of(io, location)
    if (path := _local_path(leaf, location)) is not None:
        yield from _list_local(location.rstrip("/"), path.rstrip("/"))
    elif isinstance(leaf, PyArrowFileIO):
        yield from _list_arrow(leaf, location)
    elif hasattr(leaf, "get_fs"):
        yield from _list_fsspec(leaf, location)
    else:
        raise UnsupportedError(f"{type(leaf).__name__} cannot list files")


def list_beside(io: FileIO, location: str, leave: Iterable[str]) -> Iterator[Listed]:
    """All files below a location, but in a store of objects none below the folders `leave`, which may hold millions.

    A folder of this machine is listed whole: that is quick.
    """
    from pyarrow.fs import FileSelector, FileType
    from pyiceberg.io.pyarrow import PyArrowFileIO

    leaf, left = leaf_of(io, location), {normal(each).rstrip("/") for each in leave}
    if _local_path(leaf, location) is not None or not left:
        yield from list_files(io, location)
        return
    pending = [location.rstrip("/")]
    while pending:
        folder = pending.pop()
        if normal(folder) in left:
            continue
        if isinstance(leaf, PyArrowFileIO):
            scheme, netloc, path = _arrow_place(leaf, folder)
            top = path.rstrip("/")
            for info in leaf.fs_by_scheme(scheme, netloc).get_file_info(FileSelector(top, allow_not_found=True)):
                name = _joined(folder, info.path, top)
                if info.type == FileType.Directory:
                    pending.append(name)
                else:
                    yield _listed(name, info.size or 0, info.mtime)
        elif hasattr(leaf, "get_fs"):
            store, top = _store(leaf, folder)
            store.invalidate_cache()
            for info in _children(store, folder):
                path = str(info["name"]).rstrip("/")
                if info.get("type") == "directory":
                    pending.append(_joined(folder, path, top))
                elif path.startswith(f"{top}/"):
                    yield _described(_joined(folder, path, top), info)
        else:
            raise UnsupportedError(f"{type(leaf).__name__} cannot list files")


def _children(store: Any, folder: str) -> list[Any]:
    try:
        found: list[Any] = store.ls(folder, detail=True)
    except FileNotFoundError:
        return []
    return found


def folders_below(io: FileIO, location: str) -> Iterator[str]:
    """The folders below a location on this machine, the deepest first; none of a store of objects, which has none."""
    if (path := _local_path(leaf_of(io, location), location)) is not None:
        top = path.rstrip("/")
        for folder, _, _ in os.walk(top, topdown=False):
            if folder != top:
                yield _joined(location, folder, top)


def first_file(io: FileIO, location: str) -> str | None:
    """A file or a link below a location, or None if there is none; UnsupportedError if the FileIO cannot list."""
    from pyarrow.fs import FileSelector, FileType
    from pyiceberg.io.pyarrow import PyArrowFileIO

    leaf = leaf_of(io, location)
    if not isinstance(leaf, PyArrowFileIO) or split(location)[0].lower() in {"", LOCAL}:
        return next((found.location for found in list_files(io, location)), None)
    scheme, netloc, path = _arrow_place(leaf, location)
    store, top = leaf.fs_by_scheme(scheme, netloc), path.rstrip("/")
    pending = [top]
    while pending:
        # Folder by folder: PyArrow lists all files below a folder before it gives the first one.
        found = store.get_file_info(FileSelector(pending.pop(), allow_not_found=True))
        if any(info.type != FileType.Directory for info in found):
            first = next(info.path for info in found if info.type != FileType.Directory)
            return _joined(location, first, top)
        pending += sorted(info.path for info in found)  # `metadata`, which has few files, is taken before `data`
    return None


def stat_file(io: FileIO, location: str) -> Listed | None:
    """The one object at this location as a listing has it, or None. UnsupportedError if the FileIO cannot tell."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    leaf = leaf_of(io, location)
    if (path := _local_path(leaf, location)) is not None:
        try:
            return _local(location, path, os.lstat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
    if isinstance(leaf, PyArrowFileIO):
        return _stat_arrow(leaf, location)
    if hasattr(leaf, "get_fs"):
        return _stat_fsspec(leaf, location)
    raise UnsupportedError(f"{type(leaf).__name__} cannot tell what lies at {location}")


def is_local(io: FileIO, location: str) -> bool:
    """Whether the FileIO finds the location on this machine."""
    return local_path(io, location) is not None


def local_path(io: FileIO, location: str) -> str | None:
    """The path where the FileIO finds a location on this machine; None for a location elsewhere."""
    return _local_path(leaf_of(io, location), location)


def _local_path(leaf: FileIO, location: str) -> str | None:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if isinstance(leaf, PyArrowFileIO):
        scheme, _, path = leaf.parse_location(location, leaf.properties)
        return path if scheme == LOCAL else None
    scheme, _, path = split(location)
    return path if hasattr(leaf, "get_fs") and scheme.lower() in {"", LOCAL} else None


def leaf_of(io: FileIO, location: str) -> FileIO:
    """The FileIO of PyIceberg's that opens this location in the end."""
    at: Any = io
    while True:
        if isinstance(at, VendedFileIO | LentFileIO):
            at = at.io(location)
        elif hasattr(at, "inner"):
            at = at.inner
        else:
            found: FileIO = at
            return found


# -- this machine's file system ---------------------------------------------------------------------


def _list_local(location: str, top: str) -> Iterator[Listed]:
    try:
        with os.scandir(top) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return  # there is none, or it was removed meanwhile
    for entry in found:
        name = f"{location}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _list_local(name, entry.path)
            continue
        try:
            about = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # deleted meanwhile
        yield _local(name, entry.path, about)


def _local(location: str, path: str, about: os.stat_result) -> Listed:
    target, problem = None, oddity(location)
    if stat.S_ISLNK(about.st_mode):
        target = os.path.realpath(path)
        problem = f"is a link to {target}"
    elif not stat.S_ISREG(about.st_mode):
        problem = "is a folder" if stat.S_ISDIR(about.st_mode) else "is no regular file"
    modified = datetime.fromtimestamp(about.st_mtime, UTC)
    return Listed(location, about.st_size, modified, f"{about.st_dev}:{about.st_ino}", problem, target)


# -- PyArrow ----------------------------------------------------------------------------------------


def _arrow_place(io: Any, location: str) -> tuple[str, str, str]:
    scheme, netloc, path = io.parse_location(location, io.properties)
    container, at, _ = netloc.partition("@")
    if at and FAMILIES.get(scheme, scheme) == AZURE and "adls.account-name" in io.properties:
        return scheme, container, container + path.removeprefix(netloc)  # PyArrow has the account from its properties
    return scheme, netloc, path


def _list_arrow(io: Any, location: str) -> Iterator[Listed]:
    from pyarrow.fs import FileSelector, FileType

    scheme, netloc, path = _arrow_place(io, location)
    path = path.rstrip("/")
    store = io.fs_by_scheme(scheme, netloc)
    for info in store.get_file_info(FileSelector(path, recursive=True, allow_not_found=True)):
        if info.type != FileType.Directory and info.path.startswith(f"{path}/"):
            yield _listed(_joined(location, info.path, path), info.size or 0, info.mtime)


def _stat_arrow(io: Any, location: str) -> Listed | None:
    from pyarrow.fs import FileType

    scheme, netloc, path = _arrow_place(io, location)
    info = io.fs_by_scheme(scheme, netloc).get_file_info(path)
    if info.type == FileType.NotFound:
        return None
    found = _listed(location, info.size or 0, info.mtime)
    return found._replace(problem="is a folder") if info.type == FileType.Directory else found


# -- fsspec -----------------------------------------------------------------------------------------


def _list_fsspec(io: Any, location: str) -> Iterator[Listed]:
    store, root = _store(io, location)
    store.invalidate_cache()  # a store of fsspec remembers what it has listed
    listed = store.find(location, detail=True)
    store.invalidate_cache()
    for path, info in listed.items():
        if path.startswith(f"{root}/"):  # hr/people2 begins with hr/people, and is not below it
            yield _described(_joined(location, path, root), info)


def _stat_fsspec(io: Any, location: str) -> Listed | None:
    store, _ = _store(io, location)
    store.invalidate_cache()
    try:
        info = store.info(location)
    except FileNotFoundError:
        return None
    found = _described(location, info)
    return found._replace(problem="is a folder") if info.get("type") == "directory" else found


def _store(io: Any, location: str) -> tuple[Any, str]:
    scheme, authority, path = split(location)
    scheme = scheme.lower() or LOCAL
    is_azure = FAMILIES.get(scheme, scheme) == AZURE
    store = io.get_fs(scheme, authority.rpartition("@")[2].lower()) if is_azure else io.get_fs(scheme)
    container = authority.partition("@")[0]  # an account of Azure is not part of a path
    return store, f"{container}{path}".rstrip("/")


def _described(location: str, info: Any) -> Listed:
    modified = info.get("LastModified") or info.get("mtime") or info.get("last_modified")
    if isinstance(modified, int | float):
        modified = datetime.fromtimestamp(modified, UTC)
    return _listed(location, int(info["size"] or 0), modified)._replace(
        mark=str(info.get("ETag") or info.get("etag") or "")
    )


def _listed(location: str, size: int, modified: datetime | None) -> Listed:
    if modified is not None and modified.tzinfo is None:
        modified = modified.replace(tzinfo=UTC)
    return Listed(location, size, modified, problem=oddity(location))


def _joined(location: str, path: str, root: str) -> str:
    return location.rstrip("/") + "/" + path[len(root) :].lstrip("/")
