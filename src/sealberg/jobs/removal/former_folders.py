"""The folders that a table has had: SET LOCATION and write.metadata.path leave the files of earlier times behind.

    metadata_places(metadata)   folders around the metadata files and manifest lists that metadata name; reads nothing
    former_folders(table, io)   all of these, and the folders that older metadata files name, which lie in them
    others_inside(table, ...)   the folders of other tables in these

An older metadata file is not vouched for. What it names is searched, and nothing there is deleted for its name.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sealberg.errors import SealbergError
from sealberg.files.file_io import METADATA_SUFFIXES, naming
from sealberg.files.listing import list_files
from sealberg.files.locations import normal, oddity, within
from sealberg.metadata.metadata_file import max_bytes, parse, read_text
from sealberg.metadata.table_places import PATHS
from sealberg.table.own_folders import neighbours, own_folders

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


def metadata_places(metadata: TableMetadata) -> tuple[str, ...]:
    """The folders of the metadata files and manifest lists that the metadata name."""
    named = [entry.metadata_file for entry in metadata.metadata_log]
    named += [snapshot.manifest_list for snapshot in metadata.snapshots]
    return _once(each.rpartition("/")[0] for each in map(str, named))


def former_folders(table: Table, io: FileIO) -> tuple[str, ...]:
    """Every folder that metadata of the table have named and that is in none of its folders of today."""
    own, uuid = own_folders(table.metadata), str(table.metadata.table_uuid)
    found: list[str] = []
    read: set[str] = set()
    waiting = [entry.metadata_file for entry in table.metadata.metadata_log]
    folders = [*own, *metadata_places(table.metadata)]
    while waiting or folders:
        if folders:
            folder = folders.pop().rstrip("/")
            if folder in own or _is_new(folder, own, found):
                found += [] if folder in own else [folder]
                listed = (each for each in list_files(io, folder) if each.problem is None)
                waiting += [each.location for each in listed if each.location.endswith(METADATA_SUFFIXES)]
            continue
        location = waiting.pop()
        if normal(location) in read or not location.endswith(METADATA_SUFFIXES):
            continue
        read.add(normal(location))
        document = _document(table, io, location)
        if document.get("table-uuid") == uuid:
            folders += _named(document)
    return tuple(found)


def others_inside(table: Table, folders: Sequence[str]) -> list[str]:
    """The folders of other tables inside of folders that this table has had; a table may have come after this one."""
    if not folders:
        return []
    uuid = str(table.metadata.table_uuid)
    every = [folder for other in neighbours(table.catalog) for folder in other.folders if other.uuid != uuid]
    return [each for each in every if any(within(each, former) and not within(former, each) for former in folders)]


def _is_new(folder: str, own: Iterable[str], found: Iterable[str]) -> bool:
    is_place = oddity(folder) is None and bool(normal(folder).strip("/"))
    return is_place and not any(within(folder, each) for each in (*own, *found))


def _document(table: Table, io: FileIO, location: str) -> dict[str, Any]:
    with suppress(SealbergError, OSError), naming(location):
        return parse(read_text(io.new_input(location), max_bytes(table.catalog.properties)), location)
    return {}


def _named(document: dict[str, Any]) -> Iterator[str]:
    """The folders that a metadata file names: where the table was, and where its metadata files and lists are."""
    properties = document.get("properties")
    named = properties if isinstance(properties, dict) else {}
    yield from (each for each in (document.get("location"), *map(named.get, PATHS)) if isinstance(each, str) and each)
    for name, key in (("metadata-log", "metadata-file"), ("snapshots", "manifest-list")):
        held = document.get(name)
        each = (item.get(key) for item in held if isinstance(item, dict)) if isinstance(held, list) else ()
        yield from (place.rpartition("/")[0] for place in each if isinstance(place, str))


def _once(folders: Iterable[str]) -> tuple[str, ...]:
    return tuple({normal(each): each for each in folders if each}.values())
