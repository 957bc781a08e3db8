"""What holds rows that match a filter, in every snapshot of a table.

    all snapshots ──> manifests, each once ──bounds──> data files that may hold the rows ──runner──> files that do
                                                   └─> delete files that may hold their values or point at them
    files ──> manifests that name one, also as removed ──> snapshots that have such a manifest ──> tags, branches

A row that a delete file hides is still in its data file, so deletes are ignored: the bytes count. An entry of a removed
file holds the key and the bounds of that file. If such a file is gone, nobody can look into it any more, and its bounds
decide.

The searches of one run share a `Searched`. Each search reads the manifest list of every snapshot, every manifest that
no search has read before, and every file that may hold the rows and was not found without them before. What is left
out cannot have changed: a manifest or a file is one content under its own key, which nothing else is sealed with, and
what was read before was authenticated with that key. So the last search is a proof about everything that the metadata
name. What has no key is never left out, and neither is a file that held the rows, or that was gone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.files.file_io import EncryptingFileIO, naming
from sealberg.files.locations import normal
from sealberg.jobs.compaction.tasks import stripped
from sealberg.jobs.erasure.names import wanted
from sealberg.jobs.task_io import storage_only
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.manifest_column_reader import read_columns
from sealberg.metadata.manifest_groups import search_together
from sealberg.scan import metadata_columns
from sealberg.scan.data_file_reader import DecodeOptions
from sealberg.scan.delete_index import only_path
from sealberg.scan.planner import EncryptedFileScanTask, Planner
from sealberg.scan.task_reader import TaskReader
from sealberg.table.reachable import list_tasks, no_list_key, read_list, refuse_unread, without_list_keys
from sealberg.write.snapshot_summary import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO

    from sealberg.jobs.runner import Runner
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.table.catalog_table import CatalogTable


@dataclass(frozen=True)
class Lens:
    """How files are looked into: the same for all files of a search, without a key.

    Attributes:
        metadata: schemas and specs, without snapshots and keys.
        schema: the columns of the filter, with those that the table had before.
        threads: decode with several threads, because few files are looked into.
    """

    io: FileIO = field(repr=False)
    metadata: V3TableMetadata = field(repr=False)
    schema: Schema = field(repr=False)
    row_filter: BooleanExpression = field(repr=False)
    allow_plaintext: bool = False
    allow_missing_length: bool = False
    threads: bool = True

    @cached_property
    def reader(self) -> TaskReader:
        """Binds and translates the filter once for all files that a process looks into."""
        allowed = {"allow_plaintext": self.allow_plaintext, "allow_missing_length": self.allow_missing_length}
        io = EncryptingFileIO(self.io, no_list_key, **allowed)
        only = Schema(metadata_columns.POS)
        return TaskReader(
            self.metadata, io, self.schema, only, self.row_filter, options=DecodeOptions(threads=self.threads)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "reader"}  # made again where it is needed


@dataclass(frozen=True, slots=True)
class HoldTask:
    """A data or equality delete file to look into, with its own key."""

    file: DataFileV3
    lens: Lens


class Held(NamedTuple):
    """How many matching rows a file has; None if the file does not exist."""

    location: str
    rows: int | None


def rows_held(task: HoldTask) -> Held:
    """Count the matching rows of a file, deleted or not."""
    where, reader = str(task.file.file_path), task.lens.reader
    whole = EncryptedFileScanTask(task.file, (), reader.row_filter, sequence_number=0)
    try:
        with naming(where):
            return Held(where, sum(batch.num_rows for batch in reader.batches(whole)))
    except FileNotFoundError:
        return Held(where, None)


class Named(NamedTuple):
    """What a manifest says about files that may matter.

    Args:
        in_partition: the delete files among them whose partition may hold the rows.
    """

    files: tuple[DataFileV3, ...] = ()
    in_partition: frozenset[str] = frozenset()


class Searched:
    """What the searches of one run have read, for one filter and one table.

    A manifest is known by its location and its key, and so is a file: under a key there is one content.
    """

    def __init__(self) -> None:
        self._about: tuple[Any, ...] | None = None
        self._manifests: dict[tuple[str, bytes], Named] = {}
        self._without: set[tuple[str, bytes]] = set()

    def begin(self, metadata: V3TableMetadata) -> None:
        """Forget everything if the filter may mean something else now: a column was renamed, or its type promoted."""
        about = (metadata.schema(), tuple(metadata.schemas), metadata.specs(), metadata.name_mapping())
        if about != self._about:
            self._about = about
            self._manifests.clear()
            self._without.clear()

    @property
    def has_manifests(self) -> bool:
        return bool(self._manifests)

    def manifest(self, line: ManifestFileV3) -> Named | None:
        """What a manifest says; None if it was not read."""
        return None if line.key_metadata is None else self._manifests.get((str(line.manifest_path), line.key_metadata))

    def add_manifest(self, line: ManifestFileV3, named: Named) -> None:
        if line.key_metadata is not None:
            self._manifests[str(line.manifest_path), line.key_metadata] = named

    def is_without(self, file: DataFileV3) -> bool:
        """Whether the file was looked into, and holds none of the rows."""
        return file.key_metadata is not None and (str(file.file_path), file.key_metadata) in self._without

    def add_without(self, file: DataFileV3) -> None:
        if file.key_metadata is not None:
            self._without.add((str(file.file_path), file.key_metadata))


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
        searched: files that were looked into, by this search or an earlier one, because their bounds did not rule the
            rows out.
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
        where: the rows, by every field that the names of the filter ever meant.
        seen: what earlier searches of this run with this filter have read; this search adds to it.
    """

    def __init__(
        self, table: CatalogTable, where: str | BooleanExpression, runner: Runner, seen: Searched | None = None
    ) -> None:
        self._table = table
        self._wanted = wanted(where, table.metadata)
        self._runner = runner
        metadata = table.metadata
        self._seen = Searched() if seen is None else seen
        self._seen.begin(metadata)
        self._planner = Planner(metadata, table.io, self._wanted.schema, self._wanted.row_filter)
        self._filter_ids = extract_field_ids(self._wanted.bound)
        self._named: dict[str, set[str]] = {}  # a file that may matter: the manifests that name it
        self._deletes: list[tuple[str, DataFileV3]] = []
        self._candidates: dict[str, DataFileV3] = {}
        self._in_partition: set[str] = set()

    def run(self) -> Holding:
        lines, by_snapshot = self._manifests()
        for manifest, named in self._read(lines.values()):
            self._in_partition |= named.in_partition
            for file in named.files:
                self._note(str(manifest.manifest_path), file)
        known = {path for path, file in self._candidates.items() if self._seen.is_without(file)}
        found = Holding(metadata_location=self._table.metadata_location, searched=len(known))
        for held in self._runner.run(rows_held, self._tasks(known)):
            found.searched += 1
            if held.rows == 0:
                self._seen.add_without(self._candidates[held.location])
            elif held.rows is None:
                if self._candidates[held.location].content == DataFileContent.DATA:
                    found.unknown.add(held.location)
            else:
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

    def _read(self, lines: Iterable[ManifestFileV3]) -> Iterator[tuple[ManifestFileV3, Named]]:
        """What each manifest says; a manifest that was read before is not read again."""
        io = self._table.io

        statistics, again = self._planner.statistics, self._seen.has_manifests

        def read(line: ManifestFileV3) -> tuple[ManifestFileV3, Named]:
            deletes = line.content == ManifestContent.DELETES
            # After the rows were erased no file should be left, and the columns of the filter are enough to see that.
            if again and not deletes:
                (found,) = search_together([line], io, statistics)
                if not len(self._planner.may_match_rows(found.columns)):
                    return line, Named()
            columns = read_columns(line, io)
            if not deletes:
                return line, Named(tuple(columns.files(self._planner.may_match_rows(columns))))
            paths = columns.file_path.texts(self._planner.partition_may_match_rows(columns)).to_pylist()
            return line, Named(tuple(columns.files(np.arange(len(columns)))), frozenset(paths))

        unread: list[ManifestFileV3] = []
        for line in lines:
            named = self._seen.manifest(line)
            if named is None:
                unread.append(line)
            else:
                yield line, named
        for line, named in ExecutorFactory.get_or_create().map(read, unread):
            self._seen.add_manifest(line, named)
            yield line, named

    def _note(self, manifest: str, file: DataFileV3) -> None:
        path = str(file.file_path)
        self._named.setdefault(path, set()).add(manifest)
        if file.content == DataFileContent.DATA:
            self._candidates.setdefault(path, file)
            return
        self._deletes.append((path, file))
        if file.content == DataFileContent.EQUALITY_DELETES:
            self._candidates.setdefault(path, file)

    def _tasks(self, known: set[str]) -> Iterator[HoldTask]:
        """The files to look into, without those that are known to hold none of the rows."""
        io = self._table.io
        assert isinstance(io, EncryptingFileIO)
        wanted = [
            file
            for path, file in self._candidates.items()
            if path not in known
            and (file.content == DataFileContent.DATA or self._filter_ids <= set(file.equality_ids or ()))
        ]
        lens = Lens(
            storage_only(io.inner),
            stripped(self._table.metadata),
            self._wanted.schema,
            self._wanted.row_filter,
            io.allow_plaintext,
            io.allow_missing_length,
            threads=len(wanted) < (os.cpu_count() or 1),
        )
        yield from (HoldTask(file, lens) for file in wanted)

    def _pointing_deletes(self, found: Holding) -> Iterator[str]:
        """Delete files that name a position in a file with the rows, or whose values nobody can compare."""
        data = found.data
        partitions = {partition_of(self._candidates[path]) for path in data}
        for path, file in self._deletes:
            if file.content == DataFileContent.EQUALITY_DELETES:
                if not self._filter_ids <= set(file.equality_ids or ()) and path in self._in_partition:
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
