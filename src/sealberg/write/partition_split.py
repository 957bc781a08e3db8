"""Splits rows by partition, at the cost of one sort of the rows and not of one pass for each partition.

    rows ──partition values──> row numbers, partition by partition ──one `take`──> sorted rows ──> a slice for each

The rows are put into one chunk first: `take` on a table of many chunks costs the whole table for every partition.
Callers hand in a slab of bounded size, because the chunk is a copy.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, partition_record_value
from pyiceberg.transforms import HourTransform, TruncateTransform, UnknownTransform
from pyiceberg.typedef import Record

from sealberg.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortField
    from pyiceberg.transforms import Transform


class _Key(PartitionKey):
    """A partition key with several fields of one column, which PyIceberg's class refuses and version 3 allows."""

    @cached_property
    def partition(self) -> Record:
        return Record(*(self._stored(each) for each in self.field_values))

    def _stored(self, each: PartitionFieldValue) -> Any:
        if isinstance(each.value, int):  # a bucket, a number of days: PyIceberg takes the bucket of a time for a time
            return each.value
        return partition_record_value(each.field, each.value, self.schema)


def by_partition(spec: PartitionSpec, schema: Schema, rows: pa.Table) -> Iterator[tuple[PartitionKey, pa.Table]]:
    """The rows of each partition, in order, each in memory of its own: it may be kept for long."""
    groups, taken = _groups(spec, schema, rows)
    whole = rows.combine_chunks()
    for number, key in enumerate(groups):
        yield key, whole.take(taken[number].values)


def slices_by_partition(spec: PartitionSpec, schema: Schema, rows: pa.Table) -> Iterator[tuple[PartitionKey, pa.Table]]:
    """The same as `by_partition` in less time; a slice that is kept keeps the rows of all partitions in memory."""
    groups, taken = _groups(spec, schema, rows)
    ordered, ends = rows.combine_chunks().take(taken.values), taken.offsets.to_pylist()
    for key, first, end in zip(groups, ends, ends[1:], strict=False):
        yield key, ordered.slice(first, end - first)


def _groups(spec: PartitionSpec, schema: Schema, rows: pa.Table) -> tuple[list[PartitionKey], pa.ListArray]:
    """The partitions of the rows and the numbers of their rows. PyIceberg's own function loses NaN, which is not
    equal to itself."""
    names = [f"_{number}" for number in range(len(spec.fields))]
    columns = [transformed_column(field, schema, rows) for field in spec.fields]
    index = pa.table([*columns, pa.arange(0, rows.num_rows)], [*names, "row"])
    groups = index.group_by(names, use_threads=False).aggregate([("row", "list")])
    keys: list[PartitionKey] = []
    for values in groups.select(names).to_pylist():
        fields = [PartitionFieldValue(field, values[name]) for field, name in zip(spec.fields, names, strict=True)]
        keys.append(_Key(fields, spec, schema))
    return keys, _whole(groups.column("row_list"))


def _whole(lists: pa.ChunkedArray) -> pa.ListArray:
    """The lists as one array that begins at offset 0."""
    return pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)


def identity(key: PartitionKey) -> tuple[Any, ...]:
    """The partition as a key of a dictionary, in which NaN equals NaN and 0.0 differs from -0.0."""
    return tuple(repr(one.value) if isinstance(one.value, float) else one.value for one in key.field_values)


def slabs(
    batches: Iterable[pa.RecordBatch], most_bytes: int, most_rows: int = sys.maxsize
) -> Iterator[list[pa.RecordBatch]]:
    """The batches in groups of these sizes; a batch is cut where a group ends."""
    slab: list[pa.RecordBatch] = []
    rows_left, bytes_left = most_rows, most_bytes
    for given in batches:
        batch = given
        row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
        while batch.num_rows:
            room = min(rows_left, bytes_left // row_bytes)
            if room <= 0 and slab:
                yield slab
                slab, rows_left, bytes_left = [], most_rows, most_bytes
                continue
            piece = batch.slice(0, max(1, room))  # at least one row, however large
            slab.append(piece)
            rows_left -= piece.num_rows
            bytes_left -= piece.nbytes
            batch = batch.slice(piece.num_rows)
    if slab:
        yield slab


def transformed_column(field: PartitionField | SortField, schema: Schema, rows: pa.Table) -> pa.ChunkedArray:
    """The values of a partition or sort field, in a type that can be grouped and sorted."""
    name = schema.find_column_name(field.source_id)
    if name is None:
        raise FormatError(f"the column {field.source_id} of a field with the transform {field.transform} is missing")
    if isinstance(field.transform, UnknownTransform):
        raise UnsupportedError(f"cannot write by the transform {str(field.transform)[:100]} of column {name}: unknown")
    if name in rows.column_names:
        column = rows[name]
    else:
        first, *inner = name.split(".")
        column = pc.struct_field(rows[first], inner)
    column = _known_to(field.transform, column)
    made = field.transform.pyarrow_transform(schema.find_type(field.source_id))(column)
    if isinstance(made.type, pa.BaseExtensionType):
        return made.cast(made.type.storage_type)
    # Partition values are integers; Python's datetime would cut nanoseconds.
    return made.cast(pa.int64()) if pa.types.is_timestamp(made.type) else made


def _known_to(transform: Transform[Any, Any], column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that PyIceberg's transform knows, with the same result."""
    kind = column.type
    if isinstance(transform, TruncateTransform) and pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    if isinstance(transform, HourTransform) and pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pc.floor_temporal(column, unit="hour").cast(pa.timestamp("us", kind.tz))
    return column
