"""What a filter keeps of the manifests of a table: which manifests, and which rows of each.

    manifest list ── may_match ──> manifests whose partition ranges may match
      its columns ── DataRows  ──> files whose partition and column bounds may match
                     DeleteRows ─> delete files whose partition may match

Delete files are pruned by partition only, because the bounds of an equality delete file may cover columns that are not
among its equality ids. All of it can be pickled, and holds no key: the tasks of a distributed plan filter with the same
objects as the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import inclusive_projection, manifest_evaluator
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.typedef import KeyDefaultDict

from sealberg.errors import FormatError
from sealberg.scan.column_filter import MetricsFilter, PartitionFilter, nullable
from sealberg.scan.manifest_search import ManifestSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from numpy.typing import NDArray
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

    from sealberg.metadata.manifest_columns import ManifestColumns
    from sealberg.metadata.packed_column import Rows
    from sealberg.metadata.searched_columns import FilterColumns

    Mask = NDArray[np.bool_]
    RowFilter = Callable[[ManifestColumns], Mask]


class ManifestFilter:
    """A filter on rows, projected to the partitions and the statistics of files. Threads share all but `may_match`."""

    def __init__(
        self,
        specs: Mapping[int, PartitionSpec],
        schema: Schema,
        row_filter: BooleanExpression,
        *,
        case_sensitive: bool = True,
        include_empty_files: bool = False,
    ) -> None:
        self._given = (specs, schema, row_filter, case_sensitive, include_empty_files)
        self.everything = isinstance(row_filter, AlwaysTrue)
        self._specs = specs
        self._schema = nullable(schema)
        self._filter = row_filter
        self._case_sensitive = case_sensitive
        self._include_empty_files = include_empty_files
        self._projections = KeyDefaultDict(self._project)
        self._manifest_evaluators = KeyDefaultDict(self._manifest_evaluator)
        self._partition_filters = KeyDefaultDict(self._partition_filter)
        self._metrics = MetricsFilter(
            schema, row_filter, case_sensitive=case_sensitive, include_empty_files=include_empty_files
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _filter, self._given

    def may_match(self, manifest: ManifestFile) -> bool:
        """Whether the manifest may name a file that the filter keeps; not from several threads at once."""
        # PyIceberg's evaluator stores the partitions of the manifest that it looks at in itself.
        return self.everything or self._manifest_evaluators[manifest.partition_spec_id](manifest)

    def prepare(self, manifest: ManifestFile) -> None:
        """Make what the manifest needs before threads start, since each of them would make its own."""
        self.check_spec(manifest.partition_spec_id, manifest.manifest_path)
        if not self.everything:
            self._partition_filters[manifest.partition_spec_id]

    def check_spec(self, spec_id: int, manifest: str) -> None:
        if spec_id not in self._specs:
            raise FormatError(
                f"{manifest!s}: the manifest uses partition spec {spec_id}, which is not in the table metadata"
            )

    def search(self, manifests: int) -> ManifestSearch:
        """How to look at this many data manifests."""
        return ManifestSearch(self._metrics.bound, self._specs, manifests)

    def in_partition(self, columns: FilterColumns, rows: Rows) -> Rows:
        """Of these rows, those whose partition may match."""
        if self.everything:
            return rows
        left: Rows = rows[self._partition_filters[columns.spec_id].may_match(columns)[rows]]
        return left

    def matching(self, columns: FilterColumns, rows: Rows) -> Rows:
        """Of these rows, those whose partition and statistics may match."""
        if self.everything:
            keep: Mask = columns.record_count.numpy(rows) != 0
            return rows if self._include_empty_files else rows[keep]
        rows = self.in_partition(columns, rows)
        if len(rows):
            rows = rows[self._metrics.may_match(columns)[rows]]
        return rows

    def _project(self, spec_id: int) -> BooleanExpression:
        return inclusive_projection(self._schema, self._specs[spec_id], self._case_sensitive)(self._filter)

    def _manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        if spec_id not in self._specs:
            return lambda _: True  # `prepare` raises an error that names the manifest
        return manifest_evaluator(self._specs[spec_id], self._schema, self._projections[spec_id], self._case_sensitive)

    def _partition_filter(self, spec_id: int) -> PartitionFilter:
        spec, projected = self._specs[spec_id], self._projections[spec_id]
        return PartitionFilter(spec, self._schema, projected, case_sensitive=self._case_sensitive)


def _filter(
    specs: Mapping[int, PartitionSpec],
    schema: Schema,
    row_filter: BooleanExpression,
    case_sensitive: bool,
    include_empty_files: bool,
) -> ManifestFilter:
    return ManifestFilter(
        specs, schema, row_filter, case_sensitive=case_sensitive, include_empty_files=include_empty_files
    )


@dataclass(frozen=True)
class DataRows:
    """The rows of a data manifest that a plan keeps; `row_filter` excludes more of them."""

    filter: ManifestFilter
    row_filter: RowFilter | None = None

    def __call__(self, columns: ManifestColumns, rows: Rows) -> Rows:
        if self.row_filter is not None:
            rows = rows[self.row_filter(columns)[rows]]
        return self.filter.matching(columns, rows) if len(rows) else rows

    def search(self, manifests: int) -> ManifestSearch:
        return self.filter.search(manifests)


@dataclass(frozen=True)
class DeleteRows:
    """The rows of a delete manifest that a plan keeps."""

    filter: ManifestFilter

    def __call__(self, columns: ManifestColumns, rows: Rows) -> Rows:
        return self.filter.in_partition(columns, rows)

    def search(self, _: int) -> ManifestSearch:
        """Whole manifests: statistics exclude no delete file."""
        return self.filter.search(0)


Keep: TypeAlias = DataRows | DeleteRows


@dataclass(frozen=True)
class AddedIn:
    """A `RowFilter`: the files that these snapshots added."""

    snapshot_ids: frozenset[int]

    def __call__(self, columns: ManifestColumns) -> Mask:
        wanted = np.fromiter(self.snapshot_ids, np.int64, len(self.snapshot_ids))
        found: Mask = np.isin(columns.snapshot_id.numpy(), wanted)
        found &= columns.status.numpy() == ManifestEntryStatus.ADDED
        known = columns.snapshot_id.mask()
        return found if known is None else found & known


def added_in(snapshot_ids: Collection[int]) -> AddedIn:
    return AddedIn(frozenset(snapshot_ids))
