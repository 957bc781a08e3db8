"""What each snapshot holds, read and compared with the model: rows, counts, row ids.

every live snapshot ──> rows == model, counts == summary, row ids unique, and the same for a row that did not change
what readers saw while all this went on ──> rows == model
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from chaos import model
from chaos.plan import Row
from chaos.round import NAME

if TYPE_CHECKING:
    from chaos.model import Rows
    from chaos.outcomes import Done
    from chaos.round import Round
    from chaos.verdict import Verdict

LINEAGE: Final = ("_row_id", "_last_updated_sequence_number")


def check(settings: Round, done: dict[str, Done], states: dict[int, Rows], verdict: Verdict) -> None:
    with settings.connect() as catalog:
        table = catalog.load_table(NAME)
        identities: dict[tuple[int, int], tuple[int, int]] = {}
        for snapshot in table.metadata.snapshots:
            try:
                _snapshot(table, snapshot, states[snapshot.snapshot_id], identities, verdict)
            except Exception as error:
                verdict.violated("unreadable", f"snapshot {snapshot.snapshot_id}: {type(error).__name__}: {error}")
        verdict.figures["rows"] = len(states[table.metadata.current_snapshot_id])
    _seen(done, states, verdict)


def _snapshot(
    table: Any, snapshot: Any, wanted: Rows, identities: dict[tuple[int, int], tuple[int, int]], verdict: Verdict
) -> None:
    where = f"snapshot {snapshot.snapshot_id}"
    scan = table.scan(snapshot_id=snapshot.snapshot_id, selected_fields=("k", "w", "p", "v", *LINEAGE))
    found = scan.to_arrow().to_pylist()
    rows = [Row(row["k"], row["p"], row["v"]) for row in found]
    compare(rows, wanted, where, verdict)
    summary = snapshot.summary
    told = int(summary["total-records"]) - int(summary.get("total-position-deletes", 0))
    counted = table.scan(snapshot_id=snapshot.snapshot_id).count()
    if not told == counted == len(found):
        verdict.violated("counts", f"{where}: summary {told}, counted {counted}, read {len(found)}")
    if any(row["w"] != Row(row["k"], 0, 0).w for row in found):
        verdict.violated("wrong", f"{where}: a row has another owner than its key says")
    ids = [row["_row_id"] for row in found]
    if len(set(ids)) != len(ids) or None in ids:
        verdict.violated("row ids", f"{where}: {len(ids)} rows have {len(set(ids))} row ids")
    if ids and max(ids) >= table.metadata.next_row_id:
        verdict.violated("row ids", f"{where}: row id {max(ids)} is not below {table.metadata.next_row_id}")
    for row in found:
        lineage = (row["_row_id"], row["_last_updated_sequence_number"])
        if identities.setdefault((row["k"], row["v"]), lineage) != lineage:
            verdict.violated("row ids", f"{where}: key {row['k']} had {identities[row['k'], row['v']]}, has {lineage}")


def compare(found: list[Row], wanted: Rows, where: str, verdict: Verdict) -> None:
    """Rows that are there against rows that should be."""
    keys = [row.k for row in found]
    if doubled := {key for key in keys if keys.count(key) > 1} if len(set(keys)) != len(keys) else set():
        verdict.violated("doubled", f"{where}: keys {sorted(doubled)[:10]}")
    if lost := wanted.keys() - set(keys):
        verdict.violated("lost", f"{where}: keys {sorted(lost)[:10]} are not there")
    if extra := set(keys) - wanted.keys():
        verdict.violated("resurrected", f"{where}: keys {sorted(extra)[:10]} should not be there")
    if wrong := [row for row in found if row.k in wanted and row != wanted[row.k]]:
        verdict.violated("wrong", f"{where}: {wrong[:5]}, not {[wanted[row.k] for row in wrong[:5]]}")


def _seen(done: dict[str, Done], states: dict[int, Rows], verdict: Verdict) -> None:
    reads = 0
    for each in done.values():
        seen = each.attempt.seen
        if seen is None:
            continue
        reads += 1
        wanted = states.get(seen["snapshot"])
        if wanted is None:
            verdict.violated("wrong", f"{each.operation.name} read snapshot {seen['snapshot']}, which no version has")
        elif seen["digest"] != model.digest(wanted.values()):
            verdict.violated(
                "wrong",
                f"{each.operation.name} read {seen['rows']} rows of {seen['snapshot']}, not these {len(wanted)}",
            )
    verdict.figures["reads checked"] = reads
