"""docs/interop.md says what the matrix tests, kind by kind: `python tests/interop/test_page.py` writes it anew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from interop import python_tables, spark_tables, sql_tables

PAGE: Final = Path(__file__).parents[2] / "docs" / "interop.md"
START, END = "<!-- matrix:start -->\n", "<!-- matrix:end -->\n"


def matrix() -> str:
    """A line for each kind of table: who writes it, so that all three read it."""
    python = [make.__name__ for make in python_tables.KINDS]
    spark, java = [*sql_tables.KINDS, *spark_tables.KINDS], [*sql_tables.KINDS, *sql_tables.JAVA_KINDS]
    lines = ["| tables | Java 1.12 writes | Python writes | Spark (ours) writes |", "|---|---|---|---|"]
    for kind in dict.fromkeys([*python, *java]):
        cells = ["all three read" if kind in writes else "-" for writes in (java, python, spark)]
        lines.append(f"| {kind.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_page_has_the_matrix_that_is_tested() -> None:
    assert PAGE.read_text().partition(START)[2].partition(END)[0] == matrix()


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + matrix() + END + rest.partition(END)[2])
