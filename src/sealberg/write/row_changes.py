"""Turns changes of rows into changes of files.

    rows to delete ──> (task, positions) ──copy-on-write──> files rewritten without these rows; kept rows keep their ids
                                         └─merge-on-read──> deletion vectors, several in one Puffin file

The reader of scans finds the matching rows as positions in files. All other rows stay, also those for which the filter
is null or NaN. A file that would lose all its rows is removed instead.
"""

from __future__ import annotations

import uuid
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, In
from pyiceberg.expressions.parser import parse as parse_expression
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import UpsertResult, upsert_util
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.file_io import EncryptingFileIO, naming
from sealberg.files.puffin.container import PuffinWriter
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.metadata.manifest import DataFileV3
from sealberg.properties.table_names import value_of
from sealberg.pyiceberg_private import values_of
from sealberg.scan import metadata_columns
from sealberg.scan.planner import EncryptedFileScanTask, Planner
from sealberg.scan.scan import read_tasks
from sealberg.scan.task_reader import TaskReader
from sealberg.write.data_writer import RowWriter
from sealberg.write.snapshot_builder import FileChanges, PartitionKey, Region
from sealberg.write.snapshot_summary import partition_of
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema

    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.write.context import WriteContext

COPY_ON_WRITE: Final = "copy-on-write"
MERGE_ON_READ: Final = "merge-on-read"
SERIALIZABLE: Final = "serializable"
RowLevelMode = Literal["copy-on-write", "merge-on-read"]


def parse(row_filter: str | BooleanExpression) -> BooleanExpression:
    return parse_expression(row_filter) if isinstance(row_filter, str) else row_filter


def row_level_mode(properties: Mapping[str, str], command: str, *, encrypted: bool) -> RowLevelMode:
    """How a DELETE, UPDATE or MERGE removes rows. Deletion vectors are for encrypted tables that ask for them."""
    mode = value_of(properties, f"write.{command}.mode", COPY_ON_WRITE)
    return MERGE_ON_READ if mode == MERGE_ON_READ and encrypted else COPY_ON_WRITE


def conflict_filter(
    metadata: V3TableMetadata, region: Region | None, command: str, level: str | None = None
) -> Region | None:
    """Under serializable isolation, the rows that no concurrent commit may add; under snapshot isolation, None.

    `command` is delete, update, merge or overwrite; `level` is an isolation level that outranks the table's property.
    """
    if level is None:
        name = f"write.{'update' if command == 'overwrite' else command}.isolation-level"
        level = value_of(metadata.properties, name, SERIALIZABLE)
    return region if level == SERIALIZABLE else None


def deletion(
    context: WriteContext,
    row_filter: BooleanExpression,
    *,
    branch: str | None,
    case_sensitive: bool = True,
    in_place: bool = True,
    warn: bool = False,
) -> FileChanges:
    """Delete the rows that match. `in_place` allows deletion vectors if the table's properties ask for them.

    `warn` gives PyIceberg's warning under PyIceberg's condition, that no file of the table can have matching rows; but
    to replace all rows of an empty table is no mistake.
    """
    work = RowWork.on(context, branch, case_sensitive)
    tasks = work.tasks(row_filter)
    if warn and not tasks and not isinstance(row_filter, AlwaysTrue):
        warnings.warn("Delete operation did not match any records", stacklevel=3)
    hits = work.matching(tasks, row_filter)
    mode = work.mode("delete") if in_place else COPY_ON_WRITE
    return work.without([(task, gone) for task, gone in hits if gone is None or len(gone)], mode)


def partitions_of(context: WriteContext, files: Sequence[DataFileV3], branch: str | None) -> FileChanges:
    """Remove every live file in a partition of these files; files of other specs stay, as in Java."""
    hit = frozenset(partition_of(file) for file in files)
    return replace(removal(_in_partitions(context, hit, branch), branch), replaces=hit)


def replan(context: WriteContext, changes: FileChanges) -> FileChanges:
    """The same changes for newer metadata: a change that replaces partitions removes the files now in them."""
    if changes.replaces is None:
        return changes
    gone = removal(_in_partitions(context, changes.replaces, changes.branch), changes.branch)
    return replace(changes, removed=gone.removed, removed_deletes=gone.removed_deletes)


def _in_partitions(
    context: WriteContext, partitions: frozenset[PartitionKey], branch: str | None
) -> list[EncryptedFileScanTask]:
    tasks = RowWork.on(context, branch).tasks(AlwaysTrue())
    return [task for task in tasks if partition_of(task.file) in partitions]


