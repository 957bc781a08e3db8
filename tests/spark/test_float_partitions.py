"""Floating-point partition values on Spark: every double finds its rows again, NaN and the infinities too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

KEY = "TBLPROPERTIES ('encryption.key-id' = 'hr')"


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("value", ["0.9", "'NaN'", "'Infinity'", "'-Infinity'", "-0.0", "1.0e-38", "null"])
def test_rows_of_a_partition_are_found_overwritten_and_deleted(kit: SparkKit, kind: str, value: str) -> None:
    name, given = kit.fresh("f"), f"cast({value} AS {kind})"
    kit.sql(f"CREATE TABLE {name} (p {kind}, id int) USING iceberg PARTITIONED BY (p) {KEY}")
    kit.sql(f"INSERT INTO {name} VALUES ({given}, 1), (cast(7 AS {kind}), 2)")
    assert kit.sql(f"SELECT id FROM {name} WHERE p <=> {given}") == [(1,)]
    kit.spark.sql(f"SELECT {given} AS p, 3 AS id").writeTo(name).overwritePartitions()
    assert kit.sql(f"SELECT id FROM {name}") == [(2,), (3,)]
    kit.sql(f"DELETE FROM {name} WHERE p <=> {given}")
    assert kit.sql(f"SELECT id FROM {name}") == [(2,)]
