"""Where sealberg and Iceberg Java decide differently, and why that is right.

    reason(pair, planned, java, ours)     the name of the reason; None if both decide the same
    python -m kit.tables.conflict_differences    in `tests`: all cases, into vectors/conflicts/differences.json

A difference without a reason is an error: either sealberg is wrong, or a reason must be added here.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kit.tables.conflict_cases import DIFFERENCES, grouped, pairs, verdicts
from kit.tables.conflict_python import PairsTable

if TYPE_CHECKING:
    from kit.tables.conflict_cases import Verdicts

REASONS: Final = {
    "stricter: deletes follow their plan": (
        "Java deletes whole files by filter without validation (`SparkTable.deleteWhere`): whatever matches when it "
        "commits is deleted. sealberg deletes the rows that the plan saw, under the isolation level of the table, and "
        "refuses when that plan no longer holds."
    ),
    "stricter: a removed branch stays removed": (
        "Java makes the branch anew from the head of `main` with the appended rows on top. sealberg refuses."
    ),
    "stricter: a deletion vector needs its file": (
        "When B has deleted the whole file, Java lets a merge-on-read delete commit a deletion vector for a file that "
        "is no longer there. sealberg refuses it."
    ),
    "stricter: one rule for overwrites": (
        "When rows of a file are overwritten, sealberg also refuses if a file that matched the filter was added and "
        "removed meanwhile, as Java does for overwrites of whole files."
    ),
    "rows: new rows stay under snapshot isolation": (
        "Java applies the filter of a delete of whole files, and of an overwrite, when it commits: rows that B added "
        "meanwhile are removed too. sealberg removes the rows that the plan saw, as Java itself does for rows within "
        "files. Under serializable isolation sealberg refuses."
    ),
    "laxer: changes of metadata follow the REST rules": (
        "On a Hive table Java refuses a change of schema, partition spec, tag or branch after any other commit. With a "
        "REST catalog Java checks the requirements of the change instead, and so does sealberg on every catalog: what "
        "sealberg allows here, Java's `UpdateRequirements` allow on the same metadata."
    ),
    "laxer: nothing to commit": (
        "A delete that matched no row commits nothing in sealberg. Under snapshot isolation new rows may come in, so "
        "nothing has to be validated; Java's row delta commits an empty snapshot and asks for its starting snapshot."
    ),
    "laxer: the starting snapshot itself may be expired": (
        "Java's row delta wants the starting snapshot in the metadata. sealberg wants every snapshot after it, which "
        "is all that validation reads; Java's own copy-on-write decides the same cases as sealberg does."
    ),
}


def reason(pair: str, planned: str, java: dict[str, str], ours: str) -> str | None:
    """Why sealberg's verdict on one A differs from Java's verdicts on all of them; an error if no reason is known."""
    theirs = java[planned]
    if ours == theirs or (_refused(ours) and _refused(theirs)):
        return None
    by_rest = java.get(f"{planned} (REST)")
    if _refused(theirs) and by_rest is not None and not _refused(by_rest):
        return "laxer: changes of metadata follow the REST rules"
    if theirs == "refused: unknown history" and ours == java[planned.replace(" mor ", " cow ")]:
        nothing = planned == "delete nothing mor snapshot"
        return "laxer: nothing to commit" if nothing else "laxer: the starting snapshot itself may be expired"
    if _refused(ours) and planned.startswith("delete row mor") and pair.startswith("delete same file"):
        return "stricter: a deletion vector needs its file"
    if _refused(ours) and planned == "overwrite row snapshot":
        return "stricter: one rule for overwrites"
    if _refused(ours) and planned.startswith("delete file"):
        return "stricter: deletes follow their plan"
    if _refused(ours) and planned == "append to branch":
        return "stricter: a removed branch stays removed"
    if planned in ("delete file snapshot", "overwrite snapshot") and _only_more_of_b(theirs, ours):
        return "rows: new rows stay under snapshot isolation"
    raise AssertionError(f"{planned} after {pair}: Java has {theirs!r}, sealberg {ours!r}, and no reason is known")


def _refused(verdict: str) -> bool:
    return verdict.startswith("refused")


def _only_more_of_b(theirs: str, ours: str) -> bool:
    """The same branches and all rows that Java has; the additional rows are B's."""
    java, sealberg = theirs.split(), ours.split()
    more = [word for word in sealberg if word not in java]
    return all(word.endswith("B") for word in more) and [word for word in sealberg if word not in more] == java


def write_differences(ours: Verdicts) -> None:
    """Write all differences by reason. Fails at a difference without a reason, and then writes nothing."""
    java = verdicts()
    found: dict[str, Verdicts] = {name: {} for name in REASONS}
    for pair, by in ours.items():
        for planned, verdict in by.items():
            if why := reason(pair, planned, java[pair], verdict):
                found[why].setdefault(pair, {})[planned] = verdict
    DIFFERENCES.write_text(json.dumps({why: grouped(cases) for why, cases in found.items()}, indent=1) + "\n")


def _main() -> None:
    with tempfile.TemporaryDirectory(prefix="sealberg-pairs-") as folder, PairsTable(Path(folder)) as table:
        write_differences({pair["name"]: table.verdicts(pair) for pair in pairs()})


if __name__ == "__main__":
    _main()
