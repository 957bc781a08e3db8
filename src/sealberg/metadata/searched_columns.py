"""The columns of a manifest that filters look at, and a manifest of which only such columns are decoded.

    id < 5000, a thousand manifests      status, row counts, partitions and lower bounds of each: a third of the work
      a manifest without such a file     is done with
      a manifest with one                is decoded as a whole (ManifestColumns), and filtered again

A statistic that was not decoded is unknown, as if no file had it. A filter keeps every file of which it knows too
little, so that it keeps more files with fewer columns, and never fewer.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np
from pyiceberg.manifest import ManifestEntryStatus

from sealberg.errors import FormatError
from sealberg.metadata.packed_column import OBJECT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sealberg.metadata.packed_column import PackedNumbers
    from sealberg.metadata.packed_groups import PackedPartition, PackedStatistics

_DELETED: Final = int(ManifestEntryStatus.DELETED)


class FilterColumns:
    """What filters take from the entries of a manifest, by field id.

    Attributes:
        partition: by the id of the partition field, in the order of the manifest.
    """

    __slots__ = ()

    location: str
    spec_id: int
    status: PackedNumbers
    record_count: PackedNumbers
    partition: Mapping[int, PackedPartition]

    @abstractmethod
    def statistics(self, name: str) -> PackedStatistics | None:
        """A map of statistics by its name in ManifestColumns; None if it is not known."""

    def __len__(self) -> int:
        return self.status.count

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location}, {len(self)} entries)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the columns of a manifest hold keys and are not pickled")

    @property
    def record_counts(self) -> pa.Int64Array:
        return self.record_count.arrow()

    def lower_bounds(self, field_id: int) -> pa.BinaryArray | None:
        """The lower bounds of a column, null where a file has none; None if no file has one."""
        return self._statistic("lower_bound", field_id)

    def upper_bounds(self, field_id: int) -> pa.BinaryArray | None:
        return self._statistic("upper_bound", field_id)

    def value_counts(self, field_id: int) -> pa.Int64Array | None:
        return self._statistic("value_count", field_id)

    def null_value_counts(self, field_id: int) -> pa.Int64Array | None:
        return self._statistic("null_value_count", field_id)

    def nan_value_counts(self, field_id: int) -> pa.Int64Array | None:
        return self._statistic("nan_value_count", field_id)

    def _statistic(self, name: str, field_id: int) -> pa.Array | None:
        statistics = self.statistics(name)
        found = None if statistics is None else statistics.get(field_id)
        return None if found is None else found.arrow()

    def partition_values(self, partition_field_id: int) -> pa.Array:
        """The values of a partition field in Arrow's type for the type that the manifest's own schema has."""
        found = self.partition.get(partition_field_id)
        if found is None:
            raise FormatError(f"{self.location}: the manifest has no partition field {partition_field_id}")
        return found.arrow()

    def live_rows(self) -> NDArray[np.int64]:
        """The rows of files that are not deleted."""
        if self.status.above is None:
            return np.arange(0 if self.status.base == _DELETED else len(self))
        return np.flatnonzero(self.status.numpy() != _DELETED)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SearchedColumns(FilterColumns):
    """A manifest with some of its columns.

    Args:
        manifest: the decrypted Avro file, from which the other columns can be decoded.
        known: maps of statistics by their names in ManifestColumns.
    """

    location: str
    spec_id: int
    manifest: bytes
    status: PackedNumbers
    record_count: PackedNumbers
    partition: Mapping[int, PackedPartition]
    known: Mapping[str, PackedStatistics]

    def statistics(self, name: str) -> PackedStatistics | None:
        return self.known.get(name)

    @property
    def nbytes(self) -> int:
        """The memory of the manifest and of the columns."""
        counted = 3 + len(self.partition) + len(self.known)
        held = len(self.manifest) + self.status.nbytes + self.record_count.nbytes
        held += sum(each.nbytes for each in self.partition.values())
        return counted * OBJECT_BYTES + held + sum(each.nbytes for each in self.known.values())
