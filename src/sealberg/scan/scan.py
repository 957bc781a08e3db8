"""Scans of version 3 tables: PyIceberg's, with our planning and reading.

    table.scan(...)                      EncryptedDataScan               a snapshot
    table.incremental_append_scan(...)   EncryptedIncrementalAppendScan  what was appended between two

    selected_fields=("id", "_row_id")    columns of `lineage` can be selected by name
    to_arrow                             all rows; files side by side; in the Arrow types of the files
    to_arrow_batch_reader                the same rows in the same order, with bounded memory; always in large types
    count                                from metadata where they suffice

to_pandas, to_polars, to_duckdb and to_ray are PyIceberg's, by way of to_arrow. Servers are not asked to plan:
their answers have no keys.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.table import BaseScan, DataScan, IncrementalAppendScan
from pyiceberg.table.snapshots import Operation, ancestors_between_ids
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.pyiceberg_private import append_range
from sealberg.scan import metadata_columns as lineage
from sealberg.scan.data_file_reader import STEADY, DecodeOptions
from sealberg.scan.ordered_streams import in_order
from sealberg.scan.planner import EncryptedFileScanTask, Planner
from sealberg.scan.task_reader import TaskReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WINDOW: Final = 4  # files that are read at a time
WHOLE_ROWS: Final = 1 << 20  # in a batch, where all rows are held in the end
CHUNK_BYTES: Final = 16 << 20  # how far each of them may be ahead of a slow consumer


class EncryptedDataScan(DataScan):
    """The rows of one snapshot."""

    def whole_schema(self) -> Schema:
        """All columns of the snapshot; what the filter is about."""
        return DataScan.projection(self.update(selected_fields=("*",)))

    def projection(self) -> Schema:
        return lineage.project(self.whole_schema(), self.selected_fields, case_sensitive=self.case_sensitive)

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
        """How many rows there are; like PyIceberg's, it does not look at the limit."""
        whole = self.whole_schema()
        nothing = TaskReader(self.table_metadata, self.io, whole, Schema(), self.row_filter, self.case_sensitive)
        known, asked = 0, []
        for task in self.plan_files():
            if task.counted_rows is None:
                asked.append(task)
            else:
                known += task.counted_rows
        counts: list[int] = [batch.num_rows for batch in _batches(nothing, asked, None, bounded=True)]
        return known + sum(counts)


class EncryptedIncrementalAppendScan(IncrementalAppendScan):
    """The rows that appends brought between two snapshots; later deletes are not looked at, as in PyIceberg."""

    def projection(self) -> Schema:
        schema = self.table_metadata.schema()
        return lineage.project(schema, self.selected_fields, case_sensitive=self.case_sensitive)

    def plan_files(self) -> list[EncryptedFileScanTask]:
        metadata = self.table_metadata
        if self.from_snapshot_id is None and self.to_snapshot_id is None and metadata.current_snapshot() is None:
            return []
        after, last = append_range(self)
        appends = {
            snapshot.snapshot_id: snapshot
            for snapshot in ancestors_between_ids(after, last, metadata)
            if snapshot.summary is not None and snapshot.summary.operation == Operation.APPEND
        }
        # A manifest stands in the list of every later snapshot, too.
        manifests = {
            str(manifest.manifest_path): manifest
            for snapshot in reversed(appends.values())
            for manifest in snapshot.manifests(self.io)
            if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id in appends
        }

        def is_new(entry: ManifestEntry) -> bool:
            return entry.snapshot_id in appends and entry.status == ManifestEntryStatus.ADDED

        return _planner(self, metadata.schema()).plan(list(manifests.values()), is_new)

    def to_arrow(self) -> pa.Table:
        return _to_arrow(_reader(self, self.table_metadata.schema()), self.plan_files(), self.limit)

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        return _to_batches(_reader(self, self.table_metadata.schema()), self.plan_files(), self.limit)


# -- the same for both ------------------------------------------------------------------------


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
    """In the types of the files, as PyIceberg's: where files differ in a type, in the larger one."""
    in_file_sizes = replace(reader, file_sizes=True)
    batches = list(_batches(in_file_sizes, tasks, limit, bounded=limit is not None))
    schemas = list(dict.fromkeys(batch.schema for batch in batches)) or [reader.arrow_schema]
    if len(schemas) == 1:
        return pa.Table.from_batches(batches, schemas[0])
    try:
        common = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        common = reader.arrow_schema
    return pa.concat_tables([pa.Table.from_batches([batch]).cast(common) for batch in batches])


def _to_batches(reader: TaskReader, tasks: list[EncryptedFileScanTask], limit: int | None) -> pa.RecordBatchReader:
    batches = _batches(reader, tasks, limit, bounded=True, by_row_group=True)
    return pa.RecordBatchReader.from_batches(reader.arrow_schema, batches)


def _batches(
    reader: TaskReader,
    tasks: Sequence[EncryptedFileScanTask],
    limit: int | None,
    *,
    bounded: bool,
    by_row_group: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of all tasks in their order, at most `limit`."""
    left = math.inf if limit is None else limit
    if left <= 0:
        return
    alone = len(tasks) < (os.cpu_count() or 1)
    # What a filter is about to drop must not be held in large pieces: a wide table would need gigabytes for few rows.
    all_stay = not bounded and isinstance(reader.row_filter, AlwaysTrue)
    pace = DecodeOptions(WHOLE_ROWS if all_stay else STEADY.rows, threads=alone, by_row_group=by_row_group)
    paced = replace(reader, pace=pace)
    streams = (paced.batches(task) for task in tasks)
    for batch in in_order(
        ExecutorFactory.get_or_create(),
        streams,
        window=WINDOW if bounded else 1 << 30,
        budget=CHUNK_BYTES if bounded else math.inf,
        weigh=lambda batch: batch.nbytes,
    ):
        yield batch if batch.num_rows <= left else batch.slice(0, int(left))
        left -= batch.num_rows
        if left <= 0:
            return
