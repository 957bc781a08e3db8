"""Finds every object in a table's folders that holds `encryption-keys`, whatever its name.

    an AGS1 or encrypted Parquet file    sealed: not searched
    metadata.json, also compressed       parsed: of this table, or of another one
    any other object                     searched for the word, as it is and decompressed

Nobody vouches for what is found: an object is told by its content, and only this table's metadata are ever deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import FormatError
from sealberg.files.file_io import ENCRYPTED_MAGICS, naming
from sealberg.files.listing import list_files
from sealberg.files.locations import Locations
from sealberg.keys.keyring import KEY_TIMESTAMP
from sealberg.metadata.metadata_file import GZIP_MAGIC, max_bytes, parse, read_text
from sealberg.table.own_folders import own_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO

    from sealberg.table.catalog_table import CatalogTable

WORD: Final = b"encryption-keys"
PIECE: Final = 8 << 20


@dataclass(frozen=True)
class Searched:
    """One object.

    Attributes:
        has_keys: whether it holds encryption-keys.
        own: whether it is a metadata file of this table.
        master_keys: the master keys that open something by this file.
        snapshots: the snapshots that can be opened by this file.
        log: the metadata files that it names as older.
        sealed: it is encrypted, so it was not searched.
    """

    location: str
    size: int
    has_keys: bool = False
    own: bool = False
    master_keys: tuple[str, ...] = ()
    snapshots: frozenset[int] = frozenset()
    log: tuple[str, ...] = ()
    sealed: bool = False


def search(table: CatalogTable) -> Iterator[Searched]:
    """Every object below the table's folders, and the older metadata files that the table names elsewhere."""
    seen = Locations()
    for folder in own_folders(table.metadata):
        for listed in list_files(table.inner, folder):
            if seen.adds(listed.location):
                yield from _searched(table, listed.location, listed.size)
    for entry in table.metadata.metadata_log:
        if seen.adds(entry.metadata_file):
            yield from _searched(table, entry.metadata_file, 0)


def _searched(table: CatalogTable, location: str, size: int) -> Iterator[Searched]:
    try:
        with naming(location), table.inner.new_input(location).open() as stream:
            head = bytes(stream.read(4))
        if head in ENCRYPTED_MAGICS:
            yield Searched(location, size, sealed=True)
        elif head[:1] == b"{" or head[:2] == GZIP_MAGIC:
            yield _metadata(table, location, size)
        else:
            yield Searched(location, size, has_keys=_holds_word(table.inner, location))
    except FileNotFoundError:
        return  # deleted meanwhile, or before


def _metadata(table: CatalogTable, location: str, size: int) -> Searched:
    try:
        text = read_text(table.inner.new_input(location), max_bytes(table.catalog.properties))
    except FormatError:  # too large, or not what its first bytes promise
        return Searched(location, size, has_keys=_holds_word(table.inner, location))
    try:
        document = parse(text, location)
    except FormatError:
        return Searched(location, size, has_keys=WORD in text)
    keys = [entry for entry in _list(document, "encryption-keys") if isinstance(entry, dict)]
    ids = {str(entry.get("key-id")) for entry in keys}
    masters = {str(entry.get("encrypted-by-id")) for entry in keys if KEY_TIMESTAMP in (entry.get("properties") or {})}
    snapshots = (each for each in _list(document, "snapshots") if isinstance(each, dict))
    opened = {each["snapshot-id"] for each in snapshots if each.get("key-id") in ids and "snapshot-id" in each}
    older = (each for each in _list(document, "metadata-log") if isinstance(each, dict))
    return Searched(
        location,
        size,
        has_keys=WORD in text,
        own=document.get("table-uuid") == str(table.metadata.table_uuid),
        master_keys=tuple(sorted(masters)),
        snapshots=frozenset(opened),
        log=tuple(str(each.get("metadata-file")) for each in older),
    )


def _list(document: dict[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    return found if isinstance(found, list) else []


def _holds_word(io: FileIO, location: str) -> bool:
    """Whether the bytes contain the word; also across the border of two pieces."""
    rest = b""
    with naming(location), io.new_input(location).open() as stream:
        while piece := bytes(stream.read(PIECE)):
            if WORD in rest + piece:
                return True
            rest = piece[-len(WORD) :]
    return False
