"""Scans of version 3 tables: PyIceberg's scans with the planner and the reader of this package.

    table.scan(...)                      EncryptedDataScan               the rows of one snapshot
    table.incremental_append_scan(...)   EncryptedIncrementalAppendScan  the rows appended between two snapshots

    selected_fields=("id", "_row_id")    metadata columns can be selected by name
    to_arrow                             all rows; files are read in parallel; Arrow types as in the files
    to_arrow_batch_reader                the same rows in the same order, with bounded memory; always large types
    count                                from metadata where possible

to_pandas, to_polars, to_duckdb and to_ray are PyIceberg's and call to_arrow. A REST server is never asked to plan a
scan, because the tasks that it would return have no keys.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import FileFormat, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import BaseScan, DataScan, IncrementalAppendScan
from pyiceberg.table.snapshots import Operation, ancestors_between_ids
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.pyiceberg_private import append_range
from sealberg.scan import metadata_columns
from sealberg.scan.data_file_reader import STEADY, DecodeOptions, Part, stored_length
from sealberg.scan.manifest_filter import added_in
from sealberg.scan.ordered_streams import in_order
from sealberg.scan.planner import EncryptedFileScanTask, FilePlan, Planner
from sealberg.scan.task_reader import TaskReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WINDOW: Final = 4  # files read at a time
WHOLE_ROWS: Final = 1 << 20  # rows in a batch when the result holds all rows
LEAST_ROWS: Final = 1024  # rows in a batch when the limit is lower
AVRO_PART: Final = 32 << 20  # stored bytes of an Avro file that a thread decodes
CHUNK_BYTES: Final = 16 << 20  # how far the reader of a file may be ahead of a slow consumer


class EncryptedDataScan(DataScan):
    """The rows of one snapshot."""

    def whole_schema(self) -> Schema:
        """All columns of the snapshot; the filter is bound to this schema."""
        return DataScan.projection(self.update(selected_fields=("*",)))

    def projection(self) -> Schema:
        return metadata_columns.project(self.whole_schema(), self.selected_fields, case_sensitive=self.case_sensitive)

    def plan_files(self) -> list[EncryptedFileScanTask]:
        snapshot = self.snapshot()
        if snapshot is None:
            return []
        return _planner(self, self.whole_schema()).plan(snapshot.manifests(self.io))

    def to_arrow(self, dictionary_columns: tuple[str, ...] = ()) -> pa.Table:
        return _to_arrow(_reader(self, self.whole_schema(), dictionary_columns), self.plan_files(), self.limit)

    def to_arrow_batch_reader(self, dictionary_columns: tuple[str, ...] = ()) -> pa.RecordBatchReader:
        return _to_batches(_reader(self, self.whole_schema(), dictionary_columns), self.plan_files(), self.limit)

    def count(self) -> int:
        """The number of rows; like PyIceberg's, it ignores the limit."""
        whole = self.whole_schema()
        no_columns = TaskReader(self.table_metadata, self.io, whole, Schema(), self.row_filter, self.case_sensitive)
        known, unknown = 0, []
        for task in self.plan_files():
            if task.counted_rows is None:
                unknown.append(task)
            else:
                known += task.counted_rows
        counts: list[int] = [batch.num_rows for batch in read_tasks(no_columns, unknown, None, bounded=True)]
        return known + sum(counts)


class EncryptedIncrementalAppendScan(IncrementalAppendScan):
    """The rows appended between two snapshots; later deletes are not applied, as in PyIceberg."""

    def projection(self) -> Schema:
        schema = self.table_metadata.schema()
        return metadata_columns.project(schema, self.selected_fields, case_sensitive=self.case_sensitive)

    def plan_files(self) -> list[EncryptedFileScanTask]:
        return self.file_plan().tasks()

    def file_plan(self) -> FilePlan:
        """The files as columns."""
        metadata = self.table_metadata
        if self.from_snapshot_id is None and self.to_snapshot_id is None and metadata.current_snapshot() is None:
            return FilePlan(self.row_filter, ())
        after, last = append_range(self)
        appends = {
            snapshot.snapshot_id: snapshot
            for snapshot in ancestors_between_ids(after, last, metadata)
            if snapshot.summary is not None and snapshot.summary.operation == Operation.APPEND
        }
        # Later snapshots list the manifests of earlier ones again.
        manifests = {
            str(manifest.manifest_path): manifest
            for snapshot in reversed(appends.values())
            for manifest in snapshot.manifests(self.io)
            if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id in appends
        }
        return _planner(self, metadata.schema()).file_plan(list(manifests.values()), added_in(appends))

    def to_arrow(self) -> pa.Table:
        return _to_arrow(_reader(self, self.table_metadata.schema()), self.plan_files(), self.limit)

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        return _to_batches(_reader(self, self.table_metadata.schema()), self.plan_files(), self.limit)


