"""The tables of docs/conflicts.md: `python -m kit.tables.conflict_page` in the folder `tests`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kit.tables.conflict_cases import LEVELS, PLANNED, SECOND, THIRD, differences, pairs, verdicts
from kit.tables.conflict_differences import REASONS

if TYPE_CHECKING:
    from kit.tables.conflict_cases import Verdicts

PAGE: Final = Path(__file__).parents[3] / "docs" / "conflicts.md"
START, END = "<!-- tables:start -->\n", "<!-- tables:end -->\n"
SHOWN: Final = (
    "append matching",
    "append near",
    "append far",
    "delete same row cow",
    "delete near row mor",
    "delete far row mor",
    "overwrite same file",
    "rewrite same file",
    "rewrite manifests",
    "add column",
)
TRACED: Final = "delete near and far row mor"


def tables() -> str:
    """Two selections of all cases, and the differences from Java."""
    return "\n".join(
        [
            f"### After B alone, for {len(SHOWN)} of {len(SECOND)} operations of B\n",
            *_table("A \\ B", {second: f"{second} / nothing" for second in SHOWN}),
            f"\n### After B (`{TRACED}`) and C\n",
            *_table("A \\ C", {third: f"{TRACED} / {third}" for third in THIRD if f"{TRACED} / {third}" in _java()}),
            f"\n### Differences from Java\n\n{_counted()}\n",
            *(f"* **{why}** (cases: {_cases(why)}): {text}" for why, text in REASONS.items()),
            "",
        ]
    )


def _table(corner: str, columns: dict[str, str]) -> list[str]:
    head = [f"| {corner} | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    cells = {name: [_cell(pair, planned) for pair in columns.values()] for name, planned in _rows().items()}
    return head + [f"| {name} | {' | '.join(line)} |" for name, line in cells.items()]


def _rows() -> dict[str, list[str]]:
    """What A does, with the names of its cases: one for each isolation level, or one where there is no level."""
    found: dict[str, list[str]] = {}
    for operation in PLANNED:
        found.setdefault(operation["name"].removesuffix(f" {operation.get('level')}"), []).append(operation["name"])
    return found


def _cell(pair: str, planned: list[str]) -> str:
    """One word for both levels, or `serializable / snapshot`."""
    words = [_word(pair, name) for name in planned]
    assert len(words) in (1, len(LEVELS))
    return words[0] if len(set(words)) == 1 else " / ".join(words)


def _word(pair: str, planned: str) -> str:
    theirs = _java()[pair][planned]
    ours = next((by[pair][planned] for by in _different().values() if planned in by.get(pair, {})), theirs)
    word = "yes" if ours.startswith("allowed") else ours.removeprefix("refused: ")
    return word if ours == theirs else f"{word}\\*"


@cache
def _java() -> Verdicts:
    return verdicts()


@cache
def _different() -> dict[str, Verdicts]:
    return differences()


def _counted() -> str:
    different = sum(_cases(why) for why in REASONS)
    return (
        f"{len(pairs())} pairs of B and C with {len(PLANNED)} operations of A each are {len(pairs()) * len(PLANNED)} "
        f"cases. sealberg decides {different} of them differently from Iceberg Java on a Hive table:"
    )


def _cases(why: str) -> int:
    return sum(map(len, _different()[why].values()))


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + tables() + END + rest.partition(END)[2])
