"""Executes a plan of groups: batches of groups are rewritten and committed; conflicts are tried again.

    groups ──batches──> runner: rewrite ──> commit ──> committed
       ^                                      └─ conflict: the group, planned again on the newest snapshot ─┐
       └────────────────────────────────────── at most `retries` times ─────────────────────────────────────┘

Without partial progress there is one batch, and an error of a file ends the job. With partial progress an error costs
its group only, and what was committed before a kill stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sealberg.errors import SealbergError
from sealberg.jobs.compaction.commit import DoneGroup, commit_groups
from sealberg.jobs.compaction.result import Compaction, FailedGroup
from sealberg.jobs.compaction.rewrite import Rewritten, rewrite
from sealberg.jobs.compaction.selection import choose_again
from sealberg.jobs.job import Progress
from sealberg.write.staged_files import StagedFiles, discard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sealberg.jobs.compaction.options import CompactOptions
    from sealberg.jobs.compaction.rewrite import RewriteTask
    from sealberg.jobs.compaction.selection import FileGroup
    from sealberg.jobs.compaction.tasks import TaskMaker
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.table.catalog_table import CatalogTable


class CompactRun:
    """One execution of a plan.

    Args:
        scan: the files of the branch as they are now.
        retries: how often a group that others have changed is tried again.
    """

    def __init__(
        self,
        table: CatalogTable,
        maker: TaskMaker,
        options: CompactOptions,
        *,
        branch: str,
        scan: Callable[[], list[EncryptedFileScanTask]],
        retries: int,
        runner: Runner,
        progress: ProgressListener | None,
    ) -> None:
        self._table, self._maker, self._options = table, maker, options
        self._branch, self._scan, self._retries, self._runner = branch, scan, retries, runner
        self._counter = _Counter(progress)
        self._failed_batches = 0
        self._stopped: Rewritten | None = None  # the task whose error ends the job
        self.result = Compaction(".".join(table.name()))

    def run(self, groups: Sequence[FileGroup]) -> Compaction:
        conflicts = self._round(groups)
        for _ in range(self._retries):
            if not conflicts:
                break
            conflicts = self._round(self._chosen_again([group for group, _ in conflicts]))
        self._fail((group, reason) for group, reason in conflicts)
        return self.result

    def _round(self, groups: Sequence[FileGroup]) -> list[tuple[FileGroup, str]]:
        """Rewrite and commit these groups, batch by batch; returns those that others have changed meanwhile."""
        conflicts: list[tuple[FileGroup, str]] = []
        for batch in self._batches(groups):
            if self._failed_batches >= self._most_failed:
                self._fail((group, "not tried: too many commits have failed") for group in batch)
                continue
            done = self._rewritten(batch)
            outcome = commit_groups(
                self._table,
                done,
                branch=self._branch,
                keep_sequence_number=self._options.use_starting_sequence_number,
            )
            self._failed_batches += bool(done) and not outcome.committed
            conflicts += outcome.conflicts
            self._count(outcome.committed, outcome.snapshot_id, outcome.removed_deletes)
        return conflicts

    def _batches(self, groups: Sequence[FileGroup]) -> Iterator[Sequence[FileGroup]]:
        if not groups:
            return
        commits = self._options.partial_progress_max_commits if self._options.partial_progress_enabled else 1
        yield from _slices(groups, -(-len(groups) // commits))

    @property
    def _most_failed(self) -> int:
        """As in Java, as many as there are batches: by default no failure ends the job early."""
        options = self._options
        if options.partial_progress_max_failed_commits is not None:
            return options.partial_progress_max_failed_commits
        return options.partial_progress_max_commits * (1 + self._retries)

    def _chosen_again(self, groups: Sequence[FileGroup]) -> tuple[FileGroup, ...]:
        self._table.refresh()
        head = self._table.metadata.snapshot_by_name(self._branch)
        if head is None:
            return ()
        return choose_again(
            groups,
            self._scan(),
            self._options,
            self._maker.sizes,
            snapshot_id=head.snapshot_id,
            sequence_number=head.sequence_number or 0,
        )

    # -- files ----------------------------------------------------------------------------------

    def _rewritten(self, groups: Sequence[FileGroup]) -> list[DoneGroup]:
        """The new files of these groups; without partial progress, an error of one group ends the job."""
        by_group: dict[int, list[Rewritten]] = {group.number: [] for group in groups}
        done: list[DoneGroup] = []
        with StagedFiles(self._table.io) as staged:
            for part in self._results(groups):
                staged.add_files(part.files)
                by_group[part.group].append(part)
            if self._stopped is not None:
                raise self._stopped.cause or SealbergError(self._stopped.error)
            for group in groups:
                parts = by_group[group.number]
                files = tuple(file for part in parts for file in part.files)
                errors = [part.error for part in parts if part.error is not None]
                if errors:
                    discard(self._table.io, (str(file.file_path) for file in files))
                    self._fail([(group, errors[0])])
                else:
                    done.append(DoneGroup(group, files))
        return done

    def _results(self, groups: Sequence[FileGroup]) -> Iterator[Rewritten]:
        at_a_time = self._options.max_concurrent_file_group_rewrites or len(groups)
        for wave in _slices(groups, at_a_time):
            for result in self._runner.run(rewrite, self._counter.begun(self._tasks(wave))):
                self._counter.done(result)
                if result.error is not None and not self._options.partial_progress_enabled:
                    self._stopped = self._stopped or result
                yield result

    def _tasks(self, groups: Iterable[FileGroup]) -> Iterator[RewriteTask]:
        for group in groups:
            for task in self._maker.tasks(group):
                if self._stopped is not None:  # tasks that run already end first, so that their files are known
                    return
                yield task

    # -- the result -----------------------------------------------------------------------------

    def _count(self, committed: Sequence[DoneGroup], snapshot_id: int | None, removed_deletes: int) -> None:
        old = [file for each in committed for file in each.group.files]
        new = [file for each in committed for file in each.files]
        before = self.result
        self.result = replace(
            before,
            rewritten_data_files_count=before.rewritten_data_files_count + len(old),
            rewritten_bytes_count=before.rewritten_bytes_count + sum(file.size for file in old),
            added_data_files_count=before.added_data_files_count + len(new),
            added_bytes_count=before.added_bytes_count + sum(file.file_size_in_bytes for file in new),
            removed_delete_files_count=before.removed_delete_files_count + removed_deletes,
            snapshots=before.snapshots if snapshot_id is None else (*before.snapshots, snapshot_id),
        )

    def _fail(self, groups: Iterable[tuple[FileGroup, str]]) -> None:
        made = tuple(FailedGroup(group.number, len(group.files), reason) for group, reason in groups)
        self.result = replace(self.result, failed=(*self.result.failed, *made))


def _slices(groups: Sequence[FileGroup], size: int) -> Iterator[Sequence[FileGroup]]:
    for start in range(0, len(groups), max(1, size)):
        yield groups[start : start + max(1, size)]


class _Counter:
    """Counts files and bytes for the progress."""

    def __init__(self, listener: ProgressListener | None) -> None:
        self._listener = listener
        self._now = Progress()

    def begun(self, tasks: Iterable[RewriteTask]) -> Iterator[RewriteTask]:
        for task in tasks:
            now = self._now
            total = now.bytes_total + task.stored_bytes
            self._now = replace(now, files_total=now.files_total + len(task.files), bytes_total=total)
            yield task

    def done(self, part: Rewritten) -> None:
        now = self._now
        read = now.bytes_done + part.stored_bytes
        self._now = replace(now, files_done=now.files_done + part.input_files, bytes_done=read)
        if self._listener is not None:
            self._listener(self._now)
