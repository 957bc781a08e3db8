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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import LongType, NestedField, StringType

from sealberg.errors import FormatError
from sealberg.metadata.manifest_columns import PUFFIN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from pyiceberg.partitioning import PartitionSpec

    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.manifest_columns import ManifestColumns
    from sealberg.metadata.packed_column import Rows

    PartitionKey = tuple[int, tuple[Any, ...]]

DELETE_PATH: Final = NestedField(2147483546, "file_path", StringType(), required=True)
_POSITION_DELETES: Final = int(DataFileContent.POSITION_DELETES)
DELETE_POS: Final = NestedField(2147483545, "pos", LongType(), required=True)


class DeleteIndex:
    """All delete files of a snapshot, looked up for the files of a plan.

    Deletion vectors can be as many as data files. They stay columns, are found by a join of their references with the
    paths of the plan's files, and become objects where they are found. Other delete files become objects at once.

    Args:
        found: the columns of delete manifests, with the rows to look at.
    """

    def __init__(self, found: Iterable[tuple[ManifestColumns, Rows]], specs: Mapping[int, PartitionSpec]) -> None:
        self._by_path: dict[str, _ByAge] = defaultdict(_ByAge)
        self._by_partition: dict[PartitionKey, _ByAge] = defaultdict(_ByAge)
        self._equal: dict[PartitionKey, _ByAge] = defaultdict(_ByAge)
        self._equal_global = _ByAge()
        self._global_specs = {spec_id for spec_id, spec in specs.items() if is_unpartitioned(spec)}
        self._has_others = False
        vectors = []
        for columns, rows in found:
            is_vector = (columns.content.numpy(rows) == _POSITION_DELETES) & (columns.file_format.numpy(rows) == PUFFIN)
            if is_vector.any():
                vectors.append((columns, rows[is_vector]))
            others = rows[~is_vector]
            for file, age in zip(columns.files(others), ages(columns, others).tolist(), strict=True):
                self._add(file, age)
                self._has_others = True
        self._vectors = _Vectors(vectors)

    def _add(self, file: DataFileV3, age: int) -> None:
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
        elif (path := only_path(file)) is not None:
            self._by_path[path].add(age, file)
        else:
            self._by_partition[_partition_key(file)].add(age, file)

    def for_rows(self, data: Sequence[tuple[ManifestColumns, Rows]]) -> list[Sequence[Collection[DataFileV3]] | None]:
        """The delete files that apply to each of these data files; None for a manifest none of whose files has any."""
        if not self._has_others and not len(self._vectors):
            return [None] * len(data)
        paths = [columns.file_path.texts(rows) for columns, rows in data]
        numbers = [ages(columns, rows) for columns, rows in data]
        vectors = self._vectors.found(paths, numbers)
        made: list[Sequence[Collection[DataFileV3]] | None] = []
        for (columns, rows), names, sequence_numbers, matched in zip(data, paths, numbers, vectors, strict=True):
            if self._has_others:
                partitions = columns.partition_keys(rows) if self._equal or self._by_partition else [()] * len(rows)
                made.append(
                    [
                        self._for_file(path, (columns.spec_id, partition), number, matched.get(at))
                        for at, (path, partition, number) in enumerate(
                            zip(names.to_pylist(), partitions, sequence_numbers.tolist(), strict=True)
                        )
                    ]
                )
            elif matched:
                made.append([(matched[at],) if at in matched else () for at in range(len(rows))])
            else:
                made.append(None)
        return made

    def _for_file(
        self, path: str, key: PartitionKey, sequence_number: int, vector: DataFileV3 | None
    ) -> Collection[DataFileV3]:
        found = set(self._equal_global.newer_than(sequence_number))
        if key in self._equal:
            found.update(self._equal[key].newer_than(sequence_number))
        if vector is not None:
            found.add(vector)
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


class _Vectors:
    """The deletion vectors of a snapshot as columns."""

    def __init__(self, parts: Sequence[tuple[ManifestColumns, Rows]]) -> None:
        self._parts = parts
        references = [columns.referenced_data_file.texts(rows) for columns, rows in parts]
        for (columns, rows), names in zip(parts, references, strict=True):
            if names.null_count:
                nameless = rows[names.is_null().to_numpy(zero_copy_only=False)][:1]
                path = columns.file_path.texts(nameless)[0].as_py()
                raise FormatError(f"{path}: the deletion vector has no referenced_data_file")
        self._references = pa.concat_arrays(references) if references else pa.array([], pa.string())
        self._ages = np.concatenate([ages(*part) for part in parts]) if parts else np.zeros(0, np.int64)
        self._refuse_twins()

    def __len__(self) -> int:
        return len(self._references)

    def _refuse_twins(self) -> None:
        if pc.count_distinct(self._references).as_py() == len(self._references):
            return
        counts = self._references.value_counts()
        path = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"].as_py()
        twins = np.flatnonzero(pc.equal(self._references, path).to_numpy(zero_copy_only=False))
        one, other = (str(file.file_path) for file in self._files(twins[:2]))
        raise FormatError(f"Can't index multiple DVs for {path}: {one} and {other}")

    def found(
        self, paths: Sequence[pa.StringArray], sequence_numbers: Sequence[NDArray[np.int64]]
    ) -> list[dict[int, DataFileV3]]:
        """For each manifest of data files: the vectors by the number of their file."""
        if not len(self):
            return [{} for _ in paths]
        whole = pc.index_in(pa.concat_arrays(list(paths)), value_set=self._references)
        matched = np.flatnonzero(whole.is_valid().to_numpy(zero_copy_only=False))
        vectors = whole.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        numbers = np.concatenate(list(sequence_numbers))[matched]
        too_old = np.flatnonzero(self._ages[vectors] < numbers)
        files = self._files(vectors)
        if len(too_old):
            at = int(too_old[0])
            path = self._references[int(vectors[at])].as_py()
            raise FormatError(
                f"DV data sequence number ({self._ages[vectors[at]]}) must be greater than or equal to data file "
                f"sequence number ({numbers[at]}): {files[at].file_path!s} for {path}"
            )
        ends = np.cumsum([len(names) for names in paths])
        made: list[dict[int, DataFileV3]] = [{} for _ in paths]
        for place, part, file in zip(
            matched.tolist(), np.searchsorted(ends, matched, "right").tolist(), files, strict=True
        ):
            made[part][place - int(ends[part]) + len(paths[part])] = file
        return made

    def _files(self, vectors: Rows) -> list[DataFileV3]:
        """The vectors with these numbers, in their order; each is made once."""
        ends = np.cumsum([len(rows) for _, rows in self._parts])
        part_of = np.searchsorted(ends, vectors, "right")
        made: list[DataFileV3] = [None] * len(vectors)  # type: ignore[list-item]
        for part in np.unique(part_of).tolist():
            columns, rows = self._parts[part]
            places = np.flatnonzero(part_of == part)
            chosen = rows[vectors[places] - (ends[part] - len(rows))]
            for place, file in zip(places.tolist(), columns.files(chosen), strict=True):
                made[place] = file
        return made


def ages(columns: ManifestColumns, rows: Rows) -> NDArray[np.int64]:
    """The data sequence numbers; 0 for files that have none."""
    numbers, known = columns.sequence_number.numpy(rows), columns.sequence_number.mask(rows)
    return numbers if known is None else np.where(known, numbers, 0)


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
