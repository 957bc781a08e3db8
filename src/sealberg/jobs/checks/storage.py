"""What lies in the table's location: plaintext, orphans, and older metadata files with keys of expired snapshots.

    a file that metadata name            checked elsewhere
    metadata.json                        older than the current one: does it hold keys of expired snapshots?
    AGS1 or an encrypted Parquet file    an orphan, if it is old enough; younger files may belong to a commit
    anything else                        plaintext, whatever its age

Checksum files of Hadoop (.name.crc) and version-hint.text hold no data and are accepted.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import FormatError, SealbergError
from sealberg.files.file_io import ENCRYPTED_MAGICS, METADATA_SUFFIXES, naming
from sealberg.files.listing import list_files
from sealberg.files.locations import normal
from sealberg.jobs.checks.history import check_past
from sealberg.jobs.checks.outcome import reason_of
from sealberg.jobs.checks.past import document, folders
from sealberg.jobs.codes import PLAINTEXT
from sealberg.keys.keyring import KEY_TIMESTAMP
from sealberg.metadata.statistics import STATISTICS_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO

    from sealberg.files.listing import Listed
    from sealberg.files.locations import Locations
    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.jobs.checks.table_state import TableState
    from sealberg.metadata.table_metadata import V3TableMetadata

CRC_MAGIC: Final = b"crc\x00"


def check_storage(
    state: TableState,
    named: Locations,
    outcome: Outcome,
    orphan_age: timedelta,
    *,
    names_complete: bool,
) -> int:
    """Check every file in the table's folders; returns how many files are too young to be called orphans.

    Args:
        named: the locations of all files that metadata name.
        names_complete: False if a manifest could not be read, so that an unknown file need not be an orphan.
    """
    recent = 0
    try:
        for listed in _listed(state):
            if listed.location in named:
                continue
            recent += _check_unnamed(state, listed, outcome, orphan_age, orphans=names_complete)
    except (SealbergError, OSError) as error:
        outcome.skip("files that no metadata names", reason_of(error))
    return recent


def check_older_metadata(state: TableState, outcome: Outcome, named: Locations) -> None:
    """Check the older metadata files that the metadata log names, and add them to `named`."""
    newest = state.metadata.document
    for entry in state.metadata.metadata_log:
        location = entry.metadata_file
        if normal(location) == normal(_current(state)):
            continue
        try:
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
        outcome.count("metadata", stored=_size(state.storage, location), checked=0)
        if older is not None:
            check_past(newest, older, location, outcome)
            _check_old_keys(state.metadata, older, location, outcome)


def _current(state: TableState) -> str:
    assert state.table is not None
    return state.table.metadata_location


def _listed(state: TableState) -> Iterator[Listed]:
    metadata = state.metadata
    own = metadata.location.rstrip("/")
    yield from list_files(state.storage, own)
    for folder in sorted(set(folders(own, metadata.properties)) - {own}):
        if not normal(folder).startswith(f"{normal(own)}/") and normal(folder) != normal(own):
            yield from list_files(state.storage, folder)


def _check_unnamed(state: TableState, listed: Listed, outcome: Outcome, orphan_age: timedelta, *, orphans: bool) -> int:
    """One file that no metadata names; returns 1 if it is too young to be judged."""
    if listed.problem is not None:
        outcome.count("unreferenced", stored=listed.size)
        outcome.find("foreign", f"not a file of an Iceberg table: it {listed.problem}", listed.location)
        return 0
    return _check_unnamed_file(state, listed, outcome, orphan_age, orphans=orphans)


def _check_unnamed_file(
    state: TableState, listed: Listed, outcome: Outcome, orphan_age: timedelta, *, orphans: bool
) -> int:
    location = listed.location
    try:
        head = _head(state.storage, location)
    except FileNotFoundError:
        return 0  # removed meanwhile
    outcome.count("unreferenced", stored=listed.size)
    name = location.rpartition("/")[2]
    if (name.startswith(".") and name.endswith(".crc") and head == CRC_MAGIC) or name == "version-hint.text":
        return 0
    young = listed.modified is not None and datetime.now(UTC) - _aware(listed.modified) < orphan_age
    if not head and young:
        return 1  # created, and not written yet; or its writer was killed
    if location.endswith(METADATA_SUFFIXES):
        return _check_unnamed_metadata(state, listed, outcome)
    if head in ENCRYPTED_MAGICS:
        if orphans and not young:
            outcome.find("orphan", "no metadata names this encrypted file", location)
        return int(young)
    kind = next((kind for magic, kind in PLAINTEXT.items() if head.startswith(magic)), None)
    if kind is not None:
        outcome.find("plaintext", f"a plaintext {kind} file that no metadata names", location)
    else:
        outcome.find(
            "foreign", f"not a file of an Iceberg table: it begins with {head.hex(' ') or 'nothing'}", location
        )
    return 0


def _check_unnamed_metadata(state: TableState, listed: Listed, outcome: Outcome) -> int:
    try:
        found = document(state.storage, listed.location)
    except FormatError as error:
        outcome.find("foreign", f"named like a metadata file, but it does not parse: {error}", listed.location)
        return 0
    if found.get("table-uuid") != str(state.metadata.table_uuid):
        outcome.find("foreign", "the metadata file of another table", listed.location)
        return 0
    sequence = found.get("last-sequence-number")
    if isinstance(sequence, int) and sequence > state.metadata.last_sequence_number:
        return 1  # a commit that is in progress, or one that came later
    _check_old_keys(state.metadata, found, listed.location, outcome)
    return 0


def _check_old_keys(metadata: V3TableMetadata, older: dict[str, Any], location: str, outcome: Outcome) -> None:
    entries = older.get("encryption-keys")
    held = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    # Keys of manifest lists: not KEKs, and not keys of statistics files, which are deleted when they are replaced. A
    # statistics file that could not be deleted is an orphan.
    others = (KEY_TIMESTAMP, STATISTICS_PATH)
    lists = {str(entry.get("key-id")) for entry in held if not any(map((entry.get("properties") or {}).get, others))}
    expired = sorted(key_id for key_id in lists if key_id not in metadata.encryption_keys)
    if expired:
        many = f"{len(expired)} key{'' if len(expired) == 1 else 's'}"
        outcome.find(
            "old-keys", f"an older metadata file still holds {many} of expired snapshots; delete the file", location
        )


def _head(io: FileIO, location: str) -> bytes:
    with naming(location), io.new_input(location).open() as stream:
        return bytes(stream.read(4))


def _size(io: FileIO, location: str) -> int:
    return len(io.new_input(location))


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
