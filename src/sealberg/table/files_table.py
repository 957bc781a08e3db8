"""`table.inspect.files()`, its kin and `entries()`, made of the columns of manifests: no object for a file.

    manifests ──> their columns ──> the live rows ──> one Arrow table for each manifest, one after another
                                    all rows      ──> `entries`: a file is one value, beside the numbers of its entry

Columns, rows and their order are PyIceberg's; the readable bounds are decoded once for each distinct value. UUIDs are
shown, at which PyIceberg fails. Keys are not shown, only whether a file has one: what a file's key is stays packed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.types import PrimitiveType
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.metadata.manifest_columns import FORMATS
from sealberg.scan.manifest_reading import for_each
from sealberg.scan.partition_counts import grouped_by_partition, of_known_specs, partition_array, shown_places

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pyiceberg.manifest import DataFileContent, ManifestFile
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField

    from sealberg.metadata.manifest_columns import ManifestColumns
    from sealberg.metadata.packed_column import Rows
    from sealberg.metadata.packed_groups import PackedStatistics
    from sealberg.table.base import EncryptedTable

REDACTED: Final = b"[redacted]"
METRICS: Final = "readable_metrics"
NUMBERS: Final = ("snapshot_id", "sequence_number", "file_sequence_number")
COUNTS: Final = ("column_sizes", "value_count", "null_value_count", "nan_value_count")
BOUNDS: Final = ("lower_bound", "upper_bound")
ENTRY: Final = (("status", pa.int8()), *((name, pa.int64()) for name in NUMBERS))


def files_table(
    table: EncryptedTable, snapshots: Iterable[Snapshot], contents: Collection[DataFileContent], schema: pa.Schema
) -> pa.Table:
    """The live files of these snapshots; a manifest of several snapshots counts once.

    Args:
        contents: which files.
        schema: PyIceberg's, for this table.
    """
    lists = ExecutorFactory.get_or_create().map(lambda snapshot: snapshot.manifests(table.io), snapshots)
    manifests = {str(each.manifest_path): each for lines in lists for each in lines}
    wanted = list(map(int, contents))

    def rows(columns: ManifestColumns) -> Rows:
        live = columns.live_rows()
        return live[np.isin(columns.content.numpy(live), wanted)]

    shown = _ShownFiles(table, schema)
    return _concatenated(table, manifests.values(), lambda columns: shown.files(columns, rows(columns)), schema)


def entries_table(table: EncryptedTable, snapshot: Snapshot, schema: pa.Schema) -> pa.Table:
    """The entries of a snapshot, those of removed files included.

    Args:
        schema: PyIceberg's for files.
    """
    shown = _ShownFiles(table, schema)
    return _concatenated(table, snapshot.manifests(table.io), shown.entries, shown.entry_schema)


def _concatenated(
    table: EncryptedTable,
    manifests: Iterable[ManifestFile],
    act: Callable[[ManifestColumns], pa.Table],
    schema: pa.Schema,
) -> pa.Table:
    made = for_each(table.io, of_known_specs(table.metadata, manifests), act)
    return pa.concat_tables(made) if made else schema.empty_table()


class _ShownFiles:
    """Makes the rows of one manifest.

    Args:
        schema: PyIceberg's for files.
    """

    def __init__(self, table: EncryptedTable, schema: pa.Schema) -> None:
        self._specs = table.metadata.specs()
        self._struct = table.metadata.specs_struct()
        self._fields = table.metadata.schema().fields
        self._schema = schema
        # PyIceberg's entries have no spec, and formats as texts.
        self._of_file = pa.struct(
            pa.field("file_format", pa.string(), nullable=False) if each.name == "file_format" else each
            for each in schema
            if each.name not in {"spec_id", METRICS}
        )
        self.entry_schema = pa.schema(
            [
                *(pa.field(name, kind, nullable=False) for name, kind in ENTRY),
                pa.field("data_file", self._of_file, nullable=False),
                schema.field(METRICS),
            ]
        )

    def files(self, columns: ManifestColumns, rows: Rows) -> pa.Table:
        made = dict(self._columns(columns, rows))
        return pa.Table.from_arrays([made[name] for name in self._schema.names], schema=self._schema)

    def entries(self, columns: ManifestColumns) -> pa.Table:
        rows = np.arange(len(columns))
        made = dict(self._columns(columns, rows))
        made["file_format"] = made["file_format"].dictionary_decode()
        file = pa.StructArray.from_arrays([made[each.name] for each in self._of_file], fields=list(self._of_file))
        own = [getattr(columns, name).arrow(rows).cast(kind) for name, kind in ENTRY]
        return pa.Table.from_arrays([*own, file, made[METRICS]], schema=self.entry_schema)

    def _columns(self, columns: ManifestColumns, rows: Rows) -> Iterator[tuple[str, pa.Array]]:
        kinds = {field.name: field.type for field in self._schema}
        for name in ("content", "record_count", "file_size_in_bytes", "sort_order_id"):
            yield name, getattr(columns, name).arrow(rows).cast(kinds[name])
        yield "file_path", columns.file_path.texts(rows)
        names = pa.array([each.value for each in FORMATS])
        yield "file_format", names.take(columns.file_format.arrow(rows)).dictionary_encode()
        yield "spec_id", pa.repeat(pa.scalar(columns.spec_id, kinds["spec_id"]), len(rows))
        yield "partition", self._partition(columns, rows, kinds["partition"])
        for name in (*COUNTS, *BOUNDS):
            shown = name if name in kinds else f"{name}s"
            yield shown, _maps(columns.statistics(name), rows, kinds[shown])
        yield "key_metadata", _redacted(columns, rows)
        for name in ("split_offsets", "equality_ids"):
            yield name, getattr(columns, name).arrow(rows).cast(kinds[name])
        yield METRICS, self._metrics(columns, rows, kinds[METRICS])

    def _partition(self, columns: ManifestColumns, rows: Rows, kind: pa.StructType) -> pa.StructArray:
        """The values of the fields of the manifest's own spec, by their ids; others are null."""
        if not len(kind):
            return pa.array([{}] * len(rows), kind)
        first, number = grouped_by_partition(columns, rows)[:2]
        places = shown_places(self._specs[columns.spec_id], self._struct)
        keys = columns.partition_keys(rows[first])
        distinct = [[None if at is None else values[at] for at in places] for values in keys]
        return partition_array(kind, distinct).take(pa.array(number))

    def _metrics(self, columns: ManifestColumns, rows: Rows, kind: pa.StructType) -> pa.StructArray:
        arrays = [_metrics_of(columns, rows, field, each.type) for field, each in zip(self._fields, kind, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _metrics_of(columns: ManifestColumns, rows: Rows, field: NestedField, kind: pa.StructType) -> pa.StructArray:
    """The metrics of one column of the table."""
    arrays = []
    for name, each in zip((*COUNTS, *BOUNDS), kind, strict=True):
        packed = columns.statistics(name).get(field.field_id)
        if packed is None:
            arrays.append(pa.nulls(len(rows), each.type))
        elif name in COUNTS:
            arrays.append(packed.arrow(rows))
        else:
            assert isinstance(field.field_type, PrimitiveType), "only primitive columns have bounds"
            arrays.append(_decoded(packed.arrow(rows), field.field_type, each.type))
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _decoded(bounds: pa.BinaryArray, kind: PrimitiveType, arrow: pa.DataType) -> pa.Array:
    encoded = bounds.dictionary_encode()
    values = [None if each is None else from_bytes(kind, each) for each in encoded.dictionary.to_pylist()]
    if isinstance(arrow, pa.BaseExtensionType):  # a uuid
        stored = pa.array([getattr(each, "bytes", each) for each in values], arrow.storage_type)
        return pa.ExtensionArray.from_storage(arrow, stored.take(encoded.indices))
    return pa.array(values, arrow).take(encoded.indices)


def _maps(statistics: PackedStatistics, rows: Rows, kind: pa.MapType) -> pa.MapArray:
    """The maps of these rows; a file without statistics has an empty map."""
    ids, count = np.array(list(statistics.by_field), np.int32), len(rows)
    columns = [each.arrow(rows) for each in statistics.by_field.values()]
    values = pa.concat_arrays(columns) if columns else pa.array([], kind.item_type)
    values = values.take(pa.array(np.arange(len(ids) * count).reshape(len(ids), count).T.reshape(-1)))
    there = values.is_valid().to_numpy(zero_copy_only=False)
    lengths = there.reshape(count, len(ids)).sum(axis=1) if len(ids) else np.zeros(count, np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    keys = pa.array(np.tile(ids, count)[there], pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, values.drop_null().cast(kind.item_type)).cast(kind)


def _redacted(columns: ManifestColumns, rows: Rows) -> pa.BinaryArray:
    has_key = columns.key_metadata.validity.mask(columns.key_metadata.count, rows)
    shown = pa.repeat(pa.scalar(REDACTED, pa.binary()), len(rows))
    return shown if has_key is None else pc.if_else(pa.array(has_key), shown, pa.scalar(None, pa.binary()))
