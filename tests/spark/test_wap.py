"""spark.wap.id stages every write, spark.wap.branch reads and writes a branch; main changes when somebody publishes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.programs.spark import SparkKit

AUDITED = "TBLPROPERTIES ('encryption.key-id' = 'hr', 'write.wap.enabled' = 'true'{more})"
ROWS = [(1, 0), (2, 0), (3, 1)]
MERGE = "MERGE INTO {0} t USING (SELECT 1L AS id, 9 AS p) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = s.p"
WRITES = {  # with the rows after each of them, on a table with ROWS
    "INSERT INTO {0} VALUES (5, 1)": [*ROWS, (5, 1)],
    "INSERT OVERWRITE {0} VALUES (6, 1)": [(6, 1)],
    "DELETE FROM {0} WHERE p = 0": [(3, 1)],
    "DELETE FROM {0} WHERE id = 1": [(2, 0), (3, 1)],
    "UPDATE {0} SET id = 7 WHERE id = 1": [(2, 0), (3, 1), (7, 0)],
    MERGE: [(1, 9), (2, 0), (3, 1)],
}


@contextmanager
def conf(kit: SparkKit, **settings: str) -> Iterator[None]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    for name, value in named.items():
        kit.spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in named:
            kit.spark.conf.unset(name)


def audited(kit: SparkKit, more: str = "") -> str:
    name = kit.fresh("wap")
    kit.sql(f"CREATE TABLE {name} (id bigint, p int) PARTITIONED BY (p) {AUDITED.format(more=more)}")
    kit.sql(f"INSERT INTO {name} VALUES (1, 0), (2, 0), (3, 1)")
    return name


def test_every_write_with_a_wap_id_is_staged(kit: SparkKit) -> None:
    name = audited(kit, ", 'write.update.mode' = 'merge-on-read'")
    for number, write in enumerate(WRITES):
        with conf(kit, spark_wap_id=f"audit{number}"):
            kit.sql(write.format(name))
    assert kit.sql(f"SELECT * FROM {name}") == ROWS
    staged = kit.table(name).metadata.snapshots[1:]
    for number, (write, snapshot) in enumerate(zip(WRITES, staged, strict=True)):
        assert snapshot.summary is not None
        assert snapshot.summary["wap.id"] == f"audit{number}"
        assert kit.sql(f"SELECT * FROM {name} VERSION AS OF {snapshot.snapshot_id}") == WRITES[write]
    kit.table(name).manage_snapshots().cherrypick(staged[-1].snapshot_id).commit()
    kit.table(name).manage_snapshots().publish_changes("audit0").commit()
    assert kit.sql(f"SELECT * FROM {name}") == [(1, 9), (2, 0), (3, 1), (5, 1)]


def test_a_session_with_a_wap_branch_lives_on_that_branch(kit: SparkKit) -> None:
    name = audited(kit, ", 'write.merge.mode' = 'merge-on-read'")
    for number, write in enumerate(WRITES):
        with conf(kit, spark_wap_branch=f"audit{number}"):
            if not number:
                assert kit.sql(f"SELECT * FROM {name}") == ROWS  # there is no such branch yet
            kit.sql(write.format(name))
            assert kit.sql(f"SELECT * FROM {name}") == WRITES[write]
    with conf(kit, spark_wap_branch="audit4"):  # a branch that exists
        kit.sql(f"DELETE FROM {name} WHERE id = 7")
        kit.sql(f"UPDATE {name} SET p = 3 WHERE id = 2")
        assert kit.sql(f"SELECT * FROM {name}") == [(2, 3), (3, 1)]
        assert kit.sql(f"SELECT count(*) FROM {name}") == [(2,)]
    assert kit.sql(f"SELECT * FROM {name}") == ROWS


def test_a_wap_branch_of_an_empty_table(kit: SparkKit) -> None:
    name = kit.fresh("wap")
    kit.sql(f"CREATE TABLE {name} (id bigint) {AUDITED.format(more='')}")
    with conf(kit, spark_wap_branch="audit"):
        kit.sql(f"INSERT INTO {name} VALUES (1)")
        assert kit.sql(f"SELECT * FROM {name}") == [(1,)]
    assert kit.sql(f"SELECT * FROM {name}") == []


def test_both_are_an_error_and_other_tables_are_not_concerned(kit: SparkKit) -> None:
    name, other = audited(kit), kit.fresh("plain")
    kit.sql(f"CREATE TABLE {other} (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr')")
    with conf(kit, spark_wap_id="a", spark_wap_branch="b"):
        for statement in (f"SELECT * FROM {name}", f"INSERT INTO {name} VALUES (9, 9)", f"DELETE FROM {name}"):
            with pytest.raises(AnalysisException, match=r"Cannot set both WAP ID and branch, but got ID \[a\]"):
                kit.sql(statement)
        kit.sql(f"INSERT INTO {other} VALUES (9)")
    assert kit.sql(f"SELECT * FROM {other}") == [(9,)]
    assert kit.sql(f"SELECT * FROM {name}") == ROWS


def test_a_branch_that_is_named_comes_before_the_branch_of_the_session(kit: SparkKit) -> None:
    name = audited(kit)
    table = kit.table(name)
    head = table.metadata.current_snapshot_id
    assert head is not None
    table.manage_snapshots().create_branch(head, "named").commit()
    with conf(kit, spark_wap_branch="audit"):
        kit.sql(f"INSERT INTO {name}.branch_named VALUES (4, 4)")
        kit.spark.range(1).selectExpr("id", "1 p").writeTo(name).option("branch", "named").append()
        assert len(kit.sql(f"SELECT * FROM {name}.branch_named")) == 5
    assert "audit" not in kit.table(name).metadata.refs


def test_a_table_and_its_rows_in_one_commit_cannot_be_staged(kit: SparkKit) -> None:
    name = kit.fresh("ctas")
    with (
        conf(kit, spark_wap_id="a"),
        pytest.raises(AnalysisException, match=r"cannot be staged for spark\.wap\.id .* Create the table, then INSERT"),
    ):
        kit.sql(f"CREATE TABLE {name} {AUDITED.format(more='')} AS SELECT 1 AS id")
    assert not kit.spark.catalog.tableExists(name)


def test_batches_of_a_stream_are_staged_once(kit: SparkKit, tmp_path: Path) -> None:
    source, name = audited(kit), audited(kit)
    with conf(kit, spark_wap_id="night"):
        for _ in range(2):
            query = kit.spark.readStream.table(source).writeStream.option("checkpointLocation", str(tmp_path))
            query.trigger(availableNow=True).toTable(name).awaitTermination()
            for noted in (tmp_path / "commits").glob("*0*"):
                noted.unlink()  # the driver died before Spark noted that the batch was done
    snapshots = kit.table(name).metadata.snapshots
    assert [one.summary["wap.id"] for one in snapshots if one.summary is not None] == [None, "night"]
    assert kit.sql(f"SELECT * FROM {name}") == ROWS
