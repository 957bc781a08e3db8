"""Columns that were renamed, dropped, added again, moved, widened or given a default, under filters on each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.types import LongType, StringType

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

STEPS = [
    "RENAME COLUMN a TO c",
    "ADD COLUMN a string",
    "DROP COLUMN b",
    "ADD COLUMN b bigint FIRST",
    "ALTER COLUMN id TYPE bigint",
    "ALTER COLUMN f TYPE double",
    "ALTER COLUMN p TYPE decimal(12,2)",
    "ALTER COLUMN c AFTER s",
    "ADD COLUMN s.z int AFTER x",
    "RENAME COLUMN s.y TO w",
    "DROP COLUMN s.x",
    "ADD COLUMN s.x string",
]


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_old_files_are_read_as_the_columns_are_now(kit: SparkKit, form: str) -> None:
    name = kit.fresh()
    kit.sql(
        f"""CREATE TABLE {name} (id int, a string, b string, s struct<x: int, y: string>, f float, p decimal(9,2))
        TBLPROPERTIES ('encryption.key-id' = 'hr', 'write.format.default' = '{form}')"""
    )
    struct = "named_struct('x', 1, 'y', 'y1')"
    kit.sql(f"INSERT INTO {name} VALUES (1, 'a1', 'b1', {struct}, 1.5, 1.25), (2, null, null, null, null, null)")
    for number, step in enumerate(STEPS, 3):
        kit.sql(f"ALTER TABLE {name} {step}")
        if step.split()[2] in ("a", "b", "id", "s.x"):  # a file with each meaning that a name has had
            columns = [row[0] for row in kit.spark.sql(f"DESCRIBE {name}").collect()]
            values = {"id": str(number), "f": f"{number}.5", "c": f"'c{number}'", "a": f"'a{number}'", "p": "7.5"}
            parts = [part for part in columns if part in values]
            kit.sql(f"INSERT INTO {name} ({', '.join(parts)}) VALUES ({', '.join(values[one] for one in parts)})")
    with kit.table(name).update_schema() as update:
        update.add_column("n", LongType(), default_value=7)
        update.add_column("t", StringType(), default_value="it's")
    kit.sql(f"INSERT INTO {name} (id, n, t, b) VALUES (100, 8, 'x', 5)")
    count = kit.agrees(name)
    assert count == 10
    some = {
        "a IS NULL": lambda row: row["a"] is None,
        "a = 'a1'": lambda row: row["a"] == "a1",
        "a = 'a4'": lambda row: row["a"] == "a4",
        "c = 'a1'": lambda row: row["c"] == "a1",
        "c >= 'b'": lambda row: row["c"] is not None and row["c"] >= "b",
        "b = 5": lambda row: row["b"] == 5,
        "b IS NULL": lambda row: row["b"] is None,
        "id >= 4": lambda row: row["id"] >= 4,
        "f > 2": lambda row: row["f"] is not None and row["f"] > 2,
        "p < 2": lambda row: row["p"] is not None and row["p"] < 2,
        "s.w = 'y1'": lambda row: row["s"] is not None and row["s"]["w"] == "y1",
        "s.x IS NULL": lambda row: row["s"] is None or row["s"]["x"] is None,
        "n = 7": lambda row: row["n"] == 7,
        "n > 7": lambda row: row["n"] > 7,
        "t = 'it\\'s'": lambda row: row["t"] == "it's",
        "t IS NULL": lambda row: row["t"] is None,
    }
    sizes: dict[str, Any] = {where: kit.agrees(name, where=where, test=test) for where, test in some.items()}
    assert sizes["a = 'a1'"] == sizes["t IS NULL"] == 0, "that was another column"
    assert sizes["c = 'a1'"] == sizes["s.w = 'y1'"] == sizes["b = 5"] == sizes["n > 7"] == 1
    assert sizes["n = 7"] == count - 1
