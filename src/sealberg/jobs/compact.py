"""`compact`: rewrites small files, large files and files with deleted rows, and merges manifests.

    plan("hr.salaries", catalog="prod") ──> CompactPlan: groups of files ──execute()──> Compaction

    snapshot ── files ──selection──> groups ──tasks, on the runner──> new files, new keys ──commit──> one snapshot

A row keeps its `_row_id` and its `_last_updated_sequence_number`; deleted rows are gone from the new files. Others may
write meanwhile: a group that they have changed is rewritten again. A job that was killed is run again: groups that are
committed are not small any more, so the next run goes on with the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from sealberg.errors import ConfigError
from sealberg.jobs import stats
from sealberg.jobs.compaction.dangling import dangling, remove_dangling_deletes
from sealberg.jobs.compaction.options import CompactOptions
from sealberg.jobs.compaction.result import Compaction
from sealberg.jobs.compaction.rewrite import SORT_BYTES
from sealberg.jobs.compaction.run import CompactRun
from sealberg.jobs.compaction.selection import choose
from sealberg.jobs.compaction.sorting import UNSORTED, Layout, parse_order, zorder_of
from sealberg.jobs.compaction.tasks import TaskMaker
from sealberg.jobs.job import Amount, Plan, PlanStep
from sealberg.jobs.rewrite_manifests import live_manifests, merging, rewrite_manifests
from sealberg.jobs.row_filter import row_filter as row_filter_of
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import encrypted_table
from sealberg.scan.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression

    from sealberg.jobs.compaction.options import Sizes
    from sealberg.jobs.compaction.rewrite import RewriteTask
    from sealberg.jobs.compaction.selection import FileGroup
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.table.catalog_table import CatalogTable

RETRIES: Final = 3


@dataclass(frozen=True)
class CompactPlan(Plan[Compaction]):
    """The groups of files that will be rewritten.

    Attributes:
        where: only files that may hold matching rows are considered.
        layout: the order of rows in new files.
        retries: how often a group is tried again that others have changed meanwhile.
        manifests: whether manifests are merged at the end.
        statistics: whether distinct values are counted at the end.
    """

    table: CatalogTable = field(repr=False)
    options: CompactOptions
    sizes: Sizes
    layout: Layout
    groups: tuple[FileGroup, ...]
    where: BooleanExpression = field(repr=False)
    branch: str = MAIN_BRANCH
    retries: int = RETRIES
    manifests: bool = True
    sort_bytes: int = SORT_BYTES
    statistics: bool = False

    @property
    def job(self) -> str:
        return "compact"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        maker = self._maker()
        files = [file for group in self.groups for file in group.files]
        reads = Amount(len(files), sum(file.size for file in files))
        writes = Amount(sum(map(maker.expected_files, self.groups)), None if files else 0)
        merged = self._merged()
        action = f"compact ({len(self.groups)} groups)" if len(self.groups) != 1 else "compact (1 group)"
        gone = self._dangling()
        notes = [f"up to {merged} manifests are merged"] if merged else []
        if gone.files:
            notes.append("delete files that apply to no file are taken out of the table")
        if self.statistics and (files or merged or gone.files):
            notes.append("distinct values are counted at the end")
        return (
            PlanStep(
                ".".join(self.table.name()),
                action,
                reads,
                writes + Amount(1, None) if merged else writes,
                gone,
                kms_calls=2 if files or merged or gone.files else 0,
                note=", ".join(notes),
            ),
        )

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> Compaction:
        """Rewrite the groups and commit them; then merge manifests.

        Raises:
            SealbergError, OSError: without partial progress, a file could not be read or written; nothing was
                committed. A group that other writers keep changing is part of the result instead.
        """
        run = CompactRun(
            self.table,
            self._maker(),
            self.options,
            branch=self.branch,
            scan=lambda: scan(self.table, self.branch, AlwaysTrue()),
            retries=self.retries,
            runner=runner or Threads(),
            progress=progress,
        )
        result = run.run(self.groups)
        if self.options.remove_dangling_deletes:
            count, snapshot_id = remove_dangling_deletes(self.table, self.branch)
            result = _with_snapshot(result, snapshot_id)
            result = replace(result, removed_delete_files_count=result.removed_delete_files_count + count)
        if self.manifests:
            merged = rewrite_manifests(self.table, merging(self.table), self.branch)
            result = replace(
                _with_snapshot(result, merged.snapshot_id),
                merged_manifests_count=merged.rewritten_manifests_count,
                added_manifests_count=merged.added_manifests_count,
            )
        if self.statistics and result.snapshots:
            counted = stats.plan(self.table, snapshot=result.snapshots[-1]).execute(runner=runner)
            result = replace(result, statistics_file=counted.location)
        return result

    def tasks(self, group: FileGroup) -> Iterator[RewriteTask]:
        """The tasks that the runner gets for a group."""
        return self._maker().tasks(group)

    def _maker(self) -> TaskMaker:
        return TaskMaker(self.table, self.sizes, self.layout, self.sort_bytes)

    def _dangling(self) -> Amount:
        """Delete files that dangle already; the compaction makes more of them."""
        if not self.options.remove_dangling_deletes:
            return Amount()
        sizes = {str(file.file_path): file.file_size_in_bytes for file in dangling(self.table, self.branch)}
        return Amount(len(sizes), sum(sizes.values()))

    def _merged(self) -> int:
        if not self.manifests:
            return 0
        return sum(map(len, merging(self.table).choose(live_manifests(self.table, self.branch))))


def plan(
    table: TableName,
    *,
    catalog: Catalog | str | None = None,
    options: CompactOptions | Mapping[str, str] | None = None,
    where: str | BooleanExpression | None = None,
    files: Callable[[DataFileV3], bool] | None = None,
    sort: bool | str = False,
    zorder: Sequence[str] = (),
    branch: str = MAIN_BRANCH,
    retries: int = RETRIES,
    manifests: bool = True,
    sort_bytes: int = SORT_BYTES,
    statistics: bool | None = None,
) -> CompactPlan:
    """What `compact` will do. Reads the manifests of the table.

    Args:
        table: the name of a table, or an open table.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        options: options of Java's rewrite_data_files, also by their names in Java; see `CompactOptions`.
        where: a filter; files that cannot hold a matching row stay as they are.
        files: which of these files are considered; by default all.
        sort: True for the table's sort order, or an order such as "day desc nulls last, id".
        zorder: columns of a z-order.
        branch: the branch that is compacted.
        retries: how often a group is tried again that others have changed meanwhile.
        manifests: merge manifests at the end.
        sort_bytes: how many bytes of rows a task sorts in memory; larger inputs are sorted in several runs.
        statistics: count distinct values of the new snapshot; by default if the snapshot before has statistics, which
            belong to that snapshot only.
    """
    found = encrypted_table(table, catalog)
    chosen = options if isinstance(options, CompactOptions) else CompactOptions.from_properties(options or {})
    if retries < 0:
        raise ConfigError(f"retries is {retries}, expected 0 or more")
    if sort_bytes < 1:
        raise ConfigError(f"sort_bytes is {sort_bytes}, expected 1 or more")
    metadata = found.metadata
    _check_branch(metadata, branch)
    if chosen.output_spec_id not in (None, metadata.default_spec_id):
        raise ConfigError(
            f"output-spec-id is {chosen.output_spec_id}: new files have the table's current partition spec, which is "
            f"{metadata.default_spec_id}"
        )
    sizes, layout = chosen.sizes(metadata.properties), _layout(metadata, sort, zorder)
    row_filter = AlwaysTrue() if where is None else row_filter_of(where, metadata.schema())[0]
    head = metadata.snapshot_by_name(branch)
    groups: tuple[FileGroup, ...] = ()
    if head is not None:
        groups = choose(
            [task for task in scan(found, branch, row_filter) if files is None or files(task.shared[0])],
            chosen,
            sizes,
            spec_id=metadata.default_spec_id,
            snapshot_id=head.snapshot_id,
            sequence_number=head.sequence_number or 0,
        )
    counts = statistics or (statistics is None and head is not None and stats.can_renew(found, head.snapshot_id))
    about = (found, chosen, sizes, layout, groups, row_filter, branch, retries, manifests, sort_bytes)
    return CompactPlan(*about, statistics=counts)


def scan(table: CatalogTable, branch: str, row_filter: BooleanExpression) -> list[EncryptedFileScanTask]:
    """The files of the branch that may hold matching rows, with their delete files; empty files too."""
    metadata = table.metadata
    head = metadata.snapshot_by_name(branch)
    if head is None:
        return []
    planner = Planner(metadata, table.io, metadata.schema(), row_filter, include_empty_files=True)
    return planner.plan(head.manifests(table.io))


def _check_branch(metadata: V3TableMetadata, branch: str) -> None:
    ref = metadata.refs.get(branch)
    if ref is None and branch != MAIN_BRANCH:
        raise ConfigError(f"there is no branch {branch}; the table has {', '.join(sorted(metadata.refs)) or 'none'}")
    if ref is not None and ref.snapshot_ref_type != SnapshotRefType.BRANCH:
        raise ConfigError(f"{branch} is a tag, not a branch. Tags cannot be targets for producing snapshots")


def _layout(metadata: V3TableMetadata, sort: bool | str, zorder: Sequence[str]) -> Layout:
    schema = metadata.schema()
    if zorder and sort:
        raise ConfigError("sort and zorder exclude each other")
    if zorder:
        return zorder_of(zorder, schema)
    if sort is False:
        return UNSORTED
    if sort is not True:
        order = parse_order(sort, schema)
        same = [each.order_id for each in metadata.sort_orders if each.fields == order.fields]
        return Layout(order, order_id=same[0] if same else 0)
    order = metadata.sort_order_by_id(metadata.default_sort_order_id) or UNSORTED_SORT_ORDER
    if order.is_unsorted:
        raise ConfigError("the table has no sort order; set one with update_sort_order(), or give an order")
    return Layout(order, order_id=order.order_id)


def _with_snapshot(result: Compaction, snapshot_id: int | None) -> Compaction:
    return result if snapshot_id is None else replace(result, snapshots=(*result.snapshots, snapshot_id))
