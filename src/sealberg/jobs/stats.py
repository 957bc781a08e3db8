"""`stats`: numbers of distinct values per column, as an encrypted statistics file of a snapshot.

    plan("hr.salaries", catalog="prod") ──> StatsPlan ──execute()──> Statistics

    snapshot ── one task per data file, with its deletes ──runner──> a sketch per column ──union──> Puffin in AGS1
                                                                                                 ──> one commit

The sketches are those of Iceberg's compute_table_stats. A task has the keys of its own files only, and returns
sketches: hashes of at most 4,096 values per column. Nothing is committed before the file is whole, so a job that was
killed is run again from the start, and leaves at most one file that nothing names and nobody can open.

    can_renew(table, snapshot)    whether a job that rewrites a snapshot should count again
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from sealberg.errors import ConfigError
from sealberg.files.file_io import EncryptingFileIO
from sealberg.files.puffin.theta_sketch import ThetaSketch
from sealberg.files.puffin.value_hash import SketchBuilder
from sealberg.jobs.job import FINE, NOT_CHECKED, Amount, Plan, PlanStep, Progress
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import encrypted_table
from sealberg.jobs.stats_removal import remove_statistics_files
from sealberg.jobs.task_io import storage_only
from sealberg.keys.keyring import Keyring
from sealberg.scan.planner import EncryptedFileScanTask, Planner
from sealberg.scan.task_reader import TaskReader
from sealberg.table.statistics import StatisticsChange
from sealberg.write.sketch_file import write_sketches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3Snapshot
    from sealberg.table.catalog_table import CatalogTable


@dataclass(frozen=True)
class Statistics:
    """What the job wrote.

    Attributes:
        table: the name of the table.
        snapshot_id: the snapshot whose rows were counted; None if the table has no snapshot.
        location: the statistics file; None if there was nothing to write.
        stored_bytes: the size of the statistics file.
        distinct: the number of distinct values of each column, as estimated by its sketch.
        replaced: the statistics file that the snapshot had before, which was deleted.
        left: that file, if it stays, and why.
    """

    table: str
    snapshot_id: int | None
    location: str | None = None
    stored_bytes: int = 0
    distinct: tuple[tuple[str, int], ...] = ()
    replaced: str | None = None
    left: tuple[tuple[str, str], ...] = ()

    @property
    def exit_code(self) -> int:
        return NOT_CHECKED if self.left else FINE

    def to_json(self) -> dict[str, Any]:
        return {
            "job": "stats",
            "table": self.table,
            "snapshot_id": self.snapshot_id,
            "statistics_file": self.location,
            "stored_bytes": self.stored_bytes,
            "distinct_values": dict(self.distinct),
            "replaced": self.replaced,
            "left": [{"file": path, "reason": reason} for path, reason in self.left],
        }

    def __str__(self) -> str:
        if self.location is None:
            return f"{self.table} has no snapshot, so there is nothing to count"
        width = max(len("column"), *(len(name) for name, _ in self.distinct))
        lines = [f"{name:<{width}}  {count:>15,}" for name, count in self.distinct]
        head = f"{'column':<{width}}  {'distinct values':>15}"
        stays = (f"not deleted: {path}: {reason}" for path, reason in self.left)
        return "\n".join((head, *lines, f"written: {self.location} ({self.stored_bytes:,} bytes, encrypted)", *stays))


@dataclass(frozen=True)
class StatsPlan(Plan[Statistics]):
    """The snapshot and the columns that will be counted."""

    table: CatalogTable = field(repr=False)
    snapshot: V3Snapshot | None
    columns: tuple[NestedField, ...]
    publish_ndv: bool = False

    @property
    def job(self) -> str:
        return "stats"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        name, snapshot = ".".join(self.table.name()), self.snapshot
        if snapshot is None:
            return (PlanStep(name, "count", note="the table has no snapshot, so there is nothing to count"),)
        said = {} if snapshot.summary is None else snapshot.summary.additional_properties
        files, size = (int(said.get(key, "0")) for key in ("total-data-files", "total-files-size"))
        note = "metadata.json, which is not encrypted, will show the numbers" if self.publish_ndv else ""
        return (
            PlanStep(
                name,
                f"count distinct values of {len(self.columns)} column{'' if len(self.columns) == 1 else 's'}",
                reads=Amount(files, size),
                writes=Amount(1, None),
                removes=Amount(1 if _file_of(self.table, snapshot.snapshot_id) else 0, None),
                kms_calls=2,
                note=note,
            ),
        )

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> Statistics:
        """Count, write the statistics file, and commit it.

        Raises:
            ValidationException: another process has expired the snapshot meanwhile.
        """
        name, snapshot = ".".join(self.table.name()), self.snapshot
        if snapshot is None:
            return Statistics(name, None)
        sketches = self._sketches(snapshot, runner or Threads(), progress)
        transaction = self.table.transaction()
        written = write_sketches(transaction.context, snapshot, sketches, publish_ndv=self.publish_ndv)
        change = StatisticsChange(written.file, written.key)
        transaction.commit_statistics(change)
        transaction.commit_transaction()
        left = remove_statistics_files(self.table, change.replaced)
        return Statistics(
            name,
            snapshot.snapshot_id,
            written.file.statistics_path,
            written.file.file_size_in_bytes,
            tuple((column.name, sketches[column.field_id].estimate) for column in self.columns),
            None if left else next(iter(change.replaced), None),
            left,
        )

    def _sketches(
        self, snapshot: V3Snapshot, runner: Runner, progress: ProgressListener | None
    ) -> dict[int, ThetaSketch]:
        tasks = list(_tasks(self.table, snapshot, self.columns))
        total, done = sum(task.stored_bytes for task in tasks), 0
        found: dict[int, ThetaSketch] = {
            column.field_id: ThetaSketch.of(np.empty(0, np.uint64)) for column in self.columns
        }
        for count, report in enumerate(runner.run(sketch_file, tasks), 1):
            done += report.stored_bytes
            for field_id, blob in report.sketches:
                found[field_id] = ThetaSketch.union((found[field_id], ThetaSketch.decode(blob)))
            if progress is not None:
                progress(Progress(count, len(tasks), done, total))
        return found


def plan(
    table: TableName,
    *,
    catalog: Catalog | str | None = None,
    columns: Sequence[str] = (),
    snapshot: int | None = None,
    publish_ndv: bool = False,
) -> StatsPlan:
    """What `stats` will count. Reads the metadata of the table, and asks no KMS.

    Args:
        table: the name of an encrypted table, or the open table.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        columns: top-level columns; by default all columns of primitive types.
        snapshot: the id of the snapshot to count; by default the current snapshot.
        publish_ndv: also write the numbers of distinct values to metadata.json, which is not encrypted, so that
            Iceberg Java's optimiser sees them.
    """
    opened = encrypted_table(table, catalog)
    metadata = opened.metadata
    found = metadata.current_snapshot() if snapshot is None else metadata.snapshot_by_id(snapshot)
    if found is None and snapshot is not None:
        raise ConfigError(f"table {'.'.join(opened.name())} has no snapshot {snapshot}")
    schema = metadata.schema() if found is None else _schema(opened, found)  # type: ignore[arg-type]
    return StatsPlan(opened, found, tuple(_columns(schema, columns)), publish_ndv)  # type: ignore[arg-type]


def can_renew(table: CatalogTable, snapshot_id: int) -> bool:
    """Whether a job that rewrites this snapshot should count again: it has statistics."""
    return _file_of(table, snapshot_id) is not None


def _columns(schema: Schema, names: Sequence[str]) -> Iterator[NestedField]:
    if not names:
        yield from (field for field in schema.fields if isinstance(field.field_type, PrimitiveType))
        return
    by_name = {field.name: field for field in schema.fields}
    for name in dict.fromkeys(names):
        column = by_name.get(name)
        if column is None:
            raise ConfigError(f"no column {name}; the columns are {', '.join(by_name)}")
        if not isinstance(column.field_type, PrimitiveType):
            raise ConfigError(f"column {name} has the type {column.field_type}, expected a primitive type")
        yield column


def _schema(table: CatalogTable, snapshot: V3Snapshot) -> Schema:
    schemas = {schema.schema_id: schema for schema in table.metadata.schemas}
    return schemas.get(table.metadata.current_schema_id if snapshot.schema_id is None else snapshot.schema_id) or (
        table.metadata.schema()
    )


def _file_of(table: CatalogTable, snapshot_id: int) -> str | None:
    found = (file.statistics_path for file in table.metadata.statistics if file.snapshot_id == snapshot_id)
    return next(found, None)


# -- the work on one file -----------------------------------------------------------------------


@dataclass(frozen=True)
class SketchTask:
    """A data file with its deletes and their keys; what the table has in common with its other files."""

    file: DataFileV3
    deletes: tuple[DataFileV3, ...]
    sequence_number: int | None
    metadata: TableMetadata = field(repr=False)
    schema: Schema = field(repr=False)
    field_ids: tuple[int, ...]
    io: FileIO = field(repr=False)
    allowed: Mapping[str, bool]

    @property
    def stored_bytes(self) -> int:
        return int(self.file.file_size_in_bytes or 0)


@dataclass(frozen=True)
class FileSketches:
    """The sketches of one file, by field id; they hold hashes of values."""

    stored_bytes: int
    sketches: tuple[tuple[int, bytes], ...] = field(repr=False)


def sketch_file(task: SketchTask) -> FileSketches:
    """Sketch the live rows of one data file."""
    projection = Schema(*(task.schema.find_field(field_id) for field_id in task.field_ids))
    io = EncryptingFileIO(task.io, _no_list_key, **task.allowed)
    reader = TaskReader(task.metadata, io, task.schema, projection)
    builders = [SketchBuilder() for _ in task.field_ids]
    scan = EncryptedFileScanTask(task.file, task.deletes, AlwaysTrue(), sequence_number=task.sequence_number)
    for batch in reader.batches(scan):
        for builder, column in zip(builders, batch.columns, strict=True):
            builder.add(column)
    made = tuple((field_id, each.sketch().encode()) for field_id, each in zip(task.field_ids, builders, strict=True))
    return FileSketches(task.stored_bytes, made)


def _tasks(table: CatalogTable, snapshot: V3Snapshot, columns: Sequence[NestedField]) -> Iterator[SketchTask]:
    schema = _schema(table, snapshot)
    assert isinstance(table.io, EncryptingFileIO)
    io = storage_only(table.io.inner)
    nothing: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}, "statistics": []}
    metadata = table.metadata.model_copy(
        update={**nothing, "partition_statistics": [], "current_snapshot_id": None, "encryption_keys": Keyring()}
    )
    for task in Planner(table.metadata, table.io, schema, AlwaysTrue()).plan(snapshot.manifests(table.io)):
        yield SketchTask(
            task.file,
            tuple(task.delete_files),  # type: ignore[arg-type]  # always of our class
            task.sequence_number,
            metadata,
            schema,
            tuple(column.field_id for column in columns),
            io,
            table.allowed,
        )


def _no_list_key(_: str) -> KeyMetadata:
    raise AssertionError("internal error: a task tried to open a manifest list")
