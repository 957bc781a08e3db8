"""The files that only expired snapshots used.

    expired snapshots ──> manifest lists ──> manifests that no kept list names ──> files that no kept manifest has live
                                                                                        │
    the newest metadata ──> lists, manifests, live files: what is kept  ────── minus ───┘

Everything is decided on metadata that were loaded after the expiry was committed. A file that any branch, tag or
later snapshot names is kept; a Puffin file is kept while one of its deletion vectors is live.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import DataFileContent

from sealberg.errors import IntegrityError, KeyAccessError, KmsUnavailableError
from sealberg.files.locations import Locations, normals, within
from sealberg.jobs.removal.deletion import Left, Unneeded
from sealberg.jobs.removal.own_folders import own_folders
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
    from collections.abc import Callable, Iterator, Sequence

    from pyiceberg.io import FileIO

    from sealberg.jobs.runner import Runner
    from sealberg.metadata.table_metadata import V3Snapshot, V3TableMetadata
    from sealberg.table.catalog_table import CatalogTable

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

    Attributes:
        vouched: the metadata came from the catalog. Otherwise they are a file in storage, and what only they name
            is removed in the table's own folders alone.
    """

    metadata: V3TableMetadata = field(repr=False)
    snapshots: tuple[V3Snapshot, ...]
    vouched: bool = True


class Unreachable:
    """The files of expired snapshots that the newest metadata do not need.

    Args:
        table: the newest metadata, loaded after the expiry.
        gone: the expired snapshots.
        left: gets every manifest list and manifest that cannot be read; what it names is not known, so it stays.

    Attributes:
        unopened: manifest lists that no key opens any more; the files that only they name are orphans.
    """

    def __init__(self, table: CatalogTable, gone: Sequence[Gone], runner: Runner, left: list[Left]) -> None:
        self._table = table
        self._gone = gone
        self._runner = runner
        self._left = left
        self._storage = storage_only(table.inner)
        self._folders = own_folders(table.metadata)
        self.unopened: list[str] = []

    def files(self) -> Iterator[Unneeded]:
        """The files, stage by stage: a file comes before the file that names it."""
        table, run = self._table, self._runner.run
        task_io = self._task_io(table.io)
        kept = reach(table.metadata, table.io, task_io=task_io, run=run, files=False)
        lists, manifests = self._lists(kept.lists, kept.manifests)
        if manifests:  # otherwise no data file can be unneeded, and no manifest need be read
            kept.read_files(task_io, run)
        read: list[str] = []
        yield from self._data(manifests, kept.files, read)
        yield from (Unneeded(MANIFEST, location, None) for location in read)
        yield from (Unneeded(MANIFEST_LIST, location, None) for location in lists)
        yield from self._statistics(kept.statistics)

    def _lists(self, kept_lists: Locations, kept_manifests: Locations) -> tuple[list[str], dict[str, bool]]:
        """The unneeded manifest lists, and the manifests that only they name, with their own vouching."""
        lists: list[str] = []
        manifests: dict[str, bool] = {}
        seen, seen_manifests = Locations(), Locations()
        for gone in self._gone:
            own = self._mine(gone)
            wanted = [
                snapshot
                for snapshot in gone.snapshots
                if snapshot.manifest_list not in kept_lists
                and own(snapshot.manifest_list)
                and seen.adds(snapshot.manifest_list)
            ]
            for names in self._runner.run(read_list, self._list_tasks(gone, wanted, lists)):
                if names.missing:
                    continue
                if names.error is not None:
                    self._left.append(Left(names.location, names.error))
                    continue
                lists.append(names.location)
                for manifest in names.manifests:
                    if manifest not in kept_manifests and seen_manifests.adds(manifest) and own(manifest):
                        manifests[manifest] = gone.vouched
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

    def _data(self, manifests: dict[str, bool], kept: Locations, read: list[str]) -> Iterator[Unneeded]:
        """The data and delete files of these manifests that are not kept; `read` gets the manifests themselves."""
        task_io, seen = self._task_io(self._table.io), Locations()
        for names in self._runner.run(read_manifest, (ReadTask(each, task_io) for each in manifests)):
            if names.missing:
                continue
            if names.error is not None:
                self._left.append(Left(names.location, names.error))
                continue
            read.append(names.location)
            vouched = manifests[names.location]
            assert names.files is not None, "the manifest was read"
            for file, place in zip(names.files, normals(names.files.locations.to_pylist()), strict=True):
                if kept.has_normal(place) or not (vouched or self._is_own(file.location)):
                    continue
                if seen.adds(file.location):
                    yield Unneeded(CONTENTS[file.content], file.location, file.size)

    def _statistics(self, kept: Locations) -> Iterator[Unneeded]:
        seen = Locations()
        for gone in self._gone:
            own = self._mine(gone)
            for location, size in statistics_of(gone.metadata).items():
                if location not in kept and own(location) and seen.adds(location):
                    yield Unneeded(STATISTICS, location, size)

    def _mine(self, gone: Gone) -> Callable[[str], bool]:
        return (lambda _location: True) if gone.vouched else self._is_own

    def _is_own(self, location: str) -> bool:
        return any(within(location, folder) for folder in self._folders)

    def _task_io(self, io: FileIO) -> FileIO:
        return without_list_keys(io, self._storage)
