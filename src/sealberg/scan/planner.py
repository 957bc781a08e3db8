"""Which files a scan has to read, and which delete files apply to each.

    manifest list ── manifests whose partition ranges may match the filter
      manifest    ── its columns: rows whose partition and column bounds may match    } read in parallel, kept in order
        FilePlan  ── for each manifest, the rows that are left, their residual filters and delete files
          tasks   ── objects, made for who asks for them

Filters are evaluated on whole columns (`manifest_filter`, `residuals`); `DeleteIndex` matches the delete files.
`manifest_reading` reads the manifests on threads, unless somebody else does (`manifest_tasks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import KeyDefaultDict

from sealberg.metadata.gc_pause import gc_paused
from sealberg.metadata.manifest import DataFileV3
from sealberg.metadata.manifest_cache import copy_of
from sealberg.scan.column_filter import nullable
from sealberg.scan.delete_index import DeleteIndex, ages
from sealberg.scan.filter_literals import fitted
from sealberg.scan.manifest_filter import DataRows, DeleteRows, ManifestFilter
from sealberg.scan.manifest_reading import read_here
from sealberg.scan.residuals import Residuals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.metadata.manifest_columns import ManifestColumns
    from sealberg.metadata.packed_column import PackedNumbers, Rows
    from sealberg.metadata.searched_columns import FilterColumns
    from sealberg.scan.manifest_filter import Keep, RowFilter

    ReadManifests = Callable[[Sequence[ManifestFile], Keep], list[tuple[ManifestColumns, Rows]]]

ALL: Final = AlwaysTrue()
TOGETHER: Final = 256  # files that are made at a time


class EncryptedFileScanTask(FileScanTask):
    """A data file, the delete files that apply to it, the residual filter, and the file's data sequence number.

    Tasks share files, so `file` and `delete_files` return copies. The copies are made on first access, because a plan
    can have very many tasks.
    """

    def __init__(
        self,
        shared_file: DataFileV3,
        shared_deletes: Collection[DataFile] = (),
        residual: BooleanExpression = ALL,
        *,
        sequence_number: int | None = None,
    ) -> None:
        self._shared_file = shared_file
        self._shared_deletes = shared_deletes
        self.residual = residual
        self.sequence_number = sequence_number
        self._record_count: int = shared_file.record_count

    @cached_property
    def file(self) -> DataFileV3:  # type: ignore[override]
        return copy_of(self._shared_file)

    @cached_property
    def delete_files(self) -> set[DataFile]:  # type: ignore[override]
        return {copy_of(file) for file in self._shared_deletes}

    @property
    def shared(self) -> tuple[DataFileV3, Collection[DataFile]]:
        """The file and its delete files without a copy, for callers that look at all tasks and change none."""
        return self._shared_file, self._shared_deletes

    @property
    def path(self) -> str:
        """The location of the file, without its key."""
        return str(self._shared_file.file_path)

    @property
    def counted_rows(self) -> int | None:
        """The number of rows of this task, or None if it is not known without reading a file."""
        return _counted(self._record_count, self.residual, self._shared_deletes)

    def __repr__(self) -> str:
        return f"EncryptedFileScanTask({self._shared_file!r}, {len(self._shared_deletes)} delete files)"


def _counted(record_count: int, residual: BooleanExpression, deletes: Collection[DataFile]) -> int | None:
    if not isinstance(residual, AlwaysTrue):
        return None
    # The record count of a deletion vector is exact; other delete files may name a row twice, or no row.
    if not all(isinstance(file, DataFileV3) and file.is_deletion_vector for file in deletes):
        return None
    return record_count - sum(file.record_count for file in deletes)


class _PlannedTask(EncryptedFileScanTask):
    """A task of a plan; its file is made on first access, and is its own."""

    def __init__(
        self,
        files: _PlannedFiles,
        number: int,
        record_count: int,
        sequence_number: int | None,
        residual: BooleanExpression,
        shared_deletes: Collection[DataFile],
    ) -> None:
        self._files = files
        self._number = number
        self._record_count = record_count
        self.sequence_number = sequence_number
        self.residual = residual
        self._shared_deletes = shared_deletes

    @cached_property
    def _shared_file(self) -> DataFileV3:  # type: ignore[override]
        return self._files.file(self._number)

    @property
    def file(self) -> DataFileV3:  # type: ignore[override]
        return self._shared_file

    @property
    def path(self) -> str:
        return self._files.paths[self._number]

    def __reduce__(self) -> tuple[Any, ...]:
        # With its own file, not with the columns of its manifest.
        deletes = tuple(self.__dict__.get("delete_files", self._shared_deletes))
        return _task, (self._shared_file, deletes, self.residual, self.sequence_number)


def _task(
    file: DataFileV3, deletes: Collection[DataFile], residual: BooleanExpression, sequence_number: int | None
) -> EncryptedFileScanTask:
    return EncryptedFileScanTask(file, deletes, residual, sequence_number=sequence_number)


@dataclass(frozen=True)
class PlannedRows:
    """The files of one manifest that a plan keeps.

    Args:
        rows: their rows in `columns`.
        residuals: one for each file; None if they are all the plan's filter.
        deletes: the delete files of each file; None if no file has any.
    """

    columns: ManifestColumns
    rows: Rows
    residuals: Sequence[BooleanExpression] | None
    deletes: Sequence[Collection[DataFileV3]] | None

    def sequence_numbers(self) -> list[int | None]:
        found: list[int | None] = self.columns.sequence_number.arrow(self.rows).to_pylist()
        return found


@dataclass(frozen=True)
class FilePlan:
    """The files of a scan, in the order of their manifests, as rows of columns."""

    row_filter: BooleanExpression
    parts: Sequence[PlannedRows]

    def __len__(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    def groups(self, most: int) -> Iterator[FilePlan]:
        """The plan in parts of at most this many files each, unless one manifest has more; one part at least."""
        group: list[PlannedRows] = []
        count = 0
        for part in self.parts:
            if group and count + len(part.rows) > most:
                yield FilePlan(self.row_filter, group)
                group, count = [], 0
            group.append(part)
            count += len(part.rows)
        yield FilePlan(self.row_filter, group)

    @property
    def has_deletes(self) -> bool:
        return any(part.deletes is not None and any(part.deletes) for part in self.parts)

    def numbers(self, column: Callable[[ManifestColumns], PackedNumbers]) -> NDArray[np.int64]:
        """A column of numbers that are never null, for all files."""
        found = [column(part.columns).numpy(part.rows) for part in self.parts]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def statistics(self, column: Callable[[ManifestColumns], pa.Array | None]) -> list[Any]:
        """A statistic of all files; None for files that do not have it."""
        found: list[Any] = []
        for part in self.parts:
            values = column(part.columns)
            found += [None] * len(part.rows) if values is None else values.take(pa.array(part.rows)).to_pylist()
        return found

    def counted_rows(self) -> list[int | None]:
        """For each file the number of its rows, or None if it is not known without reading a file."""
        found: list[int | None] = []
        for part in self.parts:
            counts = part.columns.record_count.numpy(part.rows).tolist()
            residuals = [self.row_filter] * len(counts) if part.residuals is None else part.residuals
            deletes = [()] * len(counts) if part.deletes is None else part.deletes
            found += map(_counted, counts, residuals, deletes)
        return found

    def tasks(self) -> list[EncryptedFileScanTask]:
        with gc_paused():
            return list(chain.from_iterable(map(self._tasks, self.parts)))

    def _tasks(self, part: PlannedRows) -> list[EncryptedFileScanTask]:
        files, count = _PlannedFiles(part.columns, part.rows), len(part.rows)
        return list(
            map(
                _PlannedTask,
                [files] * count,
                range(count),
                part.columns.record_count.numpy(part.rows).tolist(),
                part.sequence_numbers(),
                [self.row_filter] * count if part.residuals is None else part.residuals,
                [()] * count if part.deletes is None else part.deletes,
            )
        )


class _PlannedFiles:
    """Makes the files of some rows of a manifest, several at a time."""

    def __init__(self, columns: ManifestColumns, rows: Rows) -> None:
        self._columns = columns
        self._rows = rows
        self._made: dict[int, list[DataFileV3]] = {}

    @cached_property
    def paths(self) -> list[str]:
        found: list[str] = self._columns.file_path.texts(self._rows).to_pylist()
        return found

    def file(self, number: int) -> DataFileV3:
        """A new file; each task asks for its own once."""
        group = number // TOGETHER
        if group not in self._made:
            with gc_paused():
                self._made[group] = self._columns.files(self._rows[group * TOGETHER : (group + 1) * TOGETHER])
        return self._made[group][number % TOGETHER]


class Planner:
    """Plans the scans of a table with one filter.

    Args:
        metadata: the table's metadata, for its partition specs.
        schema: the schema that the filter is bound to: the table's, or that of an older snapshot.
        row_filter: an unbound expression.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        schema: Schema,
        row_filter: BooleanExpression,
        *,
        case_sensitive: bool = True,
        include_empty_files: bool = False,
    ) -> None:
        self._io = io
        self._schema = nullable(schema)
        row_filter = fitted(row_filter, schema, case_sensitive=case_sensitive)
        self._filter = row_filter
        self._case_sensitive = case_sensitive
        self._specs: Mapping[int, PartitionSpec] = metadata.specs()
        self._everything = isinstance(row_filter, AlwaysTrue)
        self._residuals = KeyDefaultDict(self._residual_evaluator)
        self._manifests = ManifestFilter(
            self._specs, schema, row_filter, case_sensitive=case_sensitive, include_empty_files=include_empty_files
        )

    def plan(
        self, manifests: Sequence[ManifestFile], row_filter: RowFilter | None = None
    ) -> list[EncryptedFileScanTask]:
        """The tasks for these manifests, in the order of the manifests; `row_filter` excludes more data files."""
        return self.file_plan(manifests, row_filter).tasks()

    def file_plan(
        self,
        manifests: Sequence[ManifestFile],
        row_filter: RowFilter | None = None,
        *,
        read_data: ReadManifests | None = None,
        read_deletes: ReadManifests | None = None,
    ) -> FilePlan:
        """The same as columns; `read_data` and `read_deletes` read manifests, where threads of this process do not."""
        keep = DataRows(self._manifests, row_filter)
        data = self._read(manifests, ManifestContent.DATA, keep, read_data)
        deletes = self._deletes(manifests, data, read_deletes)
        residuals = [
            None if self._everything else self._residuals[columns.spec_id].of(columns, rows) for columns, rows in data
        ]
        return FilePlan(
            self._filter,
            [
                PlannedRows(columns, rows, left, found)
                for (columns, rows), left, found in zip(data, residuals, deletes, strict=True)
            ],
        )

    def _deletes(
        self,
        manifests: Sequence[ManifestFile],
        data: Sequence[tuple[ManifestColumns, Rows]],
        read: ReadManifests | None,
    ) -> Sequence[Sequence[Collection[DataFileV3]] | None]:
        if not any(m.content == ManifestContent.DELETES for m in manifests) or not data:
            return [None] * len(data)
        oldest = min(int(ages(columns, rows).min()) for columns, rows in data)
        newer = [m for m in manifests if (m.sequence_number or 0) >= oldest]
        found = self._read(newer, ManifestContent.DELETES, DeleteRows(self._manifests), read)
        return DeleteIndex(found, self._specs).for_rows(data)

    @cached_property
    def statistics(self) -> frozenset[str]:
        """The maps of statistics that the filter needs; all that `may_match_rows` looks at."""
        return self._manifests.search(0).statistics

    def may_match_rows(self, columns: FilterColumns, rows: Rows | None = None) -> Rows:
        """Of these rows, or of all, those of data files that may hold a matching row; deleted files count, too."""
        self._manifests.check_spec(columns.spec_id, columns.location)
        return self._manifests.matching(columns, np.arange(len(columns)) if rows is None else rows)

    def partition_may_match_rows(self, columns: FilterColumns, rows: Rows | None = None) -> Rows:
        """The same of data and delete files, by their partition alone."""
        self._manifests.check_spec(columns.spec_id, columns.location)
        return self._manifests.in_partition(columns, np.arange(len(columns)) if rows is None else rows)

    def _read(
        self, manifests: Sequence[ManifestFile], content: ManifestContent, keep: Keep, read: ReadManifests | None
    ) -> list[tuple[ManifestColumns, Rows]]:
        """The columns of the manifests that may match, with the rows to keep; without manifests that keep none."""
        chosen = [m for m in manifests if m.content == content and self._manifests.may_match(m)]
        for manifest in chosen:
            self._manifests.prepare(manifest)
        return read_here(self._io, chosen, keep) if read is None else read(chosen, keep)

    def _residual_evaluator(self, spec_id: int) -> Residuals:
        return Residuals(self._specs[spec_id], self._schema, self._filter, case_sensitive=self._case_sensitive)
