"""The result of `verify`: a value that prints, turns into JSON and into a page. It holds no row and no key.

Verification
├── tables        TableFacts: the catalog's state, KEKs (KekFacts), sizes by kind of file (KindFacts)
├── findings      Finding: something that is wrong, with its file
└── not_checked   NotChecked: something that could not be checked, with the reason

verdict      exit code
sound        0           everything was checked, nothing was found
findings     1           everything was checked, something was found
incomplete   2           something could not be checked; the findings so far are listed
             130         the same, because Ctrl-C stopped the run
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sealberg.files.locations import on_one_line
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED, STOPPED, readable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

Severity: TypeAlias = Literal["error", "warning"]
Level: TypeAlias = Literal["fast", "full", "deep"]
Verdict: TypeAlias = Literal["sound", "findings", "incomplete"]
KekState: TypeAlias = Literal["active", "retired", "near-end", "past-end", "future", "no-timestamp"]
SHOWN: Final = 10  # files in flight
Vouching: TypeAlias = Literal["hash", "location", "server", "nobody"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        code: a short name of the kind of finding, such as `altered` or `orphan`; `sealberg.jobs.codes` lists all.
        severity: `error`: the table is damaged, altered or readable without its keys. `warning`: it is sound, but
            something should be tidied up.
        table: the name of the table.
        message: what was found, and what was expected.
        file: the location of the file; None if the finding is about the table or its metadata as a whole.
        snapshot_id: a snapshot that the finding concerns; the newest if there are several.
    """

    code: str
    severity: Severity
    table: str
    message: str
    file: str | None = None
    snapshot_id: int | None = None

    def __str__(self) -> str:
        where = "" if self.file is None else f"\n  {on_one_line(self.file)}"
        return f"{self.severity} {self.code}: {self.table}: {on_one_line(self.message)}{where}"


@dataclass(frozen=True, slots=True)
class NotChecked:
    """Something that could not be checked, and why."""

    table: str
    what: str
    why: str

    def __str__(self) -> str:
        return on_one_line(f"not checked: {self.table}: {self.what}: {self.why}")


@dataclass(frozen=True, slots=True)
class KekFacts:
    """A key encryption key of a table, by its entry in `encryption-keys`; no byte of the key.

    Attributes:
        key_id: the id of the entry.
        master_key_id: the key in the KMS that wraps the KEK.
        made_ms: its KEY_TIMESTAMP; None if missing or malformed.
        expires_ms: when the KEK stops to seal new keys; None without a timestamp.
        state: `active` seals new keys; `retired` opens older keys only, because a newer KEK is active or the timestamp
            has another name than Java's; `near-end` is
            active and ends soon; `past-end` is too old to seal new keys and none newer exists; `future` has a
            timestamp in the future.
        snapshots: the snapshots that cannot be read without the KEK.
        list_keys: how many keys of manifest lists are sealed under the KEK.
        opened: whether the KMS unwrapped the KEK; None if the KMS was not asked.
    """

    key_id: str
    master_key_id: str | None
    made_ms: int | None
    expires_ms: int | None
    state: KekState
    snapshots: tuple[int, ...]
    list_keys: int
    opened: bool | None


