"""The metadata.json files before the current one: a reader of them has the keys of snapshots that are expired.

    metadata-log of the current metadata ─┐
    the metadata folder in storage       ─┴──> OlderMetadata: how many expired keys the file holds

A file is older if the current metadata log names it, or if its table is the same and its number (00041-...), its
sequence number and its time are below those of the current file. So no file of a commit in progress is taken for an
older one: such a file has a higher number, and its commit may still succeed.

Storage is not trusted: what an older file says makes no other file deletable.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import (
    FormatError,
    KeyringError,
    KmsUnavailableError,
    RemovalRefusedError,
    SealbergError,
    UnsupportedError,
)
from sealberg.files.file_io import METADATA_SUFFIXES, naming
from sealberg.files.listing import list_beside, list_files
from sealberg.files.locations import Locations, normal, oddity
from sealberg.jobs.removal.former_folders import metadata_places
from sealberg.jobs.runner import Threads
from sealberg.keys.keyring import Keyring, timestamp_in
from sealberg.metadata.metadata_file import max_bytes, parse, read_text
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.metadata.table_places import PATHS
from sealberg.table.own_folders import metadata_folder, own_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sealberg.files.listing import Listed
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.table.catalog_table import CatalogTable

READERS: Final = 8
TURNS: Final = 5
PAUSE_S: Final = 0.2
DATA_PATHS: Final = tuple(name for name in PATHS if name != "write.metadata.path")
_KEYS: Final = b'"encryption-keys"'
_KEY_LIST: Final = re.compile(_KEYS + rb"\s*:\s*(?=\[)")
_HEAD: Final = 4096
_UUID: Final = re.compile(rb'"table-uuid"\s*:\s*"([0-9a-fA-F-]{36})"')
_SEQUENCE: Final = re.compile(rb'"last-sequence-number"\s*:\s*(\d{1,19})\b')
_UPDATED: Final = re.compile(rb'"last-updated-ms"\s*:\s*(\d{1,19})\b')
_NUMBER: Final = re.compile(r"/v?(\d+)[-.][^/]*$")


@dataclass(frozen=True, slots=True)
class _Task:
    location: str
    size: int | None
    logged: bool


@dataclass(frozen=True)
class OlderMetadata:
    """A metadata file before the current one.

    Attributes:
        expired_keys: how many keys it holds that the current metadata have no more.
        error: why the file could not be read; None if it was.
        in_progress: the file may belong to a commit that is not finished, so it is not called older.
        unproved: no log names the file, and no expired key in it opens: anybody may have put it there.
    """

    location: str
    size: int | None
    expired_keys: int = 0
    error: str | None = None
    in_progress: bool = False
    unproved: bool = False


def older_metadata(
    table: CatalogTable, *known: V3TableMetadata, listed: Iterable[Listed] | None = None, keks: bool = False
) -> Iterator[OlderMetadata]:
    """Every metadata file of this table before the current one, and those that may belong to a commit in progress.

    Args:
        known: metadata whose keys are known, besides the current metadata; this only saves time.
        listed: what `in_metadata_folders` has found.
        keks: count KEKs, too, that the table has no more: with a copy of other metadata in a backup, such a KEK opens
            the snapshots that it has sealed.
    """
    keys = frozenset(entry.key_id for metadata in (table.metadata, *known) for entry in metadata.encryption_keys)
    read = partial(_read, table, keys, keks)
    tasks = _tasks(table, in_metadata_folders(table) if listed is None else listed)
    yield from (found for found in Threads(READERS).run(read, tasks) if found is not None)


def in_metadata_folders(table: CatalogTable, more: Iterable[str] = ()) -> tuple[Listed, ...]:
    """The files of normal names beside the current metadata file and where the next one will be, and beside every
    metadata file and manifest list that the metadata name: the table may have been moved.

    Args:
        more: other folders in which there were metadata files.
    """
    folders = {metadata_folder(table.metadata), table.metadata_location.rpartition("/")[0], *more}
    folders.update(each for each in metadata_places(table.metadata) if oddity(each) is None)
    found: dict[str, Listed] = {}
    tops = {normal(each): each for each in sorted(folders)}
    for folder in (each for place, each in tops.items() if not any(place.startswith(f"{top}/") for top in tops)):
        with contextlib.suppress(UnsupportedError):  # a FileIO that cannot list: the log is all that is known
            found.update({each.location: each for each in list_files(table.inner, folder) if each.problem is None})
    return tuple(found.values())


def metadata_below(table: CatalogTable) -> tuple[Listed, ...]:
    """The metadata files in all folders of the table, whatever their names: a later commit may have gone to another
    `write.metadata.path`. The data folders of a store of objects are not listed."""
    metadata = table.metadata
    data = [
        f"{metadata.location.rstrip('/')}/data",
        *(metadata.properties[name] for name in DATA_PATHS if metadata.properties.get(name)),
    ]
    found: dict[str, Listed] = {}
    for folder in own_folders(metadata):
        with contextlib.suppress(UnsupportedError):
            found.update(
                (each.location, each)
                for each in list_beside(table.inner, folder, data)
                if each.problem is None and each.location.endswith(METADATA_SUFFIXES)
            )
    return tuple(found.values())


def refuse_newer(
    table: CatalogTable,
    listed: Iterable[Listed],
    *,
    but_shorter: bool = False,
    but_own: Callable[[dict[str, Any]], bool] = lambda _: False,
) -> None:
    """Refuse to remove files while a metadata file is there that is newer than the catalog's.

    Such a file is the work of another catalog, or the catalog was set back, as from a backup: in both cases the files
    that would be removed may be needed there. A commit of another process may be under way: the table is loaded again
    a few times before it is refused.

    Args:
        but_shorter: allow newer metadata without a snapshot or ref that the catalog's do not have. This is what an
            expiry leaves that was killed in its commit, and it needs no file that the catalog's metadata do not name.
        but_own: says of a snapshot that the catalog's metadata do not have whether the caller's own earlier run made
            it, which was killed in its commit.
    """
    for turn in range(TURNS):
        newer = next(
            (each for each in _newer(table, listed) if not (but_shorter and _is_shorter(table, each, but_own))), None
        )
        if newer is None:
            return
        if turn == TURNS - 1:
            raise RemovalRefusedError(
                f"{newer[0]} is a newer version of the table than {table.metadata_location}, which the catalog has: "
                "the catalog was set back, another catalog has the table too, or a commit was killed. Files that would "
                "be removed may be needed there. Find out which, or allow it if the table was set back on purpose "
                "(--allow-newer-metadata)"
            )
        time.sleep(PAUSE_S)
        table.refresh()


def _newer(table: CatalogTable, listed: Iterable[Listed]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The metadata files of this table whose number or sequence number is above the current one's."""
    current, logged = (
        number_of(table.metadata_location),
        Locations([table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]),
    )
    for each in listed:
        if not each.location.endswith(METADATA_SUFFIXES) or each.location in logged or not each.size:
            continue
        number = number_of(each.location)
        if number is not None and current is not None and number < current:
            continue
        try:
            document = _document(table, each.location)
        except (FormatError, FileNotFoundError):
            continue  # half a file, or deleted meanwhile
        sequence = document.get("last-sequence-number")
        is_later = isinstance(sequence, int) and sequence > table.metadata.last_sequence_number
        is_next = number is None or current is None or number > current
        if document.get("table-uuid") == str(table.metadata.table_uuid) and (is_later or is_next):
            yield each.location, document