# -- shared by both scans ---------------------------------------------------------------------


def _planner(scan: BaseScan, schema: Schema) -> Planner:
    return Planner(
        scan.table_metadata,
        scan.io,
        schema,
        scan.row_filter,
        case_sensitive=scan.case_sensitive,
        include_empty_files=scan.options.get("include_empty_files", "false").lower() == "true",
    )


def _reader(scan: BaseScan, schema: Schema, dictionary_columns: tuple[str, ...] = ()) -> TaskReader:
    return TaskReader(
        scan.table_metadata,
        scan.io,
        schema,
        scan.projection(),  # type: ignore[attr-defined]
        scan.row_filter,
        scan.case_sensitive,
        dictionary_columns,
    )


def _to_arrow(reader: TaskReader, tasks: list[EncryptedFileScanTask], limit: int | None) -> pa.Table:
    """All rows in the Arrow types of the files, as PyIceberg's; where files differ, in the larger type."""
    in_file_sizes = replace(reader, file_sizes=True)
    batches = list(read_tasks(in_file_sizes, tasks, limit, bounded=limit is not None))
    schemas = list(dict.fromkeys(batch.schema for batch in batches)) or [reader.arrow_schema]
    if len(schemas) == 1:
        return pa.Table.from_batches(batches, schemas[0])
    try:
        common = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        common = reader.arrow_schema
    return pa.concat_tables([pa.Table.from_batches([batch]).cast(common) for batch in batches])


def _to_batches(reader: TaskReader, tasks: list[EncryptedFileScanTask], limit: int | None) -> pa.RecordBatchReader:
    batches = read_tasks(reader, tasks, limit, bounded=True, by_row_group=True)
    return pa.RecordBatchReader.from_batches(reader.arrow_schema, batches)


def read_tasks(
    reader: TaskReader,
    tasks: Sequence[EncryptedFileScanTask],
    limit: int | None = None,
    *,
    bounded: bool = False,
    by_row_group: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of all tasks, in the order of the tasks, at most `limit`; files are read in parallel.

    `bounded` reads few files at a time, for a consumer that does not keep the rows.
    """
    left = math.inf if limit is None else limit
    if left <= 0:
        return
    if limit is not None:
        tasks = _enough(tasks, limit)
    few_files = len(tasks) < (os.cpu_count() or 1)
    # Large batches only without a filter: a filter on a wide table would hold gigabytes to keep a few rows.
    keeps_all = not bounded and isinstance(reader.row_filter, AlwaysTrue)
    most_rows = WHOLE_ROWS if keeps_all else min(STEADY.rows, max(LEAST_ROWS, left))
    options = DecodeOptions(int(most_rows), threads=few_files, by_row_group=by_row_group)
    configured = replace(reader, options=options).prepare()
    row_weight = CHUNK_BYTES / left  # as many rows as the limit weigh as much as a job reads
    streams = (configured.batches(task, part) for task in tasks for part in _parts(task))
    for batch in in_order(
        ExecutorFactory.get_or_create(),
        streams,
        window=WINDOW if bounded else 1 << 30,
        budget=CHUNK_BYTES if bounded else math.inf,
        weigh=lambda batch: max(batch.nbytes, int(batch.num_rows * row_weight)),
    ):
        yield batch if batch.num_rows <= left else batch.slice(0, int(left))
        left -= batch.num_rows
        if left <= 0:
            return


def _parts(task: EncryptedFileScanTask) -> Iterable[Part | None]:
    """The parts of a large Avro file, which are decoded in parallel; pyarrow does that for Parquet by itself."""
    file, deletes = task.shared
    if file.file_format != FileFormat.AVRO or deletes or (length := stored_length(file)) <= AVRO_PART:
        return (None,)
    return (Part(start, min(start + AVRO_PART, length)) for start in range(0, length, AVRO_PART))


def _enough(tasks: Sequence[EncryptedFileScanTask], limit: int) -> Sequence[EncryptedFileScanTask]:
    """The first tasks, without those that are not needed because the rows before them are counted and enough."""
    counted = 0
    for number, task in enumerate(tasks):
        if counted >= limit:
            return tasks[:number]
        counted += task.counted_rows or 0
    return tasks