@dataclass(frozen=True, slots=True)
class KindFacts:
    """All files of one kind: how many exist, and how much of them was authenticated.

    Attributes:
        kind: `metadata`, `manifest-list`, `manifest`, `data`, `position-deletes`, `equality-deletes`,
            `deletion-vectors`, `statistics`, `unreferenced`.
        files: how many.
        bytes: their stored bytes.
        checked_files: how many of them were checked.
        checked_bytes: the stored bytes that were authenticated.
        units: AGS1 blocks and Parquet modules that were authenticated.
    """

    kind: str
    files: int = 0
    bytes: int = 0
    checked_files: int = 0
    checked_bytes: int = 0
    units: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """A snapshot of the table, with the names of the branches and tags that point at it."""

    snapshot_id: int
    timestamp_ms: int
    operation: str | None
    key_id: str | None
    refs: tuple[str, ...]
    checked: bool


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table, and the state of the catalog against which it was verified.

    Attributes:
        vouched_by: who vouches for metadata.json: `hash`: the catalog has its hash; `location`: the catalog has its
            location and key id, and no hash; `server`: the REST server sends the metadata; `nobody`: no catalog.
        metadata_hash: base64 of the SHA-256 of the text of metadata.json; None if the text was not read.
        catalog_hash: the hash in the catalog; None if it has none.
        unreferenced_recent: how many files no metadata names that are too young to be called orphans, because a
            writer may be about to commit them.
        in_flight: these files.
        shared_with: other tables of the catalog that have files in the folders of this one.
    """

    name: str
    location: str
    table_uuid: str
    encrypted: bool
    key_id: str | None
    key_length: int | None
    metadata_location: str
    metadata_hash: str | None
    catalog_hash: str | None
    vouched_by: Vouching
    current_snapshot_id: int | None
    snapshots: tuple[SnapshotFacts, ...] = ()
    keks: tuple[KekFacts, ...] = ()
    kinds: tuple[KindFacts, ...] = ()
    unreferenced_recent: int = 0
    in_flight: tuple[str, ...] = ()
    shared_with: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found.

    Attributes:
        version: the version of sealberg.
        catalog: the name of the catalog.
        level: `full`: every block and module; `deep`: also every row; `fast`: headers and footers only.
        snapshot: the one snapshot that was asked for; None for all snapshots.
        stopped: Ctrl-C stopped the run; `not_checked` has the tables that were not finished.
    """

    version: str
    catalog: str
    level: Level
    started: datetime
    ended: datetime
    snapshot: int | None = None
    tables: tuple[TableFacts, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    stopped: bool = False

    @property
    def verdict(self) -> Verdict:
        if self.not_checked or self.stopped or not self.tables:
            return "incomplete"
        return "findings" if self.findings else "sound"

    @property
    def exit_code(self) -> int:
        if self.stopped:
            return STOPPED
        return {"sound": FINE, "findings": FINDINGS, "incomplete": NOT_CHECKED}[self.verdict]

    @property
    def totals(self) -> KindFacts:
        """All kinds of files of all tables together."""
        every = [kind for table in self.tables for kind in table.kinds]
        names = ("files", "bytes", "checked_files", "checked_bytes", "units")
        return KindFacts("total", *(sum(getattr(kind, name) for kind in every) for name in names))

    def to_json(self) -> dict[str, Any]:
        """JSON values; times are ISO 8601 in UTC, times of Iceberg are in milliseconds as in Iceberg."""
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            **asdict(self),
            "started": self.started.isoformat(timespec="milliseconds"),
            "ended": self.ended.isoformat(timespec="milliseconds"),
            "totals": asdict(self.totals),
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for table in self.tables:
            yield from _table_lines(table)
        yield from map(str, self.findings)
        yield from map(str, self.not_checked)
        total = self.totals
        yield (
            f"checked {total.checked_files} of {total.files} files, {readable(total.checked_bytes)}, "
            f"{total.units} blocks and modules"
        )
        yield f"verdict: {_sentence(self)}"


def _table_lines(table: TableFacts) -> Iterator[str]:
    if not table.encrypted:
        yield f"{table.name}: not encrypted"
        return
    checked = sum(snapshot.checked for snapshot in table.snapshots)
    yield f"{table.name}: {checked} of {len(table.snapshots)} snapshots, master key {table.key_id}"
    by = {"location": "no hash in the catalog", "server": "from the REST server", "nobody": "no catalog vouches for it"}
    equal = "matches" if table.metadata_hash == table.catalog_hash else "differs from"
    yield f"  metadata  {table.metadata_location} ({by.get(table.vouched_by, f'{equal} the hash in the catalog')})"
    for kek in table.keks:
        yield f"  KEK       {kek.key_id}: {kek.state}, needed by {_snapshots(len(kek.snapshots))}"
    for kind in table.kinds:
        files = f"{kind.checked_files} of {kind.files} files" if kind.units else f"{kind.files} files"
        yield f"  {kind.kind:<18} {files}, {readable(kind.bytes)}"
    if table.shared_with:
        yield f"  the folder is shared with {', '.join(table.shared_with)}, whose files are not checked here"
    for location in table.in_flight[:SHOWN]:
        yield f"  not proved: {location}"
    if len(table.in_flight) > SHOWN:
        yield f"  not proved: {len(table.in_flight) - SHOWN} more; --json lists all"


def _snapshots(count: int) -> str:
    return f"{count} snapshot{'' if count == 1 else 's'}"


def _sentence(result: Verification) -> str:
    count = Counter(finding.severity for finding in result.findings)
    found = ", ".join(f"{number} {name}{'' if number == 1 else 's'}" for name, number in sorted(count.items()))
    if result.verdict == "sound":
        young = sum(table.unreferenced_recent for table in result.tables)
        if not young:
            return "sound: everything was checked, nothing was found"
        return f"sound: everything that metadata name was checked, nothing was found; {young} in flight, not proved"
    if result.verdict == "findings":
        return f"findings: {found}"
    if result.stopped:
        return f"incomplete: stopped before everything was checked; {found or 'no findings so far'}"
    if not result.tables:
        return "incomplete: no tables, so nothing was checked"
    missing = len(result.not_checked)
    return (
        f"incomplete: {missing} check{'' if missing == 1 else 's'} could not be made; {found or 'no findings so far'}"
    )
