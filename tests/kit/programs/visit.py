"""What must work behind every door of Spark: DDL, writes, filters, time travel, metadata tables, CALL, a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.programs.doors import Refused
from sealberg.spark.catalog_options import SESSION_CATALOG

if TYPE_CHECKING:
    from kit.programs.doors import Door, Lake

MERGE = (
    "MERGE INTO {table} t USING (SELECT 3 AS id, 'Cyd' AS name UNION ALL SELECT 4, 'Dee') s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *"
)


def visit(door: Door, lake: Lake, catalog: str = "prod") -> None:
    """Creates a table, changes its rows, looks back, and reads a file that somebody changed."""
    table = f"{catalog}.hr.salaries"
    door.run(f"CREATE NAMESPACE {catalog}.hr")
    door.run(f"CREATE TABLE {table} (id bigint, name string) TBLPROPERTIES ('encryption.key-id' = 'hr')")
    door.run(f"INSERT INTO {table} VALUES (1, 'Ada'), (2, 'Bob'), (3, 'Cy')")
    assert door.run(f"SELECT name FROM {table} WHERE id > 1 ORDER BY id") == [["Bob"], ["Cy"]]
    [[first]] = door.run(f"SELECT snapshot_id FROM {table}.snapshots")
    door.run(f"DELETE FROM {table} WHERE id = 2")
    door.run(MERGE.format(table=table))
    assert door.run(f"SELECT * FROM {table} ORDER BY id") == [["1", "Ada"], ["3", "Cyd"], ["4", "Dee"]]
    assert door.run(f"SELECT count(*) FROM {table} VERSION AS OF {first}") == [["3"]]
    assert door.run(f"SELECT count(*) FROM {table}.history") == [["3"]]
    look(door, table, first)
    door.run(f"ALTER TABLE {table} ADD COLUMN city string")
    assert door.run(f"SELECT city FROM {table} WHERE id = 4") in ([["NULL"]], [["null"]], [["None"]])
    call(door, catalog, table, first)
    change_a_byte(lake, catalog)
    with pytest.raises(Refused, match=r"FileIntegrityException|IntegrityError"):
        door.run(f"SELECT max(name) FROM {table} VERSION AS OF {first} WHERE id < 100")


def look(door: Door, table: str, first: str) -> None:
    """Metadata tables at a snapshot, metadata columns, a function."""
    bounds = "sum(record_count), max(readable_metrics.id.upper_bound), max(key_metadata IS NOT NULL)"
    [[rows, largest, with_key]] = door.run(f"SELECT {bounds} FROM {table}.files VERSION AS OF {first}")
    assert (rows, largest, with_key.lower()) == ("3", "3", "false")
    assert door.run(f"SELECT count(DISTINCT reference_snapshot_id) FROM {table}.all_manifests") == [["3"]]
    assert door.run(f"SELECT count(*) FROM {table} WHERE NOT _deleted AND _spec_id = 0") == [["3"]]
    catalog = table.partition(".")[0]
    if catalog == SESSION_CATALOG:
        return  # Spark asks its own catalog alone for functions
    assert door.run(f"SELECT {catalog}.system.bucket(16, 34L), {catalog}.system.iceberg_version()") == [["3", "1.12.0"]]


def call(door: Door, catalog: str, table: str, first: str) -> None:
    """Procedures and Iceberg's DDL; each call is carried out once (Spark Connect once ran procedures twice)."""
    door.run(f"ALTER TABLE {table} CREATE TAG start AS OF VERSION {first}")
    assert door.run(f"SELECT count(*) FROM {table} VERSION AS OF 'start'") == [["3"]]
    [verified] = door.run(f"CALL {catalog}.system.verify('hr.salaries')")
    assert verified[:2] == ["hr.salaries", "passed"]
    door.run(f"CALL {catalog}.system.rotate(table => 'hr.salaries')")
    assert len(door.run(f"CALL {catalog}.system.keys('hr.salaries')")) == 2
    with pytest.raises(Refused, match="argument table is missing or NULL"):
        door.run(f"CALL {catalog}.system.verify(NULL)")


def change_a_byte(lake: Lake, catalog: str) -> None:
    """In the middle of every data file, which are all encrypted."""
    files = lake.data_files(catalog)
    assert files
    for path in files:
        content = bytearray(path.read_bytes())
        assert content[:4] == b"PARE"
        assert b"Ada" not in content
        content[len(content) // 4] ^= 1
        path.write_bytes(content)


def cancelled(door: Door, lake: Lake, catalog: str = "prod") -> None:
    """A call that is cancelled while its tasks run changes nothing, and the next one does the work."""
    table, files = f"{catalog}.hr.many", 60
    door.run(f"CREATE TABLE {table} (id bigint, text string) TBLPROPERTIES ('encryption.key-id' = 'hr')")
    rows = f"SELECT /*+ REPARTITION({files}) */ id, repeat(uuid(), 20) FROM range({files * 2000})"
    door.run(f"INSERT INTO {table} {rows}")
    folder = lake.folder / catalog / "hr" / "many"
    call = f"CALL {catalog}.system.rewrite_data_files(table => 'hr.many', options => map('rewrite-all', 'true', "
    call += "'max-file-group-input-files', '1'))"
    with pytest.raises(Refused, match=r"(?i)cancel|interrupt"):
        door.run(f"cancel {folder} {files + 4} {call}")
    assert door.run(f"SELECT count(*) FROM {table}.snapshots") == [["1"]]
    [[rewritten, added, *_]] = door.run(call)
    assert (rewritten, added) == (str(files), str(files))
    assert door.run(f"SELECT count(*), sum(id) FROM {table}") == [[str(files * 2000), str(sum(range(files * 2000)))]]
