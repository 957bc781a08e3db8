"""PyIceberg's two FileIOs, without what they do to a location on the way to the object.

PyArrowFileIO   parses URLs: it cuts `x#1` and `x?1`, drops line breaks, and takes a host in `file:` for a folder
FsspecFileIO    deletes by pattern: `x[1].parquet` and `x*` are other files

exact(io) ──> a FileIO whose new_input, new_output and delete reach the object of that very name, or none
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT

from sealberg.errors import LocationError
from sealberg.files.locations import AZURE, FAMILIES, HADOOP, LOCAL, split

if TYPE_CHECKING:
    from pyiceberg.io import FileIO


class ExactArrowFileIO(PyArrowFileIO):
    """Finds by its whole name what PyIceberg's parser of URLs would cut."""

    @staticmethod
    def parse_location(location: str, properties: dict[str, Any] = EMPTY_DICT) -> tuple[str, str, str]:
        scheme, authority, path = split(location)
        if not scheme:
            default = properties.get("DEFAULT_SCHEME", LOCAL), properties.get("DEFAULT_NETLOC", "")
            return *default, path if path.startswith("/") else str(Path(path).absolute())
        if scheme.lower() == LOCAL:
            if authority or not path.startswith("/"):
                found = f"names the host {authority}" if authority else "is relative"
                raise LocationError(
                    f"the location {str(location)[:300]!r} {found}, expected file:/ and an absolute path"
                )
            return LOCAL, "", path
        return scheme.lower(), authority, path if scheme.lower() in HADOOP else f"{authority}{path}"


class ExactFsspecFileIO(FsspecFileIO):
    """Deletes one file, where `rm` of fsspec takes a name for a pattern."""

    def delete(self, location: str | InputFile | OutputFile) -> None:
        place = str(location.location if isinstance(location, InputFile | OutputFile) else location)
        scheme, authority, _ = split(place)
        scheme = scheme.lower() or LOCAL
        hosts = [authority.rpartition("@")[2].lower()] if FAMILIES.get(scheme, scheme) == AZURE else []
        self.get_fs(scheme, *hosts).rm_file(place)


def exact(io: FileIO) -> FileIO:
    """The FileIO with exact locations; one of another kind, whose ways are its own, as it is."""
    kind = {PyArrowFileIO: ExactArrowFileIO, FsspecFileIO: ExactFsspecFileIO}.get(type(io))
    return io if kind is None else kind(io.properties)
