"""Every statement of docs/procedures.md runs, in the order of the page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kit.programs import pages
from sealberg.errors import SealbergError
from sealberg.spark.driver.procedures.registry import BY_NAME

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

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


def test_the_page_shows_every_procedure() -> None:
    called = set(re.findall(r"CALL prod\.system\.(\w+)", "\n".join(pages.statements("procedures.md"))))
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
    pages.procedures(kit)
