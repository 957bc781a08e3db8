"""Tables of the corpus, by Iceberg Java and others, in our catalog: Spark gives the rows that their writers read."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from vectors.spelling import LINEAGE, canonical_row

from kit.programs import spark_corpus
from kit.tables import corpus

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.programs.spark import SparkKit

home = spark_corpus.home  # a fixture


def newest(entry: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(
        one for one in entry["snapshots"] if one["snapshot-id"] == entry["refs"].get("main", one["snapshot-id"])
    )
    return found


# What needs an option of its catalog to be opened at all, or is refused, is in tests/corpus.
TABLES = [
    name
    for name, entry in corpus.TABLES.items()
    if not entry["needs"] and entry["refs"] and newest(entry)["expect"] == "rows"
]


@pytest.mark.parametrize("table", TABLES)
def test_spark_reads_what_the_writer_reads(kit: SparkKit, home: Callable[[dict[str, Any]], str], table: str) -> None:
    entry = corpus.TABLES[table]
    name = home(entry)
    snapshot = newest(entry)
    columns = snapshot["columns"]
    rows = kit.spark.sql(f"SELECT *, {', '.join(LINEAGE)} FROM {name}").collect()
    found = sorted(repr(canonical_row(zoned(row.asDict(recursive=True), columns), columns)) for row in rows)
    wanted = sorted(repr(canonical_row(row, columns)) for row in corpus.expected(entry, snapshot))
    assert found == wanted
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(snapshot["row-count"],)]


def zoned(row: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    """Spark gives a timestamp in the zone of this machine, and does not say so."""
    return {
        name: value.astimezone(dt.UTC) if value is not None and columns.get(name) == "timestamptz" else value
        for name, value in row.items()
    }
