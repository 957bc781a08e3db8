"""Commits each micro-batch of a streaming query once, also when Spark repeats the batch after a failure.

    query id and epoch ──> stored in the summary of the snapshot that a batch commits, with Iceberg's names
    before every attempt to commit ──> is there a snapshot of this query with this epoch or a later one?

Spark records a batch as done after its commit, so a driver that dies in between repeats the batch. An empty batch
commits nothing and can be repeated safely.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyiceberg.table.refs import MAIN_BRANCH

from sealberg.errors import ConflictError

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.write.snapshot_builder import FileChanges

QUERY_ID: Final = "spark.sql.streaming.queryId"
EPOCH_ID: Final = "spark.sql.streaming.epochId"


class EpochCommittedError(ConflictError):
    """The table already has this batch."""


@dataclass(frozen=True)
class Epoch:
    """One batch of one query."""

    query: str
    number: int

    def marked(self, changes: FileChanges) -> FileChanges:
        """The changes with query id and epoch in their summary, checked again before every attempt to commit."""

        def check(metadata: TableMetadata) -> None:
            self.check(metadata, changes.branch or MAIN_BRANCH, staged=changes.stage_only)

        batch = {QUERY_ID: self.query, EPOCH_ID: str(self.number)}
        return replace(changes, properties={**changes.properties, **batch}, guard=check)

    @staticmethod
    def is_empty(changes: FileChanges) -> bool:
        return not (changes.added or changes.added_deletes or changes.removed or changes.removed_deletes)

    def check(self, metadata: TableMetadata, branch: str, *, staged: bool = False) -> None:
        """Raise if the table already has this batch. A batch that spark.wap.id stages is on no branch."""
        if staged:
            summaries = [snapshot.summary for snapshot in metadata.snapshots if snapshot.summary is not None]
            if any(
                summary[QUERY_ID] == self.query and int(summary[EPOCH_ID] or -1) >= self.number for summary in summaries
            ):
                raise EpochCommittedError(f"batch {self.number} of query {self.query} is staged already")
            return
        snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        ref = metadata.refs.get(branch)
        at = snapshots.get(ref.snapshot_id) if ref is not None else None
        while at is not None:
            summary = at.summary
            if summary is not None and summary[QUERY_ID] == self.query:
                last = int(summary[EPOCH_ID] or -1)
                if last >= self.number:
                    raise EpochCommittedError(f"batch {self.number} of query {self.query} is committed already")
                return
            at = snapshots.get(at.parent_snapshot_id or -1)
