"""Which delete files apply to a data file.

    kind               | applies to a data file if                                         | names its rows by
    deletion vector    | it references the file and is not older                           | position
    position deletes   | same partition (or that file), not older, and there is no vector  | path and position
    equality deletes   | same partition (or global: unpartitioned spec), strictly newer    | values of some columns

"Older" compares data sequence numbers. A data file has at most one deletion vector. Since version 3 the vector holds
all deleted positions of the file: writers merge older position delete files into it. PyIceberg's own index matches
neither deletion vectors by reference nor equality deletes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.manifest import DataFileContent
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import LongType, NestedField, StringType

from sealberg.errors import FormatError
from sealberg.metadata.manifest import DataFileV3

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.partitioning import PartitionSpec

    PartitionKey = tuple[int, tuple[Any, ...]]

DELETE_PATH: Final = NestedField(2147483546, "file_path", StringType(), required=True)
DELETE_POS: Final = NestedField(2147483545, "pos", LongType(), required=True)


class DeleteIndex:
    """All delete files of a snapshot, looked up by data file."""

    def __init__(self, entries: Iterable[ManifestEntry], specs: Mapping[int, PartitionSpec]) -> None:
        self._vectors: dict[str, tuple[int, DataFileV3]] = {}
        self._by_path: dict[str, _ByAge] = defaultdict(_ByAge)
        self._by_partition: dict[PartitionKey, _ByAge] = defaultdict(_ByAge)
        self._equal: dict[PartitionKey, _ByAge] = defaultdict(_ByAge)
        self._equal_global = _ByAge()
        self._global_specs = {spec_id for spec_id, spec in specs.items() if is_unpartitioned(spec)}
        self._is_empty = True
        for entry in entries:
            self._add(entry)
            self._is_empty = False

    def _add(self, entry: ManifestEntry) -> None:
        file, age = entry.data_file, entry.sequence_number or 0
        assert isinstance(file, DataFileV3)
        if file.content == DataFileContent.EQUALITY_DELETES:
            if file.spec_id in self._global_specs:
                self._equal_global.add(age, file)
            else:
                self._equal[_partition_key(file)].add(age, file)
        elif file.content != DataFileContent.POSITION_DELETES:
            raise FormatError(
                f"{file.file_path!s}: content is {file.content.name} in a delete manifest, expected "
                "POSITION_DELETES or EQUALITY_DELETES"
            )
        elif file.is_deletion_vector:
            self._add_vector(age, file)
        elif (path := only_path(file)) is not None:
            self._by_path[path].add(age, file)
        else:
            self._by_partition[_partition_key(file)].add(age, file)

    def _add_vector(self, age: int, file: DataFileV3) -> None:
        path = file.referenced_data_file
        if path is None:
            raise FormatError(f"{file.file_path!s}: the deletion vector has no referenced_data_file")
        if path in self._vectors:
            other = self._vectors[path][1]
            raise FormatError(f"Can't index multiple DVs for {path}: {other.file_path!s} and {file.file_path!s}")
        self._vectors[path] = (age, file)

    def for_data_file(self, file: DataFileV3, sequence_number: int) -> Collection[DataFileV3]:
        """The delete files that apply to a data file with this data sequence number."""
        if self._is_empty:
            return frozenset()
        path = str(file.file_path)
        found = set(self._equal_global.newer_than(sequence_number))
        key = _partition_key(file) if self._equal or self._by_partition else (0, ())
        if key in self._equal:
            found.update(self._equal[key].newer_than(sequence_number))
        vector = self._vectors.get(path)
        if vector is not None:
            age, vector_file = vector
            if age < sequence_number:
                raise FormatError(
                    f"DV data sequence number ({age}) must be greater than or equal to data file sequence number "
                    f"({sequence_number}): {vector_file.file_path!s} for {path}"
                )
            found.add(vector_file)
            return found
        if path in self._by_path:
            found.update(self._by_path[path].not_older_than(sequence_number))
        if key in self._by_partition:
            found.update(
                delete
                for delete in self._by_partition[key].not_older_than(sequence_number)
                if _may_mention(delete, path)
            )
        return found


class _ByAge:
    """Delete files in the order of their sequence numbers."""

    def __init__(self) -> None:
        self._files: list[tuple[int, DataFileV3]] = []
        self._sorted = True

    def add(self, age: int, file: DataFileV3) -> None:
        self._files.append((age, file))
        self._sorted = False

    def newer_than(self, sequence_number: int) -> list[DataFileV3]:
        return self._after(bisect_right, sequence_number)

    def not_older_than(self, sequence_number: int) -> list[DataFileV3]:
        return self._after(bisect_left, sequence_number)

    def _after(self, bisect: Callable[..., int], sequence_number: int) -> list[DataFileV3]:
        if not self._sorted:
            self._files.sort(key=_age)
            self._sorted = True
        return [file for _, file in self._files[bisect(self._files, sequence_number, key=_age) :]]


def _age(aged: tuple[int, DataFileV3]) -> int:
    return aged[0]


def _partition_key(file: DataFileV3) -> PartitionKey:
    partition = file.partition
    return file.spec_id, tuple(partition[i] for i in range(len(partition)))


def is_unpartitioned(spec: PartitionSpec) -> bool:
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


def _path_bounds(file: DataFileV3) -> tuple[bytes, bytes] | None:
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    if DELETE_PATH.field_id in lower and DELETE_PATH.field_id in upper:
        return bytes(lower[DELETE_PATH.field_id]), bytes(upper[DELETE_PATH.field_id])
    return None


def only_path(file: DataFileV3) -> str | None:
    """The path of the data file, if a position delete file holds deletes of one data file only."""
    if file.referenced_data_file is not None:
        return file.referenced_data_file
    bounds = _path_bounds(file)
    return bounds[0].decode(errors="replace") if bounds is not None and bounds[0] == bounds[1] else None


def _may_mention(file: DataFileV3, path: str) -> bool:
    bounds = _path_bounds(file)
    return bounds is None or bounds[0] <= path.encode() <= bounds[1]
