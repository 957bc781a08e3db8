"""`stats --partitions`: numbers of each partition, as an encrypted partition statistics file of a snapshot.

    plan("shop.orders", catalog="prod") ──> PartitionStatsPlan ──execute()──> PartitionStatistics

    snapshot ── all manifests ──> rows, files, bytes and deletes of each partition ──> Parquet in AGS1 ──> one commit

The numbers are those of Iceberg's compute_partition_stats. No data file is read. As in Java, a snapshot that has a
file already keeps it; a file that Java wrote as plaintext is replaced and deleted. Nothing is committed before the file
is whole, so a job that was killed is run again from the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sealberg.errors import ConfigError
from sealberg.jobs.job import FINE, NOT_CHECKED, Amount, Plan, PlanStep
from sealberg.jobs.selection import encrypted_table
from sealberg.jobs.stats_removal import remove_statistics_files
from sealberg.metadata.statistics import statistics_key_id
from sealberg.table.statistics import StatisticsChange
from sealberg.write.partition_statistics_file import count_partitions, partition_type, write_partition_statistics

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.metadata.table_metadata import V3Snapshot
    from sealberg.table.catalog_table import CatalogTable


@dataclass(frozen=True)
class PartitionStatistics:
    """What the job wrote.

    Attributes:
        snapshot_id: the snapshot whose partitions were counted; None if the table has no snapshot.
        location: the partition statistics file of the snapshot; None if it has no partition.
        partitions: how many partitions were counted; 0 if the file was there already.
        replaced: the plaintext file that the snapshot had before, which was deleted.
        left: that file, if it stays, and why.
    """

    table: str
    snapshot_id: int | None
    location: str | None = None
    stored_bytes: int = 0
    partitions: int = 0
    replaced: str | None = None
    left: tuple[tuple[str, str], ...] = ()

    @property
    def exit_code(self) -> int:
        return NOT_CHECKED if self.left else FINE

    def to_json(self) -> dict[str, Any]:
        return {
            "job": "stats",
            "table": self.table,
            "snapshot_id": self.snapshot_id,
            "partition_statistics_file": self.location,
            "stored_bytes": self.stored_bytes,
            "partitions": self.partitions,
            "replaced": self.replaced,
            "left": [{"file": path, "reason": reason} for path, reason in self.left],
        }

    def __str__(self) -> str:
        if self.location is None:
            return f"{self.table} has no snapshot with a partition, so there is nothing to count"
        if not self.partitions:
            return f"snapshot {self.snapshot_id} was counted before: {self.location}"
        stays = (f"not deleted: {path}: {reason}" for path, reason in self.left)
        written = f"written: {self.location} ({self.stored_bytes:,} bytes, encrypted)"
        return "\n".join((f"{self.partitions:,} partitions", written, *stays))


@dataclass(frozen=True)
class PartitionStatsPlan(Plan[PartitionStatistics]):
    """The snapshot whose partitions will be counted."""

    table: CatalogTable = field(repr=False)
    snapshot: V3Snapshot | None

    @property
    def job(self) -> str:
        return "stats"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        name = ".".join(self.table.name())
        if self.snapshot is None:
            return (PlanStep(name, "count partitions", note="the table has no snapshot, so there is nothing to count"),)
        if self._known() is not None:
            return (PlanStep(name, "-", note=f"snapshot {self.snapshot.snapshot_id} has partition statistics already"),)
        return (PlanStep(name, "count partitions", writes=Amount(1, None), kms_calls=2, note="reads manifests only"),)

    def execute(
        self,
        *,
        progress: ProgressListener | None = None,  # noqa: ARG002 (manifests only)
        runner: Runner | None = None,
    ) -> PartitionStatistics:
        """Count, write the file, and commit it.

        Raises:
            ValidationException: another process has expired the snapshot meanwhile.
        """
        if runner is not None:
            raise ConfigError("stats of partitions read manifests and no data file, so they run without a runner")
        name, snapshot = ".".join(self.table.name()), self.snapshot
        if snapshot is None:
            return PartitionStatistics(name, None)
        if (known := self._known()) is not None:
            return PartitionStatistics(name, snapshot.snapshot_id, known.statistics_path, known.file_size_in_bytes)
        counts = count_partitions(self.table.metadata, self.table.io, snapshot.manifests(self.table.io))
        if not counts:
            return PartitionStatistics(name, snapshot.snapshot_id)
        transaction = self.table.transaction()
        file, key = write_partition_statistics(transaction.context, snapshot.snapshot_id, counts)
        change = StatisticsChange(file, key)
        transaction.commit_statistics(change)
        transaction.commit_transaction()
        left = remove_statistics_files(self.table, change.replaced)
        return PartitionStatistics(
            name,
            snapshot.snapshot_id,
            file.statistics_path,
            file.file_size_in_bytes,
            len(counts),
            None if left else next(iter(change.replaced), None),
            left,
        )

    def _known(self) -> Any:
        """The encrypted file that the snapshot has."""
        assert self.snapshot is not None
        ring, number = self.table.metadata.encryption_keys, self.snapshot.snapshot_id
        found = (file for file in self.table.metadata.partition_statistics if file.snapshot_id == number)
        return next((file for file in found if statistics_key_id(ring, file) is not None), None)


def plan(table: TableName, *, catalog: Catalog | str | None = None, snapshot: int | None = None) -> PartitionStatsPlan:
    """What will be counted. Reads the metadata of the table, and asks no KMS.

    Args:
        table: the name of an encrypted table, or the open table.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        snapshot: the id of the snapshot; by default the current snapshot.
    """
    opened = encrypted_table(table, catalog)
    metadata, name = opened.metadata, ".".join(opened.name())
    if not partition_type(metadata).fields:
        raise ConfigError(f"Table must be partitioned: {name} has no partition field, so it has no partitions to count")
    found = metadata.current_snapshot() if snapshot is None else metadata.snapshot_by_id(snapshot)
    if found is None and snapshot is not None:
        raise ConfigError(f"table {name} has no snapshot {snapshot}")
    return PartitionStatsPlan(opened, found)  # type: ignore[arg-type]
