"""A manifest as columns: one packed column for each field of its entries, with the fields that entries inherit.

    ManifestColumns    row   status  sequence number  path  rows   lower bound of 1   key metadata ...
                       0     ADDED   7                ...   1000   0                  ...
                       1     ADDED   7                ...   1000   1000               ...

Plans filter whole columns by row numbers. `entries` and `files` make the objects that PyIceberg knows, for the rows
that a caller asks for; each call makes new objects, so the caller may change them. Columns never change, and hold
the keys of files: they are never pickled, printed or written. The tasks of a plan send some rows, sealed
(`manifest_columns_ipc`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.typedef import Record

from sealberg.metadata.manifest import DataFileV3
from sealberg.metadata.packed_column import OBJECT_BYTES
from sealberg.metadata.searched_columns import FilterColumns
from sealberg.pyiceberg_private import files_of, records_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sealberg.metadata.manifest import ManifestFileV3
    from sealberg.metadata.packed_column import PackedBytes, PackedNumbers, Rows
    from sealberg.metadata.packed_groups import PackedLists, PackedPartition, PackedStatistics

FORMATS: Final = tuple(FileFormat)
PUFFIN: Final = FORMATS.index(FileFormat.PUFFIN)
_CONTENTS: Final = {int(content): content for content in DataFileContent}
_STATUSES: Final = {int(status): status for status in ManifestEntryStatus}
_ADDED, _DELETED = int(ManifestEntryStatus.ADDED), int(ManifestEntryStatus.DELETED)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ManifestColumns(FilterColumns):
    """The entries of one manifest.

    Args:
        file_format: positions in FORMATS.
    """

    location: str
    spec_id: int
    status: PackedNumbers
    snapshot_id: PackedNumbers
    sequence_number: PackedNumbers
    file_sequence_number: PackedNumbers
    content: PackedNumbers
    file_path: PackedBytes
    file_format: PackedNumbers
    partition: Mapping[int, PackedPartition]
    record_count: PackedNumbers
    file_size_in_bytes: PackedNumbers
    column_sizes: PackedStatistics
    value_count: PackedStatistics
    null_value_count: PackedStatistics
    nan_value_count: PackedStatistics
    lower_bound: PackedStatistics
    upper_bound: PackedStatistics
    key_metadata: PackedBytes
    split_offsets: PackedLists
    equality_ids: PackedLists
    sort_order_id: PackedNumbers
    first_row_id: PackedNumbers
    referenced_data_file: PackedBytes
    content_offset: PackedNumbers
    content_size_in_bytes: PackedNumbers

    @property
    def nbytes(self) -> int:
        """The memory of all columns."""
        packed: int = sum(getattr(self, name).nbytes for name in _PACKED)
        return 4 * OBJECT_BYTES + packed + sum(100 + each.nbytes for each in self.partition.values())

    def statistics(self, name: str) -> PackedStatistics:
        found: PackedStatistics = getattr(self, name)
        return found

    @property
    def row_group_counts(self) -> pa.Int64Array:
        """How many row groups or blocks a file begins, as its split offsets say; null where it has none."""
        return self.split_offsets.counts()

    def names_any(self, paths: Iterable[str]) -> bool:
        """Whether one of these files is among the rows, deleted ones included."""
        wanted = pa.array((path.encode() for path in paths), pa.binary())
        return bool(pa.compute.any(pa.compute.is_in(self.file_path.arrow(), wanted)).as_py())

    def partition_keys(self, rows: Rows) -> list[tuple[Any, ...]]:
        """The partition of each row, as an entry's partition has it."""
        columns = [each.objects(rows) for each in self.partition.values()]
        return list(zip(*columns, strict=True)) if columns else [()] * len(rows)

    # -- objects ---------------------------------------------------------------------------------

    def entries(self, rows: Rows | None = None) -> list[ManifestEntry]:
        """New entries for these rows, deleted files included."""
        chosen = np.arange(len(self)) if rows is None else rows
        columns = (self.snapshot_id, self.sequence_number, self.file_sequence_number)
        return [
            ManifestEntry(_STATUSES[status], *numbers, file)
            for status, file, *numbers in zip(
                self.status.numpy(chosen).tolist(),
                self.files(chosen),
                *(column.arrow(chosen).to_pylist() for column in columns),
                strict=True,
            )
        ]

    def files(self, rows: Rows) -> list[DataFileV3]:
        """New files for these rows."""
        return files_of(DataFileV3, self._values(rows), self.spec_id)

    def _values(self, rows: Rows) -> zip[tuple[Any, ...]]:
        """The values of a DataFileV3 for each row, in its order."""
        return zip(
            [_CONTENTS[each] for each in self.content.numpy(rows).tolist()],
            self.file_path.texts(rows).to_pylist(),
            [FORMATS[each] for each in self.file_format.numpy(rows).tolist()],
            records_of(Record, self.partition_keys(rows)),
            self.record_count.arrow(rows).to_pylist(),
            self.file_size_in_bytes.arrow(rows).to_pylist(),
            self.column_sizes.dicts(rows),
            self.value_count.dicts(rows),
            self.null_value_count.dicts(rows),
            self.nan_value_count.dicts(rows),
            self.lower_bound.dicts(rows),
            self.upper_bound.dicts(rows),
            self.key_metadata.arrow(rows).to_pylist(),
            self.split_offsets.lists(rows),
            self.equality_ids.lists(rows),
            self.sort_order_id.arrow(rows).to_pylist(),
            self.first_row_id.arrow(rows).to_pylist(),
            self.referenced_data_file.texts(rows).to_pylist(),
            self.content_offset.arrow(rows).to_pylist(),
            self.content_size_in_bytes.arrow(rows).to_pylist(),
            strict=True,
        )


