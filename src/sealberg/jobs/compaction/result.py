"""What a compaction has done, in the words of Java's result of rewrite_data_files."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sealberg.jobs.job import FINE, NOT_CHECKED, readable


@dataclass(frozen=True)
class FailedGroup:
    """A group that stays as it was.

    Attributes:
        files: how many files it has.
        reason: the conflict with another writer, or the error of its files.
    """

    group: int
    files: int
    reason: str

    def __str__(self) -> str:
        return f"not compacted: group {self.group}, {_count(self.files, 'file')}: {self.reason}"


@dataclass(frozen=True)
class Compaction:
    """The result of `compact`.

    Attributes:
        rewritten_data_files_count, rewritten_bytes_count: the files that were replaced.
        added_data_files_count, added_bytes_count: the files that replace them.
        removed_delete_files_count: deletion vectors that went with their files, and dangling delete files.
        merged_manifests_count, added_manifests_count: what merging did to manifests.
        snapshots: the commits of this job, in order.
        failed: the groups that were not compacted.
        statistics_file: the distinct values of the last snapshot, if they were counted.
    """

    table: str
    rewritten_data_files_count: int = 0
    rewritten_bytes_count: int = 0
    added_data_files_count: int = 0
    added_bytes_count: int = 0
    removed_delete_files_count: int = 0
    merged_manifests_count: int = 0
    added_manifests_count: int = 0
    snapshots: tuple[int, ...] = ()
    failed: tuple[FailedGroup, ...] = ()
    statistics_file: str | None = None

    @property
    def failed_data_files_count(self) -> int:
        return sum(group.files for group in self.failed)

    @property
    def exit_code(self) -> int:
        return NOT_CHECKED if self.failed else FINE

    def to_json(self) -> dict[str, Any]:
        return {"job": "compact", **asdict(self), "failed_data_files_count": self.failed_data_files_count}

    def __str__(self) -> str:
        if not self.snapshots and not self.failed:
            return f"{self.table}: nothing to compact"
        lines = [
            f"{self.table}: {_count(self.rewritten_data_files_count, 'data file')} "
            f"({readable(self.rewritten_bytes_count)}) became {self.added_data_files_count} "
            f"({readable(self.added_bytes_count)})"
        ]
        if self.removed_delete_files_count:
            lines.append(f"  {_count(self.removed_delete_files_count, 'delete file')} removed")
        if self.merged_manifests_count:
            lines.append(f"  {_count(self.merged_manifests_count, 'manifest')} became {self.added_manifests_count}")
        lines.append(f"  {_count(len(self.snapshots), 'snapshot')} committed")
        if self.statistics_file is not None:
            lines.append(f"  distinct values counted: {self.statistics_file}")
        return "\n".join([*lines, *map(str, self.failed)])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
