"""What Java reads from a table, as files beside it.

expected/<table>/table.json                 the steps, the metastore's parameters, snapshots, refs, counts
expected/<table>/rows-<snapshot id>.jsonl   a row a line, with _row_id and _last_updated_sequence_number, sorted as text
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from vectors.generate.java.release import Java
    from vectors.generate.java.steps import Recipe

SPELLING: Final = (
    "map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)
LINEAGE: Final = "_row_id, _last_updated_sequence_number"


def write_expected(java: Java, recipe: Recipe, release: str, folder: Path) -> None:
    """Read every snapshot of the table and write down what came."""
    home = folder / "expected" / recipe.name
    home.mkdir(parents=True, exist_ok=True)
    found = "snapshot_id, parent_id, operation, committed_at"
    snapshots = [row.asDict() for row in java.sql(f"select {found} from h.db.{recipe.name}.snapshots order by 4")]
    counts: dict[str, int | None] = {}
    for snapshot in snapshots:
        number = snapshot["snapshot_id"]
        del snapshot["committed_at"]
        if recipe.unreadable and snapshot is snapshots[-1]:
            counts[str(number)] = None
            continue
        lines = sorted(_lines(java, recipe, number))
        (home / f"rows-{number}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        counts[str(number)] = len(lines)
    refs = [row.asDict() for row in java.sql(f"select name, type, snapshot_id from h.db.{recipe.name}.refs")]
    told: dict[str, Any] = {
        "table": recipe.name,
        "about": recipe.about,
        "features": list(recipe.features),
        "needs": list(recipe.needs),
        "made_by": f"Iceberg Java {release}, Spark {java.spark.version}, HiveCatalog, UnitestKMS",
        "statements": [step if isinstance(step, str) else step.told for step in recipe.steps],
        "hms_parameters": java.parameters(recipe.name),
        "snapshots": snapshots,
        "refs": refs,
        "row_counts": counts,
    }
    (home / "table.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _lines(java: Java, recipe: Recipe, snapshot_id: int) -> list[str]:
    if recipe.generic:
        return list(java.helper.rows(java.table(recipe.name), snapshot_id))
    read = f"select *, {LINEAGE} from h.db.{recipe.name} version as of {snapshot_id}"
    return [row[0] for row in java.sql(f"select to_json(struct(*), {SPELLING}) from ({read})")]