_PACKED: Final = [
    each.name for each in fields(ManifestColumns) if each.name not in ("location", "spec_id", "partition")
]


# -- the fields that entries inherit ------------------------------------------------------------


@dataclass(frozen=True)
class Inherited:
    """What the entries of a manifest inherit from its line in the manifest list."""

    spec_id: int
    sequence_number: int | None
    snapshot_id: int | None
    first_row_id: int | None

    @classmethod
    def of(cls, manifest: ManifestFileV3) -> Inherited:
        return cls(
            manifest.partition_spec_id, manifest.sequence_number, manifest.added_snapshot_id, manifest.first_row_id
        )

    def snapshots(self, found: pa.Int64Array) -> pa.Int64Array:
        return found if self.snapshot_id is None else found.fill_null(self.snapshot_id)

    def sequence_numbers(self, found: pa.Int64Array, statuses: pa.Int64Array) -> pa.Int64Array:
        """Manifests of version 1 have the number 0 for all files; later manifests pass theirs to added files."""
        if self.sequence_number is None or not found.null_count:
            return found
        if self.sequence_number == 0:
            return found.fill_null(0)
        if found.null_count == len(found) and statuses.unique().to_pylist() == [_ADDED]:
            return pa.repeat(pa.scalar(self.sequence_number, pa.int64()), len(found))
        passed = pa.compute.if_else(pa.compute.equal(statuses, _ADDED), self.sequence_number, None)
        return pa.compute.coalesce(found, passed.cast(pa.int64()))

    def first_row_ids(
        self, found: pa.Int64Array, statuses: pa.Int64Array, record_counts: pa.Int64Array
    ) -> pa.Int64Array:
        """Files without a row id get the next ones, in the order of the manifest."""
        if self.first_row_id is None:
            return pa.nulls(len(found), pa.int64())
        if not found.null_count:
            return found
        takes = found.is_null().to_numpy(zero_copy_only=False) & (statuses.to_numpy(zero_copy_only=False) != _DELETED)
        taken = np.where(takes, record_counts.to_numpy(zero_copy_only=False), 0)
        given = pa.array(self.first_row_id + np.cumsum(taken) - taken, mask=~takes)
        return pa.compute.coalesce(found, given)
