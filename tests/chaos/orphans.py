"""Every file that is in storage, and why.

live       a live snapshot or the metadata log names it; all of these must be there
expired    only a snapshot that was expired names it
orphans    no version ever named it: of an operation that was killed or is unknown, or that could not delete it
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import sealberg
from chaos.log import KILLED
from chaos.round import KEY_ID, KMS, NAME
from kit.tables.catalogs import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.history import History
    from chaos.outcomes import Done
    from chaos.round import Round
    from chaos.verdict import Verdict


class _Named:
    """The files of snapshots; a manifest is read once."""

    def __init__(self) -> None:
        self._manifests: dict[str, set[Path]] = {}

    def files(self, snapshot: Any, io: Any) -> set[Path]:
        found = {path_of(snapshot.manifest_list)}
        for manifest in snapshot.manifests(io):
            place = str(manifest.manifest_path)
            if place not in self._manifests:
                entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
                files = {path_of(str(entry.data_file.file_path)) for entry in entries}
                self._manifests[place] = {path_of(place), *files}
            found |= self._manifests[place]
        return found


def check(settings: Round, history: History, done: dict[str, Done], verdict: Verdict) -> None:
    named = _Named()
    with settings.connect() as catalog:
        table = catalog.load_table(NAME)
        folder = path_of(table.location())
        stored = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"}
        live = {path_of(version.location) for version in history.versions}
        for snapshot in table.metadata.snapshots:
            try:
                live |= named.files(snapshot, table.io)
            except Exception as error:
                verdict.violated("unreadable", f"snapshot {snapshot.snapshot_id}: {type(error).__name__}: {error}")
    if missing := live - stored:
        verdict.violated("lost", f"{len(missing)} files of live snapshots are gone: {sorted(missing)[:3]}")
    ever = live | _expired(history, named, verdict)
    owners = {path_of(file): each for each in done.values() for file in each.attempt.created}
    reasons: Counter[str] = Counter()
    for path in stored - ever:
        reason = _reason(path, owners.get(path), settings)
        reasons[reason] += 1
        if reason.startswith("unexplained"):
            verdict.violated("orphans", f"{path.name}: {reason}: {owners.get(path)}")
    verdict.figures |= {
        "files": len(stored),
        "files of expired snapshots": len((stored & ever) - live),
        "orphans": sum(reasons.values()),
        "orphans of": dict(reasons),
    }


def _reason(path: Path, owner: Done | None, settings: Round) -> str:
    if owner is None:
        if settings.catalog["type"] == "rest" and path.name.endswith(".metadata.json"):
            return "the REST server, which writes metadata.json itself"
        return "Spark" if settings.spark else "unexplained: nobody made it"
    if path in {path_of(file) for file in owner.attempt.undeleted}:
        return "a deletion that failed"
    if owner.attempt.outcome in (KILLED, "unknown"):
        return owner.attempt.outcome
    return f"unexplained: {owner.attempt.outcome}"


def _expired(history: History, named: _Named, verdict: Verdict) -> set[Path]:
    """What snapshots named that are live no more; the version before each expiry still has their keys."""
    found: set[Path] = set()
    versions = history.versions
    for before, after in pairwise(versions):
        gone = before.snapshots.keys() - after.snapshots.keys()
        if not gone:
            continue
        old = sealberg.open_table(before.location, KMS, expected_key_id=KEY_ID)
        for snapshot in old.metadata.snapshots:
            if snapshot.snapshot_id in gone:
                try:
                    found |= named.files(snapshot, old.io)
                except Exception as error:
                    verdict.violated("unreadable", f"expired {snapshot.snapshot_id}: {type(error).__name__}: {error}")
    return found
