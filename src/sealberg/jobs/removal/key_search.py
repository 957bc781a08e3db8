"""Finds the metadata files in a table's folders, of today and of the past, with the keys that they hold.

    a file that begins as JSON or gzip    parsed: of this table, or of another one, or no metadata at all
    any other object                      not metadata; `shred_proof` says what it is

Nobody vouches for what is found: a file is told by its content, and only this table's metadata are ever deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sealberg.errors import FormatError
from sealberg.files.file_io import naming
from sealberg.files.listing import list_files
from sealberg.files.locations import Locations
from sealberg.keys.keyring import timestamp_in
from sealberg.metadata.metadata_file import GZIP_MAGIC, max_bytes, parse, read_text
from sealberg.table.own_folders import own_folders

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sealberg.table.catalog_table import CatalogTable


@dataclass(frozen=True)
class Searched:
    """One object.

    Attributes:
        own: whether it is a metadata file of this table.
        master_keys: the master keys that open something by this file.
        snapshots: the snapshots that can be opened by this file.
        log: the metadata files that it names as older.
    """

    location: str
    size: int
    own: bool = False
    master_keys: tuple[str, ...] = ()
    snapshots: frozenset[int] = frozenset()
    log: tuple[str, ...] = ()


def search(table: CatalogTable, more: Iterable[str] = ()) -> Iterator[Searched]:
    """Every object below the table's folders, and the older metadata files that the table names elsewhere.

    Args:
        more: folders that the table has had.
    """
    seen = Locations()
    for folder in (*own_folders(table.metadata), *more):
        for listed in list_files(table.inner, folder):
            if listed.problem is None and seen.adds(listed.location):
                yield from _searched(table, listed.location, listed.size)
    for entry in table.metadata.metadata_log:
        if seen.adds(entry.metadata_file):
            yield from _searched(table, entry.metadata_file, 0)


def _searched(table: CatalogTable, location: str, size: int) -> Iterator[Searched]:
    try:
        with naming(location), table.inner.new_input(location).open() as stream:
            head = bytes(stream.read(2))
        if head[:1] != b"{" and head != GZIP_MAGIC:
            yield Searched(location, size)
        else:
            yield _metadata(table, location, size)
    except FileNotFoundError:
        return  # deleted meanwhile, or before


def _metadata(table: CatalogTable, location: str, size: int) -> Searched:
    try:
        document = parse(read_text(table.inner.new_input(location), max_bytes(table.catalog.properties)), location)
    except FormatError:  # too large, or not what its first bytes promise
        return Searched(location, size)
    keys = [entry for entry in _list(document, "encryption-keys") if isinstance(entry, dict)]
    ids = {str(entry.get("key-id")) for entry in keys}
    masters = {str(entry.get("encrypted-by-id")) for entry in keys if timestamp_in(entry.get("properties")) is not None}
    snapshots = (each for each in _list(document, "snapshots") if isinstance(each, dict))
    opened = {each["snapshot-id"] for each in snapshots if each.get("key-id") in ids and "snapshot-id" in each}
    older = (each for each in _list(document, "metadata-log") if isinstance(each, dict))
    return Searched(
        location,
        size,
        own=document.get("table-uuid") == str(table.metadata.table_uuid),
        master_keys=tuple(sorted(masters)),
        snapshots=frozenset(opened),
        log=tuple(str(each.get("metadata-file")) for each in older),
    )


def _list(document: dict[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    return found if isinstance(found, list) else []
