"""Clocks that are ten minutes apart: Iceberg Java, which refuses logs that go back by more than a minute, agrees."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from kit.programs.iceberg_java import KMS, IcebergJava

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def catalog(java: IcebergJava) -> Iterator[Any]:
    with sealberg.load_catalog("ours", type="hive", uri=java.uri, **KMS) as opened:
        yield opened


def test_java_loads_a_table_of_clocks_ten_minutes_apart(
    java: IcebergJava, catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, real_ns = time.time, time.time_ns
    schema = pa.schema([("id", pa.int64())])
    table = catalog.create_table("db.clocks", schema, properties={"encryption.key-id": "keyA"})
    for at, ahead_s in enumerate((590, 0, 300, 5)):
        monkeypatch.setattr(time, "time", lambda ahead=ahead_s: real() + ahead)
        monkeypatch.setattr(time, "time_ns", lambda ahead=ahead_s: real_ns() + ahead * 10**9)
        table.append(pa.table({"id": [at]}, schema=schema))
        with table.transaction() as change:
            change.set_properties({"said": str(at)})
    monkeypatch.undo()

    def java_ids() -> list[int]:
        return sorted(row["id"] for row in java.spark.sql("select id from h.db.clocks").collect())

    assert java_ids() == [0, 1, 2, 3]
    history = java.spark.sql("select made_current_at from h.db.clocks.history").collect()
    times = [row["made_current_at"] for row in history]
    assert times == sorted(times)
    table.append(pa.table({"id": [4]}, schema=schema))
    java.spark.sql("refresh table h.db.clocks")
    assert java_ids() == [0, 1, 2, 3, 4]