def _is_shorter(
    table: CatalogTable, newer: tuple[str, dict[str, Any]], is_own: Callable[[dict[str, Any]], bool]
) -> bool:
    document, metadata = newer[1], table.metadata
    ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    refs = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    named = document.get("refs")
    theirs = named if isinstance(named, dict) else {}
    more = [each for each in _objects(document, "snapshots") if each.get("snapshot-id") not in ids]
    own = {each.get("snapshot-id") for each in more}
    return all(map(is_own, more)) and all(
        isinstance(ref, dict) and (refs.get(name) == ref.get("snapshot-id") or ref.get("snapshot-id") in own)
        for name, ref in theirs.items()
    )


def _tasks(table: CatalogTable, files: Iterable[Listed]) -> Iterator[_Task]:
    seen = Locations([table.metadata_location])
    logged = [entry.metadata_file for entry in table.metadata.metadata_log]
    folders = {metadata_folder(table.metadata), table.metadata_location.rpartition("/")[0]}
    listed = {each.location: each.size for each in files if each.location.endswith(METADATA_SUFFIXES)}
    sizes = {normal(location): size for location, size in listed.items()}
    for location in [*logged, *listed]:
        if seen.adds(location):
            is_logged = location in logged
            if is_logged and sizes and normal(location) not in sizes and _beside(location, folders):
                continue  # deleted already
            size = sizes.get(normal(location))
            if size == 0 and not is_logged:
                continue  # its writer was killed before the first byte: the file holds no key, and is an orphan
            yield _Task(location, size, is_logged)


