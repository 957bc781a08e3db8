"""The handle of a table: what a query needs to find again the table, the snapshot and the schema that it has seen."""

from dataclasses import dataclass

from sealberg.spark.protocol.codec import Message


@dataclass(frozen=True)
class TableHandle(Message):
    """A table as a query has named it.

    Args:
        table: its name, namespace first.
        uuid: of the table.
        schema_id: of the columns that the query sees.
        past: whether the query reads a snapshot, a tag or a point in time; such a handle cannot be written to.
        snapshot_id: None for a table without snapshots.
        metadata_location: None for a table that is being created.
        staged: the number of a table that is being created or replaced, AS SELECT.
        branch: None for main.
        after_snapshot_id: only the rows that were appended after this snapshot are read.
    """

    table: tuple[str, ...]
    uuid: str
    schema_id: int
    past: bool
    snapshot_id: int | None = None
    metadata_location: str | None = None
    staged: str | None = None
    branch: str | None = None
    after_snapshot_id: int | None = None

    @property
    def name(self) -> str:
        return ".".join(self.table)
