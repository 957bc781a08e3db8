"""Numbers of each partition of a snapshot as a partition statistics file: Parquet inside AGS1, under a key of its own.

    entries of all manifests ──> PartitionCounts for each spec and partition ──> partition-stats-<snapshot>-<uuid>

    partition: struct of all partition fields, by field id   spec_id   data_record_count   data_file_count
    total_data_file_size_in_bytes   position_delete_*   equality_delete_*   total_record_count: null
    last_updated_at, last_updated_snapshot_id: of the newest snapshot that added or removed a file   dv_count

Columns, ids, order and numbers are those of Iceberg Java's PartitionStatsHandler for format version 3.
"""

from __future__ import annotations

import io
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StructType

from sealberg.files.file_io import EncryptedOutputFile, keyed, naming
from sealberg.metadata.statistics import V3PartitionStatisticsFile
from sealberg.write.snapshot_builder import schema_for
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.manifest import ManifestEntry

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


@dataclass
class PartitionCounts:
    """One row of the file; the names are those of its columns."""

    partition: tuple[Any, ...] = field(repr=False)  # values of the table
    spec_id: int
    data_record_count: int = 0
    data_file_count: int = 0
    total_data_file_size_in_bytes: int = 0
    position_delete_record_count: int = 0
    position_delete_file_count: int = 0
    equality_delete_record_count: int = 0
    equality_delete_file_count: int = 0
    total_record_count: int | None = None
    last_updated_at: int | None = None
    last_updated_snapshot_id: int | None = None
    dv_count: int = 0

    def add(self, entry: ManifestEntry, changed_ms: int | None) -> None:
        """Count an entry; one of a removed file says only when the partition was changed."""
        file = entry.data_file
        if entry.status != ManifestEntryStatus.DELETED:
            if file.content == DataFileContent.DATA:
                self.data_record_count += file.record_count
                self.data_file_count += 1
                self.total_data_file_size_in_bytes += file.file_size_in_bytes
            elif file.content == DataFileContent.EQUALITY_DELETES:
                self.equality_delete_record_count += file.record_count
                self.equality_delete_file_count += 1
            else:
                self.position_delete_record_count += file.record_count
                if file.file_format == FileFormat.PUFFIN:
                    self.dv_count += 1
                else:
                    self.position_delete_file_count += 1
        if changed_ms is not None and (self.last_updated_at is None or self.last_updated_at < changed_ms):
            self.last_updated_at, self.last_updated_snapshot_id = changed_ms, entry.snapshot_id


def partition_type(metadata: V3TableMetadata) -> StructType:
    """The partition fields of all specs, by field id; a field has its newest name. Empty if nothing is partitioned."""
    found: dict[int, NestedField] = {}
    for spec_id, spec in sorted(metadata.specs().items(), reverse=True):
        kinds = {each.field_id: each for each in spec.partition_type(schema_for(metadata, spec_id)).fields}
        for each in spec.fields:
            if not isinstance(each.transform, VoidTransform):
                found.setdefault(each.field_id, kinds[each.field_id].model_copy(update={"required": False}))
    return StructType(*(found[field_id] for field_id in sorted(found)))


def count_partitions(
    metadata: V3TableMetadata, manifests: Iterable[tuple[int, Sequence[ManifestEntry]]]
) -> list[PartitionCounts]:
    """Count the entries of all manifests of a snapshot.

    Args:
        manifests: the spec and all entries of each manifest, those of removed files included.
    """
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    places = {each.field_id: at for at, each in enumerate(partition_type(metadata).fields)}
    found: dict[tuple[int, tuple[Any, ...]], PartitionCounts] = {}
    for spec_id, entries in manifests:
        own = [places.get(each.field_id) for each in metadata.specs()[spec_id].fields]
        for entry in entries:
            values: list[Any] = [None] * len(places)
            for at, place in enumerate(own):
                if place is not None:
                    values[place] = entry.data_file.partition[at]
            key = (spec_id, tuple(values))
            counts = found.setdefault(key, PartitionCounts(key[1], spec_id))
            counts.add(entry, times.get(entry.snapshot_id or -1))
    return sorted(found.values(), key=lambda each: [(value is not None, value) for value in each.partition])


def write_partition_statistics(
    context: WriteContext, snapshot_id: int, counts: Sequence[PartitionCounts]
) -> tuple[V3PartitionStatisticsFile, KeyMetadata]:
    """Write the file; returns its description for table metadata, and its key. No plaintext leaves memory."""
    assert context.encryption is not None, "only encrypted statistics are written here"
    location = context.locations.new_metadata_location(f"partition-stats-{snapshot_id}-{uuid.uuid4()}.parquet")
    output = context.io.new_output(keyed(location, context.encryption.new_file_key().encode()))
    assert isinstance(output, EncryptedOutputFile), "a location with a key becomes an AGS1 file"
    plain = io.BytesIO()
    pq.write_table(_rows(partition_type(context.metadata), counts), plain, compression="zstd")
    with StagedFiles(context.io, [location]), naming(location):
        with output.create() as stream:
            stream.write(plain.getvalue())
        described = {"snapshot-id": snapshot_id, "statistics-path": location, "file-size-in-bytes": len(output)}
        return V3PartitionStatisticsFile.model_validate(described), output.key_metadata


def _rows(kind: StructType, counts: Sequence[PartitionCounts]) -> pa.Table:
    schema = schema_to_pyarrow(Schema(NestedField(1, "partition", kind, required=True), *COUNTS))
    struct = schema.field("partition").type
    values = [_array([each.partition[at] for each in counts], struct.field(at).type) for at in range(len(kind.fields))]
    partitions = pa.StructArray.from_arrays(values, fields=list(struct))
    columns = [pa.array([getattr(each, name) for each in counts], schema.field(name).type) for name in schema.names[1:]]
    return pa.Table.from_arrays([partitions, *columns], schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.ExtensionType):
        stored = [value.bytes if isinstance(value, uuid.UUID) else value for value in values]
        return pa.ExtensionArray.from_storage(kind, pa.array(stored, kind.storage_type))
    return pa.array(values, kind)