def removal(tasks: Sequence[EncryptedFileScanTask], branch: str | None) -> FileChanges:
    """Remove the files of these tasks and their deletion vectors."""
    return FileChanges(
        removed=tuple(task.file for task in tasks),
        removed_deletes=tuple(vector for task in tasks for vector in _vectors(task)),
        branch=branch,
    )


def upsertion(
    context: WriteContext,
    rows: pa.Table,
    join_cols: list[str] | None,
    *,
    update: bool,
    insert: bool,
    case_sensitive: bool,
    branch: str | None,
) -> tuple[FileChanges, UpsertResult]:
    """Update the rows whose key is in the table and that differ; insert the rows whose key is not."""
    schema = context.metadata.schema()
    keys = join_cols or [name for i in schema.identifier_field_ids if (name := schema.find_column_name(i))]
    if not keys:
        raise ValueError("Join columns could not be found, please set identifier-field-ids or pass in explicitly.")
    if not (update or insert):
        raise ValueError("no upsert options selected...exiting")
    if upsert_util.has_duplicate_rows(rows, keys):
        raise ValueError("Duplicate rows found in source dataset based on the key columns. No upsert executed")
    RowWriter(context).check(rows.schema)
    if rows.num_rows == 0:
        return FileChanges(branch=branch), UpsertResult(rows_updated=0, rows_inserted=0)
    work = RowWork.on(context, branch, case_sensitive)
    match = upsert_util.create_match_filter(rows, keys)
    near = _nearby(rows, keys) if len(keys) > 1 else match
    tasks = {str(task.file.file_path): task for task in work.tasks(near)}
    found = work.rows(tasks.values(), near, ("*", "_file", "_pos", "_row_id"))
    pairs = _pairs(rows, found, keys)
    changed = _changed(rows, found, pairs, keys) if update else []
    unknown = sorted(set(range(rows.num_rows)) - {source for source, _ in pairs}) if insert else []
    fresh = rows.take(pa.array(unknown, pa.int64()))  # pa.array([]) would have the type null, which take() refuses
    targets = pa.array([target for _, target in changed], pa.int64())
    replaced = found.select(["_file", "_pos", "_row_id"]).take(targets)
    gone: dict[str, list[int]] = {}
    for path, at in zip(replaced["_file"].to_pylist(), replaced["_pos"].to_pylist(), strict=True):
        gone.setdefault(path, []).append(at)
    writer = work.writer()
    with StagedFiles(context.io) as staged:
        mode = work.mode("update")
        changes = work.without([(tasks[path], DeletionVector.of(at)) for path, at in gone.items()], mode)
        staged.add(*changes.written)
        added = list(changes.added)
        if changed:
            # An updated row keeps its _row_id and inherits _last_updated_sequence_number from the new file.
            moved = rows.take([source for source, _ in changed])
            moved = moved.append_column("_row_id", replaced["_row_id"].combine_chunks())
            moved = moved.append_column("_last_updated_sequence_number", pa.nulls(len(moved), pa.int64()))
            added += staged.add_files(writer.write(moved, lineage=True))
        if fresh.num_rows:
            added += staged.add_files(writer.write(fresh))
    return (
        replace(
            changes,
            added=tuple(added),
            case_sensitive=case_sensitive,
            conflict_filter=conflict_filter(context.metadata, match, "update"),
            deletes_filter=match if mode == MERGE_ON_READ else None,
        ),
        UpsertResult(rows_updated=len(changed), rows_inserted=fresh.num_rows),
    )


def refuse_known_files(context: WriteContext, paths: list[str], branch: str | None) -> None:
    """Refuse files that the table already has."""
    known = {str(task.file.file_path) for task in RowWork.on(context, branch).tasks(AlwaysTrue())}
    if again := known & set(paths):
        raise ValueError(f"Cannot add files that are already referenced by table, files: {', '.join(sorted(again))}")


def foreign_files(context: WriteContext, paths: list[str]) -> list[DataFileV3]:
    """Existing Parquet files as data files of a table that is not encrypted, for add_files."""
    files = []
    for found in parquet_files_to_data_files(context.io, context.metadata, iter(paths)):
        file = DataFileV3(*values_of(found), None, None, None, None)
        file.spec_id = context.metadata.default_spec_id
        files.append(file)
    return files


