"""Lists the files below a location, in any store that PyIceberg's two FileIOs reach.

list_files(io, "s3://lake/hr/salaries") ──> Listed(location, size, modified)
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlparse

from sealberg.errors import UnsupportedError
from sealberg.files.vended_io import VendedFileIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO


class Listed(NamedTuple):
    """A file in storage."""

    location: str
    size: int
    modified: datetime | None


def list_files(io: FileIO, location: str) -> Iterator[Listed]:
    """All files below a location; nothing if it does not exist. UnsupportedError if the FileIO cannot list."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    leaf = _leaf(io, location)
    if isinstance(leaf, PyArrowFileIO):
        yield from _list_arrow(leaf, location)
    elif hasattr(leaf, "get_fs"):
        yield from _list_fsspec(leaf, location)
    else:
        raise UnsupportedError(f"{type(leaf).__name__} cannot list files")


def _leaf(io: FileIO, location: str) -> FileIO:
    at: Any = io
    while True:
        if isinstance(at, VendedFileIO):
            at = at.io(location)
        elif hasattr(at, "inner"):
            at = at.inner
        else:
            found: FileIO = at
            return found


def _list_arrow(io: Any, location: str) -> Iterator[Listed]:
    from pyarrow.fs import FileSelector, FileType

    scheme, netloc, path = io.parse_location(location, io.properties)
    path = path.rstrip("/")
    store = io.fs_by_scheme(scheme, netloc)
    for info in store.get_file_info(FileSelector(path, recursive=True, allow_not_found=True)):
        if info.type == FileType.File and info.path.startswith(f"{path}/"):
            yield Listed(_joined(location, info.path, path), info.size, info.mtime)


def _list_fsspec(io: Any, location: str) -> Iterator[Listed]:
    uri = urlparse(location)
    store = io.get_fs(uri.scheme or "file", uri.hostname) if "abfs" in uri.scheme else io.get_fs(uri.scheme or "file")
    container = uri.netloc.partition("@")[0]  # an account of Azure is not part of a path
    root = f"{container}{uri.path}".rstrip("/")
    store.invalidate_cache()  # a store of fsspec remembers what it has listed
    listed = store.find(location, detail=True)
    store.invalidate_cache()
    for path, info in listed.items():
        if not path.startswith(f"{root}/"):
            continue  # hr/people2 begins with hr/people, and is not below it
        modified = info.get("LastModified") or info.get("mtime") or info.get("last_modified")
        if isinstance(modified, int | float):
            modified = datetime.fromtimestamp(modified, UTC)
        yield Listed(_joined(location, path, root), int(info["size"]), modified)


def _joined(location: str, path: str, root: str) -> str:
    return location.rstrip("/") + "/" + path[len(root) :].lstrip("/")
