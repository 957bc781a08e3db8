"""Which files a scan has to read, and which delete files apply to each.

    manifest list ── manifests whose partition ranges may match the filter
      manifest    ── files whose partition and column bounds may match           } read in parallel, kept in order
        file      ── a task: the file, its delete files, and the residual filter

Evaluators and residuals are PyIceberg's; `DeleteIndex` matches the delete files. Delete files are pruned by partition
only, because the bounds of an equality delete file may cover columns that are not among its equality ids.
"""

from __future__ import annotations

import struct
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import (
    expression_evaluator,
    inclusive_projection,
    manifest_evaluator,
    residual_evaluator_of,
)
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import KeyDefaultDict
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.errors import FormatError
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.manifest_cache import copy_of
from sealberg.pyiceberg_private import InclusiveMetricsEvaluator
from sealberg.scan.bounds_filter import BoundsFilter
from sealberg.scan.delete_index import DeleteIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pyiceberg.expressions.visitors import ResidualEvaluator
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata

    EntryFilter = Callable[[ManifestEntry], bool]

DELETED: Final = ManifestEntryStatus.DELETED
ALL: Final = AlwaysTrue()


class EncryptedFileScanTask(FileScanTask):
    """A data file, the delete files that apply to it, the residual filter, and the file's data sequence number.

    All plans share the decoded manifest entries, so `file` and `delete_files` return copies. The copies are made on
    first access, because a plan can have very many tasks.
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
    def counted_rows(self) -> int | None:
        """The number of rows of this task, or None if it is not known without reading a file."""
        if not isinstance(self.residual, AlwaysTrue):
            return None
        # The record count of a deletion vector is exact; other delete files may name a row twice, or no row.
        if not all(isinstance(file, DataFileV3) and file.is_deletion_vector for file in self._shared_deletes):
            return None
        return self._shared_file.record_count - sum(file.record_count for file in self._shared_deletes)

    def __repr__(self) -> str:
        return f"EncryptedFileScanTask({self._shared_file!r}, {len(self._shared_deletes)} delete files)"


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
        self._schema = schema
        self._filter = row_filter
        self._case_sensitive = case_sensitive
        self._specs: Mapping[int, PartitionSpec] = metadata.specs()
        self._partition_filters = KeyDefaultDict(self._project)
        self._manifest_evaluators = KeyDefaultDict(self._manifest_evaluator)
        self._partition_evaluators = KeyDefaultDict(self._partition_evaluator)
        self._residual_evaluators = KeyDefaultDict(self._residual_evaluator)
        self._residuals: dict[tuple[int, tuple[Any, ...]], BooleanExpression] = {}
        self._statistics = InclusiveMetricsEvaluator(schema, row_filter, case_sensitive, include_empty_files)
        self._bounds_filter = BoundsFilter(self._statistics.expr)
        self._include_empty_files = include_empty_files
        self._everything = isinstance(row_filter, AlwaysTrue)

    def plan(
        self, manifests: Sequence[ManifestFile], entry_filter: EntryFilter | None = None
    ) -> list[EncryptedFileScanTask]:
        """The tasks for these manifests, in the order of the manifests; `entry_filter` excludes more data files."""
        data = self._entries([m for m in manifests if m.content == ManifestContent.DATA], self.may_match)
        if entry_filter is not None:
            data = [entry for entry in data if entry_filter(entry)]
        if not data:
            return []
        oldest = min(entry.sequence_number or 0 for entry in data)
        deletes = DeleteIndex(
            self._entries(
                [m for m in manifests if m.content == ManifestContent.DELETES and (m.sequence_number or 0) >= oldest],
                self.partition_may_match,
            ),
            self._specs,
        )
        return [self._task(entry, deletes) for entry in data]

    def _task(self, entry: ManifestEntry, deletes: DeleteIndex) -> EncryptedFileScanTask:
        file = entry.data_file
        assert isinstance(file, DataFileV3)
        for_data_file = deletes.for_data_file(file, entry.sequence_number or 0)
        return EncryptedFileScanTask(file, for_data_file, self._residual(file), sequence_number=entry.sequence_number)

    # -- pruning --------------------------------------------------------------------------------

    def _entries(self, manifests: Iterable[ManifestFile], keep: Callable[[DataFile], bool]) -> list[ManifestEntry]:
        chosen = [m for m in manifests if self._everything or self._manifest_evaluators[m.partition_spec_id](m)]
        for manifest in chosen:
            if manifest.partition_spec_id not in self._specs:
                raise FormatError(
                    f"{manifest.manifest_path!s}: the manifest uses partition spec {manifest.partition_spec_id}, "
                    "which is not in the table metadata"
                )
            # Made before the threads start: each of them would make its own.
            self._partition_evaluators[manifest.partition_spec_id]

        def read(manifest: ManifestFile) -> list[ManifestEntry]:
            # Not copied here: most entries are pruned, and a task copies its own.
            assert isinstance(manifest, ManifestFileV3), "the manifest list reader makes only ManifestFileV3"
            shared = manifest.shared_entries(self._io)
            return [entry for entry in shared if entry.status != DELETED and keep(entry.data_file)]

        if len(chosen) == 1:
            return read(chosen[0])
        return list(chain.from_iterable(ExecutorFactory.get_or_create().map(read, chosen)))

    def may_match(self, file: DataFile) -> bool:
        """Whether this data file may hold a row that matches the filter, by its partition and its bounds."""
        if self._everything:
            return self._include_empty_files or file.record_count != 0
        if self._bounds_filter.rules_out(file):
            return False
        return self.partition_may_match(file) and self._statistics_may_match(file)

    def partition_may_match(self, file: DataFile) -> bool:
        """Whether this data or delete file may hold a row that matches the filter, by its partition alone."""
        return self._everything or self._partition_evaluators[file.spec_id](file)

    def _statistics_may_match(self, file: DataFile) -> bool:
        try:
            return self._statistics.eval(file)
        except struct.error:
            # A date column promoted to timestamp: its old bounds have four bytes, and PyIceberg expects eight.
            return True

    def _project(self, spec_id: int) -> BooleanExpression:
        return inclusive_projection(self._schema, self._specs[spec_id], self._case_sensitive)(self._filter)

    def _manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        if spec_id not in self._specs:
            return lambda _: True  # _entries raises an error that names the manifest
        return manifest_evaluator(
            self._specs[spec_id], self._schema, self._partition_filters[spec_id], self._case_sensitive
        )

    def _partition_evaluator(self, spec_id: int) -> Callable[[DataFile], bool]:
        partition = Schema(*self._specs[spec_id].partition_type(self._schema).fields)
        evaluate = expression_evaluator(partition, self._partition_filters[spec_id], self._case_sensitive)
        return lambda file: evaluate(file.partition)

    def _residual_evaluator(self, spec_id: int) -> ResidualEvaluator:
        return residual_evaluator_of(self._specs[spec_id], self._filter, self._case_sensitive, self._schema)

    def _residual(self, file: DataFileV3) -> BooleanExpression:
        if self._everything:
            return self._filter
        partition = file.partition
        key = (file.spec_id, tuple(partition[i] for i in range(len(partition))))
        found = self._residuals.get(key)
        if found is None:
            found = self._residuals[key] = self._residual_evaluators[file.spec_id].residual_for(partition)
        return found
