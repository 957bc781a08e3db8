"""The files that only expired snapshots used.

    expired snapshots ──> manifest lists ──> manifests that no kept list names ──> files that no kept manifest has live
                                                                                        │
    the newest metadata ──> lists, manifests, live files: what is kept  ────── minus ───┘

Everything is decided on metadata that were loaded after the expiry was committed. A file that any branch, tag or
later snapshot names is kept; a Puffin file is kept while one of its deletion vectors is live.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import tee
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import DataFileContent

from sealberg.errors import IntegrityError, KeyAccessError, KmsUnavailableError
from sealberg.files.locations import Locations, normals
from sealberg.jobs.removal.deletion import Left, Unneeded
from sealberg.jobs.task_io import storage_only
from sealberg.table.reachable import (
    ReadTask,
    list_task,
    reach,
    read_list,
    read_manifest,
    statistics_of,
    without_list_keys,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO

    from sealberg.jobs.removal.deletion import Removed
    from sealberg.jobs.runner import Runner
    from sealberg.metadata.table_metadata import V3Snapshot, V3TableMetadata
    from sealberg.table.catalog_table import CatalogTable
    from sealberg.table.own_folders import Domain
    from sealberg.table.reachable import Reach

DATA: Final = "data"
POSITION_DELETES: Final = "position deletes"  # and deletion vectors
EQUALITY_DELETES: Final = "equality deletes"
CONTENTS: Final = {
    DataFileContent.DATA: DATA,
    DataFileContent.POSITION_DELETES: POSITION_DELETES,
    DataFileContent.EQUALITY_DELETES: EQUALITY_DELETES,
}
MANIFEST: Final = "manifest"
MANIFEST_LIST: Final = "manifest list"
STATISTICS: Final = "statistics"


@dataclass(frozen=True)
class Gone:
    """Snapshots that a table had, in metadata that still hold their keys.

    The metadata are those of the catalog before an expiry, as they were then, or as a journal has kept them.
    """

    metadata: V3TableMetadata = field(repr=False)
    snapshots: tuple[V3Snapshot, ...]


class Unreachable:
    """The files of expired snapshots that the newest metadata do not need.

    Args:
        table: the newest metadata, loaded after the expiry.
        gone: the expired snapshots.
        domain: what of the table may be removed.
        removed: gets every manifest list and manifest that cannot be read (what it names is not known, so it stays),
            and the files that are not the table's own.

    Attributes:
        unopened: manifest lists that no key opens any more; the files that only they name are orphans.
    """

    def __init__(
        self, table: CatalogTable, gone: Sequence[Gone], domain: Domain, runner: Runner, removed: Removed
    ) -> None:
        self._table = table
        self._gone = gone
        self._domain = domain
        self._runner = runner
        self._removed = removed
        self._storage = storage_only(table.inner)
        self.unopened: list[str] = []

    def files(self) -> Iterator[Unneeded]:
        """The files, stage by stage: a file comes before the file that names it."""
        table, run = self._table, self._runner.run
        task_io = self._task_io(table.io)
        kept = reach(table.metadata, table.io, task_io=task_io, run=run, files=False)
        kept.lists.add(table.metadata_location)
        kept.lists.update(entry.metadata_file for entry in table.metadata.metadata_log)
        lists, manifests = self._lists(kept)
        statistics = list(self._unneeded_statistics(kept))
        if not (lists or manifests or statistics):
            return  # and no manifest need be read
        kept.read_files(task_io, run)
        read: list[str] = []
        yield from self._own(self._data(manifests, read), kept)
        yield from self._own((Unneeded(MANIFEST, location, None) for location in read), kept)
        yield from self._own((Unneeded(MANIFEST_LIST, location, None) for location in lists), kept)
        yield from self._own(statistics, kept)

    def _own(self, files: Iterable[Unneeded], kept: Reach) -> Iterator[Unneeded]:
        """Those that nothing names in any role and that are the table's own."""
        one, other = tee(files)
        seen: set[str] = set()
        for file, place in zip(one, normals(each.location for each in other), strict=True):
            if kept.has_normal(place) or place in seen:
                continue
            seen.add(place)
            if (reason := self._domain.refusal(file.location, place)) is not None:
                self._removed.kept.append(Left(file.location, reason))
            else:
                yield file

    def _lists(self, kept: Reach) -> tuple[list[str], list[str]]:
        """The unneeded manifest lists, and the manifests that only they name; their locations carry their keys."""
        lists: list[str] = []
        manifests: list[str] = []
        seen, seen_manifests = Locations(), Locations()
        for gone in self._gone:
            wanted = [
                snapshot
                for snapshot in gone.snapshots
                if snapshot.manifest_list not in kept.lists and seen.adds(snapshot.manifest_list)
            ]
            for names in self._runner.run(read_list, self._list_tasks(gone, wanted, lists)):
                if names.missing:
                    continue
                if names.error is not None:
                    self._removed.left.append(Left(names.location, names.error))
                    continue
                lists.append(names.location)
                manifests += [
                    each for each in names.manifests if each not in kept.manifests and seen_manifests.adds(each)
                ]
        return lists, manifests

    def _list_tasks(self, gone: Gone, snapshots: list[V3Snapshot], lists: list[str]) -> Iterator[ReadTask]:
        """The lists to read. A list whose key nobody can open any more goes unread into `lists`."""
        io = self._table.io_for(gone.metadata)
        task_io = self._task_io(io)
        for snapshot in snapshots:
            try:
                yield list_task(snapshot, io, task_io)
            except KmsUnavailableError:
                raise
            except (KeyAccessError, IntegrityError):
                self.unopened.append(snapshot.manifest_list)
                lists.append(snapshot.manifest_list)

    def _data(self, manifests: list[str], read: list[str]) -> Iterator[Unneeded]:
        """The data and delete files of these manifests; `read` gets the manifests themselves."""
        task_io = self._task_io(self._table.io)
        for names in self._runner.run(read_manifest, (ReadTask(each, task_io) for each in manifests)):
            if names.missing:
                continue
            if names.error is not None:
                self._removed.left.append(Left(names.location, names.error))
                continue
            read.append(names.location)
            assert names.files is not None, "the manifest was read"
            yield from (Unneeded(CONTENTS[file.content], file.location, file.size) for file in names.files)

    def _unneeded_statistics(self, kept: Reach) -> Iterator[Unneeded]:
        for gone in self._gone:
            for location, size in statistics_of(gone.metadata).items():
                if location not in kept.statistics:
                    yield Unneeded(STATISTICS, location, size)

    def _task_io(self, io: FileIO) -> FileIO:
        return without_list_keys(io, self._storage)
