"""The files of each partition, counted on the columns of manifests: no object for a file.

    manifest ──> its columns ──> the rows to count ── grouped by the numbers of their partition values
             ──> PartitionCounts of each partition, in the order of their first rows

    inspect.partitions, Spark's `partitions`, partition statistics: each merges the counts of all manifests by what one
    partition is there (`partition_key`)

The columns of a manifest are counted on the thread that reads them, and only the cache of plans keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

from sealberg.errors import FormatError
from sealberg.metadata.manifest import ManifestFileV3
from sealberg.metadata.manifest_columns import PUFFIN
from sealberg.scan.manifest_reading import for_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import StructType

    from sealberg.metadata.manifest_columns import ManifestColumns
    from sealberg.metadata.packed_column import Rows

    Numbers = NDArray[np.int64]

UNKNOWN: Final = np.iinfo(np.int64).min  # when a snapshot that has expired was made
SUMS: Final = (
    "data_record_count",
    "data_file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
    "dv_count",
)


@dataclass(slots=True)
class PartitionCounts:
    """The live files of a partition, with the names of Java's PartitionStats.

    Args:
        partition: values of the table, as manifest entries have them.
        position_delete_record_count: with the positions in deletion vectors.
        position_delete_file_count: without deletion vectors, which are `dv_count`.
        last_updated_at: milliseconds of the newest snapshot that changed the partition; None if all have expired.
    """

    partition: tuple[Any, ...] = field(repr=False)
    spec_id: int
    data_record_count: int = 0
    data_file_count: int = 0
    total_data_file_size_in_bytes: int = 0
    position_delete_record_count: int = 0
    position_delete_file_count: int = 0
    equality_delete_record_count: int = 0
    equality_delete_file_count: int = 0
    dv_count: int = 0
    last_updated_at: int | None = None
    last_updated_snapshot_id: int | None = None

    def is_newer_than(self, other: PartitionCounts) -> bool:
        if self.last_updated_at is None:
            return False
        return other.last_updated_at is None or other.last_updated_at < self.last_updated_at

    def add(self, other: PartitionCounts) -> None:
        """Add later files; of two snapshots of the same time, the earlier file's stays."""
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.is_newer_than(self):
            self.last_updated_at = other.last_updated_at
            self.last_updated_snapshot_id = other.last_updated_snapshot_id

    def row(self) -> dict[str, Any]:
        """The columns of the metadata table `partitions`, beside the partition and its spec."""
        return {
            "record_count": self.data_record_count,
            "file_count": self.data_file_count,
            "total_data_file_size_in_bytes": self.total_data_file_size_in_bytes,
            "position_delete_record_count": self.position_delete_record_count,
            "position_delete_file_count": self.position_delete_file_count + self.dv_count,
            "equality_delete_record_count": self.equality_delete_record_count,
            "equality_delete_file_count": self.equality_delete_file_count,
            "last_updated_at": self.last_updated_at,
            "last_updated_snapshot_id": self.last_updated_snapshot_id,
        }


def partition_key(values: Iterable[Any]) -> tuple[Any, ...]:
    """Equal for the values of one partition: NaN is one partition, and 0.0 and -0.0 are two, as in Java."""
    return tuple(repr(value) if isinstance(value, float) else value for value in values)


def shown_places(spec: PartitionSpec, struct: StructType) -> list[int | None]:
    """Where a partition of the spec has the value of each field of the struct; None if it has none."""
    places = {field.field_id: at for at, field in enumerate(spec.fields)}
    return [places.get(field.field_id) for field in struct.fields]


def partition_array(kind: pa.StructType, partitions: Sequence[Sequence[Any]]) -> pa.StructArray:
    """The values of some partitions as Arrow's; a uuid is 16 bytes, of which Arrow makes no struct by itself."""
    columns = []
    for at, each in enumerate(kind):
        stored = each.type.storage_type if isinstance(each.type, pa.BaseExtensionType) else each.type
        values = pa.array([partition[at] for partition in partitions], stored)
        columns.append(values if stored is each.type else pa.ExtensionArray.from_storage(each.type, values))
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def count_manifests(
    metadata: TableMetadata, io: FileIO, manifests: Iterable[ManifestFile], rows: Callable[[ManifestColumns], Rows]
) -> Iterator[PartitionCounts]:
    """The counts of each partition of each manifest, in the order of the manifests.

    Args:
        rows: which rows of a manifest are counted; called on threads.
    """
    times = {each.snapshot_id: each.timestamp_ms for each in metadata.snapshots}
    chosen = of_known_specs(metadata, manifests)
    return chain.from_iterable(for_each(io, chosen, lambda columns: counted(columns, rows(columns), times)))


