"""New files without the rows, and manifests that do not name the old files, in one commit for each branch.

    snapshot 1   files with the rows ──runner──> files without them, or none; vectors of other files in a new file
    snapshot 2   the manifests of snapshot 1 without the entries of removed files: these entries hold keys

Both snapshots are one commit. Snapshot 1 is expired afterwards, with all others that show the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import ManifestContent
from pyiceberg.table.snapshots import Operation

from sealberg.errors import SealbergError
from sealberg.jobs.compact import scan
from sealberg.jobs.compaction.options import CompactOptions
from sealberg.jobs.compaction.rewrite import Rewritten, rewrite
from sealberg.jobs.compaction.selection import FileGroup, InputFile
from sealberg.jobs.compaction.sorting import UNSORTED
from sealberg.jobs.compaction.tasks import TaskMaker
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.write.manifest_rewrite import ManifestRewrite
from sealberg.write.row_changes import RowWork
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.table.snapshots import Snapshot

    from sealberg.jobs.compaction.rewrite import RewriteTask
    from sealberg.jobs.erasure.names import Wanted
    from sealberg.jobs.erasure.search import Holding
    from sealberg.jobs.runner import Runner
    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.table.catalog_table import CatalogTable
    from sealberg.table.key_changes import KeyChange

# In the summaries of the snapshots that an erase commits: a run that was killed in its commit knows its own.
JOB: Final = "sealberg.job"
ERASE: Final = "erase"


@dataclass(frozen=True)
class WithoutRemoved(ManifestRewrite):
    """Writes each manifest anew that has entries of removed files, without these entries."""

    def choose(self, manifests: Iterable[ManifestFileV3]) -> list[list[ManifestFileV3]]:
        return [[manifest] for manifest in manifests if manifest.deleted_files_count != 0]

    def count(self, group: Sequence[ManifestFileV3]) -> int:
        return len(group)


@dataclass(frozen=True)
class Cleaned:
    """What was done to one branch.

    Attributes:
        passing: the snapshot between, which still names the old files.
    """

    branch: str
    files: int
    written: int
    bytes: int
    passing: int | None


def clean_branch(
    table: CatalogTable,
    branch: str,
    found: Holding,
    where: Wanted,
    runner: Runner,
    keys: KeyChange | None = None,
) -> Cleaned:
    """Take the rows out of the files of a branch, and their files out of its manifests.

    Args:
        keys: committed together with the new snapshots, whose keys it already seals.
    """
    head = table.metadata.snapshot_by_name(branch)
    assert head is not None
    tasks = scan(table, branch, AlwaysTrue())
    folded = {path for path in found.deletes if not path.endswith(".puffin")}
    chosen = [task for task in tasks if _is_hit(task, found, folded)]
    hit = {task.path for task in chosen}
    siblings = [
        task
        for task in tasks
        if task.path not in hit and any(str(v.file_path) in found.deletes for v in _vectors(task))
    ]
    gone_deletes = tuple(_live_deletes(table, branch, found.deletes, chosen))
    rest = FileChanges(
        operation=Operation.REPLACE, branch=branch, manifest_rewrite=WithoutRemoved(1), properties={JOB: ERASE}
    )
    with StagedFiles(table.io) as staged:
        files, sequence_numbers = _rewritten(table, chosen, head, found, where, runner)
        staged.add_files(files)
        transaction = table.transaction()
        work = RowWork.on(transaction.context, branch)
        vectors = work.write_vectors([(task, work.deleted(task)) for task in siblings]) if siblings else []
    passing: int | None = None
    with transaction:
        if keys is not None:
            transaction.commit_keys(keys)
        if chosen or gone_deletes:
            changes = FileChanges(
                added=tuple(files),
                added_deletes=tuple(vectors),
                removed=tuple(task.file for task in chosen),
                removed_deletes=gone_deletes,
                operation=Operation.OVERWRITE if files or vectors else Operation.DELETE,
                branch=branch,
                keep_sequence_numbers=sequence_numbers,
                split_removed=True,
                properties={JOB: ERASE},
            )
            transaction.commit_changes(changes, read_at=head.snapshot_id)
            between = transaction.table_metadata.snapshot_by_name(branch)
            passing = between.snapshot_id if between is not None else None
        transaction.commit_changes(rest)
    return Cleaned(branch, len(chosen), len(files), sum(task.file.file_size_in_bytes for task in chosen), passing)


def _is_hit(task: EncryptedFileScanTask, found: Holding, folded: set[str]) -> bool:
    return task.path in found.rows or any(str(file.file_path) in folded for file in task.delete_files)


def _vectors(task: EncryptedFileScanTask) -> Iterator[DataFileV3]:
    for file in task.delete_files:
        if isinstance(file, DataFileV3) and file.is_deletion_vector:
            yield file


def _live_deletes(
    table: CatalogTable, branch: str, gone: set[str], chosen: Iterable[EncryptedFileScanTask]
) -> Iterator[DataFileV3]:
    """The delete entries to remove: those in files that go, and the vectors of data files that go."""
    of_chosen = {vector.identity for task in chosen for vector in _vectors(task)}
    head = table.metadata.snapshot_by_name(branch)
    for manifest in head.manifests(table.io) if head is not None else ():
        if manifest.content == ManifestContent.DELETES and isinstance(manifest, ManifestFileV3):
            for entry in manifest.fetch_manifest_entry(table.io):
                file = entry.data_file
                assert isinstance(file, DataFileV3)
                if file.identity in of_chosen or str(file.file_path) in gone:
                    yield file


def _rewritten(
    table: CatalogTable,
    chosen: Sequence[EncryptedFileScanTask],
    head: Snapshot,
    found: Holding,
    where: Wanted,
    runner: Runner,
) -> tuple[list[DataFileV3], dict[tuple[str, int | None], int]]:
    """The new files, with the sequence number that each of them keeps; an error deletes all of them."""
    sizes = CompactOptions().sizes(table.metadata.properties)
    maker = TaskMaker(table, sizes, UNSORTED)
    spec_id, sequence_number = table.metadata.default_spec_id, head.sequence_number or 0

    def tasks() -> Iterator[RewriteTask]:
        for number, task in enumerate(chosen):
            single = task.file.spec_id == spec_id
            group = FileGroup(number, (InputFile.of(task),), single, head.snapshot_id, sequence_number)
            # The search has counted the rows, deleted ones included; with deletes, the task counts them again.
            counted = None if task.delete_files else found.rows.get(str(task.file.file_path), 0)
            rows = where.row_filter
            for each in maker.tasks(group):
                yield replace(each, without=rows, filter_schema=where.schema, left_out=counted)

    files: list[DataFileV3] = []
    failed: Rewritten | None = None
    with StagedFiles(table.io) as staged:
        for done in runner.run(rewrite, tasks()):
            files += staged.add_files(done.files)
            failed = failed or (done if done.error is not None else None)
        if failed is not None:
            raise failed.cause or SealbergError(str(failed.error))
    return files, {file.identity: sequence_number for file in files}
