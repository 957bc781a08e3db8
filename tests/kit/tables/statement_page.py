"""The tables of docs/statements.md: `python -m kit.tables.statement_page` in the folder `tests`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kit.tables.statement_reasons import REASONS
from kit.tables.statements import chapters, differences

if TYPE_CHECKING:
    from kit.tables.statements import Difference

PAGE: Final = Path(__file__).parents[3] / "docs" / "statements.md"
START, END = "<!-- statements:start -->\n", "<!-- statements:end -->\n"
SHOWN: Final = 160


def page() -> str:
    """The chapters, and every difference under its reason."""
    different = differences()
    counted = sum(len(one.statements) for one in chapters().values())
    total = sum(map(len, different.values()))
    lines = [
        f"{counted} statements, of which {total} give something else than on tables of Iceberg Java 1.12:",
        "",
        "| chapter | about | statements | differ |",
        "|---|---|---|---|",
    ]
    for name, one in chapters().items():
        lines.append(f"| `{name}` | {one.title} | {len(one.statements)} | {len(different.get(name, {}))} |")
    for reason, text in REASONS.items():
        lines += ["", f"### {reason}", "", text, "", "| statement | sealberg | Iceberg Java |", "|---|---|---|"]
        for by in different.values():
            lines += [_line(known, one) for known, one in by.items() if one.reason == reason]
    return "\n".join(lines) + "\n"


def _line(known: str, one: Difference) -> str:
    return f"| {_code(known)} | {_code(one.ours.strip() or 'done')} | {_code(one.java.strip() or 'done')} |"


def _code(text: str) -> str:
    """Shorten a text for a table, and escape Markdown."""
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
    text = text.replace("|", "\\|").replace("\n", " ")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def between(text: str) -> str:
    """The text between the two marks."""
    return text.partition(START)[2].partition(END)[0]


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + page() + END + rest.partition(END)[2])
