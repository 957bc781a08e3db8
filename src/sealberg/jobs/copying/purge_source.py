"""Removes the plaintext table whose place its encrypted copy has taken, and proves that nothing of it is left.

    check     the copy was made from it and has its newest snapshot; no other table shares its files
    sweep     what lies in its folders under the names of writers, and no metadata name: failed writers left it
    purge     what its metadata name, with its statistics, in stages; then the catalog drops it
    search    its folders are listed again: every object that is there is told

Each file goes through the one gate for deletions. What a file of another table, a link, or a file without the name of
a writer's file is, stays and is told: it may be in the clear. A run that was killed is repeated: until all is deleted,
the catalog has the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from sealberg.errors import ConflictError, LeftoverFilesError, RemovalRefusedError, UnsupportedError
from sealberg.files.file_io import METADATA_SUFFIXES
from sealberg.files.listing import list_files
from sealberg.files.locations import Location, Locations, normal, on_one_line, within
from sealberg.files.removal import remove_file
from sealberg.jobs.checks.forms import is_hint
from sealberg.jobs.copying.leftovers import SOURCE
from sealberg.jobs.removal.former_folders import former_folders
from sealberg.jobs.removal.older_metadata import in_metadata_folders, metadata_below, refuse_newer
from sealberg.metadata.metadata_file import max_bytes, parse, read_text
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.metadata.version_upgrade import as_version_3
from sealberg.table.own_folders import IN_ANOTHER, Domain, is_written_form, neighbours, own_folders
from sealberg.table.purge import deleted, refuse_shared_files
from sealberg.table.purge import plan as purge_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.files.listing import Listed
    from sealberg.table.catalog_table import CatalogTable


@dataclass
class Purged:
    """What became of the plaintext table.

    Attributes:
        folders: that were searched afterwards.
        files: how many files the sweep and the purge deleted, at most.
        left: what is still there, and why.
        unproved: why the search could not be made.
    """

    name: str
    folders: tuple[str, ...] = ()
    files: int = 0
    left: dict[str, str] = field(default_factory=dict)
    unproved: str = ""

    def __str__(self) -> str:
        places = ", ".join(self.folders)
        if self.unproved:
            return f"{self.name} is removed; whether plaintext is left at {places} is not known: {self.unproved}"
        if not self.left:
            return (
                f"{self.name} is removed, and nothing is left at {places}; versions and backups that the storage keeps "
                "stay in the clear until the storage removes them"
            )
        shown = "".join(
            f"\n  in the clear, or not known: {on_one_line(location)} {why}" for location, why in self.left.items()
        )
        return f"{self.name} is removed, and {len(self.left)} objects are left at {places}:{shown}"


def purge_source(catalog: Catalog, old_name: Identifier, copy: Table) -> Purged:
    """Remove the source of a copy that has its name already, and search for what is left."""
    old = catalog.load_table(old_name)
    _check_copied(old, copy)
    refuse_shared_files(old)
    readable = cast("CatalogTable", _Readable(old))
    refuse_newer(readable, (*in_metadata_folders(readable), *metadata_below(readable)))
    opened: Any = catalog
    domain = Domain.of(old, neighbours(catalog), vouched=opened.vouches(old))
    folders = tuple(dict.fromkeys([*own_folders(old.metadata), *former_folders(readable, readable.inner)]))
    found = purge_plan(old, domain, missing_ok=True)
    named = Locations(path for stage in (*found.stages, tuple(found.foreign)) for path in stage)
    purged = Purged(".".join(old_name), folders, sum(map(len, found.stages)))
    io: FileIO = readable.inner
    for listed in _unnamed(io, folders, domain, named):
        if listed.location.endswith(METADATA_SUFFIXES):
            _refuse_other(old, io, listed)
    for listed in _unnamed(io, folders, domain, named):
        if listed.problem is None and domain.refusal(listed.location) is None and _is_left_by_writers(io, listed):
            purged.files += remove_file(io, listed.location, listed) is None
    purged.left.update(found.foreign)
    *stages, last = found.stages
    for stage in stages:
        if failed := dict(deleted(io, stage)):
            path, reason = next(iter(failed.items()))
            raise LeftoverFilesError(
                f"{len(failed)} files of {purged.name} could not be deleted ({path}: {reason}), so the table stays. "
                "Run the same command again when they can be",
                tuple(failed),
            )
    # The table goes when nothing but its metadata file is left, so that a run that was killed can be repeated.
    catalog.drop_table(old_name)
    purged.left.update(deleted(io, last))
    _search(io, folders, domain, purged)
    return purged


def _check_copied(old: Table, copy: Table) -> None:
    """Refuse to remove a table whose rows the copy does not have."""
    name = ".".join(old.name())
    if copy.metadata.properties.get(SOURCE) != str(old.metadata.table_uuid):
        raise RemovalRefusedError(f"{'.'.join(copy.name())} was not made from {name}, so {name} is not removed")
    current = old.metadata.current_snapshot_id
    if current is not None and current not in {snapshot.snapshot_id for snapshot in copy.metadata.snapshots}:
        raise ConflictError(
            f"{name} has the snapshot {current}, which its copy {'.'.join(copy.name())} does not have: "
            "somebody has written to it after the names were exchanged, or the copy has expired the snapshot. Nothing "
            "was removed; copy the rows, then purge the table"
        )


class _Readable:
    """A table of any version as the search for metadata files sees it: as one of version 3."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.catalog = table.catalog
        self.inner: FileIO = getattr(table, "inner", table.io)

    @property
    def metadata(self) -> V3TableMetadata:
        given: Any = self._table.metadata
        return given if isinstance(given, V3TableMetadata) else as_version_3(given)

    @property
    def metadata_location(self) -> str:
        return self._table.metadata_location

    def name(self) -> Identifier:
        return self._table.name()

    def refresh(self) -> None:
        self._table.refresh()


