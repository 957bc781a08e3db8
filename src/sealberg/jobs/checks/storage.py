"""What lies in the table's location: plaintext, orphans, and older metadata files with keys of expired snapshots.

    a file that metadata name            checked elsewhere
    metadata.json                        older than the current one: does it hold keys of expired snapshots?
    AGS1 or an encrypted Parquet file    an orphan, if it is old enough; younger files may belong to a commit
    anything else                        plaintext, whatever its age

Checksum files of Hadoop (.name.crc) and version-hint.text hold no data and are accepted.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import NoSuchTableError

from sealberg.errors import FormatError, NothingThereError, SealbergError, UnsupportedError
from sealberg.files.file_io import ENCRYPTED_MAGICS, METADATA_SUFFIXES, naming
from sealberg.files.identify import SAMPLE, plaintext_kind
from sealberg.files.listing import list_files
from sealberg.files.locations import normal, within
from sealberg.files.object_versions import folder_objects
from sealberg.jobs.checks.forms import is_checksum, is_hint, is_sealed
from sealberg.jobs.checks.history import check_past
from sealberg.jobs.checks.outcome import reason_of
from sealberg.jobs.checks.past import document, folders
from sealberg.jobs.checks.unlogged import is_explained, is_newer
from sealberg.jobs.removal import journal
from sealberg.jobs.removal.orphan_search import named_files
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import selected_tables
from sealberg.keys.keyring import timestamp_in
from sealberg.metadata.statistics import STATISTICS_PATH
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO

    from sealberg.files.listing import Listed
    from sealberg.files.locations import Locations
    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.jobs.checks.table_state import TableState
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.table.reachable import Reach

# What anybody can read, by its name; its bytes may be those of a compressed or cut file.
TEXTS: Final = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
    ".orc": "ORC",
}


@dataclass(frozen=True)
class Unnamed:
    """What lies in storage and is neither named nor a finding.

    Attributes:
        in_flight: young files that have the form of sealed files: they may belong to a commit that is in progress; and
            older ones, if a manifest could not be read.
        shared_with: other tables of the catalog that have files in the same folders.
    """

    in_flight: tuple[str, ...] = ()
    shared_with: tuple[str, ...] = ()


def check_storage(
    state: TableState,
    named: Locations,
    outcome: Outcome,
    orphan_age: timedelta,
    *,
    names_complete: bool,
    more: Sequence[str] = (),
    leave: Sequence[str] = (),
) -> Unnamed:
    """Check every file in the table's folders.

    Args:
        named: the locations of all files that metadata name.
        names_complete: False if a manifest could not be read, so that an unknown file need not be an orphan.
        more: folders that the table has had, which are checked, too.
        leave: folders of other tables in these.
    """
    try:
        unnamed: list[Listed] = []
        for listed in _listed(state, more, leave):
            if listed.location not in named:
                unnamed.append(listed)
            elif listed.target is not None:
                text = f"a link to {listed.target} in the place of a file that the table names"
                outcome.find("foreign", text, listed.location)
        neighbours = _neighbours(state, unnamed, outcome)
        in_flight: list[str] = []
        for listed in unnamed:
            if any(listed.location in each for each in neighbours.values()):
                _check_neighbours(state.storage, listed, outcome)
            elif _check_unnamed(state, listed, outcome, orphan_age, orphans=names_complete):
                in_flight.append(listed.location)
        return Unnamed(tuple(in_flight), tuple(neighbours))
    except (SealbergError, OSError) as error:
        outcome.skip("files that no metadata names", reason_of(error))
        return Unnamed()


def _neighbours(state: TableState, unnamed: list[Listed], outcome: Outcome) -> dict[str, Reach]:
    """The files of other tables of the catalog in the same folders, such as the old one after `change-master`."""
    table = state.table
    foreign = set()
    for listed in unnamed:
        if listed.problem is None and listed.location.endswith(METADATA_SUFFIXES):
            with suppress(SealbergError, OSError):
                foreign.add(document(state.storage, listed.location).get("table-uuid"))
    foreign.discard(str(state.metadata.table_uuid))
    found: dict[str, Reach] = {}
    for name, other in _tables(table) if foreign and isinstance(table, CatalogTable) else ():
        if str(other.metadata.table_uuid) in foreign and other.encryption is not None:
            try:
                found[name] = named_files(other, Threads())
            except (SealbergError, OSError) as error:
                outcome.skip(f"the files of the table {name} in the same folder", reason_of(error))
    return found


def _check_neighbours(io: FileIO, listed: Listed, outcome: Outcome) -> None:
    """A file that another table names: whose it is does not matter if it lies here in the clear."""
    with suppress(FileNotFoundError):
        if not listed.location.endswith(METADATA_SUFFIXES) and listed.problem is None:
            head = _head(io, listed.location)
            if head not in ENCRYPTED_MAGICS:
                _tell_foreign(io, listed.location, head, outcome)


def _tables(table: CatalogTable) -> Iterator[tuple[str, CatalogTable]]:
    try:
        with selected_tables(table.catalog, (), every=True) as (catalog, identifiers):
            for identifier in identifiers:
                with suppress(SealbergError, OSError, NoSuchTableError):
                    other = catalog.load_table(identifier)
                    if isinstance(other, CatalogTable):
                        yield ".".join(identifier), other
    except NothingThereError:
        return


def check_older_metadata(state: TableState, outcome: Outcome, named: Locations) -> None:
    """Check the older metadata files that the metadata log names, and add them to `named`."""
    newest = state.metadata.document
    for entry in state.metadata.metadata_log:
        location = entry.metadata_file
        if normal(location) == normal(_current(state)):
            continue
        try:
            size = _size(state.storage, location)
            older = document(state.storage, location)
        except FileNotFoundError:
            continue  # writers may delete older metadata files
        except FormatError as error:
            outcome.find("metadata", f"an older metadata file does not parse: {error}", location)
            older = None
        except (SealbergError, OSError) as error:
            outcome.skip(location, reason_of(error))
            continue
        named.add(location)
        outcome.count("metadata", stored=size, checked=0)
        if older is not None:
            check_past(newest, older, location, outcome)
            _check_old_keys(state.metadata, older, location, outcome)


def _current(state: TableState) -> str:
    assert state.table is not None
    return state.table.metadata_location


def _listed(state: TableState, more: Sequence[str], leave: Sequence[str]) -> Iterator[Listed]:
    metadata = state.metadata
    own = metadata.location.rstrip("/")
    yield from _all_in(state.storage, own)
    now = [own]
    for folder in sorted(set(folders(own, metadata.properties)) - {own}):
        if not normal(folder).startswith(f"{normal(own)}/") and normal(folder) != normal(own):
            now.append(folder)
            yield from _all_in(state.storage, folder)
    for folder in more:
        for listed in _all_in(state.storage, folder):
            if not any(within(listed.location, each) for each in (*now, *leave)):
                yield listed
        now.append(folder)


def _all_in(io: FileIO, folder: str) -> Iterator[Listed]:
    """All objects of a folder, those with the name of a folder, too, where the store can be asked for them."""
    yield from list_files(io, folder)
    with suppress(UnsupportedError):
        yield from folder_objects(io, folder)


def _check_unnamed(
    state: TableState, listed: Listed, outcome: Outcome, orphan_age: timedelta, *, orphans: bool
) -> bool:
    """One file that no metadata names; returns whether it is too young to be judged."""
    location, io = listed.location, state.storage
    if listed.problem is not None:
        outcome.count("unreferenced", stored=listed.size)
        outcome.find("foreign", f"not a file of an Iceberg table: it {listed.problem}", location)
        return False
    try:
        head = _head(io, location)
    except FileNotFoundError:
        return False  # removed meanwhile
    name = location.rpartition("/")[2]
    if name == "version-hint.text" or (name.startswith(".") and name.endswith(".crc")):
        _check_helper(io, listed, outcome)
        return False
    outcome.count("unreferenced", stored=listed.size)
    young = listed.modified is not None and datetime.now(UTC) - _aware(listed.modified) < orphan_age
    if young and not head:
        return True  # created, and not written yet; or its writer was killed
    if location.endswith(journal.SUFFIX):
        _check_journal(state, location, outcome)
    elif location.endswith(METADATA_SUFFIXES):
        _check_unnamed_metadata(state, listed, outcome)
    elif head in ENCRYPTED_MAGICS and is_sealed(io, location, listed.size):
        if young or not orphans:
            return True  # the finding about the unreadable manifest says that its files were not checked
        outcome.find("orphan", "no metadata names this encrypted file", location)
    else:
        _tell_foreign(io, location, head, outcome)
    return False


def _check_journal(state: TableState, location: str, outcome: Outcome) -> None:
    """The journal of an expiry that has not ended; the next `expire` goes on where it stopped."""
    if not isinstance(state.table, CatalogTable):
        outcome.skip(location, "the journal of an expiry is opened with the catalog of its table")
        return
    try:
        journal.read(state.table, location)
    except FormatError as error:
        outcome.find("foreign", f"named like the journal of an expiry, and it is none: {error}", location)
    except (SealbergError, OSError) as error:
        outcome.find("foreign", f"the journal of an expiry that no key of the table opens: {error}", location)


def _tell_foreign(io: FileIO, location: str, head: bytes, outcome: Outcome) -> None:
    """A file that is not sealed, without a byte of it: it may hold rows."""
    name = location.rpartition("/")[2].lower()
    sealed = head in ENCRYPTED_MAGICS
    kind = None if sealed else plaintext_kind(_head(io, location, SAMPLE))
    if kind in (None, "text") and head and not sealed:
        kind = next((each for suffix, each in TEXTS.items() if name.endswith(suffix)), kind)
    if kind is not None:
        outcome.find("plaintext", f"a plaintext {kind} file that no metadata names", location)
    elif sealed:
        outcome.find("foreign", "it begins like a sealed file, and it is none", location)
    else:
        outcome.find("foreign", f"not a file of an Iceberg table{'' if head else ': it is empty'}", location)


def _check_helper(io: FileIO, listed: Listed, outcome: Outcome) -> None:
    """A file of Hadoop, which holds no data if it holds what its name says."""
    location = listed.location
    if location.endswith("/version-hint.text"):
        if not is_hint(io, location):
            outcome.find("foreign", "a version-hint.text that holds more than a version", location)
        return
    found = is_checksum(io, location)
    if found is False:
        outcome.find("foreign", "named like a checksum file, and it holds something else", location)
    elif found is None:
        outcome.count("unreferenced", stored=listed.size)
        outcome.find("foreign", "the checksums of a file that does not exist", location)


def _check_unnamed_metadata(state: TableState, listed: Listed, outcome: Outcome) -> None:
    try:
        found = document(state.storage, listed.location)
    except FormatError as error:
        outcome.find("foreign", f"named like a metadata file, but it does not parse: {error}", listed.location)
        return
    if found.get("table-uuid") != str(state.metadata.table_uuid):
        outcome.find("foreign", "the metadata file of another table", listed.location)
        return
    if is_newer(state, found):
        text = (
            "storage has newer metadata of the table than the catalog: the catalog was restored from a backup, or a "
            "commit has not ended. Remove nothing: `sealberg trust` shows the differences"
        )
        outcome.find("catalog-behind", text, listed.location)
        return
    _check_old_keys(state.metadata, found, listed.location, outcome)
    if not is_explained(state, found):
        text = "a metadata file that the log does not name, and that says what the newest does not say"
        outcome.find("unlogged", text, listed.location)


def _check_old_keys(metadata: V3TableMetadata, older: dict[str, Any], location: str, outcome: Outcome) -> None:
    entries = older.get("encryption-keys")
    held = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    # Keys of manifest lists: not KEKs, and not keys of statistics files, which are deleted when they are replaced. A
    # statistics file that could not be deleted is an orphan.
    own = [(entry, entry.get("properties") or {}) for entry in held]
    lists = {
        str(entry.get("key-id")) for entry, given in own if timestamp_in(given) is None and STATISTICS_PATH not in given
    }
    expired = sorted(key_id for key_id in lists if key_id not in metadata.encryption_keys)
    if expired:
        many = f"{len(expired)} key{'' if len(expired) == 1 else 's'}"
        outcome.find(
            "old-keys", f"an older metadata file still holds {many} of expired snapshots; delete the file", location
        )


def _head(io: FileIO, location: str, length: int = 4) -> bytes:
    with naming(location), io.new_input(location).open() as stream:
        return bytes(stream.read(length))


def _size(io: FileIO, location: str) -> int:
    return len(io.new_input(location))


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
