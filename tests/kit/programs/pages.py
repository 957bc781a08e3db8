"""The examples of the pages on Spark, and what their statements must return.

statements("procedures.md")     the SQL of a page, a statement each, in the order of the page
python("streams.md")            its blocks of Python
procedures(kit)                 runs all statements of the page in the catalog `prod`
metadata_tables(kit)            the same
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

DOCS: Final = Path(__file__).parents[3] / "docs"


def statements(page: str) -> list[str]:
    lines = [re.sub(r"\s+--.*", "", line).strip() for block in _blocks(page, "sql") for line in block.splitlines()]
    assert all(line.endswith(";") for line in lines)
    return [line.rstrip(";") for line in lines]


def python(page: str) -> list[str]:
    return _blocks(page, "py")


def _blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _run(kit: SparkKit, page: str, table: str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each statement; {first} and {last} are snapshots of the table."""
    results: dict[str, list[tuple[Any, ...]]] = {}
    for statement in statements(page):
        text = statement
        if "{" in statement:
            snapshots = kit.table(table).metadata.snapshots
            text = text.format(first=snapshots[0].snapshot_id, last=snapshots[-1].snapshot_id)
        results[statement] = [tuple(row) for row in kit.spark.sql(text).collect()]
    return results


def procedures(kit: SparkKit) -> None:
    results = {
        called[1]: rows
        for statement, rows in _run(kit, "procedures.md", "prod.shop.orders").items()
        if (called := re.match(r"CALL prod\.system\.(\w+)", statement))
    }
    assert results["verify"][0][1] == "passed"
    assert results["keys"][0][4] == "active"
    assert results["rewrite_data_files"][0][0] >= 1
    assert results["rekey"][0][0] >= 1
    assert results["erase"][0][0] >= 1
    assert results["erase"][0][4] is True
    assert results["shred"][0][3] is True
    assert results["encrypt"][0][1] == 2
    assert results["snapshot"] == results["migrate"] == [(results["encrypt"][0][0],)]
    assert kit.table("prod.shop.open").encryption is not None
    assert kit.sql("SELECT id, name FROM prod.shop.items") == [(1, "pen")]


def metadata_tables(kit: SparkKit) -> None:
    kit.sql("DROP TABLE IF EXISTS prod.shop.sales")
    results = _run(kit, "metadata-tables.md", "prod.shop.sales")
    empty = [statement for statement, rows in results.items() if statement.startswith("SELECT") and not rows]
    assert empty == []
    assert results["SELECT count(*) FROM prod.shop.sales.files VERSION AS OF 'audit'"] == [(3,)]
    assert [row[0] for row in results["SELECT id, price FROM prod.shop.sales WHERE _deleted"]] == [2]
    kit.sql("DROP TABLE prod.shop.sales")
