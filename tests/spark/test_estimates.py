"""Statistics for Spark's optimiser: what it hears, when it hears it, and that plans become better."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.spark import KEYED, SparkKit
from kit.tables import tables
from sealberg.jobs import stats

if TYPE_CHECKING:
    from collections.abc import Iterator

CBO = {"spark.sql.cbo.enabled": "true"}
COLUMNS = (
    "id bigint, small int, day date, at timestamp, local_at timestamp_ntz, dec decimal(9,2), name string, ratio double"
)
ROWS = (
    "SELECT id, CAST(IF(id % 4 = 0, NULL, id % 100) AS int), date_add(DATE '2020-01-01', CAST(id % 30 AS int)), "
    "timestamp_micros(id), CAST(timestamp_micros(id) AS timestamp_ntz), CAST(id / 4 AS decimal(9,2)), "
    "concat('name ', id % 7), id / 2D FROM range({}, {}, 1, 1)"
)


@contextmanager
def settings(kit: SparkKit, **given: str) -> Iterator[None]:
    for key, value in given.items():
        kit.spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in given:
            kit.spark.conf.unset(key)


@pytest.fixture(scope="module")
def name(kit: SparkKit) -> str:
    made = kit.fresh("estimates")
    kit.sql(f"CREATE TABLE {made} ({COLUMNS}) {KEYED}")
    kit.sql(f"INSERT INTO {made} {ROWS.format(0, 4000)}")
    kit.sql(f"INSERT INTO {made} {ROWS.format(4000, 5000)}")
    return made


def relation(kit: SparkKit, statement: str) -> Any:
    """The statistics of the table in an optimised plan."""
    plan = kit.spark.sql(statement)._jdf.queryExecution().optimizedPlan()
    return plan.collectLeaves().apply(0).stats()


def heard(kit: SparkKit, statement: str) -> dict[str, tuple[Any, ...]]:
    """For each column what the optimiser hears: distinct count, null count, min, max."""

    def value(option: Any) -> Any:
        found = option.get() if option.isDefined() else None
        return found if found is None or isinstance(found, int | float | bool) else str(found)

    entries, found = relation(kit, statement).attributeStats().iterator(), {}
    while entries.hasNext():
        pair = entries.next()
        stat = pair._2()
        counts = [value(stat.distinctCount()), value(stat.nullCount())]
        number = [None if count is None else int(count) for count in counts]
        found[pair._1().name()] = (*number, value(stat.min()), value(stat.max()))
    return found


def row_count(kit: SparkKit, statement: str) -> int:
    return int(str(relation(kit, statement).rowCount().get()))


def test_nothing_is_said_of_columns_unless_the_cost_based_optimiser_is_on(kit: SparkKit, name: str) -> None:
    assert heard(kit, f"SELECT * FROM {name}") == {}
    with settings(kit, **CBO, **{"spark.sql.iceberg.report-column-stats": "false"}):
        assert heard(kit, f"SELECT * FROM {name}") == {}


def test_nulls_and_bounds_come_from_manifests(kit: SparkKit, name: str) -> None:
    with settings(kit, **CBO):
        found = heard(kit, f"SELECT * FROM {name}")
    assert found["id"] == (None, 0, 0, 4999)
    assert found["small"] == (None, 1250, 1, 99)
    assert found["day"] == (None, 0, 18262, 18291)
    assert found["at"] == (None, 0, 0, 4999)
    assert found["dec"] == (None, 0, "0.00", "1249.75")
    assert found["name"] == (None, 0, None, None)  # no bound of a string is sent
    assert found["ratio"] == (None, 0, 0.0, 2499.5)
    assert "local_at" not in found  # Spark knows no bounds of the type


def test_files_that_a_filter_rules_out_do_not_count(kit: SparkKit, name: str) -> None:
    with settings(kit, **CBO):
        assert row_count(kit, f"SELECT * FROM {name} WHERE id >= 4500") == 1000
        assert heard(kit, f"SELECT id FROM {name} WHERE id >= 4500") == {"id": (None, 0, 4000, 4999)}
    assert row_count(kit, f"SELECT * FROM {name} WHERE id >= 4500") == 5000


def test_distinct_values_come_from_the_encrypted_statistics(kit: SparkKit, name: str) -> None:
    (row,) = kit.sql(f"CALL prod.system.compute_table_stats('{name.removeprefix('prod.')}')")
    assert tables.local(row[0]).read_bytes()[:4] == b"AGS1"
    with settings(kit, **CBO):
        found = heard(kit, f"SELECT id, small, day, name FROM {name}")
        assert {column: each[0] for column, each in found.items()} == {
            "id": pytest.approx(5000, rel=0.07),
            "small": 75,
            "day": 30,
            "name": 7,
        }


def test_the_procedure_counts_the_columns_and_the_snapshot_that_it_is_given(kit: SparkKit, name: str) -> None:
    table = kit.table(name)
    first = table.metadata.snapshots[0].snapshot_id
    short = name.removeprefix("prod.")
    given = f"table => '{short}', snapshot_id => {first}, columns => array('name')"
    kit.sql(f"CALL prod.system.compute_table_stats({given})")
    table.refresh()
    (file,) = [each for each in table.metadata.statistics if each.snapshot_id == first]
    assert [blob.fields for blob in file.blob_metadata] == [[7]]


def test_tampered_statistics_stop_a_query_and_lost_ones_do_not(kit: SparkKit) -> None:
    made = kit.fresh("estimates")
    kit.sql(f"CREATE TABLE {made} (id bigint) {KEYED}")
    kit.sql(f"INSERT INTO {made} SELECT id FROM range(9)")
    path = tables.local(stats.plan(kit.table(made)).execute().location or "")
    stored = path.read_bytes()
    path.write_bytes(stored[:-1] + bytes([stored[-1] ^ 1]))
    with settings(kit, **CBO):
        with pytest.raises(Exception, match="stats"):
            heard(kit, f"SELECT * FROM {made}")
        path.unlink()
        assert heard(kit, f"SELECT * FROM {made}") == {"id": (None, 0, 0, 8)}


def test_a_join_is_broadcast_because_of_the_statistics(kit: SparkKit) -> None:
    orders, people = kit.fresh("estimates"), kit.fresh("estimates")
    rows = "SELECT id, id % 3000 AS person, uuid() AS note FROM range(0, 6000, 1, 1)"
    for made in (orders, people):
        kit.sql(f"CREATE TABLE {made} (id bigint, person bigint, note string) {KEYED}")
        kit.sql(f"INSERT INTO {made} {rows}")
    query = f"SELECT o.note, p.note FROM {orders} o JOIN {people} p ON o.id = p.id WHERE o.person = 77"
    with settings(kit, **CBO, **{"spark.sql.autoBroadcastJoinThreshold": "20000"}):

        def plan() -> str:
            return str(kit.spark.sql(query)._jdf.queryExecution().sparkPlan().toString())

        assert "SortMergeJoin" in plan()
        for made in (orders, people):
            stats.plan(kit.table(made)).execute()
        assert "BroadcastHashJoin" in plan()
        explained = "\n".join(row[0] for row in kit.spark.sql(f"EXPLAIN COST {query}").collect())
        assert "rowCount=2)" in explained or "rowCount=3)" in explained, explained


def test_neither_plans_nor_event_logs_show_values_of_columns(kit: SparkKit) -> None:
    made = kit.fresh("estimates")
    kit.sql(f"CREATE TABLE {made} (id bigint, other bigint) {KEYED}")
    kit.sql(f"INSERT INTO {made} VALUES (8177364455, 1), (8177364477, 2)")
    with settings(kit, **CBO):
        assert heard(kit, f"SELECT id FROM {made}")["id"][2:] == (8177364455, 8177364477)
        shown = kit.spark.sql(f"EXPLAIN COST SELECT id FROM {made} WHERE other > 0").collect()[0][0]
        kit.sql(f"SELECT sum(other) FROM {made} JOIN {made} USING (id, other)")
    logged = b"".join(path.read_bytes() for path in kit.event_log.rglob("*") if path.is_file())
    assert b"81773644" not in logged.replace(b"VALUES (8177364455, 1), (8177364477, 2)", b"")
    assert "81773644" not in shown