@dataclass(frozen=True)
class RowWork:
    """Finds, rewrites and marks rows of one branch of a table."""

    context: WriteContext
    branch: str | None
    schema: Schema
    case_sensitive: bool

    @classmethod
    def on(cls, context: WriteContext, branch: str | None, case_sensitive: bool = True) -> RowWork:
        return cls(context, branch, context.metadata.schema(), case_sensitive)

    def tasks(self, row_filter: BooleanExpression) -> list[EncryptedFileScanTask]:
        metadata, io = self.context.metadata, self.context.io
        head = metadata.snapshot_by_name(self.branch) if self.branch else metadata.current_snapshot()
        if head is None:
            return []
        planner = Planner(metadata, io, self.schema, row_filter, case_sensitive=self.case_sensitive)
        return planner.plan(head.manifests(io))

    def _reader(self, columns: tuple[str, ...], row_filter: BooleanExpression) -> TaskReader:
        return TaskReader(
            self.context.metadata,
            self.context.io,
            self.schema,
            metadata_columns.project(self.schema, columns),
            row_filter,
            self.case_sensitive,
        )

    def rows(self, tasks: Any, row_filter: BooleanExpression, columns: tuple[str, ...]) -> pa.Table:
        reader = self._reader(columns, row_filter)
        return pa.Table.from_batches(read_tasks(reader, list(tasks)), reader.arrow_schema)

    def matching(
        self, tasks: Sequence[EncryptedFileScanTask], row_filter: BooleanExpression
    ) -> list[tuple[EncryptedFileScanTask, DeletionVector | None]]:
        """The positions of the rows that match in each file; None if the partition shows that all rows match."""
        reader = self._reader(("_pos",), row_filter)  # one for all files: it translates the filter once

        def find(task: EncryptedFileScanTask) -> DeletionVector | None:
            if isinstance(task.residual, AlwaysTrue):
                return None
            return DeletionVector.of(pa.Table.from_batches(reader.batches(task), reader.arrow_schema)["_pos"])

        return list(zip(tasks, ExecutorFactory.get_or_create().map(find, tasks), strict=True))

    def mode(self, command: str) -> RowLevelMode:
        """How rows are removed; with PyIceberg's warning where the table asks for deletion vectors and gets none."""
        properties, encrypted = self.context.metadata.properties, self.context.encryption is not None
        mode = row_level_mode(properties, command, encrypted=encrypted)
        if mode != row_level_mode(properties, command, encrypted=True):
            warnings.warn("Merge on read is not yet supported, falling back to copy-on-write", stacklevel=3)
        return mode

    def without(
        self, hits: list[tuple[EncryptedFileScanTask, DeletionVector | None]], mode: RowLevelMode
    ) -> FileChanges:
        """Delete these rows from the files of these tasks."""
        vectors = mode == MERGE_ON_READ
        removed, marked, rewritten = [], [], []
        for task, gone in hits:
            all_gone = gone if gone is None else gone | self.deleted(task)
            if all_gone is None or len(all_gone) >= task.file.record_count:
                removed.append(task)
            elif vectors:
                marked.append((task, all_gone))
            else:
                rewritten.append((task, all_gone))
        with StagedFiles(self.context.io) as staged:
            added = staged.add_files(self._rewrite(rewritten))
            added_deletes = self.write_vectors(marked) if marked else []
        gone_tasks = [*removed, *(task for task, _ in rewritten)]
        return FileChanges(
            added=tuple(added),
            added_deletes=tuple(added_deletes),
            removed=tuple(task.file for task in gone_tasks),
            removed_deletes=tuple(v for task in (*gone_tasks, *(t for t, _ in marked)) for v in _vectors(task)),
            branch=self.branch,
        )

    def writer(self) -> RowWriter:
        return RowWriter(self.context)

    def deleted(self, task: EncryptedFileScanTask) -> DeletionVector:
        """The positions that earlier position deletes and deletion vectors deleted."""
        deletes = [file for file in task.delete_files if isinstance(file, DataFileV3)]
        before = self._reader(("_pos",), AlwaysTrue()).deletes.positions(str(task.file.file_path), deletes)
        return before or DeletionVector.of([])

    def _rewrite(self, tasks: list[tuple[EncryptedFileScanTask, DeletionVector]]) -> list[DataFileV3]:
        columns = ("*", "_pos", "_row_id", "_last_updated_sequence_number")
        writer, files = self.writer(), list[DataFileV3]()
        with StagedFiles(self.context.io) as staged:
            for task, gone in tasks:
                reader = replace(self._reader(columns, AlwaysTrue()), file_sizes=True)
                batches = list(reader.batches(_whole(task)))
                rows = pa.Table.from_batches(batches, batches[0].schema if batches else reader.arrow_schema)
                kept = rows.filter(pc.invert(pc.is_in(rows["_pos"], gone.positions().cast(pa.int64()))))
                files += staged.add_files(writer.write(kept.drop_columns(["_pos"]), lineage=True))
        return files

    def write_vectors(self, marked: Sequence[tuple[EncryptedFileScanTask, DeletionVector]]) -> list[DataFileV3]:
        """Write the deletion vectors of these files into one Puffin file."""
        io, encryption = self.context.io, self.context.encryption
        assert encryption is not None
        assert isinstance(io, EncryptingFileIO)
        location = self.context.locations.new_data_location(f"00000-0-{uuid.uuid4()}-deletes.puffin")
        with StagedFiles(io, [location]), naming(location):
            sink = Ags1Writer(io.raw_output(location).create(overwrite=True), encryption.new_file_key())
            with PuffinWriter(sink) as puffin:
                blobs = [(task, vector, puffin.add(str(task.file.file_path), vector)) for task, vector in marked]
            written = puffin.close()
        return [
            _vector_file(location, task, vector, blob.offset, blob.length, written.stored_length, written.key_metadata)
            for task, vector, blob in blobs
        ]


