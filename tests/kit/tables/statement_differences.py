"""Statements whose outcome on our tables differs from the outcome on Iceberg Java's tables, with the reason.

    found_differences(outcomes)                 the differences of a run
    python -m kit.tables.statement_differences    runs all statements and writes vectors/statements/differences.json
                                                (from the folder `tests`)

Two outcomes are equal if their texts are equal, or if both are refusals; if Spark itself refuses both, the error
conditions must be equal. A crash is not a refusal. A new difference is written with the reason `?`: either sealberg is
wrong, or a reason must be chosen or added here.
"""

from __future__ import annotations

import logging
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kit.programs.statement_runner import both_catalogs, run_both
from kit.tables.statements import DIFFERENCES, Difference, chapters, differences, write_differences

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN: Final = "?"
SPARK: Final = re.compile(r"refused: [A-Z0-9_.]+(, by analysis)?")
LONGEST: Final = 400


def found_differences(outcomes: Mapping[str, Mapping[str, tuple[str, str]]]) -> dict[str, dict[str, tuple[str, str]]]:
    """The statements whose outcomes differ, with our outcome and Java's; long outcomes are cut."""
    found = {
        name: {known: _cut(ours, java) for known, (ours, java) in by.items() if not same(ours, java)}
        for name, by in outcomes.items()
    }
    return {name: by for name, by in found.items() if by}


def same(ours: str, java: str) -> bool:
    """Whether two outcomes are equal; if an outcome has two parts, both must be equal.

    The outcome of a statement that Spark's analysis refuses has one part, because no table was changed.
    """
    left, right = ours.split(" then "), java.split(" then ")
    refused = left[0].startswith("refused") and right[0].startswith("refused")
    return (len(left) == len(right) or refused) and all(map(_same_part, left, right))


def _same_part(ours: str, java: str) -> bool:
    if ours == java:
        return True
    if not (ours.startswith("refused") and java.startswith("refused")):
        return False
    return not (SPARK.fullmatch(ours) and SPARK.fullmatch(java))


def _cut(ours: str, java: str) -> tuple[str, str]:
    """Cut long outcomes, from the first difference on."""
    if max(len(ours), len(java)) <= LONGEST:
        return ours, java
    pairs = zip(ours, java, strict=False)
    start = next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(ours), len(java)))
    start = max(0, start - 60)
    return _around(ours, start), _around(java, start)


def _around(text: str, start: int) -> str:
    end = start + LONGEST
    return f"{'... ' if start else ''}{text[start:end]}{' ...' if len(text) > end else ''}"


def _main(names: list[str]) -> None:
    logging.getLogger("SQLQueryContextLogger").disabled = True
    kept = differences() if DIFFERENCES.exists() else {}
    wanted = [one for one in chapters().values() if not names or one.name in names]
    with tempfile.TemporaryDirectory(prefix="sealberg-statements-") as folder, both_catalogs(Path(folder)) as sides:
        outcomes = run_both(sides, wanted)
    reasons = {name: {known: one.reason for known, one in by.items()} for name, by in kept.items()}
    for name, by in found_differences(outcomes).items():
        kept[name] = {
            known: Difference(ours, java, reasons.get(name, {}).get(known, UNKNOWN))
            for known, (ours, java) in by.items()
        }
    for name in outcomes.keys() - found_differences(outcomes).keys():
        kept.pop(name, None)
    write_differences(dict(sorted(kept.items())))


if __name__ == "__main__":
    _main(sys.argv[1:])
