"""What must hold of the metadata of every version: keys exactly those needed, numbers and times that rise.

Version n-1, Version n ──> violations
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.history import History, Version
    from chaos.verdict import Verdict


def check(history: History, verdict: Verdict) -> None:
    for version in history.versions:
        _keys(version, verdict)
        for name, target in version.refs.items():
            if target not in version.snapshots:
                verdict.violated("refs", f"version {version.number}: {name} names {target}, which is not there")
        _rising(version.log_ms, f"snapshot log of version {version.number}", verdict)
    for before, after in pairwise(history.versions):
        if after.last_updated_ms < before.last_updated_ms:
            back = before.last_updated_ms - after.last_updated_ms
            verdict.violated("times", f"last-updated-ms of version {after.number} goes back by {back} ms")
        for what in ("last_sequence_number", "next_row_id"):
            if getattr(after, what) < getattr(before, what):
                verdict.violated("numbers", f"{what} of version {after.number} goes back")
    _rising(history.metadata_log_ms, "metadata log", verdict)
    _snapshots(history, verdict)
    last = history.versions[-1]
    verdict.figures |= {
        "live snapshots": len(last.snapshots),
        "snapshots ever": len(history.snapshots),
        "refs": len(last.refs),
        "keys": len(last.keys),
        "KEKs": sum(stamp is not None for _, stamp in last.keys.values()),
    }


def _keys(version: Version, verdict: Verdict) -> None:
    keks = {key for key, (_, stamp) in version.keys.items() if stamp is not None}
    lists = version.keys.keys() - keks
    needed = set(version.snapshots.values())
    if missing := needed - lists:
        verdict.violated("keys", f"version {version.number} lacks {missing}")
    if extra := lists - needed:
        verdict.violated("keys", f"version {version.number} has {extra}, which no snapshot needs")
    sealing = {version.keys[key][0] for key in lists}
    if unsealed := sealing - keks:
        verdict.violated("keys", f"version {version.number} lacks the KEKs {unsealed}")
    newest = max(keks, key=lambda key: version.keys[key][1] or 0, default=None)
    if idle := keks - sealing - {newest}:
        verdict.violated("keys", f"version {version.number} has the KEKs {idle}, which seal nothing and are not active")


def _snapshots(history: History, verdict: Verdict) -> None:
    ordered = sorted(history.snapshots.values(), key=lambda each: (each.version, each.sequence_number))
    for before, after in pairwise(ordered):
        if after.sequence_number <= before.sequence_number:
            verdict.violated("numbers", f"the sequence number of {after.id} does not rise: {after.sequence_number}")
    for snapshot in ordered:
        parent = history.snapshots.get(snapshot.parent) if snapshot.parent is not None else None
        if parent is not None and snapshot.timestamp_ms < parent.timestamp_ms:
            verdict.violated(
                "times",
                f"snapshot {snapshot.id} is {parent.timestamp_ms - snapshot.timestamp_ms} ms older than its parent",
            )


def _rising(times: Sequence[int], what: str, verdict: Verdict) -> None:
    back = [before - after for before, after in pairwise(times) if after < before]
    if back:
        verdict.violated("times", f"the {what} goes back {len(back)} times, by up to {max(back)} ms")
