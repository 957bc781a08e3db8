"""Which files a scan has to read, and which deletes concern each.

    manifest list ── manifests whose partitions can hold rows for the filter
      manifest    ── files whose partition and statistics can hold some          } side by side, in order
        file      ── a task: the file, its deletes, and what is left of the filter

Evaluators and residuals are PyIceberg's; deletes are matched by `deletes.DeleteIndex`. Delete files are pruned by
partition only: the statistics of an equality delete file may cover columns that do not take part in the deletes.
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
from sealberg.scan.deletes import DeleteIndex

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
    """A data file, the delete files that concern it, the rest of the filter, and the age of its rows.

    Entries of manifests are shared by all who plan, so what `file` and `delete_files` give are copies; they are
    made when somebody looks, for a plan can have very many tasks.
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
        return {copy_of(one) for one in self._shared_deletes}

    @property
    def counted_rows(self) -> int | None:
        """How many rows the task gives, as far as that is known without reading a file."""
        if not isinstance(self.residual, AlwaysTrue):
            return None
        # A deletion vector counts its positions; other deletes may name a row twice, or none.
        if not all(isinstance(one, DataFileV3) and one.is_deletion_vector for one in self._shared_deletes):
            return None
        return self._shared_file.record_count - sum(one.record_count for one in self._shared_deletes)

    def __repr__(self) -> str:
        return f"EncryptedFileScanTask({self._shared_file!r}, {len(self._shared_deletes)} delete files)"


class Planner:
    """Plans the scans of a table with one filter.

    Args:
        metadata: of the table; its partition specs.
        schema: what the filter is about: the table's, or an older one for an older snapshot.
        row_filter: not bound yet.
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
        self._quick_no = BoundsFilter(self._statistics.expr)
        self._include_empty_files = include_empty_files
        self._everything = isinstance(row_filter, AlwaysTrue)

    def plan(
        self, manifests: Sequence[ManifestFile], entry_filter: EntryFilter | None = None
    ) -> list[EncryptedFileScanTask]:
        """The tasks for these manifests, in their order; `entry_filter` leaves out further data files."""
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
        concerning = deletes.concerning(file, entry.sequence_number or 0)
        return EncryptedFileScanTask(file, concerning, self._residual(file), sequence_number=entry.sequence_number)

    # -- pruning --------------------------------------------------------------------------------

    def _entries(self, manifests: Iterable[ManifestFile], keep: Callable[[DataFile], bool]) -> list[ManifestEntry]:
        chosen = [m for m in manifests if self._everything or self._manifest_evaluators[m.partition_spec_id](m)]
        for manifest in chosen:
            if manifest.partition_spec_id not in self._specs:
                raise FormatError(
                    f"{manifest.manifest_path!s}: its partition spec {manifest.partition_spec_id} is not in the table"
                )
            # Made here: the threads below would make the same one several times.
            self._partition_evaluators[manifest.partition_spec_id]

        def read(manifest: ManifestFile) -> list[ManifestEntry]:
            # Shared ones, for most of them go no further; what a task gets is a copy.
            assert isinstance(manifest, ManifestFileV3), "a version 3 table has no other"
            shared = manifest.shared_entries(self._io)
            return [entry for entry in shared if entry.status != DELETED and keep(entry.data_file)]

        if len(chosen) == 1:
            return read(chosen[0])
        return list(chain.from_iterable(ExecutorFactory.get_or_create().map(read, chosen)))

    def may_match(self, file: DataFile) -> bool:
        """May this data file hold a row that the filter finds, as its partition and statistics tell?"""
        if self._everything:
            return self._include_empty_files or file.record_count != 0
        return not self._quick_no(file) and self.partition_may_match(file) and self._statistics_may_match(file)

    def partition_may_match(self, file: DataFile) -> bool:
        """The same by the partition alone, for delete files too."""
        return self._everything or self._partition_evaluators[file.spec_id](file)

    def _statistics_may_match(self, file: DataFile) -> bool:
        try:
            return self._statistics.eval(file)
        except struct.error:
            # Bounds of a date that is a timestamp by now have four bytes; PyIceberg wants eight.
            return True

    def _project(self, spec_id: int) -> BooleanExpression:
        return inclusive_projection(self._schema, self._specs[spec_id], self._case_sensitive)(self._filter)

    def _manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        if spec_id not in self._specs:
            return lambda _: True  # it is refused by name, a little later
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
