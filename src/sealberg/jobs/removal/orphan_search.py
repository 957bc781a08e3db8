"""What lies below the location of a table and that no metadata names.

    listing ──> not named, old enough, named as writers name files, or sealed ──> Orphans.files: to remove
            └─> anything else ──> Orphans.foreign: it stays, unless it is named one by one

A file is passed over if it is younger than the given age, lies in the folder of another table, or is hidden (its name
or a folder's begins with `.` or `_`, as Iceberg Java has it). Links are never followed, and what they lead to stays. A
metadata.json of the same table that is newer than the current one is the end of a commit that was killed, the work of
another catalog, or what the catalog forgot when it was set back: everything may be needed there, and nothing is
removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from sealberg.errors import ConfigError, FormatError, RemovalRefusedError
from sealberg.files.file_io import ENCRYPTED_MAGICS, METADATA_SUFFIXES, naming
from sealberg.files.listing import list_files
from sealberg.files.locations import Locations, normal, normals, within
from sealberg.jobs.removal.deletion import Left
from sealberg.jobs.removal.older_metadata import in_metadata_folders, refuse_newer
from sealberg.jobs.task_io import storage_only
from sealberg.metadata.metadata_file import max_bytes, parse, read_text
from sealberg.table.own_folders import IN_ANOTHER, Domain, is_written_form, jail, neighbours, own_folders
from sealberg.table.reachable import reach, without_list_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealberg.files.listing import Listed
    from sealberg.files.locations import Location
    from sealberg.jobs.runner import Runner
    from sealberg.table.catalog_table import CatalogTable
    from sealberg.table.reachable import Reach


class Orphan(NamedTuple):
    """A file that no metadata names, as it was listed."""

    location: str
    size: int
    modified: datetime
    listed: Listed


@dataclass
class Orphans:
    """What a search has found.

    Attributes:
        young: unnamed files that are not old enough; they may belong to a commit that is in progress.
        undated: unnamed files of a store that does not tell their age.
        hidden: unnamed files whose name, or whose folder's name, begins with `.` or `_`.
        foreign: what no writer of Iceberg has left there, with the reason.
        others: folders of other tables, which were left out.
        kept: metadata files of other tables.
    """

    files: list[Orphan] = field(default_factory=list)
    young: int = 0
    undated: int = 0
    hidden: list[str] = field(default_factory=list)
    foreign: list[Left] = field(default_factory=list)
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
    chosen: Iterable[str] = (),
) -> Orphans:
    """Search the location of a table.

    Args:
        older_than: the least age of an orphan.
        check_others: False if the caller says that no other table has files in these folders: other tables of the
            catalog are not loaded, and metadata of another table with the same folder are of a dropped table.
        allow_newer: remove orphans although a newer metadata.json of the same table is there.
        chosen: foreign files that are removed, too.
    """
    domain = orphan_domain(table, check_others=check_others)
    top = domain.location
    listed = list(list_files(table.inner, top.text))
    written = [each for each in listed if each.problem is None and _is_metadata(each.location)]
    if not allow_newer:
        refuse_newer(table, (*in_metadata_folders(table), *written))
    named = named_files(table, runner)
    found, limit = Orphans(), datetime.now(UTC) - older_than
    picked = Locations(chosen)
    metadata_files: list[Orphan] = []
    targets = Locations(each.target for each in listed if each.target is not None)
    beginning = len(top.place) + 1
    for each, place in zip(listed, normals(each.location for each in listed), strict=True):
        if named.has_normal(place) or domain.refusal(each.location, place) == IN_ANOTHER:
            continue
        reason = each.problem or ("is what a link leads to" if targets.has_normal(place) else None)
        if reason is not None:
            found.foreign.append(Left(each.location, reason))
            continue
        orphan = _judge(each, place[beginning:], limit, found, is_picked=place in picked)
        if orphan is None:
            continue
        if _is_metadata(orphan.location):
            metadata_files.append(orphan)
        elif place in picked or _is_ours(table, orphan):
            found.files.append(orphan)
        else:
            found.foreign.append(Left(orphan.location, "has neither the name of a table's file, nor is it sealed"))
    unnamed = [each for each in written if each.location not in named and domain.refusal(each.location) != IN_ANOTHER]
    theirs = _folders_of_others(table, top, unnamed, picked, check_others=check_others)
    _judge_metadata(table, metadata_files, found, picked, check_others=check_others)
    found.files = [file for file in found.files if not any(within(file.location, other) for other in theirs)]
    found.others = tuple(dict.fromkeys([*(each.text for each in domain.others), *theirs]))
    _refuse_unknown(chosen, found)
    return found


def orphan_domain(table: CatalogTable, *, check_others: bool) -> Domain:
    """What of the table may be removed; another table that cannot be loaded has files nobody knows where."""
    others = neighbours(table.catalog) if check_others else ()
    for other in others:
        if other.error is not None and other.identifier != table.name():
            raise RemovalRefusedError(
                f"the table {other.name} of the catalog cannot be loaded, so it is not known whether its files lie in "
                f"the folders of {'.'.join(table.name())}: {other.error}. Mend the table, or say that no other table "
                "has files there (--ignore-other-tables)"
            )
    return Domain.of(table, others, vouched=table.catalog.vouches(table))


def _refuse_unknown(chosen: Iterable[str], found: Orphans) -> None:
    there = Locations(file.location for file in found.files)
    if unknown := [each for each in chosen if each not in there]:
        raise ConfigError(
            f"{', '.join(unknown)}: not an unnamed file below the location of the table that is old enough; `orphans` "
            "without a file lists what is there"
        )


def _is_ours(table: CatalogTable, orphan: Orphan) -> bool:
    """Whether a writer of Iceberg's has given the name, or the file is sealed."""
    if is_written_form(orphan.location.rpartition("/")[2]):
        return True
    try:
        with naming(orphan.location), table.inner.new_input(orphan.location).open() as stream:
            return bytes(stream.read(4)) in ENCRYPTED_MAGICS
    except OSError:
        return False