def _vector_file(
    location: str,
    task: EncryptedFileScanTask,
    vector: DeletionVector,
    offset: int,
    length: int,
    stored_length: int,
    keys: Any,
) -> DataFileV3:
    file = DataFileV3.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PUFFIN,
        partition=task.file.partition,
        record_count=vector.cardinality,
        file_size_in_bytes=stored_length,
        key_metadata=keys.encode(),
        referenced_data_file=str(task.file.file_path),
        content_offset=offset,
        content_size_in_bytes=length,
    )
    file.spec_id = task.file.spec_id
    return file


def _vectors(task: EncryptedFileScanTask) -> Iterator[DataFileV3]:
    """The deletion vectors of a file, which are removed with the file or replaced by a new vector."""
    for file in task.delete_files:
        if isinstance(file, DataFileV3) and file.is_deletion_vector:
            yield file


def _whole(task: EncryptedFileScanTask) -> EncryptedFileScanTask:
    """The same file without the residual filter."""
    return EncryptedFileScanTask(task.file, task.delete_files, AlwaysTrue(), sequence_number=task.sequence_number)


def _nearby(rows: pa.Table, keys: list[str]) -> BooleanExpression:
    """A filter that all rows with one of the keys match, and others: each column has a value of some key.

    The exact filter names each key, and evaluating it costs rows x keys. The rows that match are joined afterwards.
    """
    # IN tells 0.0 from -0.0, and = does not: float columns are left to the join.
    exact = [key for key in keys if not pa.types.is_floating(rows.schema.field(key).type)]
    found: BooleanExpression = AlwaysTrue()
    for key in exact:
        found = And(found, In(key, pc.unique(rows[key]).to_pylist()))  # type: ignore[arg-type, call-arg]
    return found


def _pairs(rows: pa.Table, found: pa.Table, keys: list[str]) -> list[tuple[int, int]]:
    """Pairs (index in `rows`, index in `found`) of rows with equal keys."""
    source = rows.select(keys).append_column("__source", pa.arange(0, rows.num_rows))
    target = found.select(keys).append_column("__target", pa.arange(0, found.num_rows))
    schema = target.schema
    cast = source.cast(pa.schema([*(schema.field(key) for key in keys), source.schema.field("__source")]))
    joined = cast.join(target, keys, join_type="inner")
    pairs = sorted(zip(joined["__source"].to_pylist(), joined["__target"].to_pylist(), strict=True))
    if len({source for source, _ in pairs}) != len(pairs):
        raise ValueError("Target table has duplicate rows, aborting upsert")
    return pairs


def _changed(rows: pa.Table, found: pa.Table, pairs: list[tuple[int, int]], keys: list[str]) -> list[tuple[int, int]]:
    """The pairs whose rows differ in a column other than the keys."""
    source, target = [pa.array([pair[i] for pair in pairs], pa.int64()) for i in (0, 1)]
    differ = [False] * len(pairs)
    for name in rows.column_names:
        if name in keys:
            continue
        source_values = _values(rows[name].take(source).cast(found.schema.field(name).type))
        target_values = _values(found[name].take(target))
        differ = [known or not _same(a, b) for known, a, b in zip(differ, source_values, target_values, strict=True)]
    return [pair for pair, changed in zip(pairs, differ, strict=True) if changed]


def _values(column: pa.ChunkedArray) -> list[Any]:
    # Compared as integers: Python's datetime would cut nanoseconds.
    found: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return found


def _same(a: Any, b: Any) -> bool:
    # NaN equals NaN here; otherwise every upsert would rewrite a row with NaN.
    return bool(a == b or (a != a and b != b))  # noqa: PLR0124
