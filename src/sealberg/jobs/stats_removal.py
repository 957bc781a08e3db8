"""`stats --remove`: removes statistics files from a table and from its storage.

    plan("hr.salaries", plaintext=True) ──> RemovalPlan ──execute()──> one commit ──> files deleted ──> Removed

Iceberg Java 1.12 writes statistics of encrypted tables as plaintext, and they hold hashes and numbers of values, or
partition values. `plaintext` removes these files only. The commit comes first: a file that is deleted is named by no
metadata. After a kill in between, `verify` shows the files that are left as orphans.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sealberg.files.file_io import ENCRYPTED_MAGICS
from sealberg.files.removal import remove_file
from sealberg.jobs.job import FINE, NOT_CHECKED, Amount, Plan, PlanStep
from sealberg.jobs.selection import encrypted_table
from sealberg.metadata.statistics import V3StatisticsFile, statistics_files, statistics_key_id
from sealberg.table.own_folders import Domain, neighbours
from sealberg.table.reachable import reach
from sealberg.table.statistics import EncryptedUpdateStatistics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.catalog import Catalog

    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.metadata.statistics import AnyStatisticsFile
    from sealberg.table.catalog_table import CatalogTable


@dataclass(frozen=True)
class Removed:
    """What the job removed.

    Attributes:
        table: the name of the table.
        deleted: statistics files that are in neither the table nor its storage any more.
        left: statistics files that the table no longer names and that could not be deleted, with the reason.
    """

    table: str
    deleted: tuple[str, ...]
    left: tuple[tuple[str, str], ...] = ()

    @property
    def exit_code(self) -> int:
        return NOT_CHECKED if self.left else FINE

    def to_json(self) -> dict[str, Any]:
        left = [{"file": path, "reason": reason} for path, reason in self.left]
        return {"job": "stats", "table": self.table, "deleted": list(self.deleted), "left": left}

    def __str__(self) -> str:
        if not self.deleted and not self.left:
            return f"{self.table} has no such statistics files"
        lines = [f"deleted: {path}" for path in self.deleted]
        return "\n".join(lines + [f"not deleted: {path}: {reason}" for path, reason in self.left])


@dataclass(frozen=True)
class RemovalPlan(Plan[Removed]):
    """The statistics files that will be removed."""

    table: CatalogTable = field(repr=False)
    files: tuple[AnyStatisticsFile, ...]

    @property
    def job(self) -> str:
        return "stats"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        amount = Amount(len(self.files), sum(file.file_size_in_bytes for file in self.files))
        return (PlanStep(".".join(self.table.name()), "remove statistics", removes=amount),)

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> Removed:  # noqa: ARG002 (one commit)
        """Commit the removal, then delete the files."""
        if self.files:
            update = self.table.update_statistics()
            assert isinstance(update, EncryptedUpdateStatistics)
            for file in self.files:
                if isinstance(file, V3StatisticsFile):
                    update.remove_statistics(file.snapshot_id)
                else:
                    update.remove_partition_statistics(file.snapshot_id)
            update.commit()
        left = remove_statistics_files(self.table, [file.statistics_path for file in self.files])
        kept = dict(left)
        deleted = [file.statistics_path for file in self.files if file.statistics_path not in kept]
        return Removed(".".join(self.table.name()), tuple(deleted), left)


def remove_statistics_files(table: CatalogTable, locations: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Delete statistics files that the table has given up; returns those that stay, with the reasons.

    What such an entry names was written by anybody who may commit, and need be no statistics file.
    """
    given = list(locations)
    if not given:
        return ()
    domain = Domain.of(table, neighbours(table.catalog), vouched=table.catalog.vouches(table))
    named = reach(table.metadata, table.io)
    named.lists.add(table.metadata_location)
    named.lists.update(entry.metadata_file for entry in table.metadata.metadata_log)
    left = []
    for location in given:
        reason = domain.refusal(location)
        if reason is None and location in named:
            reason = "is still named by the table"
        if reason := reason or remove_file(table.inner, location):
            left.append((location, reason))
    return tuple(left)


def plan(
    table: TableName,
    *,
    catalog: Catalog | str | None = None,
    snapshot: int | None = None,
    plaintext: bool = False,
) -> RemovalPlan:
    """What will be removed. Reads the metadata of the table, and the first bytes of its statistics files.

    Args:
        table: the name of an encrypted table, or the open table.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        snapshot: only the statistics of this snapshot.
        plaintext: only files that are not encrypted.
    """
    opened = encrypted_table(table, catalog)
    files = (file for file in statistics_files(opened.metadata) if snapshot in (None, file.snapshot_id))
    return RemovalPlan(opened, tuple(file for file in files if not plaintext or _is_plaintext(opened, file)))


def _is_plaintext(table: CatalogTable, file: AnyStatisticsFile) -> bool:
    if statistics_key_id(table.metadata.encryption_keys, file) is not None:
        return False
    try:
        with table.inner.new_input(file.statistics_path).open() as stream:
            return bytes(stream.read(4)) not in ENCRYPTED_MAGICS
    except FileNotFoundError:
        return True  # its entry has no key, and goes
