"""Reads delete files: the deleted positions of a data file, and the values that equality deletes name.

    deletion vector    ──┐
    position deletes   ──┴── positions(path, files)   one DeletionVector of the data file
    equality deletes   ───── equalities(files)        one ValueSet for each combination of key columns

A delete file is read once per scan, however many data files it applies to.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import pyarrow as pa
from pyiceberg.manifest import DataFileContent

from sealberg.errors import FormatError
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.scan.data_file_reader import load_vector, open_rows
from sealberg.scan.delete_index import DELETE_PATH, DELETE_POS
from sealberg.scan.equality_deletes import KeyColumn, ValueSet
from sealberg.scan.projection import Projector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.metadata.manifest import DataFileV3

T = TypeVar("T")


class DeleteLoader:
    """Reads each delete file once; made for one scan and shared by its threads."""

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
        """The deleted values, grouped by key columns."""
        groups: dict[tuple[int, ...], list[DataFileV3]] = defaultdict(list)
        for file in deletes:
            if file.content == DataFileContent.EQUALITY_DELETES:
                if not file.equality_ids:
                    raise FormatError(f"{file.file_path!s}: the equality delete file has no equality_ids")
                groups[tuple(sorted(file.equality_ids))].append(file)
        return [self._equality(ids, files) for ids, files in sorted(groups.items(), key=lambda group: group[0])]

    def _equality(self, ids: tuple[int, ...], files: list[DataFileV3]) -> EqualityDeletes:
        files = sorted(files, key=lambda file: str(file.file_path))
        key_columns = [self._key_column(field_id) for field_id in ids]

        def build() -> ValueSet:
            read = [self._rows.get((ids, file.identity), partial(self._read_rows, file, key_columns)) for file in files]
            return ValueSet([_concatenated(columns) for columns in zip(*read, strict=True)])

        return EqualityDeletes(key_columns, self._sets.get((ids, *(file.identity for file in files)), build))

    def _key_column(self, field_id: int) -> KeyColumn:
        """The column with this field id, from the current schema or else from the newest schema that has it."""
        current = self._metadata.schema()
        history = sorted(self._metadata.schemas, key=lambda schema: -schema.schema_id)
        for schema in (current, *history):
            if field_id in schema.field_ids:
                return KeyColumn.of(schema, field_id)
        raise FormatError(f"an equality delete file uses field id {field_id}, which is in no schema of the table")

    def _read_positions(self, file: DataFileV3) -> dict[str, DeletionVector]:
        with open_rows(self._io, file) as rows:
            projector = Projector(*rows.schema([DELETE_PATH, DELETE_POS]), {})
            names = [projector.source(field) for field in (DELETE_PATH, DELETE_POS)]
            if None in names:
                raise FormatError(f"{file.file_path!s}: the position delete file lacks the column file_path or pos")
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

    def _read_rows(self, file: DataFileV3, key_columns: Sequence[KeyColumn]) -> list[pa.ChunkedArray]:
        with open_rows(self._io, file, self._metadata.name_mapping()) as rows:
            own, arrow = rows.schema([column.field for column in key_columns])
            for column in key_columns:
                if column.field_id not in own.field_ids:
                    raise FormatError(
                        f"{file.file_path!s}: the equality delete file lacks the column with field id {column.field_id}"
                    )
            projector = Projector(own, arrow, {})
            values = [column.values(projector) for column in key_columns]
            names = dict.fromkeys(str(projector.source(column.field)) for column in key_columns)
            pieces = [[value(batch) for value in values] for _, batch in rows.batches(list(names), None)]
        return [
            pa.chunked_array([piece[at] for piece in pieces], type=column.type) for at, column in enumerate(key_columns)
        ]


def _concatenated(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], type=columns[0].type)


class EqualityDeletes(NamedTuple):
    """Key columns and values: a row with such values in these columns is deleted."""

    key_columns: Sequence[KeyColumn]
    values: ValueSet


class _Once(Generic[T]):
    """Computes each result once; a thread that asks while another computes the result waits for it."""

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
            # In this thread, not in the pool: pool threads that wait for each other would deadlock.
            try:
                found.set_result(find())
            except BaseException as error:  # noqa: BLE001 (result() below raises it, in every waiting thread)
                found.set_exception(error)
        return found.result()


_NOTHING: Final = DeletionVector()


def _both(left: DeletionVector, right: DeletionVector) -> DeletionVector:
    """The union; nothing is copied if either is empty, which is the usual case."""
    return left | right if len(left) and len(right) else left if len(left) else right
