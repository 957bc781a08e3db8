"""`table.inspect.partitions()`: the files of each partition, counted on the columns of manifests.

    snapshot ── manifests that may match ──> rows that may match ──> PartitionCounts ──> one row for each partition

Columns, rows and their order are PyIceberg's: a partition is the fields of a file's own spec and their values, and a
filter looks at the partition and the statistics of data files and of delete files. Some answers differ. Floating-point
partitions are Java's (`partition_key`): PyIceberg has a row for each file whose partition is NaN, and one row for 0.0
and -0.0. PyIceberg fails at partitions of UUIDs, at fields whose column was dropped, which are left out as in Java, and
at two fields of one name. A filter excludes a file where it does so in a scan (`column_filter` names the differences).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import ManifestContent

from sealberg.scan.filter_literals import fitted
from sealberg.scan.manifest_filter import DataRows, ManifestFilter
from sealberg.scan.partition_counts import (
    PartitionCounts,
    count_manifests,
    partition_array,
    partition_key,
    shown_places,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot

    from sealberg.metadata.manifest_columns import ManifestColumns
    from sealberg.metadata.packed_column import Rows
    from sealberg.table.base import EncryptedTable

COUNTS: Final = pa.schema(
    [
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("file_count", pa.int32(), nullable=False),
        pa.field("total_data_file_size_in_bytes", pa.int64(), nullable=False),
        pa.field("position_delete_record_count", pa.int64(), nullable=False),
        pa.field("position_delete_file_count", pa.int32(), nullable=False),
        pa.field("equality_delete_record_count", pa.int64(), nullable=False),
        pa.field("equality_delete_file_count", pa.int32(), nullable=False),
        pa.field("last_updated_at", pa.timestamp("ms")),
        pa.field("last_updated_snapshot_id", pa.int64()),
    ]
)


def partitions_table(
    table: EncryptedTable, snapshot_id: int | None, row_filter: str | BooleanExpression, *, case_sensitive: bool
) -> pa.Table:
    """The partitions of a snapshot; the filter is bound to the current schema.

    Raises:
        ValueError: there is no such snapshot.
    """
    metadata = table.metadata
    manifests = snapshot_of(table, snapshot_id).manifests(table.io)
    parsed = fitted(table.scan(row_filter).row_filter, metadata.schema(), case_sensitive=case_sensitive)
    by = ManifestFilter(metadata.specs(), metadata.schema(), parsed, case_sensitive=case_sensitive)
    keep = DataRows(by)

    def rows(columns: ManifestColumns) -> Rows:
        return keep(columns, columns.live_rows())

    struct = metadata.specs_struct(spec_ids={each.partition_spec_id for each in manifests})
    shown = {spec_id: shown_places(spec, struct) for spec_id, spec in metadata.specs().items()}
    found: dict[tuple[Any, ...], tuple[PartitionCounts, list[Any]]] = {}
    for counts in count_manifests(metadata, table.io, _chosen(manifests, by), rows):
        places = shown[counts.spec_id]
        values = [None if at is None else counts.partition[at] for at in places]
        key = (*(at is None for at in places), *partition_key(values))
        if key in found:
            found[key][0].add(counts)
        else:
            found[key] = counts, values
    rows_of_counts = [{"spec_id": each.spec_id, **each.row()} for each, _ in found.values()]
    counted = pa.Table.from_pylist(rows_of_counts, schema=COUNTS)
    if not struct.fields:
        return counted.drop_columns("spec_id")
    kind = schema_to_pyarrow(struct)
    partitions = partition_array(kind, [values for _, values in found.values()])
    return counted.add_column(0, pa.field("partition", kind, nullable=False), partitions)


def snapshot_of(table: EncryptedTable, snapshot_id: int | None) -> Snapshot:
    """The snapshot to inspect: the current one, if none is named."""
    metadata = table.metadata
    found = metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    if found is None:
        # PyIceberg's words, which the other metadata tables have.
        no_such = f"Cannot find snapshot with ID {snapshot_id}"
        raise ValueError("Cannot get a snapshot as the table does not have any." if snapshot_id is None else no_such)
    return found


def _chosen(manifests: Sequence[ManifestFile], by: ManifestFilter) -> list[ManifestFile]:
    """The manifests that may match, without deletes that are older than all data: those apply to no file."""
    left = [each for each in manifests if by.may_match(each)]
    for each in left:
        by.prepare(each)
    oldest = min((each.min_sequence_number or 0 for each in left if each.content == ManifestContent.DATA), default=0)
    return [each for each in left if each.content == ManifestContent.DATA or (each.sequence_number or 0) >= oldest]
