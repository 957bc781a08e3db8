"""Batches of a streaming query, each committed once, whatever is taken again after a failure.

    query id and epoch ──> the summary of the snapshot that a batch commits, in Iceberg's own words
    before a commit, and before each new attempt of one ──> is there a snapshot of this query, of this epoch or later?

Spark writes down that a batch is done after it was committed, so a driver that dies in between takes it again. An
empty batch commits nothing, and may be taken as often as anybody likes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table.refs import MAIN_BRANCH

from sealberg.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata

    from sealberg.write.snapshot_builder import FileChanges

QUERY_ID: Final = "spark.sql.streaming.queryId"
EPOCH_ID: Final = "spark.sql.streaming.epochId"


class EpochCommittedError(ConflictError):
    """The batch is in the table already."""


@dataclass(frozen=True)
class Epoch:
    """One batch of one query."""

    query: str
    number: int

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Epoch | None:
        """None for what is not part of a stream."""
        return cls(arguments["query"], int(arguments["epoch"])) if "query" in arguments else None

    def marked(self, changes: FileChanges) -> FileChanges:
        """The same, with the name of the batch, and with one more look before every further attempt to commit."""

        def check(metadata: TableMetadata) -> None:
            self.check(metadata, changes.branch or MAIN_BRANCH, staged=changes.stage_only)

        told = {QUERY_ID: self.query, EPOCH_ID: str(self.number)}
        return replace(changes, properties={**changes.properties, **told}, guard=check)

    @staticmethod
    def is_empty(changes: FileChanges) -> bool:
        return not (changes.added or changes.added_deletes or changes.removed or changes.removed_deletes)

    def check(self, metadata: TableMetadata, branch: str, *, staged: bool = False) -> None:
        """Refuse to commit it again. A batch that is staged, for spark.wap.id, is on no branch."""
        if staged:
            summaries = [one.summary for one in metadata.snapshots if one.summary is not None]
            if any(one[QUERY_ID] == self.query and int(one[EPOCH_ID] or -1) >= self.number for one in summaries):
                raise EpochCommittedError(f"batch {self.number} of query {self.query} is staged already")
            return
        snapshots = {one.snapshot_id: one for one in metadata.snapshots}
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