def of_known_specs(metadata: TableMetadata, manifests: Iterable[ManifestFile]) -> list[ManifestFileV3]:
    """The manifests.

    Raises:
        FormatError: the table metadata lack the partition spec of a manifest.
    """
    chosen, specs = [], metadata.specs()
    for manifest in manifests:
        assert isinstance(manifest, ManifestFileV3), "the manifest list reader makes only ManifestFileV3"
        if (spec_id := manifest.partition_spec_id) not in specs:
            raise FormatError(
                f"{manifest.manifest_path!s}: the manifest uses partition spec {spec_id}, which is not in the table "
                "metadata"
            )
        chosen.append(manifest)
    return chosen


def counted(columns: ManifestColumns, rows: Rows, times: Mapping[int, int]) -> list[PartitionCounts]:
    """The counts of each partition among these rows; a removed file says only when its partition was changed.

    Args:
        times: when each snapshot was made.
    """
    if not len(rows):
        return []
    made_at = _made_at(columns, rows, times)
    first, group, sizes = grouped_by_partition(columns, rows)
    # By partition, then the newest first, then in the order of the rows.
    order, starts = np.lexsort((~made_at, group)), np.cumsum(sizes) - sizes
    newest = order[starts]
    found = {
        "last_updated_at": [None if each == UNKNOWN else each for each in made_at[newest].tolist()],
        "last_updated_snapshot_id": columns.snapshot_id.arrow(rows[newest]).to_pylist(),
        **{name: np.add.reduceat(each[order], starts).tolist() for name, each in _amounts(columns, rows).items()},
    }
    partitions, counts = columns.partition_keys(rows[first]), []
    for at in np.argsort(first).tolist():
        each = {name: values[at] for name, values in found.items()}
        if each["last_updated_at"] is None:
            each["last_updated_snapshot_id"] = None
        counts.append(PartitionCounts(partitions[at], columns.spec_id, **each))
    return counts


def grouped_by_partition(columns: ManifestColumns, rows: Rows) -> tuple[Numbers, Numbers, Numbers]:
    """The first row of each partition, the number of the partition of each row, and how many rows each has."""
    group: Numbers = np.zeros(len(rows), np.int64)
    for values in columns.partition.values():
        # Numbered again for each field, so that they stay below the number of rows.
        group = np.unique(group * (len(values.distinct) + 1) + values.codes(rows), return_inverse=True)[1]
    _, first, sizes = np.unique(group, return_index=True, return_counts=True)
    return first, group, sizes


def _made_at(columns: ManifestColumns, rows: Rows, times: Mapping[int, int]) -> Numbers:
    """When the snapshot of each row was made."""
    distinct, number = np.unique(columns.snapshot_id.numpy(rows), return_inverse=True)
    made_at: Numbers = np.array([times.get(each, UNKNOWN) for each in distinct.tolist()], np.int64)[number]
    known = columns.snapshot_id.mask(rows)
    return made_at if known is None else np.where(known, made_at, UNKNOWN)


def _amounts(columns: ManifestColumns, rows: Rows) -> dict[str, Numbers]:
    """What each row adds to each of SUMS."""
    content, records = columns.content.numpy(rows), columns.record_count.numpy(rows)
    live = columns.status.numpy(rows) != ManifestEntryStatus.DELETED
    data = live & (content == DataFileContent.DATA)
    positions = live & (content == DataFileContent.POSITION_DELETES)
    equalities = live & (content == DataFileContent.EQUALITY_DELETES)
    vectors = positions & (columns.file_format.numpy(rows) == PUFFIN)
    amounts = (
        data * records,
        data,
        data * columns.file_size_in_bytes.numpy(rows),
        positions * records,
        positions & ~vectors,
        equalities * records,
        equalities,
        vectors,
    )
    return {name: each.astype(np.int64) for name, each in zip(SUMS, amounts, strict=True)}
