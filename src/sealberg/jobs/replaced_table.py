"""Drops a table whose place another one has taken: its metadata, and the data files that the other one does not use.

    files of the old table ── minus the data files of the live table ──> leftovers
    data ─> manifests ─> lists ─> older metadata ─> the entry of the catalog ─> metadata.json

A file is deleted after all files that it names, so a killed drop can be repeated: a manifest or list that is missing
was deleted, and so was everything that it named. The live table may have expired shared files meanwhile; they are
missing too. Both tables have the same folder, so metadata files of killed runs, which no catalog names, are looked for
there (`sweep`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import LeftoverFilesError, PurgeRefusedError, SealbergError, UnsupportedError
from sealberg.files.file_io import METADATA_SUFFIXES
from sealberg.files.listing import list_files
from sealberg.files.locations import normal
from sealberg.jobs.job import Amount
from sealberg.jobs.removal.orphan_search import named_files
from sealberg.jobs.runner import Threads
from sealberg.metadata.metadata_file import max_bytes, parse, read_text
from sealberg.table.own_folders import Domain, metadata_folder, neighbours
from sealberg.table.purge import deleted
from sealberg.write.staged_files import discard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyiceberg.manifest import ManifestEntry

    from sealberg.catalogs.base import EncryptedCatalog
    from sealberg.table.catalog_table import CatalogTable
    from sealberg.table.own_folders import Neighbour

REPLACED_BY: Final = "sealberg.change-master.replaced-by"  # of the old table: the UUID of the table in its place


@dataclass(frozen=True)
class Leftovers:
    """The files of an old table that the live table does not use, in the order in which they are deleted."""

    data: dict[str, int]
    manifests: dict[str, int]
    lists: tuple[str, ...]
    metadata: tuple[str, ...]

    @property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self.data), tuple(self.manifests), self.lists, self.metadata

    @property
    def amount(self) -> Amount:
        files = sum(map(len, self.stages)) + 1  # and the metadata file
        return Amount(files, None)


def leftovers(old: CatalogTable, live: CatalogTable) -> Leftovers:
    """What can be deleted with the old table; refused if the live table is not the one in its place."""
    if old.properties.get(REPLACED_BY) != str(live.metadata.table_uuid):
        raise PurgeRefusedError(
            f"{_name(old)} is not dropped: {_name(live)} has not taken its place by change-master, so its data files "
            "may belong to others"
        )
    data: dict[str, int] = {}
    manifests: dict[str, int] = {}
    for location, length, entries in _manifests(old, missing_ok=True):
        manifests[location] = length
        for entry in entries:
            data[str(entry.data_file.file_path)] = entry.data_file.file_size_in_bytes
    for location, _, entries in _manifests(live, missing_ok=False):
        manifests.pop(location, None)
        for entry in entries:
            data.pop(str(entry.data_file.file_path), None)
    metadata = old.metadata
    older = tuple(
        entry.metadata_file for entry in metadata.metadata_log if entry.metadata_file != old.metadata_location
    )
    statistics = tuple(file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    lists = tuple(snapshot.manifest_list for snapshot in metadata.snapshots)
    return Leftovers(data, manifests, (*statistics, *lists), older)


@dataclass(frozen=True)
class Dropped:
    """What became of the old table's files.

    Attributes:
        files: how many were deleted, at most: some may have been gone before.
        kept: files that are not the tables' own to remove, and why.
    """

    files: int = 0
    kept: Mapping[str, str] = field(default_factory=dict)


def drop(catalog: EncryptedCatalog, old: CatalogTable, live: CatalogTable) -> Dropped:
    """Delete the leftovers, then the entry of the catalog, then the metadata file; can be repeated."""
    found = leftovers(old, live)
    # The two have one folder, which is the live table's own.
    others = [each for each in neighbours(catalog) if each.identifier != old.name()]
    _refuse_third(old, others)
    domain = Domain.of(live, others, vouched=catalog.vouches(live))
    named = named_files(live, Threads())
    kept: dict[str, str] = {}
    files = 0
    for stage in found.stages:
        reasons = {path: reason for path in stage if (reason := domain.refusal(path)) is not None}
        kept |= reasons
        own = tuple(path for path in stage if path not in reasons and path not in named)
        _delete(old, own)
        files += len(own)
    catalog.drop_table(old.name())
    if (reason := domain.refusal(old.metadata_location)) is None:
        _delete(old, (old.metadata_location,))
        files += 1
    else:
        kept[old.metadata_location] = reason
    sweep(live, lambda document: document.get("table-uuid") == str(old.metadata.table_uuid))
    return Dropped(files, kept)


def _refuse_third(old: CatalogTable, others: Iterable[Neighbour]) -> None:
    """Refuse if another name of the catalog has the old table, too: it would lose its manifests."""
    for other in others:
        if other.error is not None:
            raise PurgeRefusedError(
                f"{_name(old)} is not dropped: the table {other.name} of the catalog cannot be loaded, so it is not "
                f"known whether it has files of {_name(old)}: {other.error}"
            )
        if other.uuid == str(old.metadata.table_uuid):
            raise PurgeRefusedError(
                f"{_name(old)} is not dropped: {other.name} is the same table (table-uuid {other.uuid}), and would "
                "lose its files. Drop one of the two without purge"
            )


def sweep(live: CatalogTable, is_obsolete: Callable[[dict[str, Any]], bool]) -> None:
    """Delete metadata files of other tables in the metadata folder that killed runs left, and that are obsolete.

    A table that the catalog has keeps its own, and nothing goes while it is not known which tables it has.
    """
    known = {live.metadata_location, *(entry.metadata_file for entry in live.metadata.metadata_log)}
    try:
        listed = [file.location for file in list_files(live.inner, metadata_folder(live.metadata))]
    except UnsupportedError:
        return  # a FileIO that cannot list
    obsolete: dict[str, str] = {}
    for location in listed:
        if location.endswith(METADATA_SUFFIXES) and normal(location) not in map(normal, known):
            document = _document(live, location)
            uuid = document.get("table-uuid")
            if uuid not in (None, str(live.metadata.table_uuid)) and is_obsolete(document):
                obsolete[location] = str(uuid)
    tables = neighbours(live.catalog) if obsolete else ()
    if not any(each.error for each in tables):
        there = {each.uuid for each in tables}
        discard(live.inner, [location for location, uuid in obsolete.items() if uuid not in there])


def property_of(document: dict[str, Any], name: str) -> str | None:
    properties = document.get("properties")
    return properties.get(name) if isinstance(properties, dict) else None


def _document(live: CatalogTable, location: str) -> dict[str, Any]:
    try:
        return parse(read_text(live.inner.new_input(location), max_bytes(live.catalog.properties)), location)
    except (SealbergError, OSError):
        return {}


def _delete(old: CatalogTable, paths: tuple[str, ...]) -> None:
    failed = dict(deleted(old.inner, paths))
    if failed:
        path, reason = next(iter(failed.items()))
        raise LeftoverFilesError(
            f"{len(failed)} files of the old table {_name(old)} could not be deleted ({path}: "
            f"{reason}). Drop the old table again when they can be",
            tuple(failed),
        )


def _manifests(table: CatalogTable, *, missing_ok: bool) -> Iterator[tuple[str, int, list[ManifestEntry]]]:
    """Every manifest of every snapshot once, with its entries; `missing_ok`: but those that were deleted before."""
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        try:
            lines = snapshot.manifests(table.io)
        except FileNotFoundError:
            if missing_ok:
                continue
            raise
        for line in lines:
            path = str(line.manifest_path)
            if path in seen:
                continue
            seen.add(path)
            try:
                entries = line.fetch_manifest_entry(table.io, discard_deleted=False)
            except FileNotFoundError:
                if missing_ok:
                    continue
                raise
            yield path, line.manifest_length, entries


def _name(table: CatalogTable) -> str:
    return ".".join(table.name())
