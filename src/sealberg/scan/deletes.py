"""Rows that are deleted, though their data file still holds them: which delete files concern a data file, and how.

    kind               | concerns a data file if                                           | says
    deletion vector    | it references the file, and is not older                          | positions
    position deletes   | same partition (or that very file), not older, no vector is there | positions, by path
    equality deletes   | same partition (or global: unpartitioned spec), strictly newer    | values of some columns

"Older" compares data sequence numbers. A file has at most one deletion vector, and since version 3 that stands
for all positions: older position delete files are merged into it. PyIceberg's own index knows neither vectors'
references nor equality deletes.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import defaultdict
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import pyarrow as pa
from pyiceberg.manifest import DataFileContent
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import LongType, NestedField, StringType

from sealberg.errors import FormatError
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.metadata.manifest import DataFileV3
from sealberg.scan.data_file_reader import load_vector, open_rows
from sealberg.scan.equality_deletes import KeyColumn, ValueSet
from sealberg.scan.projection import Projector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata

    PartitionKey = tuple[int, tuple[Any, ...]]

DELETE_PATH: Final = NestedField(2147483546, "file_path", StringType(), required=True)
DELETE_POS: Final = NestedField(2147483545, "pos", LongType(), required=True)

T = TypeVar("T")


# -- matching ---------------------------------------------------------------------------------


class DeleteIndex:
    """All delete files of a snapshot, asked for those that concern a data file."""

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
            raise FormatError(f"{file.file_path!s}: a data file in a manifest of deletes")
        elif file.is_deletion_vector:
            self._add_vector(age, file)
        elif (path := only_path(file)) is not None:
            self._by_path[path].add(age, file)
        else:
            self._by_partition[_partition_key(file)].add(age, file)

    def _add_vector(self, age: int, file: DataFileV3) -> None:
        path = file.referenced_data_file
        if path is None:
            raise FormatError(f"{file.file_path!s}: a deletion vector that references no data file")
        if path in self._vectors:
            other = self._vectors[path][1]
            raise FormatError(f"Can't index multiple DVs for {path}: {other.file_path!s} and {file.file_path!s}")
        self._vectors[path] = (age, file)

    def concerning(self, file: DataFileV3, sequence_number: int) -> Collection[DataFileV3]:
        """The delete files that concern a data file of this data sequence number."""
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
                one for one in self._by_partition[key].not_older_than(sequence_number) if _may_mention(one, path)
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
    """The one data file that a position delete file is about, if it is about one."""
    if file.referenced_data_file is not None:
        return file.referenced_data_file
    bounds = _path_bounds(file)
    return bounds[0].decode(errors="replace") if bounds is not None and bounds[0] == bounds[1] else None


def _may_mention(file: DataFileV3, path: str) -> bool:
    bounds = _path_bounds(file)
    return bounds is None or bounds[0] <= path.encode() <= bounds[1]


# -- loading ----------------------------------------------------------------------------------


class DeleteLoader:
    """Reads delete files, each once, however many data files it concerns; made for one scan, shared by its threads."""

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self._io = io
        self._metadata = metadata
        self._positions = _Once[dict[str, DeletionVector]]()
        self._rows = _Once[list[pa.ChunkedArray]]()
        self._sets = _Once[ValueSet]()

    def positions(self, path: str, deletes: Iterable[DataFileV3]) -> DeletionVector | None:
        """The deleted positions of the data file at `path`; None if there are none."""
        found = _NOTHING
        for file in deletes:
            if file.content != DataFileContent.POSITION_DELETES:
                continue
            if file.is_deletion_vector:
                found = _both(found, load_vector(self._io, file))
            else:
                by_path = self._positions.get(file.identity, partial(self._read_positions, file))
                found = _both(found, by_path.get(path, _NOTHING))
        return found if len(found) else None

    def equalities(self, deletes: Iterable[DataFileV3]) -> list[EqualityDeletes]:
        """The deleted values, put together by the columns that they are of."""
        groups: dict[tuple[int, ...], list[DataFileV3]] = defaultdict(list)
        for file in deletes:
            if file.content == DataFileContent.EQUALITY_DELETES:
                if not file.equality_ids:
                    raise FormatError(f"{file.file_path!s}: equality deletes without equality_ids")
                groups[tuple(sorted(file.equality_ids))].append(file)
        return [self._equality(ids, files) for ids, files in sorted(groups.items(), key=lambda group: group[0])]

    def _equality(self, ids: tuple[int, ...], files: list[DataFileV3]) -> EqualityDeletes:
        files = sorted(files, key=lambda file: str(file.file_path))
        leaves = [self._leaf(field_id) for field_id in ids]

        def build() -> ValueSet:
            read = [self._rows.get((ids, file.identity), partial(self._read_rows, file, leaves)) for file in files]
            return ValueSet([_concatenated(columns) for columns in zip(*read, strict=True)])

        return EqualityDeletes(leaves, self._sets.get((ids, *(file.identity for file in files)), build))

    def _leaf(self, field_id: int) -> KeyColumn:
        """A column by its id: as the table has it now, else as it had it last."""
        current = self._metadata.schema()
        history = sorted(self._metadata.schemas, key=lambda schema: -schema.schema_id)
        for schema in (current, *history):
            if field_id in schema.field_ids:
                return KeyColumn.of(schema, field_id)
        raise FormatError(f"equality deletes by column {field_id}, which no schema of the table has")

    def _read_positions(self, file: DataFileV3) -> dict[str, DeletionVector]:
        with open_rows(self._io, file) as rows:
            projector = Projector(*rows.schema([DELETE_PATH, DELETE_POS]), {})
            names = [projector.source(field) for field in (DELETE_PATH, DELETE_POS)]
            if None in names:
                raise FormatError(f"{file.file_path!s}: position deletes without the columns file_path and pos")
            path, position = projector.column(DELETE_PATH), projector.column(DELETE_POS)
            pieces = [
                pa.table({"path": path(batch), "position": position(batch)})
                for _, batch in rows.batches([name for name in names if name is not None], None)
            ]
        if not pieces:
            return {}
        grouped = pa.concat_tables(pieces).group_by("path").aggregate([("position", "list")])
        return {
            where: DeletionVector.of(positions.values)
            for where, positions in zip(grouped["path"].to_pylist(), grouped["position_list"], strict=True)
        }

    def _read_rows(self, file: DataFileV3, leaves: Sequence[KeyColumn]) -> list[pa.ChunkedArray]:
        with open_rows(self._io, file, self._metadata.name_mapping()) as rows:
            own, arrow = rows.schema([leaf.field for leaf in leaves])
            for leaf in leaves:
                if leaf.field_id not in own.field_ids:
                    raise FormatError(f"{file.file_path!s}: equality deletes without their column {leaf.field_id}")
            projector = Projector(own, arrow, {})
            values = [leaf.values(projector) for leaf in leaves]
            names = dict.fromkeys(str(projector.source(leaf.field)) for leaf in leaves)
            pieces = [[value(batch) for value in values] for _, batch in rows.batches(list(names), None)]
        return [pa.chunked_array([piece[at] for piece in pieces], type=leaf.type) for at, leaf in enumerate(leaves)]


def _concatenated(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], type=columns[0].type)


class EqualityDeletes(NamedTuple):
    """Values of some columns; rows that have them are deleted."""

    leaves: Sequence[KeyColumn]
    values: ValueSet


class _Once(Generic[T]):
    """Remembers results; whoever asks while another thread is at it waits for that one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[object, Future[T]] = {}

    def get(self, key: object, find: Callable[[], T]) -> T:
        with self._lock:
            found = self._found.get(key)
            mine = found is None
            if found is None:
                found = self._found[key] = Future()
        if mine:
            # In this thread: a pool whose threads all wait for each other would stand still.
            try:
                found.set_result(find())
            except BaseException as error:  # noqa: BLE001 (it is raised by all who wait, here too)
                found.set_exception(error)
        return found.result()


_NOTHING: Final = DeletionVector()


def _both(one: DeletionVector, other: DeletionVector) -> DeletionVector:
    """A file has one vector as a rule, which then need not be copied."""
    return one | other if len(one) and len(other) else one if len(one) else other
