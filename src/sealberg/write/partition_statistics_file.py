"""Numbers of each partition of a snapshot as a partition statistics file: Parquet inside AGS1, under a key of its own.

    rows of all manifests ──> PartitionCounts for each spec and partition ──> partition-stats-<snapshot>-<uuid>

    partition: struct of all partition fields, by field id   spec_id   data_record_count   data_file_count
    total_data_file_size_in_bytes   position_delete_*   equality_delete_*   total_record_count: null
    last_updated_at, last_updated_snapshot_id: of the newest snapshot that added or removed a file   dv_count

Columns, ids, order and numbers are those of Iceberg Java's PartitionStatsHandler for format version 3.
"""

from __future__ import annotations

import math
import uuid
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StructType

from sealberg.files.file_io import EncryptedOutputFile, keyed, naming
from sealberg.metadata.statistics import V3PartitionStatisticsFile
from sealberg.scan.partition_counts import (
    PartitionCounts,
    count_manifests,
    partition_array,
    partition_key,
    shown_places,
)
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.write.context import WriteContext

_LONG, _INT = LongType(), IntegerType()
COUNTS: Final = (
    NestedField(2, "spec_id", _INT, required=True),
    NestedField(3, "data_record_count", _LONG, required=True),
    NestedField(4, "data_file_count", _INT, required=True),
    NestedField(5, "total_data_file_size_in_bytes", _LONG, required=True),
    NestedField(6, "position_delete_record_count", _LONG, required=True),
    NestedField(7, "position_delete_file_count", _INT, required=True),
    NestedField(8, "equality_delete_record_count", _LONG, required=True),
    NestedField(9, "equality_delete_file_count", _INT, required=True),
    NestedField(10, "total_record_count", _LONG, required=False),
    NestedField(11, "last_updated_at", _LONG, required=False),
    NestedField(12, "last_updated_snapshot_id", _LONG, required=False),
    NestedField(13, "dv_count", _INT, required=True),
)


def partition_type(metadata: V3TableMetadata) -> StructType:
    """The partition fields of all specs. Empty if nothing is partitioned."""
    return metadata.specs_struct()


def count_partitions(metadata: V3TableMetadata, io: FileIO, manifests: Sequence[ManifestFile]) -> list[PartitionCounts]:
    """Count the files of all manifests of a snapshot; removed files say when their partition was changed."""
    struct = partition_type(metadata)
    shown = {spec_id: shown_places(spec, struct) for spec_id, spec in metadata.specs().items()}
    found: dict[tuple[Any, ...], PartitionCounts] = {}
    for counts in count_manifests(metadata, io, manifests, lambda columns: np.arange(len(columns))):
        values = tuple(None if at is None else counts.partition[at] for at in shown[counts.spec_id])
        key = (counts.spec_id, partition_key(values))
        found.setdefault(key, PartitionCounts(values, counts.spec_id)).add(counts)
    return sorted(found.values(), key=lambda each: [_order(value) for value in each.partition])


def _order(value: Any) -> tuple[bool, bool, Any]:
    """Nulls are first and NaN is last, as in Java."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is not None, is_nan, 0.0 if is_nan else value


def write_partition_statistics(
    context: WriteContext, snapshot_id: int, counts: Sequence[PartitionCounts]
) -> tuple[V3PartitionStatisticsFile, KeyMetadata]:
    """Write the file; returns its description for table metadata, and its key. No plaintext leaves memory."""
    assert context.encryption is not None, "only encrypted statistics are written here"
    location = context.locations.new_metadata_location(f"partition-stats-{snapshot_id}-{uuid.uuid4()}.parquet")
    output = context.io.new_output(keyed(location, context.encryption.new_file_key().encode()))
    assert isinstance(output, EncryptedOutputFile), "a location with a key becomes an AGS1 file"
    plain = BytesIO()
    pq.write_table(_rows(partition_type(context.metadata), counts), plain, compression="zstd")
    with StagedFiles(context.io, [location]), naming(location):
        with output.create() as stream:
            stream.write(plain.getvalue())
        described = {"snapshot-id": snapshot_id, "statistics-path": location, "file-size-in-bytes": len(output)}
        return V3PartitionStatisticsFile.model_validate(described), output.key_metadata


def _rows(kind: StructType, counts: Sequence[PartitionCounts]) -> pa.Table:
    schema = schema_to_pyarrow(Schema(NestedField(1, "partition", kind, required=True), *COUNTS))
    partitions = partition_array(schema.field("partition").type, [each.partition for each in counts])
    columns = [
        pa.array([getattr(each, name, None) for each in counts], schema.field(name).type) for name in schema.names[1:]
    ]
    return pa.Table.from_arrays([partitions, *columns], schema=schema)
