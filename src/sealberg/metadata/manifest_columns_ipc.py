"""Some rows of a manifest's columns as Arrow IPC: how the tasks of a plan send back what their filter has left.

    ManifestColumns, rows ──write──> one record batch    status  file_path  partition.1000  lower_bound.4  ...
                          <──read───

The batch holds the keys of the files that are left, and of no others; whoever sends it seals it. Statistics of columns
are the larger part of a manifest, and nobody needs them after the filter, so a data file travels without them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from sealberg.metadata.manifest_columns import ManifestColumns
from sealberg.metadata.packed_column import PackedBytes, PackedNumbers, Validity
from sealberg.metadata.packed_groups import PackedLists, PackedPartition, PackedStatistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.metadata.packed_column import Rows

NUMBERS: Final = (
    "status",
    "snapshot_id",
    "sequence_number",
    "file_sequence_number",
    "content",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "sort_order_id",
    "first_row_id",
    "content_offset",
    "content_size_in_bytes",
)
BYTES: Final = ("file_path", "key_metadata", "referenced_data_file")
LISTS: Final = ("split_offsets", "equality_ids")
COUNTS: Final = ("column_sizes", "value_count", "null_value_count", "nan_value_count")
BOUNDS: Final = ("lower_bound", "upper_bound")
PARTITION: Final = "partition"
ABOUT: Final = b"sealberg"
SQUEEZED: Final = pa.ipc.IpcWriteOptions(compression="zstd")


def write(columns: ManifestColumns, rows: Rows, *, statistics: bool) -> pa.Buffer:
    """These rows, with the statistics of their columns or without."""
    made = dict(_arrays(columns, rows, statistics=statistics))
    about = {"location": columns.location, "spec_id": columns.spec_id, "rows": len(rows)}
    schema = pa.schema([pa.field(name, array.type) for name, array in made.items()], {ABOUT: json.dumps(about)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=SQUEEZED) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(list(made.values()), schema=schema))
    return sink.getvalue()


def _arrays(columns: ManifestColumns, rows: Rows, *, statistics: bool) -> Iterator[tuple[str, pa.Array]]:
    """Columns that are null in all rows are left out, except those of the partition."""
    for name in (*NUMBERS, *BYTES):
        packed = getattr(columns, name)
        if packed.validity.any_valid:
            yield name, packed.arrow(rows)
    for name in LISTS:
        lists: PackedLists = getattr(columns, name)
        if lists.validity.any_valid:
            yield name, lists.arrow(rows)
    for field_id, partition in columns.partition.items():
        yield f"{PARTITION}.{field_id}", partition.arrow(rows)
    for name in (*COUNTS, *BOUNDS) if statistics else ():
        maps: PackedStatistics = getattr(columns, name)
        if not maps.validity.any_valid:
            continue
        mask = maps.validity.mask(maps.count, rows)
        yield name, pa.array(np.ones(len(rows), np.bool_) if mask is None else mask)
        for field_id, values in maps.by_field.items():
            yield f"{name}.{field_id}", values.arrow(rows)


def read(data: bytes | pa.Buffer) -> ManifestColumns:
    """The rows, packed again."""
    with pa.ipc.open_stream(data) as stream:
        batch = stream.read_next_batch()
    about = json.loads(batch.schema.metadata[ABOUT])
    count: int = about["rows"]
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    made: dict[str, Any] = {}
    for name in NUMBERS:
        made[name] = PackedNumbers.of(found.get(name, pa.nulls(count, pa.int64())))
    for name in BYTES:
        made[name] = PackedBytes.of(found.get(name, pa.nulls(count, pa.binary())))
    for name in LISTS:
        made[name] = PackedLists.of(found[name]) if name in found else PackedLists.missing(count)
    for name in (*COUNTS, *BOUNDS):
        made[name] = _statistics(name, found, count)
    partition = {field_id: PackedPartition.of(values) for field_id, values in _by_field(PARTITION, found)}
    return ManifestColumns(location=about["location"], spec_id=about["spec_id"], partition=partition, **made)


def _statistics(name: str, found: dict[str, pa.Array], count: int) -> PackedStatistics:
    if name not in found:
        return PackedStatistics.missing(count)
    pack = PackedNumbers.of if name in COUNTS else PackedBytes.of
    columns = {field_id: pack(values) for field_id, values in _by_field(name, found)}
    known = found[name].to_numpy(zero_copy_only=False)
    validity = Validity.of(pa.array(known, mask=~known))
    return PackedStatistics(count, columns, validity)


def _by_field(name: str, found: dict[str, pa.Array]) -> Iterator[tuple[int, pa.Array]]:
    for column, values in found.items():
        group, dot, field_id = column.partition(".")
        if dot and group == name:
            yield int(field_id), values
