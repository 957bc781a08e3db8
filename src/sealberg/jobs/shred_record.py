"""The record of a shredding: what could be opened before, what was destroyed, what was checked, who approved it.

    begun      written before anything is destroyed, with what was there
    finished   the same file, with what was done and found

A shredding that was killed is continued with the same file: what was there before is taken from it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sealberg.errors import ConfigError
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED
from sealberg.jobs.record import check, digest_of, read_file, sealed, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sealberg.jobs.record import Sealer
    from sealberg.keys.kms.client import KmsClient

State: TypeAlias = Literal["begun", "finished"]

# What no job can reach from here, for the reader of the record.
NOT_REACHED: Final = (
    "backups, replicas and older versions of objects in a store that keeps versions: delete them there, or destroy the "
    "master key",
    "processes that hold a KEK in memory: at most encryption.kek-cache-ttl-s (an hour by default) after their last use",
    "copies of rows that readers have made",
)


@dataclass(frozen=True)
class Opening:
    """One master key, and what it opens.

    Attributes:
        master_key_id: whoever may unwrap with this key can open the snapshots.
        kms: the KMS client.
        snapshots: how many snapshots can be opened, by any metadata file.
        metadata_files: how many metadata files hold keys.
    """

    master_key_id: str
    kms: str
    snapshots: int
    metadata_files: int

    def __str__(self) -> str:
        return (
            f"whoever may unwrap with {self.master_key_id} in the KMS ({self.kms}) opens {self.snapshots} snapshots by "
            f"{self.metadata_files} metadata files"
        )


@dataclass(frozen=True)
class ShredRecord:
    """The result of `shred`.

    Attributes:
        before, after: who could, and can, open what in the table's folders.
        snapshots, keys: how many were taken out of the current metadata.
        deleted: the metadata files that held keys, and were deleted.
        objects, sealed: how many objects lie in the table's folders, and how many of them were opened with a key of the
            table before the keys went, so that they are noise now.
        findings: what contradicts the shredding: an object that is no noise, a commit that came later.
        not_proved: objects of which nobody knows what is in them, and what could not be checked.
        not_done: what could not be done or checked, with the reason.
        master_key: what the KMS says of the deletion of the master key; empty if it was not asked for.
    """

    version: str
    state: State
    catalog: str
    table: str
    table_uuid: str
    location: str
    started: datetime
    ended: datetime | None
    run_by: str
    approved_by: str | None
    before: tuple[Opening, ...]
    after: tuple[Opening, ...] = ()
    snapshots: int = 0
    keys: int = 0
    deleted: tuple[str, ...] = ()
    objects: int = 0
    sealed: int = 0
    findings: tuple[str, ...] = ()
    not_proved: tuple[str, ...] = ()
    not_done: tuple[str, ...] = ()
    master_key: Mapping[str, str] | None = None
    not_reached: tuple[str, ...] = NOT_REACHED

    @property
    def exit_code(self) -> int:
        """0: destroyed and proved. 1: something may still be opened. 2: something could not be done or proved."""
        if self.not_done or self.not_proved:
            return NOT_CHECKED
        return FINDINGS if self.findings or self.after else FINE

    def to_json(self) -> dict[str, Any]:
        """With a digest over everything else; `write_record` adds a seal."""
        times = {"started": self.started.isoformat(), "ended": None if self.ended is None else self.ended.isoformat()}
        facts = {"job": "shred", **asdict(self), **times, "exit_code": self.exit_code}
        return {**facts, "sha256": digest_of(facts).hex()}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.table} ({self.table_uuid}) in {self.location}"
        yield from (f"  before: {each}" for each in self.before)
        yield from (f"  AFTER:  {each}" for each in self.after)
        if self.exit_code == FINE:
            yield "  after:  nobody opens anything by an object in these folders"
        taken = f"{self.snapshots} snapshots and {self.keys} keys out of the metadata"
        yield f"  destroyed: {taken}; {len(self.deleted)} older metadata files"
        yield f"  searched: {self.objects} objects, {self.sealed} of them opened with the keys that are destroyed"
        yield from (f"  FOUND: {each}" for each in self.findings)
        yield from (f"  NOT PROVED: {each}" for each in self.not_proved)
        yield from (f"  NOT DONE: {each}" for each in self.not_done)
        if self.master_key:
            yield f"  master key: {', '.join(f'{name} {value}' for name, value in self.master_key.items())}"
        yield from (f"  not reached: {each}" for each in self.not_reached)
        yield {0: "shredded and checked", 1: "NOT SHREDDED: see above", 2: "NOT PROVED: see above"}[self.exit_code]


def write_record(record: ShredRecord, path: Path, sealer: Sealer) -> None:
    """Write the record under a seal, and a page beside it."""
    from sealberg.jobs.report.shred_page import shred_page

    write_files(sealed(record.to_json(), sealer), shred_page(record), path)


def continued(record: ShredRecord, path: Path, kms: KmsClient) -> ShredRecord:
    """The record with what an earlier run, which was killed, wrote to the same file; refuses a file of others."""
    if not path.exists():
        return record
    try:
        earlier = read_file(path)
        mine = earlier["table_uuid"] == record.table_uuid and earlier["state"] == "begun"
        before = tuple(Opening(**each) for each in earlier["before"])
        started = datetime.fromisoformat(earlier["started"])
    except (ValueError, KeyError, TypeError):
        mine = False
    if not mine:
        raise ConfigError(f"--record {path}: the file exists, and is not the record of this shredding; name another")
    if (found := check(earlier, kms)).exit_code != FINE:
        reasons = "; ".join((*found.findings, *found.not_checked))
        raise ConfigError(f"--record {path}: the record of the earlier run is not as it was sealed: {reasons}")
    return replace(record, before=before, started=started, snapshots=earlier["snapshots"], keys=earlier["keys"])
