"""Acknowledged exactly once, failed never, unknown and killed whole or not at all; nothing moves that nobody moved.

log of each worker   ──┐
history of the table ──┴──> each operation and what it left in the table
                            each change of a ref and the operation that made it
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from chaos import log, model
from chaos.plan import MAIN, Operation
from chaos.round import NAME, SEED
from sealberg import errors

if TYPE_CHECKING:
    from chaos.history import History, Snapshot, Version
    from chaos.log import Attempt
    from chaos.model import Rows
    from chaos.round import Round
    from chaos.verdict import Verdict

# Errors that say what happened in words of ours or of PyIceberg's. Errors of storage are the operating system's.
TYPED: Final = ("spark.", "sealberg.", "pyiceberg.exceptions.", "builtins.OSError", "builtins.FileNotFoundError")
# Nobody alters anything here: whoever says so is wrong.
FALSE_ALARMS: Final = frozenset(
    f"{found.__module__}.{found.__qualname__}"
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, errors.IntegrityError)
)
# What PyIceberg itself raises for a name or a snapshot that is not there (any more).
MISSING: Final = ("builtins.ValueError",)


@dataclass(frozen=True)
class Done:
    """An operation, and what its process said of it."""

    operation: Operation
    attempt: Attempt


def read_all(settings: Round) -> dict[str, Done]:
    """Every operation that was begun, by name."""
    found = {}
    for worker in range(settings.owners):
        for attempt in log.read(settings.log(worker)).attempts.values():
            operation = Operation.from_json(attempt.planned)
            found[operation.name] = Done(operation, attempt)
    return found


def check(settings: Round, history: History, done: dict[str, Done], states: dict[int, Rows], verdict: Verdict) -> None:
    tally: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    raised: Counter[str] = Counter()
    landed: Counter[str] = Counter()
    for each in done.values():
        operation, attempt = each.operation, each.attempt
        tally[attempt.outcome] += 1
        kinds[f"{operation.kind} {attempt.outcome}"] += 1
        if attempt.error:
            raised[attempt.error] += 1
            if not attempt.error.startswith(TYPED) and not (
                attempt.error in MISSING and operation.kind in ("unref", "expire", "rollback", "tag", "branch")
            ):
                verdict.violated("raw error", f"{operation.kind} {attempt.error}: {attempt.message}")
        if attempt.error in FALSE_ALARMS:
            verdict.violated("false alarm", f"{operation.kind} {attempt.error}: {attempt.message}")
        times = _landed(each, history)
        if times is None:
            continue
        if attempt.outcome in ("unknown", log.KILLED):
            landed["landed" if times else "not landed"] += 1
            if times > 1:
                verdict.violated("doubled", f"{operation} ({attempt.outcome}) was committed {times} times")
        elif attempt.outcome == "failed" and times:
            verdict.violated("failed and visible", f"{operation}: {attempt.error}: {attempt.message}")
        elif attempt.outcome == "acknowledged":
            if times > 1:
                verdict.violated("doubled", f"{operation} was committed {times} times")
            elif not times and not _idle(each, history, states):
                verdict.violated("lost", f"{operation} was acknowledged at {attempt.at}, and no version has it")
    _notes(settings, raised, verdict)
    _moves(history, done, verdict)
    verdict.figures |= {
        "operations": sum(tally.values()),
        **{outcome: tally[outcome] for outcome in (*log.OUTCOMES, log.KILLED)},
        "unknown or killed": dict(landed),
        "kinds": dict(sorted(kinds.items())),
        "errors": dict(raised.most_common()),
        "commits": len(history.versions) - 1,
    }


def _landed(each: Done, history: History) -> int | None:
    """How many commits brought what the operation makes; None where that leaves no mark."""
    operation = each.operation
    name = f"{operation.worker}_{operation.index}"
    if operation.writes_rows:
        return len({snapshot.version for snapshot in history.made_by(operation.name)})
    match operation.kind:
        case "column":
            return _appearances(history, f"c{name}", lambda version: version.columns)
        case "field":
            return _appearances(history, f"f{name}", lambda version: version.fields)
        case "tag" | "branch":  # at the snapshot that was aimed at: a write to a branch makes it too, at its own
            return _appearances(history, (operation.ref, each.attempt.aim), lambda version: version.refs.items())
        case "unref":
            held = [operation.ref in version.refs for version in history.versions]
            return sum(before and not after for before, after in pairwise(held))
    return None


def _appearances(history: History, name: Any, names: Any) -> int:
    there = [False, *(name in names(version) for version in history.versions)]
    return sum(after and not before for before, after in pairwise(there))


def _idle(each: Done, history: History, states: dict[int, Rows]) -> bool:
    """An operation that changes nothing of what it saw makes no snapshot."""
    operation, at = each.operation, each.attempt.at
    if operation.kind == "unref":  # of a name that was never made
        return operation.ref not in history.versions[history.by_location[at]].refs
    if not operation.writes_rows:
        return False
    if not at:  # Spark does not say which version it saw: there must be one, from the time of the attempt on
        return any(
            model.is_empty(operation, states.get(version.refs.get(operation.ref, -1), {}))
            for version in history.versions
        )
    head = history.versions[history.by_location[at]].refs.get(operation.ref)
    return model.is_empty(operation, states[head] if head is not None else {})


def _notes(settings: Round, raised: Counter[str], verdict: Verdict) -> None:
    """Errors when a table is loaded again are errors of ours as well."""
    for worker in range(settings.owners):
        for note in log.read(settings.log(worker)).notes:
            raised[f"on load: {note['error']}"] += 1
            if note["error"] in FALSE_ALARMS:
                verdict.violated("false alarm", f"loading {NAME}: {note['error']}: {note['message']}")
            if not note["error"].startswith(TYPED):
                verdict.violated("raw error", f"loading {NAME}: {note['error']}: {note['message']}")


# -- refs -----------------------------------------------------------------------------------------------------------


def _moves(history: History, done: dict[str, Done], verdict: Verdict) -> None:
    rollbacks = {
        each.attempt.aim for each in done.values() if each.operation.kind == "rollback" and each.attempt.aim is not None
    }
    aimed = {each.operation.ref: each.attempt.aim for each in done.values() if each.operation.kind in ("tag", "branch")}
    expired = {
        gone
        for each in done.values()
        if each.operation.kind == "expire" and each.attempt.outcome != "failed"
        for gone in each.attempt.aim or ()
    }
    for before, after in pairwise(history.versions):
        for name in before.refs.keys() | after.refs.keys():
            old, new = before.refs.get(name), after.refs.get(name)
            if old == new:
                continue
            where = f"{name} from {old} to {new} in version {after.number}"
            if new is None:
                if name == MAIN:
                    verdict.violated("lost", f"{where}: nobody removes main")
            elif history.snapshots[new].version == after.number:
                if _base(history, new) != old:
                    verdict.violated("lost", f"{where}: the new snapshot is not made from the old one")
            elif not (name == MAIN and new in rollbacks) and not (old is None and aimed.get(name) == new):
                verdict.violated("moved", f"{where}, by no operation")
        for gone in before.snapshots.keys() - after.snapshots.keys() - expired:
            verdict.violated("lost", f"snapshot {gone} is gone in version {after.number}, and nobody expired it")
    _acknowledged_expiries(history, done, verdict)


def _base(history: History, snapshot_id: int) -> int | None:
    """What a commit was made from; it may have brought more than one snapshot."""
    snapshot: Snapshot | None = history.snapshots[snapshot_id]
    brought = snapshot.version if snapshot else -1
    while snapshot is not None and snapshot.version == brought:
        parent = snapshot.parent
        snapshot = history.snapshots.get(parent) if parent is not None else None
    return snapshot.id if snapshot is not None else None


def _acknowledged_expiries(history: History, done: dict[str, Done], verdict: Verdict) -> None:
    for each in done.values():
        attempt = each.attempt
        if each.operation.kind == "expire" and attempt.outcome == "acknowledged" and attempt.aim:
            version: Version = history.versions[history.by_location[attempt.at]]
            if left := version.snapshots.keys() & set(attempt.aim):
                verdict.violated("lost", f"{each.operation.name} expired {left}, which version {version.number} has")


# -- Spark ----------------------------------------------------------------------------------------------------------


def name_those_of_spark(settings: Round, history: History, done: dict[str, Done]) -> None:
    """Snapshots of Spark bear no name: one driver does one thing after another, so the time of a commit tells."""
    attempts = [each for each in done.values() if each.operation.worker == settings.workers]
    for snapshot in list(history.snapshots.values()):
        if snapshot.operation:
            continue
        for each in attempts:
            attempt = each.attempt
            if each.operation.writes_rows and attempt.began_ms <= snapshot.timestamp_ms <= attempt.ended_ms + 50:
                history.snapshots[snapshot.id] = replace(snapshot, operation=each.operation.name)
                break


# -- what each snapshot should hold ---------------------------------------------------------------------------------


def expected_states(history: History, done: dict[str, Done], seed: Rows, verdict: Verdict) -> dict[int, Rows]:
    """The rows of every snapshot that ever was, by the model alone."""
    states: dict[int, Rows] = {}
    for snapshot in sorted(history.snapshots.values(), key=lambda each: (each.version, each.sequence_number)):
        before = states.get(snapshot.parent, {}) if snapshot.parent is not None else {}
        if snapshot.operation == SEED:
            states[snapshot.id] = seed
        elif snapshot.operation in done:
            states[snapshot.id] = model.apply(done[snapshot.operation].operation, before)
        else:
            verdict.violated("moved", f"snapshot {snapshot.id} is of nobody: {snapshot.summary}")
            states[snapshot.id] = before
    return states
