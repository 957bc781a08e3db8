"""What holds rows that match a filter, in every snapshot of a table.

    all snapshots ──> manifests, each once ──bounds──> data files that may hold the rows ──runner──> files that do
                                                   └─> delete files that may hold their values or point at them
    files ──> manifests that name one, also as removed ──> snapshots that have such a manifest ──> tags, branches

A row that a delete file hides is still in its data file, so deletes are ignored: the bytes count. An entry of a removed
file holds the key and the bounds of that file. If such a file is gone, nobody can look into it any more, and its bounds
decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyiceberg.expressions.visitors import bind, extract_field_ids
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.files.file_io import EncryptingFileIO, naming
from sealberg.files.locations import normal
from sealberg.jobs.compaction.tasks import stripped
from sealberg.jobs.task_io import storage_only
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.manifest_column_reader import read_columns
from sealberg.scan import metadata_columns
from sealberg.scan.delete_index import only_path
from sealberg.scan.planner import EncryptedFileScanTask, Planner
from sealberg.scan.task_reader import TaskReader
from sealberg.table.reachable import list_tasks, no_list_key, read_list, refuse_unread, without_list_keys
from sealberg.write.snapshot_summary import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry

    from sealberg.jobs.runner import Runner
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.table.catalog_table import CatalogTable


@dataclass(frozen=True, slots=True)
class HoldTask:
    """A data or equality delete file to look into, with its own key.

    Attributes:
        metadata: schemas and specs, without snapshots and keys.
    """

    file: DataFileV3
    io: FileIO = field(repr=False)
    metadata: V3TableMetadata = field(repr=False)
    row_filter: BooleanExpression = field(repr=False)
    allow_plaintext: bool = False
    allow_missing_length: bool = False


class Held(NamedTuple):
    """How many matching rows a file has; None if the file does not exist."""

    location: str
    rows: int | None


def rows_held(task: HoldTask) -> Held:
    """Count the matching rows of a file, deleted or not."""
    where = str(task.file.file_path)
    io = EncryptingFileIO(
        task.io, no_list_key, allow_plaintext=task.allow_plaintext, allow_missing_length=task.allow_missing_length
    )
    reader = TaskReader(task.metadata, io, task.metadata.schema(), Schema(metadata_columns.POS), task.row_filter)
    whole = EncryptedFileScanTask(task.file, (), task.row_filter, sequence_number=0)
    try:
        with naming(where):
            return Held(where, sum(batch.num_rows for batch in reader.batches(whole)))
    except FileNotFoundError:
        return Held(where, None)


@dataclass
class Holding:
    """What holds the rows.

    Attributes:
        rows: matching rows of each data file that exists.
        unknown: data files that are gone, whose entries may be about matching rows.
        deletes: delete files that hold values of the rows, or positions in these files.
        manifests: manifests that name one of them.
        snapshot_ids: snapshots that have such a manifest, in the order of the metadata.
        tags, branches: refs to such snapshots.
        searched: files that were looked into, because their bounds did not rule the rows out.
        metadata_location: the metadata that were searched.
    """

    rows: dict[str, int] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    snapshot_ids: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    bytes: int = 0
    searched: int = 0
    metadata_location: str = ""

    def __bool__(self) -> bool:
        return bool(self.snapshot_ids)

    @property
    def data(self) -> set[str]:
        return {*self.rows, *self.unknown}


class Search:
    """Searches all snapshots of a table.

    Args:
        row_filter: unbound; its columns are those of the current schema.
    """

    def __init__(self, table: CatalogTable, row_filter: BooleanExpression, runner: Runner) -> None:
        self._table = table
        self._filter = row_filter
        self._runner = runner
        metadata = table.metadata
        self._planner = Planner(metadata, table.io, metadata.schema(), row_filter)
        self._filter_ids = extract_field_ids(bind(metadata.schema(), row_filter, case_sensitive=True))
        self._named: dict[str, set[str]] = {}  # a file that may matter: the manifests that name it
        self._deletes: list[tuple[str, DataFileV3]] = []
        self._candidates: dict[str, DataFileV3] = {}

    def run(self) -> Holding:
        lines, by_snapshot = self._manifests()
        for manifest, entries in self._read(lines.values()):
            for entry in entries:
                self._note(str(manifest.manifest_path), entry)
        found = Holding(metadata_location=self._table.metadata_location)
        for held in self._runner.run(rows_held, self._tasks()):
            found.searched += 1
            if held.rows is None:
                if self._candidates[held.location].content == DataFileContent.DATA:
                    found.unknown.add(held.location)
            elif held.rows:
                self._take(found, held)
        found.deletes |= set(self._pointing_deletes(found))
        names = [*found.data, *found.deletes]
        found.manifests = {manifest for name in names for manifest in self._named.get(name, ())}
        self._take_snapshots(found, by_snapshot)
        return found

    def _take(self, found: Holding, held: Held) -> None:
        file = self._candidates[held.location]
        if file.content == DataFileContent.DATA:
            found.rows[held.location] = held.rows or 0
            found.bytes += file.file_size_in_bytes
        else:
            found.deletes.add(held.location)

    def _manifests(self) -> tuple[dict[str, ManifestFileV3], dict[int, list[str]]]:
        """Every manifest once, and the manifests of each snapshot.

        Only names are decoded at first. The newest snapshots come first, because their lists have most of the
        manifests: a list whose manifests are all known need not be decoded whole.
        """
        io, snapshots = self._table.io, self._table.metadata.snapshots
        task_io = without_list_keys(io, storage_only(self._table.inner))
        by_list = {normal(each.manifest_list): each for each in reversed(snapshots)}
        lines: dict[str, ManifestFileV3] = {}
        by_snapshot: dict[int, list[str]] = {}
        for names in self._runner.run(read_list, list_tasks(by_list.values(), io, task_io)):
            refuse_unread(names)
            snapshot = by_list[normal(names.location)]
            by_snapshot[snapshot.snapshot_id] = [str(each) for each in names.manifests]
            if any(str(each) not in lines for each in names.manifests):
                whole = (each for each in snapshot.manifests(io) if isinstance(each, ManifestFileV3))
                lines.update({str(line.manifest_path): line for line in whole})
        return lines, by_snapshot

    def _read(self, lines: Iterable[ManifestFileV3]) -> Iterator[tuple[ManifestFileV3, list[ManifestEntry]]]:
        def read(line: ManifestFileV3) -> tuple[ManifestFileV3, list[ManifestEntry]]:
            columns = read_columns(line, self._table.io)
            deletes = line.content == ManifestContent.DELETES
            return line, columns.entries(None if deletes else self._planner.may_match_rows(columns))

        yield from ExecutorFactory.get_or_create().map(read, lines)

    def _note(self, manifest: str, entry: ManifestEntry) -> None:
        file = entry.data_file
        assert isinstance(file, DataFileV3)
        path = str(file.file_path)
        self._named.setdefault(path, set()).add(manifest)
        if file.content == DataFileContent.DATA:
            self._candidates.setdefault(path, file)
            return
        self._deletes.append((path, file))
        if file.content == DataFileContent.EQUALITY_DELETES:
            self._candidates.setdefault(path, file)

    def _tasks(self) -> Iterator[HoldTask]:
        io = self._table.io
        assert isinstance(io, EncryptingFileIO)
        storage, metadata = storage_only(io.inner), stripped(self._table.metadata)
        for file in self._candidates.values():
            if file.content == DataFileContent.DATA or self._filter_ids <= set(file.equality_ids or ()):
                yield HoldTask(file, storage, metadata, self._filter, io.allow_plaintext, io.allow_missing_length)

    def _pointing_deletes(self, found: Holding) -> Iterator[str]:
        """Delete files that name a position in a file with the rows, or whose values nobody can compare."""
        data = found.data
        partitions = {partition_of(self._candidates[path]) for path in data}
        for path, file in self._deletes:
            if file.content == DataFileContent.EQUALITY_DELETES:
                if not self._filter_ids <= set(file.equality_ids or ()) and self._planner.partition_may_match(file):
                    yield path
            elif (target := only_path(file)) is not None:
                if target in data:
                    yield path
            elif partition_of(file) in partitions:
                yield path

    def _take_snapshots(self, found: Holding, by_snapshot: dict[int, list[str]]) -> None:
        metadata = self._table.metadata
        touched = {number for number, names in by_snapshot.items() if not found.manifests.isdisjoint(names)}
        found.snapshot_ids = tuple(each.snapshot_id for each in metadata.snapshots if each.snapshot_id in touched)
        hit = {name: ref for name, ref in metadata.refs.items() if ref.snapshot_id in touched}
        found.tags = tuple(name for name, ref in hit.items() if ref.snapshot_ref_type.value == "tag")
        found.branches = tuple(name for name, ref in hit.items() if ref.snapshot_ref_type.value == "branch")


def is_live(entry: ManifestEntry) -> bool:
    return entry.status != ManifestEntryStatus.DELETED
