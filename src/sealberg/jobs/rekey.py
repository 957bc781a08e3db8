"""`rekey`: new data keys for the files of a table, without decoding them where that can be.

    plan("hr.salaries") ──> RekeyPlan ──execute()──> Rekeying

    all files        or those older than a date, or those that a range of snapshots added (a leaked key or manifest)
      └─ batches     each copied under new keys by the runner, then exchanged in one commit of every branch
           └─ then   what must be expired and removed, so that the old keys open nothing

Rows, row ids, sequence numbers and the order of rows stay. A killed job goes on with the files that are left: a file
with a new key has the sequence number of the commit of rekey. A job over all files writes its range into the summaries
of its snapshots, so that the next run knows which files were meant.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from sealberg.catalogs.load import load_catalog
from sealberg.errors import ConfigError
from sealberg.jobs.expire import expire_table, moment_ms
from sealberg.jobs.job import FINE, NOT_CHECKED, Amount, Plan, PlanStep, Progress, readable
from sealberg.jobs.rekeying.batch import Batch, Copies
from sealberg.jobs.rekeying.remains import Remains, remains
from sealberg.jobs.rekeying.units import KeyRange, Unit, units
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import load_named
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.jobs.expire_result import TableExpiry
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.metadata.table_metadata import V3TableMetadata

RANGE: Final = "sealberg.rekey.range"  # in the summary of a snapshot: the sequence numbers whose files get new keys
LEFT: Final = "sealberg.rekey.left"  # how many files were left after this snapshot
BATCH_FILES: Final = 1000
BATCH_BYTES: Final = 64 << 30


@dataclass(frozen=True)
class RekeyOptions:
    """Which files get new keys, and how many of them in one commit.

    Args:
        older_than: files that were written before this moment, or are older than this age.
        snapshots: files that were added from the first to the last of these two snapshots, both included.
        batch_files, batch_bytes: the most files and stored bytes of one commit.
        restart: begin anew, although an earlier job over all files has left some.
        erase: afterwards expire every snapshot that has files with old keys, and remove its files and its keys.
        keep_tags: do not erase what tags keep.
    """

    older_than: timedelta | datetime | None = None
    snapshots: tuple[int, int] | None = None
    batch_files: int = BATCH_FILES
    batch_bytes: int = BATCH_BYTES
    restart: bool = False
    erase: bool = False
    keep_tags: bool = False

    def __post_init__(self) -> None:
        if self.older_than is not None and self.snapshots is not None:
            raise ConfigError("--older-than and --snapshots exclude each other: both say which files get new keys")
        if self.restart and (self.older_than is not None or self.snapshots is not None):
            raise ConfigError("--restart is for a job over all files, and --older-than or --snapshots was given too")
        if self.keep_tags and not self.erase:
            raise ConfigError("--keep-tags is an option of --erase, which was not given")
        for name, value in (("--batch-files", self.batch_files), ("--batch-bytes", self.batch_bytes)):
            if value < 1:
                raise ConfigError(f"{name} is {value}, expected at least 1")


@dataclass(frozen=True)
class Rekeying:
    """What `rekey` has done.

    Attributes:
        files, stored_bytes: how many files have new keys.
        commits: one per batch and branch.
        conflicts: how often another process committed first, so that a commit was made again.
        gone: files that other processes removed before they were exchanged.
        decoded: files with pages that cannot be re-wrapped, which were decoded and written again.
        remains: what still opens with old keys.
        erased: what was expired and removed; None if that was not asked for.
    """

    table: str
    keys: KeyRange
    files: int
    stored_bytes: int
    commits: int
    conflicts: int
    gone: int
    decoded: int
    remains: Remains
    erased: TableExpiry | None = None

    @property
    def exit_code(self) -> int:
        """0: done. 2: files with old keys could not be removed, and the next run removes them."""
        return NOT_CHECKED if self.erased is not None and self.erased.removed.left else FINE

    def to_json(self) -> dict[str, Any]:
        return {
            "job": "rekey",
            "table": self.table,
            "sequence_numbers": str(self.keys),
            "files": self.files,
            "stored_bytes": self.stored_bytes,
            "commits": self.commits,
            "conflicts": self.conflicts,
            "gone": self.gone,
            "decoded": self.decoded,
            "remains": self.remains.to_json(),
            "erased": None if self.erased is None else self.erased.to_json(),
            "exit_code": self.exit_code,
        }

    def __str__(self) -> str:
        what = f"{self.table}: {_count(self.files, 'file')} ({readable(self.stored_bytes)}) with new keys"
        lines = [f"{what} in {_count(self.commits, 'commit')}"]
        if self.conflicts:
            lines.append(f"{_count(self.conflicts, 'conflict')} with other writers resolved")
        if self.decoded:
            lines.append(f"{_count(self.decoded, 'file')} decoded and written again: pages of version 2 with levels")
        if self.erased is not None:
            lines.append(f"erased: {self.erased}")
        left = self.remains
        if left.snapshots:
            tags = f", kept by the tag{'s' if len(left.tags) > 1 else ''} {', '.join(left.tags)}" if left.tags else ""
            refs = "".join(f" --ref {tag}" for tag in left.tags)
            lines += [
                "the old keys still open the old files, until these are gone:",
                f"  {_count(len(left.snapshots), 'snapshot')} with the files of their own{tags}",
                f"  {_count(left.metadata_files, 'older metadata file')}, with the keys of those snapshots",
                f"to remove them: sealberg expire {self.table} --older-than 0s --retain-last 1{refs}",
            ]
        return "\n".join(lines)


@dataclass(frozen=True)
class RekeyPlan(Plan[Rekeying]):
    """The files that will get new keys, by the sequence numbers of the commits that added them."""

    table: CatalogTable = field(repr=False)
    options: RekeyOptions
    keys: KeyRange
    resumed: bool

    @property
    def job(self) -> str:
        return "rekey"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        metadata = self.table.metadata
        head = metadata.current_snapshot()
        amount = _amount(head)
        keks = {entry.encrypted_by_id for entry in metadata.encryption_keys if entry.timestamp is None}
        notes = [f"files that were added with the sequence numbers {self.keys} of {metadata.last_sequence_number}"]
        if self.resumed:
            notes.append("an earlier job was not finished, and goes on; --restart begins anew")
        if self.keys.first > 0 or self.keys.last < metadata.last_sequence_number:
            notes.append("reads and writes are those of all files, the most that it can be")
        notes.append(self._afterwards())
        return (
            PlanStep(_name(self.table), "new data keys", amount, amount, kms_calls=len(keks), note="; ".join(notes)),
        )

    def _afterwards(self) -> str:
        if not self.options.erase:
            return "afterwards the old files stay until their snapshots are expired; --erase does that"
        tags = remains(self.table.metadata, self.keys).tags
        gone = f", and the tag{'s' if len(tags) > 1 else ''} {', '.join(tags)} too" if tags else ""
        kept = ", except what tags keep" if self.options.keep_tags else gone
        return f"afterwards every snapshot but the heads of branches is expired, with its files and keys{kept}"

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> Rekeying:
        return _Job(self, runner or Threads(), progress).run()


def plan(
    table: str | Identifier | CatalogTable,
    *,
    catalog: Catalog | str | None = None,
    older_than: timedelta | datetime | None = None,
    snapshots: tuple[int, int] | None = None,
    batch_files: int = BATCH_FILES,
    batch_bytes: int = BATCH_BYTES,
    restart: bool = False,
    erase: bool = False,
    keep_tags: bool = False,
) -> RekeyPlan:
    """Which files `rekey` will give new keys. Reads the metadata of the table, and asks no KMS.

    Args:
        table: the name of an encrypted table, or the open table.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        older_than, snapshots, batch_files, batch_bytes, restart, erase, keep_tags: see `RekeyOptions`.
    """
    options = RekeyOptions(older_than, snapshots, batch_files, batch_bytes, restart, erase, keep_tags)
    if isinstance(table, (str, tuple)):
        opened = load_catalog(catalog) if catalog is None or isinstance(catalog, str) else catalog
        table = _load(opened, table)
    _refuse_plain(table, table.name())
    keys, resumed = _range(table.metadata, options)
    return RekeyPlan(table, options, keys, resumed)


def _load(catalog: Catalog, name: str | Identifier) -> CatalogTable:
    table = load_named(catalog, name)
    _refuse_plain(table, table.name())
    assert isinstance(table, CatalogTable)
    return table


def _refuse_plain(table: Table, name: tuple[str, ...]) -> None:
    if not isinstance(table, CatalogTable) or table.encryption is None:
        raise ConfigError(f"table {'.'.join(name)} is not encrypted, so it has no keys; `sealberg encrypt` encrypts it")


def _range(metadata: V3TableMetadata, options: RekeyOptions) -> tuple[KeyRange, bool]:
    """The sequence numbers of the files, and whether an unfinished job goes on."""
    numbers = {snapshot.snapshot_id: snapshot.sequence_number or 0 for snapshot in metadata.snapshots}
    if options.snapshots is not None:
        for snapshot_id in options.snapshots:
            if snapshot_id not in numbers:
                raise ConfigError(f"--snapshots names the snapshot {snapshot_id}, which the table does not have")
        first, last = (numbers[snapshot_id] for snapshot_id in options.snapshots)
        if first > last:
            raise ConfigError(f"--snapshots is {options.snapshots[0]}..{options.snapshots[1]}, and the first is newer")
        return KeyRange(first, last), False
    if options.older_than is not None:
        limit = moment_ms(options.older_than, time.time_ns() // 1_000_000, "older_than")
        return KeyRange(0, _last_before(metadata, limit)), False
    unfinished = None if options.restart else _unfinished(metadata)
    return unfinished or KeyRange(0, metadata.last_sequence_number), unfinished is not None


def _last_before(metadata: V3TableMetadata, limit: int) -> int:
    """The newest sequence number from before a time; snapshots that are expired are older than all others."""
    before = [each.sequence_number or 0 for each in metadata.snapshots if each.timestamp_ms < limit]
    known = [each.sequence_number or 0 for each in metadata.snapshots]
    return max(before) if before else min(known, default=1) - 1


def _unfinished(metadata: V3TableMetadata) -> KeyRange | None:
    """The range of the newest job over all files, if it has left some."""
    for snapshot in sorted(metadata.snapshots, key=lambda each: -(each.sequence_number or 0)):
        said = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        keys = KeyRange.parse(said.get(RANGE, ""))
        if keys is not None and keys.first == 0:
            return keys if said.get(LEFT) != "0" else None
    return None


class _Job:
    """One run: batch after batch, branch after branch."""

    def __init__(self, plan: RekeyPlan, runner: Runner, progress: ProgressListener | None) -> None:
        self.table, self.keys, self.options = plan.table, plan.keys, plan.options
        self.runner, self.progress = runner, progress
        self.copies = Copies()
        self.files = self.stored = self.commits = self.conflicts = self.gone = self.decoded = 0
        self.left = 0
        self._seen = Progress()

    def run(self) -> Rekeying:
        self.table.refresh()
        branches = self._branches()
        found = [unit for branch in branches for unit in self._units(branch)]
        self.left = len(found)
        self._seen = Progress(0, len(found), 0, sum(unit.stored_bytes for unit in found))
        del found
        for branch in branches:
            self._branch(branch)
        self.decoded, self.copies = self.copies.decoded, Copies()
        self.table.refresh()
        erased = self._erase() if self.options.erase else None
        rest = remains(self.table.metadata, self.keys)
        counts = (self.files, self.stored, self.commits, self.conflicts, self.gone, self.decoded)
        return Rekeying(_name(self.table), self.keys, *counts, rest, erased)

    def _erase(self) -> TableExpiry:
        """Expire the snapshots with old keys, and nothing else, whatever its age."""
        old, refs = remains(self.table.metadata, self.keys), self.table.metadata.refs
        tags = () if self.options.keep_tags else old.tags
        kept = {refs[tag].snapshot_id for tag in old.tags if tag not in tags}
        asked = Retention(0, None, frozenset(old.snapshots) - kept, frozenset(tags))
        done = expire_table(self.table, asked, self.runner)
        self.table.refresh()
        return done

    def _branches(self) -> list[str]:
        refs = self.table.metadata.refs
        named = sorted(name for name, ref in refs.items() if ref.snapshot_ref_type == SnapshotRefType.BRANCH)
        return sorted(named, key=lambda name: name != MAIN_BRANCH)

    def _units(self, branch: str) -> Iterator[Unit]:
        return units(self.table.metadata, self.table.io, branch, self.keys.holds)

    def _branch(self, branch: str) -> None:
        while chosen := self._next(branch):
            self.left -= len(chosen)
            batch = Batch(self.table, branch, self.runner, self.copies, self._summary(), self._done)
            made = batch.run(chosen)
            self.files += made.files
            self.stored += made.stored_bytes
            self.commits += made.files > 0
            self.conflicts += made.conflicts
            self.gone += made.gone

    def _next(self, branch: str) -> list[Unit]:
        chosen: list[Unit] = []
        stored = 0
        for unit in self._units(branch):
            if chosen and (
                len(chosen) >= self.options.batch_files or stored + unit.stored_bytes > self.options.batch_bytes
            ):
                break
            chosen.append(unit)
            stored += unit.stored_bytes
        return chosen

    def _summary(self) -> dict[str, str]:
        return {RANGE: str(self.keys), LEFT: str(max(0, self.left))}

    def _done(self, stored: int) -> None:
        seen = self._seen
        total = max(seen.bytes_total, seen.bytes_done + stored)
        self._seen = Progress(seen.files_done + 1, seen.files_total, seen.bytes_done + stored, total)
        if self.progress is not None:
            self.progress(self._seen)


def _amount(head: Any) -> Amount:
    said: dict[str, str] = head.summary.additional_properties if head is not None and head.summary is not None else {}
    files = sum(int(said.get(name, "0")) for name in ("total-data-files", "total-delete-files"))
    size = said.get("total-files-size", "")
    return Amount(files, int(size) if size.isdigit() else None)


def _name(table: CatalogTable) -> str:
    return ".".join(table.name())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