def _listed(io: FileIO, folders: Iterable[str], domain: Domain) -> Iterator[Listed]:
    """What lies in the folders and in none of another table's."""
    seen: list[str] = []
    for folder in folders:
        if any(within(folder, each) for each in seen):
            continue
        seen.append(folder)
        others = [each for each in domain.others if each.within(Location.parse(folder))]
        for listed in list_files(io, folder):
            if domain.refusal(listed.location) != IN_ANOTHER and not any(
                normal(listed.location).startswith(f"{other.place}/") for other in others
            ):
                yield listed


def _unnamed(io: FileIO, folders: Iterable[str], domain: Domain, named: Locations) -> Iterator[Listed]:
    try:
        yield from [listed for listed in _listed(io, folders, domain) if listed.location not in named]
    except UnsupportedError:
        return  # a FileIO that cannot list; `_search` says so


def _is_left_by_writers(io: FileIO, listed: Listed) -> bool:
    name = listed.location.rpartition("/")[2]
    return is_written_form(name) or (name == "version-hint.text" and is_hint(io, listed.location))


def _refuse_other(old: Table, io: FileIO, listed: Listed) -> None:
    """Refuse if a metadata file of another table lies in these folders: its files cannot be told from orphans."""
    try:
        document = parse(read_text(io.new_input(listed.location), max_bytes(old.catalog.properties)), listed.location)
    except Exception:  # noqa: BLE001 (half a file, which a failed writer has left)
        return
    if document.get("table-uuid") not in (None, str(old.metadata.table_uuid)):
        name = ".".join(old.name())
        raise RemovalRefusedError(
            f"{listed.location} is a metadata file of another table, in a folder of {name}: the files of both cannot "
            "be told apart, and nothing was removed. Remove or move the other table first"
        )


def _search(io: FileIO, folders: tuple[str, ...], domain: Domain, purged: Purged) -> None:
    try:
        for listed in _listed(io, folders, domain):
            why = listed.problem or domain.refusal(listed.location) or "is still there"
            purged.left.setdefault(listed.location, why)
    except (UnsupportedError, OSError) as error:
        purged.unproved = str(error)
