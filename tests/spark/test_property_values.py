"""A wrong value of a property is refused by SET and CREATE; one that is there fails the statement that uses it only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sealberg.files.locations import normal

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

READS = {
    "read.split.target-size": "-1",
    "read.split.open-file-cost": "0",
    "read.split.adaptive-size.enabled": "maybe",
    "read.parquet.vectorization.enabled": "1",
    "read.data-planning-mode": "remote",
}
TEXT = r"must be positive, found|is true or false, not|is auto, local or distributed, not|is a number, not|is copy-on-"


def as_java_sets(kit: SparkKit, name: str, properties: dict[str, str]) -> None:
    table = kit.catalog.load_table(f"hr.{name}")
    path = Path(normal(table.metadata_location).removeprefix("file://"))
    document = json.loads(path.read_text())
    document["properties"] |= properties
    other = path.with_name(path.name.replace(".metadata.json", "-java.metadata.json"))
    other.write_text(json.dumps(document))
    kit.catalog.drop_table(f"hr.{name}")
    kit.catalog.register_table(f"hr.{name}", f"file://{other}")


def test_a_wrong_value_is_not_committed(kit: SparkKit) -> None:
    kit.sql("CREATE TABLE prod.hr.checked (id bigint) TBLPROPERTIES ('encryption.key-id'='hr')")
    kit.sql("INSERT INTO prod.hr.checked VALUES (1)")
    for name, value in {**READS, "commit.retry.num-retries": "x", "write.delete.mode": "nonsense"}.items():
        with pytest.raises(Exception, match=TEXT):
            kit.sql(f"ALTER TABLE prod.hr.checked SET TBLPROPERTIES ('{name}'='{value}')")
        with pytest.raises(Exception, match=TEXT):
            kit.sql(f"CREATE TABLE prod.hr.new (id int) TBLPROPERTIES ('{name}'='{value}')")
        with pytest.raises(Exception, match=TEXT):
            kit.sql(f"CREATE TABLE prod.hr.new TBLPROPERTIES ('{name}'='{value}') AS SELECT 1 AS id")
    assert not kit.catalog.table_exists("hr.new")
    assert kit.sql("SELECT * FROM prod.hr.checked") == [(1,)]
    kit.sql("DROP TABLE prod.hr.checked")


@pytest.mark.parametrize("name", READS)
def test_a_wrong_value_for_reads_locks_nothing(kit: SparkKit, name: str) -> None:
    kit.sql("CREATE TABLE prod.hr.locked (id bigint) TBLPROPERTIES ('encryption.key-id'='hr')")
    kit.sql("INSERT INTO prod.hr.locked VALUES (1)")
    as_java_sets(kit, "locked", {name: READS[name]})
    with pytest.raises(Exception, match=TEXT):
        kit.sql("SELECT * FROM prod.hr.locked")
    kit.sql("INSERT INTO prod.hr.locked VALUES (2)")
    assert kit.sql("SELECT count(*) FROM prod.hr.locked.snapshots")[0][0] == 2
    kit.sql("ALTER TABLE prod.hr.locked SET TBLPROPERTIES ('owner-team'='pay')")
    kit.sql(f"ALTER TABLE prod.hr.locked UNSET TBLPROPERTIES ('{name}')")
    assert sorted(row[0] for row in kit.sql("SELECT * FROM prod.hr.locked")) == [1, 2]
    as_java_sets(kit, "locked", {name: READS[name]})
    kit.sql("DROP TABLE prod.hr.locked")
    assert not kit.catalog.table_exists("hr.locked")


def test_an_option_goes_before_a_wrong_value(kit: SparkKit) -> None:
    kit.sql("CREATE TABLE prod.hr.option (id bigint) TBLPROPERTIES ('encryption.key-id'='hr')")
    kit.sql("INSERT INTO prod.hr.option VALUES (1)")
    as_java_sets(kit, "option", {"read.split.target-size": "-1"})
    assert kit.spark.read.option("split-size", "1000000").table("prod.hr.option").count() == 1
    kit.sql("DROP TABLE prod.hr.option")


def test_a_wrong_mode_fails_its_own_command(kit: SparkKit) -> None:
    kit.sql("CREATE TABLE prod.hr.mode (id bigint) TBLPROPERTIES ('encryption.key-id'='hr')")
    kit.sql("INSERT INTO prod.hr.mode VALUES (1), (2), (3)")
    as_java_sets(kit, "mode", {"write.delete.mode": "nonsense", "write.update.isolation-level": "nonsense"})
    with pytest.raises(Exception, match=r"write\.delete\.mode is copy-on-write or merge-on-read, not nonsense"):
        kit.sql("DELETE FROM prod.hr.mode WHERE id = 1")
    with pytest.raises(Exception, match=r"write\.update\.isolation-level is serializable or snapshot, not nonsense"):
        kit.sql("UPDATE prod.hr.mode SET id = 4 WHERE id = 1")
    assert sorted(row[0] for row in kit.sql("SELECT * FROM prod.hr.mode")) == [1, 2, 3]
    kit.sql("ALTER TABLE prod.hr.mode UNSET TBLPROPERTIES ('write.delete.mode', 'write.update.isolation-level')")
    kit.sql("DELETE FROM prod.hr.mode WHERE id = 1")
    kit.sql("UPDATE prod.hr.mode SET id = 4 WHERE id = 2")
    assert sorted(row[0] for row in kit.sql("SELECT * FROM prod.hr.mode")) == [3, 4]
    kit.sql("DROP TABLE prod.hr.mode")
