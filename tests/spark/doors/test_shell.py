"""The spark-sql shell: nothing but configuration, and a Python process that the JVM starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.programs.doors import Lake, spark_sql
from kit.programs.visit import visit

if TYPE_CHECKING:
    from pathlib import Path


def test_the_spark_sql_shell(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    with spark_sql(lake) as door:
        visit(door, lake)
