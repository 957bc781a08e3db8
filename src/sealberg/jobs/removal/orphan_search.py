"""What lies in the folders of a table and that no metadata names.

    listing ──> not named, old enough ──> metadata.json: whose is it? ─┐
                                      └─> another file ────────────────┴──> Orphans: to remove, or passed over

A file is passed over if it is younger than the given age, lies in the folder of another table, or is hidden (its name
or a folder's begins with `.` or `_`, as Iceberg Java has it). A metadata.json of another table in the folder shows
where the files of that table are. A metadata.json of the same table that is newer than the current one is the end of
a commit that failed, or the work of another catalog: in that case everything else may be needed there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import tee
from typing import TYPE_CHECKING, Any, NamedTuple

from sealberg.errors import FormatError, RemovalRefusedError
from sealberg.files.file_io import METADATA_SUFFIXES, naming
from sealberg.files.listing import list_files
from sealberg.files.locations import normal, normals, within
from sealberg.jobs.removal.neighbours import inside, neighbours
from sealberg.jobs.removal.older_metadata import number_of
from sealberg.jobs.removal.own_folders import own_folders
from sealberg.jobs.task_io import storage_only
from sealberg.metadata.metadata_file import max_bytes, parse, read_text
from sealberg.table.reachable import reach, without_list_keys

if TYPE_CHECKING:
    from sealberg.files.listing import Listed
    from sealberg.jobs.runner import Runner
    from sealberg.table.catalog_table import CatalogTable
    from sealberg.table.reachable import Reach


class Orphan(NamedTuple):
    """A file that no metadata names."""

    location: str
    size: int
    modified: datetime


@dataclass
class Orphans:
    """What a search has found.

    Attributes:
        young: unnamed files that are not old enough; they may belong to a commit that is in progress.
        undated: unnamed files of a store that does not tell their age.
        hidden: unnamed files whose name, or whose folder's name, begins with `.` or `_`.
        others: folders of other tables, which were left out.
        kept: metadata files of tables that have their files elsewhere.
    """

    files: list[Orphan] = field(default_factory=list)
    young: int = 0
    undated: int = 0
    hidden: int = 0
    others: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def search(
    table: CatalogTable,
    runner: Runner,
    older_than: timedelta,
    *,
    check_others: bool = True,
    allow_newer: bool = False,
) -> Orphans:
    """Search the folders of a table.

    Args:
        older_than: the least age of an orphan.
        check_others: False if the caller says that no other table has files in these folders: other tables of the
            catalog are not loaded, and metadata of another table with the same folder are of a dropped table.
        allow_newer: remove orphans although a newer metadata.json of the same table is there.
    """
    own = own_folders(table.metadata)
    others = list(neighbours(table)) if check_others else []
    named = named_files(table, runner)
    found, limit = Orphans(), datetime.now(UTC) - older_than
    metadata_files: list[Orphan] = []
    for folder in own:
        beginning = len(normal(folder).rstrip("/")) + 1
        in_folder, for_names = tee(list_files(table.inner, folder))
        for listed, name in zip(in_folder, normals(each.location for each in for_names), strict=True):
            if named.has_normal(name) or any(within(name, other) for other in others):
                continue
            orphan = _judge(listed, name[beginning:], limit, found)
            if orphan is not None:
                (metadata_files if _is_metadata(orphan.location) else found.files).append(orphan)
    theirs, kept = _judge_metadata(
        table, metadata_files, found, own, check_others=check_others, allow_newer=allow_newer
    )
    found.files = [file for file in found.files if not any(within(file.location, other) for other in theirs)]
    found.others, found.kept = tuple(dict.fromkeys([*others, *theirs])), tuple(kept)
    return found


def named_files(table: CatalogTable, runner: Runner) -> Reach:
    """Every file that the current metadata name, with the metadata files themselves among the lists."""
    task_io = without_list_keys(table.io, storage_only(table.inner))
    named = reach(table.metadata, table.io, task_io=task_io, run=runner.run)
    named.lists.add(table.metadata_location)
    named.lists.update(entry.metadata_file for entry in table.metadata.metadata_log)
    return named


def _judge(listed: Listed, below: str, limit: datetime, found: Orphans) -> Orphan | None:
    """An orphan, or None if the file is passed over, which is counted; `below` is its path in the folder."""
    name = below[below.rfind("/") + 1 :]
    if name == "version-hint.text" or name.startswith("_") or below.startswith(".") or "/." in below:
        found.hidden += 1
    elif listed.modified is None:
        found.undated += 1
    elif (modified := _aware(listed.modified)) >= limit:
        found.young += 1
    else:
        return Orphan(listed.location, listed.size, modified)
    return None


def _judge_metadata(
    table: CatalogTable,
    files: list[Orphan],
    found: Orphans,
    own: tuple[str, ...],
    *,
    check_others: bool,
    allow_newer: bool,
) -> tuple[list[str], list[str]]:
    """Add the table's own unneeded metadata files to the orphans; the folders of others, and files that stay."""
    theirs: list[str] = []
    kept: list[str] = []
    for file in files:
        document = _document(table, file.location)
        if document is None:
            found.files.append(file)  # half a file, or no metadata at all
        elif document.get("table-uuid") == str(table.metadata.table_uuid):
            if not allow_newer:
                _refuse_newer(table, file.location, document)
            found.files.append(file)
        elif not check_others and _is_same_folder(str(document.get("location")), own):
            found.files.append(file)  # of a table that was dropped, as the caller says
        else:
            place = str(document.get("location") or "")
            folders = list(inside(own, [place], f"a table of which {file.location} is a metadata file"))
            theirs += folders
            if not folders:
                kept.append(file.location)
    return theirs, kept


def _is_same_folder(place: str, own: tuple[str, ...]) -> bool:
    return any(within(place, folder) and within(folder, place) for folder in own)


def _refuse_newer(table: CatalogTable, location: str, document: dict[str, Any]) -> None:
    sequence = document.get("last-sequence-number")
    newer = isinstance(sequence, int) and sequence > table.metadata.last_sequence_number
    newer |= (number_of(location) or 0) > (number_of(table.metadata_location) or 0)
    log = document.get("metadata-log")
    before = log[-1].get("metadata-file") if isinstance(log, list) and log and isinstance(log[-1], dict) else ""
    if newer and normal(str(before)) != normal(table.metadata_location):
        raise RemovalRefusedError(
            f"{location} is a newer version of the table than {table.metadata_location}, which the catalog has: "
            "another catalog may have the table too, and need the files that would be removed. If the table was set "
            "back on purpose, allow it (--allow-newer-metadata)"
        )


def _document(table: CatalogTable, location: str) -> dict[str, Any] | None:
    try:
        with naming(location):
            return parse(read_text(table.inner.new_input(location), max_bytes(table.catalog.properties)), location)
    except (FormatError, FileNotFoundError):
        return None


def _is_metadata(location: str) -> bool:
    return location.endswith(METADATA_SUFFIXES)


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
