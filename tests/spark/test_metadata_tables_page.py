"""Every statement of docs/metadata-tables.md runs, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from sealberg.spark.metadata_tables.kinds import KINDS

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

PAGE = Path(__file__).parents[2] / "docs" / "metadata-tables.md"


def statements() -> list[str]:
    blocks = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"\s+--.*", "", line).strip() for block in blocks for line in block.splitlines()]
    assert all(line.endswith(";") for line in lines)
    return [line.rstrip(";") for line in lines]


def test_the_page_shows_every_metadata_table() -> None:
    assert set(re.findall(r"shop\.sales\.(\w+)", "\n".join(statements()))) >= set(KINDS)


def test_every_statement_of_the_page_runs(kit: SparkKit) -> None:
    kit.sql("DROP TABLE IF EXISTS prod.shop.sales")
    results: dict[str, list[tuple[object, ...]]] = {}
    for statement in statements():
        snapshots = kit.table("prod.shop.sales").metadata.snapshots if "{first}" in statement else ()
        text = statement.format(first=snapshots[0].snapshot_id) if snapshots else statement
        results[statement] = [tuple(row) for row in kit.spark.sql(text).collect()]
    empty = [statement for statement, rows in results.items() if statement.startswith("SELECT") and not rows]
    assert empty == []
    assert results["SELECT count(*) FROM prod.shop.sales.files VERSION AS OF 'audit'"] == [(3,)]
    assert [row[0] for row in results["SELECT id, price FROM prod.shop.sales WHERE _deleted"]] == [2]
    kit.sql("DROP TABLE prod.shop.sales")