def _beside(location: str, folders: set[str]) -> bool:
    return normal(location).rpartition("/")[0] in {normal(folder) for folder in folders}


def _read(table: CatalogTable, known: frozenset[str], keks: bool, task: _Task) -> OlderMetadata | None:
    """What the file holds; None if it does not exist, or is of another table in the same folder."""
    try:
        with naming(task.location):
            text = read_text(table.inner.new_input(task.location), max_bytes(table.catalog.properties))
        document = _skimmed(text, known) or parse(text, task.location)
    except FileNotFoundError:
        return None
    except (SealbergError, OSError) as error:
        return OlderMetadata(task.location, task.size, error=f"{type(error).__name__}: {error}")
    if document.get("table-uuid") != str(table.metadata.table_uuid):
        return None
    in_progress = not task.logged and not _is_before(task.location, document, table)
    expired = _expired_keys(document, table.metadata, keks=keks)
    unproved = bool(expired) and not task.logged and not in_progress and not _opens(document, expired, table)
    return OlderMetadata(task.location, task.size, len(expired), in_progress=in_progress, unproved=unproved)


def _skimmed(text: bytes, known: frozenset[str]) -> dict[str, Any] | None:
    """Only the members that matter, without the snapshots, if all keys in the file are known; None if it must be
    parsed. Snapshots are most of a file, a table has as many older files as commits, and the key of a snapshot that is
    not known is not known either."""
    found = [pattern.search(text, 0, _HEAD) for pattern in (_UUID, _SEQUENCE, _UPDATED)]
    begun = _KEY_LIST.search(text)
    if None in found or begun is None or text.count(_KEYS) != 1:
        return None
    uuid, sequence, updated = [each[1] for each in found if each is not None]
    try:
        keys, _ = json.JSONDecoder().raw_decode(text[begun.end() :].decode())
    except ValueError:
        return None
    if any(not isinstance(entry, dict) or entry.get("key-id") not in known for entry in keys):
        return None
    return {
        "table-uuid": uuid.decode(),
        "last-sequence-number": int(sequence),
        "last-updated-ms": int(updated),
        "encryption-keys": keys,
    }


def _document(table: CatalogTable, location: str) -> dict[str, Any]:
    with naming(location):
        return parse(read_text(table.inner.new_input(location), max_bytes(table.catalog.properties)), location)


def _expired_keys(document: dict[str, Any], current: V3TableMetadata, *, keks: bool) -> list[str]:
    """The ids of the keys that are in the document and that the current metadata have no more."""
    found = (
        str(entry.get("key-id"))
        for entry in _objects(document, "encryption-keys")
        if keks or timestamp_in(entry.get("properties")) is None
    )
    return [key_id for key_id in found if key_id not in current.encryption_keys]


def _opens(document: dict[str, Any], expired: list[str], table: CatalogTable) -> bool:
    """Whether an expired key of the document opens under the table's master key, so that a writer of the table has
    written it. A KMS that does not answer is an error: what is not known now may be known later."""
    assert table.encryption is not None, "only encrypted metadata have keys"
    try:
        ring = Keyring.from_json(document.get("encryption-keys"))
    except KeyringError:
        return False
    for key_id in expired:
        try:
            entry = ring.get(key_id)
            if entry is not None and entry.timestamp is not None:
                table.encryption.prove_kek(ring, entry)
            else:
                table.encryption.open_list_key(ring, key_id)
        except KmsUnavailableError:
            raise
        except SealbergError:
            continue
        return True
    return False


def _objects(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    held = document.get(name)
    return [entry for entry in held if isinstance(entry, dict)] if isinstance(held, list) else []


def _is_before(location: str, document: dict[str, Any], table: CatalogTable) -> bool:
    current = table.metadata
    own, its = number_of(table.metadata_location), number_of(location)
    sequence, updated = document.get("last-sequence-number"), document.get("last-updated-ms")
    return (
        own is not None
        and its is not None
        and its < own
        and isinstance(sequence, int)
        and sequence <= current.last_sequence_number
        and isinstance(updated, int)
        and updated <= current.last_updated_ms
    )


def number_of(location: str) -> int | None:
    found = _NUMBER.search(location)
    return int(found[1]) if found else None