def named_files(table: CatalogTable, runner: Runner) -> Reach:
    """Every file that the current metadata name, with the metadata files themselves among the lists."""
    task_io = without_list_keys(table.io, storage_only(table.inner))
    named = reach(table.metadata, table.io, task_io=task_io, run=runner.run)
    named.lists.add(table.metadata_location)
    named.lists.update(entry.metadata_file for entry in table.metadata.metadata_log)
    return named


def _judge(listed: Listed, below: str, limit: datetime, found: Orphans, *, is_picked: bool) -> Orphan | None:
    """An orphan, or None if the file is passed over, which is noted; `below` is its path in the folder."""
    name = below[below.rfind("/") + 1 :]
    is_hidden = name == "version-hint.text" or name.startswith("_") or below.startswith(".") or "/." in below
    if is_hidden and not is_picked:
        found.hidden.append(listed.location)
    elif listed.modified is None:
        found.undated += 1
    elif listed.modified >= limit:
        found.young += 1
    else:
        return Orphan(listed.location, listed.size, listed.modified, listed)
    return None


def _folders_of_others(
    table: CatalogTable, top: Location, written: list[Listed], picked: Locations, *, check_others: bool
) -> list[str]:
    """The folders of tables below the location that the catalog does not know: what their metadata files say, whatever
    age and name these have, and where these files lie.

    Raises:
        RemovalRefusedError: such a table has the same folder.
    """
    theirs: dict[str, None] = {}
    for file in written:
        document = _document(table, file.location)
        if document is None or document.get("table-uuid") == str(table.metadata.table_uuid) or file.location in picked:
            continue
        place = str(document.get("location") or "")
        if _is_same_folder(place, own_folders(table.metadata)):
            if not check_others:
                continue  # a table that was dropped, as the caller says
            raise RemovalRefusedError(
                f"a table of which {file.location} is a metadata file has the same folder {place}, so its files "
                "cannot be told from orphans. Give one of the tables a folder of its own; or, if that table was "
                "dropped, say so (--ignore-other-tables)"
            )
        for each in (place, jail(file.location)):
            below = normal(each)
            if below.startswith(f"{top.place}/"):
                theirs[below] = None
    return list(theirs)


def _judge_metadata(
    table: CatalogTable, files: list[Orphan], found: Orphans, picked: Locations, *, check_others: bool
) -> None:
    """Add the table's own unneeded metadata files to the orphans; those of other tables stay."""
    kept: list[str] = []
    own = own_folders(table.metadata)
    for file in files:
        document = _document(table, file.location)
        if document is None:  # half a file, or no metadata at all
            if is_written_form(file.location.rpartition("/")[2]) or file.location in picked:
                found.files.append(file)
            else:
                found.foreign.append(Left(file.location, "is no metadata file by its content, nor by its name"))
        elif document.get("table-uuid") == str(table.metadata.table_uuid) or file.location in picked:
            found.files.append(file)
        elif not check_others and _is_same_folder(str(document.get("location") or ""), own):
            found.files.append(file)  # of a table that was dropped, as the caller says
        else:
            kept.append(file.location)
    found.kept = tuple(kept)


def _is_same_folder(place: str, own: tuple[str, ...]) -> bool:
    return bool(place) and any(within(place, folder) and within(folder, place) for folder in own)


def _document(table: CatalogTable, location: str) -> dict[str, Any] | None:
    try:
        with naming(location):
            return parse(read_text(table.inner.new_input(location), max_bytes(table.catalog.properties)), location)
    except (FormatError, FileNotFoundError):
        return None


def _is_metadata(location: str) -> bool:
    return location.endswith(METADATA_SUFFIXES)
