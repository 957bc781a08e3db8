"""A query plans the table that it has named, with one look at the catalog."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.spark.driver.recent_tables import MOST, MOST_OF_ONE, SECONDS, RecentTables
from sealberg.spark.protocol.handles import TableHandle

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit


def someones(name: str, place: str) -> Any:
    """As much of a table as is looked at."""
    return SimpleNamespace(metadata_location=place, name=lambda: ("db", name))


def handle(name: str, place: str | None) -> TableHandle:
    return TableHandle(("db", name), "", 0, past=False, metadata_location=place)


def test_a_table_is_kept_for_a_while_by_name_and_metadata() -> None:
    now = [0.0]
    kept = RecentTables(clock=lambda: now[0])
    first: Any = someones("t", "one")
    second: Any = someones("t", "two")
    kept.keep(first)
    kept.keep(second)
    assert kept.get(handle("t", "one")) == first
    assert kept.get(handle("t", "two")) == second
    assert kept.get(handle("u", "one")) is None
    assert kept.get(handle("t", None)) is None, "a table that is being created has no metadata yet"
    now[0] = SECONDS
    assert kept.get(handle("t", "one")) is None
    kept.keep(first)
    assert kept.get(handle("t", "one")) == first


def test_only_so_many_are_kept() -> None:
    kept = RecentTables()
    for number in range(MOST + 1):
        kept.keep(someones(f"t{number}", "one"))
    assert kept.get(handle("t0", "one")) is None
    assert kept.get(handle("t1", "one")) is not None


def test_only_the_last_metadata_of_a_table_are_kept() -> None:
    now = [0.0]
    kept = RecentTables(clock=lambda: now[0])
    kept.keep(someones("other", "one"))
    for number in range(100):
        kept.keep(someones("t", str(number)))
        assert len(kept) <= 1 + MOST_OF_ONE
    assert [n for n in range(100) if kept.get(handle("t", str(n)))] == list(range(100 - MOST_OF_ONE, 100))
    assert kept.get(handle("other", "one")) is not None
    now[0] = SECONDS
    kept.keep(someones("t", "new"))
    assert len(kept) == 1, "metadata that are too old to be used are not kept"


def test_a_query_asks_the_catalog_once(kit: SparkKit, monkeypatch: pytest.MonkeyPatch) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr')")
    kit.sql(f"INSERT INTO {name} VALUES (1), (2)")
    asked: list[Any] = []
    load = EncryptedSqlCatalog.load_table

    def heard(catalog: EncryptedSqlCatalog, name: Any) -> Any:
        asked.append(name)
        return load(catalog, name)

    monkeypatch.setattr(EncryptedSqlCatalog, "load_table", heard)
    assert kit.sql(f"SELECT sum(id) FROM {name} WHERE id > 0") == [(3,)]
    assert len(asked) == 1


def test_an_insert_is_planned_without_a_look_at_the_catalog(kit: SparkKit, monkeypatch: pytest.MonkeyPatch) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr')")
    asked: list[Any] = []
    load = EncryptedSqlCatalog.load_table

    def heard(catalog: EncryptedSqlCatalog, name: Any) -> Any:
        asked.append(name)
        return load(catalog, name)

    monkeypatch.setattr(EncryptedSqlCatalog, "load_table", heard)
    kit.sql(f"INSERT INTO {name} VALUES (1), (2)")
    assert len(asked) == 3, "when it names the table, when it commits, and once more by the catalog's own commit"
    assert kit.sql(f"SELECT sum(id) FROM {name}") == [(3,)]


def test_a_frame_reads_the_table_that_it_named_and_a_new_query_the_new_one(
    kit: SparkKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = kit.fresh()
    made = f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr')"
    kit.sql(made)
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    frame = kit.spark.table(name)
    kit.sql(f"DROP TABLE {name}")
    kit.sql(made)
    kit.sql(f"INSERT INTO {name} VALUES (2)")
    assert [row.id for row in frame.collect()] == [1]
    assert kit.sql(f"SELECT id FROM {name}") == [(2,)]
    late = kit.spark.table(name)
    kit.sql(f"DROP TABLE {name}")
    kit.sql(made)
    monkeypatch.setattr("sealberg.spark.driver.recent_tables.SECONDS", 0)
    with pytest.raises(Exception, match="was dropped and made anew since this query named it"):
        late.collect()
