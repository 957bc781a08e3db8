"""Every statement of docs/metadata-tables.md runs, in the order of the page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kit.programs import pages
from sealberg.spark.metadata_tables.kinds import KINDS

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit


def test_the_page_shows_every_metadata_table() -> None:
    assert set(re.findall(r"shop\.sales\.(\w+)", "\n".join(pages.statements("metadata-tables.md")))) >= set(KINDS)


def test_every_statement_of_the_page_runs(kit: SparkKit) -> None:
    pages.metadata_tables(kit)
