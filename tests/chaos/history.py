"""Every version of the table that was ever committed, in order, out of its metadata log.

metadata log ──> Version 0, 1, 2, ...      refs, snapshots, keys, columns of each
             ──> Snapshot by id            with the version that brought it, also those that were expired since
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chaos.round import NAME, OPERATION
from kit.tables.catalogs import path_of

if TYPE_CHECKING:
    from chaos.round import Round


@dataclass(frozen=True)
class Snapshot:
    """A snapshot as the version that brought it has it."""

    id: int
    parent: int | None
    operation: str  # who made it: the name of an operation of ours, or nothing
    sequence_number: int
    timestamp_ms: int
    summary: dict[str, str]
    version: int


@dataclass(frozen=True)
class Version:
    """One committed metadata.json."""

    number: int
    location: str
    refs: dict[str, int]
    snapshots: dict[int, str | None]  # and the key of each
    keys: dict[str, tuple[str, int | None]]  # by what each is sealed; the timestamp of a KEK
    columns: frozenset[str]
    fields: frozenset[str]  # of partition specs
    last_updated_ms: int
    last_sequence_number: int
    next_row_id: int
    log_ms: tuple[int, ...]  # of the snapshot log


@dataclass
class History:
    """All versions, and all snapshots that were in one."""

    versions: list[Version]
    snapshots: dict[int, Snapshot]
    metadata_log_ms: list[int]
    by_location: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_location = {version.location: version.number for version in self.versions}

    def made_by(self, operation: str) -> list[Snapshot]:
        return [snapshot for snapshot in self.snapshots.values() if snapshot.operation == operation]


def read(settings: Round) -> History:
    with settings.connect() as catalog:
        table = catalog.load_table(NAME)
        log = table.metadata.metadata_log
        places = [*(entry.metadata_file for entry in log), table.metadata_location]
    versions: list[Version] = []
    snapshots: dict[int, Snapshot] = {}
    for number, place in enumerate(places):
        raw = json.loads(path_of(place).read_bytes())
        versions.append(_version(number, place, raw))
        for each in raw.get("snapshots", []):
            snapshots.setdefault(each["snapshot-id"], _snapshot(each, number))
    return History(versions, snapshots, [entry.timestamp_ms for entry in log])


def _snapshot(raw: dict[str, Any], version: int) -> Snapshot:
    summary = raw.get("summary", {})
    return Snapshot(
        raw["snapshot-id"],
        raw.get("parent-snapshot-id"),
        summary.get(OPERATION, ""),
        raw["sequence-number"],
        raw["timestamp-ms"],
        summary,
        version,
    )


def _version(number: int, place: str, raw: dict[str, Any]) -> Version:
    keys = {
        entry["key-id"]: (entry["encrypted-by-id"], _stamp(entry.get("properties") or {}))
        for entry in raw.get("encryption-keys", [])
    }
    return Version(
        number,
        place,
        {name: ref["snapshot-id"] for name, ref in raw.get("refs", {}).items()},
        {each["snapshot-id"]: each.get("key-id") for each in raw.get("snapshots", [])},
        keys,
        frozenset(one["name"] for schema in raw["schemas"] for one in schema["fields"]),
        frozenset(one["name"] for spec in raw["partition-specs"] for one in spec["fields"]),
        raw["last-updated-ms"],
        raw["last-sequence-number"],
        raw["next-row-id"],
        tuple(entry["timestamp-ms"] for entry in raw.get("snapshot-log", [])),
    )


def _stamp(properties: dict[str, str]) -> int | None:
    return int(properties["KEY_TIMESTAMP"]) if "KEY_TIMESTAMP" in properties else None
