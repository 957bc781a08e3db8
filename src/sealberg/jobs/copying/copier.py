"""Copies a table file by file, and publishes the copy when everything in it was compared.

    read the source ──> files that are not copied yet ──runner──> copied files, recorded in batches
                 ^                                                        │
                 └── --sync: the source has changed meanwhile ────────────┤
                                                                          v
    positions, manifests, lists ──> compared ──> leftovers removed ──> registered under the target's name

A run that dies leaves `<target>_unfinished`; the next run goes on with its files. Nothing has the target's name before
everything was compared.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import SnapshotLogEntry

from sealberg.files.file_io import EncryptingFileIO
from sealberg.jobs.copying.comparison import compare_positions, compare_snapshots
from sealberg.jobs.copying.file_copy import copy_file
from sealberg.jobs.copying.leftovers import SOURCE
from sealberg.jobs.copying.mirror import Mirror
from sealberg.jobs.copying.position_copies import PositionCopies
from sealberg.jobs.copying.work_table import (
    WorkTable,
    remove_records,
    target_properties,
    work_name,
    write_metadata,
)
from sealberg.jobs.job import Progress
from sealberg.jobs.task_io import storage_only
from sealberg.keys.keyring import Keyring
from sealberg.metadata.invariants import check_keys
from sealberg.metadata.table_metadata import V3Ref
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.jobs.copying.file_copy import CopiedFile, CopyTask
    from sealberg.jobs.copying.source import Source
    from sealberg.jobs.copying.target import Target
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3Snapshot, V3TableMetadata

RECORD_FILES: Final = 64
RECORD_SECONDS: Final = 30.0
ROUNDS: Final = 10  # how often a source that keeps changing is read again


@dataclass
class Tally:
    """What a copy did.

    Attributes:
        columns: for each column the sum of the checksums of its pages, equal in source and target.
        kept: what lies in the location of the copy and is not of this copy, and why it stays.
    """

    files: int = 0
    bytes: int = 0
    rows: int = 0
    decoded: int = 0
    earlier: int = 0
    positions: int = 0
    columns: Counter[str] = field(default_factory=Counter)
    kept: dict[str, str] = field(default_factory=dict)

    def add(self, copy: CopiedFile) -> None:
        self.files += 1
        self.bytes += copy.stored_length
        self.rows += copy.record_count
        self.decoded += copy.decoded
        self.columns.update(copy.checksums)


@dataclass
class Copier:
    """One copy of a table.

    Args:
        read: reads the source as it is now; its argument are the snapshots that the target has already.
        properties: those of the target beside the source's: the key, or none for a plaintext table.
        follow: read the source again after the copy, until it has not changed meanwhile.
    """

    catalog: Catalog
    target: Identifier
    read: Callable[[frozenset[int]], Source]
    properties: dict[str, str]
    runner: Runner
    location: str | None = None
    follow: bool = False
    progress: ProgressListener | None = None
    tally: Tally = field(default_factory=Tally)

    def run(self) -> tuple[Table, Source]:
        """Copy and publish; returns the new table and the source as it was copied."""
        source = self.read(frozenset())
        source.check_formats()
        work = WorkTable.begin(self.catalog, self.target, source, self.properties, self.location)
        copies = work.copies(source)
        self.tally.earlier = len(copies)
        self.copy_files(source, work.target, copies, work.record)
        for _ in range(ROUNDS if self.follow else 0):
            newer = self.read(frozenset())
            newer.check_formats()
            if newer.lines == source.lines:
                break
            source = newer
            self.copy_files(source, work.target, copies, work.record)
        made = self._build(source, work, copies)
        return self._publish(work, made), source

    def tidy(self) -> None:
        """Drop the record of a finished copy that a killed run left, and its files."""
        name = work_name(self.target)
        if self.catalog.table_exists(name):
            self.catalog.drop_table(name)
        table = self.catalog.load_table(self.target)
        assert isinstance(table, CatalogTable), "a table of version 3"
        identity = table.metadata.properties[SOURCE]
        self.tally.kept |= remove_records(self.catalog, self.target, table.inner, table.metadata.location, identity)

    # -- files ----------------------------------------------------------------------------------

    def copy_files(
        self,
        source: Source,
        target: Target,
        copies: dict[str, CopiedFile],
        record: Callable[[list[CopiedFile]], None] | None = None,
    ) -> None:
        """Copy the files that are not in `copies`, and add them; `record` is called with each batch."""
        todo = [file for path, file in source.files.items() if path not in copies]
        fresh: list[CopiedFile] = []
        recorded = time.monotonic()
        total = sum(int(file.file_size_in_bytes or 0) for file in todo)
        done = 0
        for copy in self.runner.run(copy_file, self._tasks(source, target, todo)):
            copies[copy.source] = copy
            self.tally.add(copy)
            fresh.append(copy)
            done += int(source.files[copy.source].file_size_in_bytes or 0)
            if self.progress is not None:
                self.progress(Progress(self.tally.files, self.tally.files + len(todo) - len(fresh), done, total))
            if record and (len(fresh) >= RECORD_FILES or time.monotonic() - recorded >= RECORD_SECONDS):
                record(fresh)
                fresh, recorded = [], time.monotonic()
        if record:
            record(fresh)

    @staticmethod
    def _tasks(source: Source, target: Target, files: Iterable[DataFileV3]) -> Iterator[CopyTask]:
        io = source.io
        allowed = isinstance(io, EncryptingFileIO) and io.allow_missing_length
        storage = storage_only(io.inner if isinstance(io, EncryptingFileIO) else io)
        for file in files:
            yield target.task(storage, file, allow_missing_length=allowed)

    # -- metadata -------------------------------------------------------------------------------

    def _build(self, source: Source, work: WorkTable, copies: dict[str, CopiedFile]) -> V3TableMetadata:
        moved = {path: copy.target for path, copy in copies.items()}
        positions = PositionCopies(source, work.target, moved).copy_all()
        self.tally.positions = sum(file is not None for file in positions.values())
        keks = Keyring(tuple(key for key in work.table.metadata.encryption_keys if key.timestamp is not None))
        next_row_id = source.metadata.next_row_id if source.format_version >= 3 else 0
        mirror = Mirror(source, work.target, work.table.io, copies, positions, keks, next_row_id)
        snapshots = mirror.snapshots(source.snapshots)
        metadata = self._metadata(source, work, snapshots, mirror)
        check_keys(metadata)
        io = work.table.io_for(metadata)
        compare_snapshots(source, snapshots, io)
        compare_positions(positions, io)
        self._remove_leftovers(work, metadata, io)
        return metadata

    def _metadata(
        self, source: Source, work: WorkTable, snapshots: list[V3Snapshot], mirror: Mirror
    ) -> V3TableMetadata:
        old = source.metadata
        kept = {snapshot.snapshot_id for snapshot in snapshots}
        history = len(kept) == len(old.snapshots)
        refs = {name: ref for name, ref in old.refs.items() if ref.snapshot_id in kept and (history or name == "main")}
        log = [entry for entry in old.snapshot_log if entry.snapshot_id in kept]
        current = old.current_snapshot()
        if current is not None and not log:
            log = [
                SnapshotLogEntry.model_validate(
                    {"snapshot-id": current.snapshot_id, "timestamp-ms": current.timestamp_ms}
                )
            ]
        if current is not None and MAIN_BRANCH not in refs:
            refs[MAIN_BRANCH] = V3Ref.model_validate({"snapshot-id": current.snapshot_id, "type": "branch"})
        times = [entry.timestamp_ms for entry in log] + [snapshot.timestamp_ms for snapshot in snapshots]
        made = old.model_copy(
            update={
                "table_uuid": uuid.uuid4(),
                "location": work.table.metadata.location,
                "last_sequence_number": max(
                    [old.last_sequence_number, *(each.sequence_number or 0 for each in snapshots)]
                ),
                # Not now: a snapshot that the source gets meanwhile is copied with its time, by --sync.
                "last_updated_ms": max(times, default=old.last_updated_ms),
                "next_row_id": mirror.next_row_id,
                "snapshots": snapshots,
                "refs": refs,
                "snapshot_log": log,
                "metadata_log": [],
                "statistics": [],
                "partition_statistics": [],
                "properties": target_properties(self.catalog, self.target, source, self.properties),
                "encryption_keys": mirror.ring,
            }
        )
        return made.in_java_form()

    def _remove_leftovers(self, work: WorkTable, metadata: V3TableMetadata, io: FileIO) -> None:
        """Delete what killed runs left in the location."""
        named: list[str] = []
        for snapshot in metadata.snapshots:
            named.append(snapshot.manifest_list)
            for manifest in snapshot.manifests(io):
                named.append(str(manifest.manifest_path))
                entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
                named += (str(entry.data_file.file_path) for entry in entries)
        work.check_own()
        self.tally.kept |= work.leftovers(named).remove(work.target.storage)

    def _publish(self, work: WorkTable, metadata: V3TableMetadata) -> Table:
        location = work.target.locations.new_table_metadata_file_location()
        write_metadata(work.table, metadata, location)
        work.check_own()
        table = self.catalog.register_table(self.target, location)
        self.tally.kept |= work.remove(self.target)
        return table
