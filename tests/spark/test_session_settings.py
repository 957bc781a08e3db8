"""Settings of the session in Iceberg's names are obeyed, checked, or refused with a list of the known ones."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

from sealberg.properties.known import NO_EFFECT
from sealberg.properties.spark_names import SESSION_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.programs.spark import SparkKit

ICEBERG = "spark.sql.iceberg."


@contextmanager
def setting(kit: SparkKit, name: str, value: str) -> Iterator[None]:
    kit.spark.conf.set(ICEBERG + name, value)
    try:
        yield
    finally:
        kit.spark.conf.unset(ICEBERG + name)


@pytest.fixture(scope="module")
def name(kit: SparkKit) -> str:
    name = kit.fresh("ss")
    kit.sql(f"CREATE TABLE {name} (id bigint, p int) PARTITIONED BY (p) TBLPROPERTIES ('format-version' = '3')")
    kit.sql(f"INSERT INTO {name} SELECT id, id % 2 FROM range(20000)")
    return name


def plan_of(kit: SparkKit, statement: str) -> str:
    explained: Any = kit.spark.sql(f"EXPLAIN FORMATTED {statement}").collect()[0][0]
    return str(explained)


def tasks_of(kit: SparkKit, name: str) -> int:
    return kit.spark.table(name).rdd.getNumPartitions()


def test_reads_obey_the_session(kit: SparkKit, name: str) -> None:
    count, rows = f"SELECT count(*) FROM {name}", f"SELECT id FROM {name}"
    whole = plan_of(kit, count)
    with setting(kit, "aggregate-push-down.enabled", "false"):
        assert plan_of(kit, count) != whole
        assert kit.sql(count) == [(20000,)]
    assert "ColumnarToRow" in plan_of(kit, rows)
    with setting(kit, "vectorization.enabled", "false"):
        assert "ColumnarToRow" not in plan_of(kit, rows)
        assert kit.sql(f"SELECT count(id), sum(id) FROM {name}") == [(20000, 199990000)]
    few = tasks_of(kit, name)
    with setting(kit, "read.split-size", "1000"):
        assert tasks_of(kit, name) > few
    with setting(kit, "read.adaptive-split-size.enabled", "false"):
        assert tasks_of(kit, name) == 1
    with setting(kit, "locality.enabled", "false"):
        assert kit.sql(count) == [(20000,)]


def test_an_option_comes_before_the_session_and_the_session_before_the_table(kit: SparkKit, name: str) -> None:
    with setting(kit, "read.split-size", "1000"):
        options = kit.spark.read.option("split-size", str(1 << 30)).option("file-open-cost", "1")
        assert options.table(name).rdd.getNumPartitions() < tasks_of(kit, name)
    kit.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('read.split.target-size' = '1000')")
    small = tasks_of(kit, name)
    with setting(kit, "read.split-size", str(1 << 30)):
        assert tasks_of(kit, name) < small
    kit.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('read.split.target-size')")


def test_writes_obey_the_session(kit: SparkKit) -> None:
    name = kit.fresh("ss")
    kit.sql(f"CREATE TABLE {name} (id bigint, p int) PARTITIONED BY (p) TBLPROPERTIES ('format-version' = '3')")
    insert = f"INSERT INTO {name} SELECT id, id % 2 FROM range(0, 100, 1, 1)"
    assert "Exchange" in plan_of(kit, insert)
    with setting(kit, "distribution-mode", "none"):
        assert "Exchange" not in plan_of(kit, insert)
        with setting(kit, "compression-codec", "gzip"), setting(kit, "snapshot-property.by", "session"):
            kit.sql(insert)
    found = {pq.ParquetFile(file).metadata.row_group(0).column(0).compression for file in kit.data_files(name)}
    assert found == {"GZIP"}
    head = kit.table(name).current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary["by"] == "session"


def test_a_setting_that_cannot_be_obeyed_is_refused(kit: SparkKit, name: str) -> None:
    cases = {
        ("vectorisation.enabled", "true"): "unknown setting of the session spark.sql.iceberg.vectorisation.enabled; "
        "known are spark.wap.id",
        ("vectorization.enabled", "yes"): "vectorization.enabled is true or false, not yes",
        ("distribution-mode", "wide"): "distribution-mode is none or hash or range, not wide",
        ("read.split-size", "-1"): "read.split-size is a positive number, not -1",
        ("data-planning-mode", "x"): "data-planning-mode is auto or local or distributed, not x",
    }
    for (key, value), text in cases.items():
        with setting(kit, key, value), pytest.raises(AnalysisException, match=text):
            kit.sql(f"SELECT * FROM {name} LIMIT 1")


def test_settings_of_icebergs_own_connector_do_no_harm(kit: SparkKit, name: str) -> None:
    values = {"data-planning-mode": "auto", "delete-planning-mode": "local", "compression-strategy": "speed"}
    given = {}
    for one in SESSION_SETTINGS:
        key = one.name.removeprefix(ICEBERG)
        if one.fate == NO_EFFECT:
            given[one.name] = values.get(key, "false" if "size" not in key and "timeout" not in key else "1000")
    for key, value in given.items():
        kit.spark.conf.set(key, value)
    try:
        assert kit.sql(f"SELECT count(*) FROM {name}") == [(20000,)]
    finally:
        for key in given:
            kit.spark.conf.unset(key)
