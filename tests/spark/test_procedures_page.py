"""Every statement of docs/procedures.md runs, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sealberg.errors import SealbergError
from sealberg.spark.driver.procedures.registry import BY_NAME

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

PAGE = Path(__file__).parents[2] / "docs" / "procedures.md"
UNSEEN = {  # procedures that the page shows in another way
    "register_table": "needs the location of a metadata file",
    "cherrypick_snapshot": "named beside publish_changes",
    "add_files": "refused",
    "add_partition_field": "a statement of DDL, as those below",
    "drop_partition_field": "",
    "replace_partition_field": "",
    "set_write_order": "",
    "set_identifier_fields": "",
    "drop_identifier_fields": "",
    "create_ref": "",
    "drop_ref": "",
}


def statements() -> list[str]:
    blocks = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"\s+--.*", "", line).strip() for block in blocks for line in block.splitlines()]
    assert all(line.endswith(";") for line in lines)
    return [line.rstrip(";") for line in lines]


def test_the_page_shows_every_procedure() -> None:
    called = set(re.findall(r"CALL prod\.system\.(\w+)", "\n".join(statements())))
    assert called == BY_NAME.keys() - UNSEEN.keys()


def drop_broken_tables(kit: SparkKit) -> None:
    """Tables that other tests have tampered with: while one cannot be loaded, orphans are not searched."""
    for name in kit.catalog.list_tables("hr"):
        try:
            kit.catalog.load_table(name)
        except SealbergError:
            kit.catalog.drop_table(name)


def test_every_statement_of_the_page_runs(kit: SparkKit) -> None:
    drop_broken_tables(kit)
    results: dict[str, list[tuple[Any, ...]]] = {}
    for statement in statements():
        snapshots = kit.catalog.load_table("shop.orders").metadata.snapshots if "{" in statement else ()
        text = statement
        if snapshots:
            text = text.format(first=snapshots[0].snapshot_id, last=snapshots[-1].snapshot_id)
        found = [tuple(row) for row in kit.spark.sql(text).collect()]
        if called := re.match(r"CALL prod\.system\.(\w+)", text):
            results[called[1]] = found
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
