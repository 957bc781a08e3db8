"""Copy-on-write: Spark's tasks write the files that are touched anew, and no other; each row stays who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kit.programs.spark import KEYED
from kit.tables.tables import check_lineage
from sealberg.write.row_changes import RowWork

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit


@pytest.fixture(autouse=True)
def _no_row_is_written_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: RowWork, tasks: list[object]) -> list[object]:
        assert not tasks, "Python wrote rows on the driver"
        return []

    monkeypatch.setattr(RowWork, "_rewrite", never)


def five_files(kit: SparkKit, more: str = "") -> str:
    """A table of the ids 0 to 499, a hundred in each file."""
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint, name string, tags array<string>) {more or KEYED}")
    for part in range(5):
        kit.sql(
            f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, concat('n', id), array('a', cast(id AS string)) "
            f"FROM range({part * 100}, {part * 100 + 100})"
        )
    return name


def files_of(kit: SparkKit, name: str) -> set[str]:
    return {one[0] for one in kit.sql(f"SELECT file_path FROM {name}.files")}


def everything(kit: SparkKit, name: str) -> dict[int, tuple[Any, ...]]:
    found = kit.sql(f"SELECT id, name, tags, _row_id, _last_updated_sequence_number FROM {name}")
    return {row[0]: row[1:] for row in found}


class Step(NamedTuple):
    """A statement and the ids of rows that it takes away, changes and brings."""

    statement: str
    gone: set[int] = set()
    changed: set[int] = set()
    come: set[int] = set()


STEPS = [
    Step("DELETE FROM {} WHERE id % 100 = 5 AND id < 300", gone={5, 105, 205}),
    Step("DELETE FROM {} WHERE id IN (SELECT id FROM range(150, 160))", gone=set(range(150, 160))),
    Step("DELETE FROM {} WHERE id BETWEEN 200 AND 290", gone=set(range(200, 291)) - {205}),
    Step("DELETE FROM {} WHERE id < 0 OR name = 'nobody'"),
    Step("UPDATE {} SET name = 'new' WHERE id IN (7, 401)", changed={7, 401}),
    Step("UPDATE {} SET name = 'new' WHERE id = (SELECT max(id) FROM range(408))", changed={407}),
    Step(
        """MERGE INTO {} t USING (SELECT id, id % 2 AS odd FROM range(298, 303)) s ON t.id = s.id
        WHEN MATCHED AND odd = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'new'""",
        gone={299, 301},
        changed={298, 300, 302},
    ),
    Step(
        """MERGE INTO {} t USING (SELECT id FROM range(499, 503)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET name = 'new' WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')""",
        changed={499},
        come={500, 501, 502},
    ),
]


def test_exactly_the_touched_files_are_replaced(kit: SparkKit) -> None:
    name = five_files(kit)
    for statement, gone, changed, come in STEPS:
        before, files = everything(kit, name), files_of(kit, name)
        holding = dict(kit.sql(f"SELECT id, _file FROM {name}"))
        kit.sql(statement.format(name))
        after = everything(kit, name)
        assert after.keys() == (before.keys() - gone) | come, statement
        assert files - files_of(kit, name) == {holding[one] for one in gone | changed}, statement
        now = kit.table(name).metadata.last_sequence_number
        for one in after.keys() - changed - come:
            assert after[one] == before[one], "a row that only moved is the same in everything"
        for one in changed:
            assert after[one][0] == "new"
            assert (after[one][2], after[one][3]) == (before[one][2], now), "who it is stays, when it changed does not"
        assert all(after[one][3] == now for one in come)
        check_lineage(kit.table(name))
    python = kit.table(name).scan(selected_fields=("id", "_row_id", "_last_updated_sequence_number")).to_arrow()
    assert {row["id"]: tuple(row.values())[1:] for row in python.to_pylist()} == {
        one: row[2:] for one, row in everything(kit, name).items()
    }
    planned = {file.location.removeprefix("file://") for file in kit.planned_files(name)}
    assert {path.read_bytes()[:4] for path in kit.data_files(name) if str(path) in planned} == {b"PARE"}


def test_row_groups_that_no_filter_matches_are_kept(kit: SparkKit) -> None:
    name = kit.fresh()
    small = "'write.parquet.row-group-size-bytes' = '1000'"
    kit.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr', {small})")
    kit.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id FROM range(5000)")
    assert len(kit.table(name).inspect.files()["split_offsets"][0]) > 3
    for step in ("DELETE FROM {} WHERE id = 7", "UPDATE {} SET id = -8 WHERE id = 8"):
        kit.sql(step.format(name))
        left = [(one,) for one in sorted({*range(5000), -8 if "UPD" in step else 8} - {7, 8 if "UPD" in step else 7})]
        assert sorted(kit.sql(f"SELECT id FROM {name}")) == left


def test_rows_that_a_vector_deleted_stay_deleted_when_their_file_is_rewritten(kit: SparkKit) -> None:
    name = five_files(kit, "TBLPROPERTIES ('encryption.key-id' = 'hr', 'write.delete.mode' = 'merge-on-read')")
    kit.sql(f"DELETE FROM {name} WHERE id % 10 = 1")
    before = everything(kit, name)
    kit.sql(f"UPDATE {name} SET name = 'new' WHERE id < 10")
    after = everything(kit, name)
    assert after.keys() == before.keys()
    assert kit.sql(f"SELECT count(*) FROM {name}.files WHERE content = 1") == [(4,)], "the vector of the first went too"
    assert {one for one in after if after[one][0] == "new"} == set(range(10)) - {1}


def test_deletes_of_whole_partitions_read_no_row(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint, p string) PARTITIONED BY (p) {KEYED}")
    kit.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, null), (4, 'c')")
    jobs = kit.spark.sparkContext.statusTracker()
    kit.spark.sparkContext.setJobGroup("whole", "")
    kit.sql(f"DELETE FROM {name} WHERE p = 'a'")
    assert not jobs.getJobIdsForGroup("whole")
    assert kit.sql(f"SELECT id FROM {name}") == [(2,), (3,), (4,)]
    kit.sql(f"DELETE FROM {name} WHERE NOT (p = 'b')")
    assert kit.sql(f"SELECT id FROM {name}") == [(2,), (3,)], "null is not other than b"
    kit.sql(f"DELETE FROM {name} WHERE p IS NULL AND id > 5")
    assert kit.sql(f"SELECT id FROM {name}") == [(2,), (3,)]
    kit.sql(f"DELETE FROM {name}")
    assert kit.sql(f"SELECT id FROM {name}") == []
    kit.sql(f"INSERT INTO {name} VALUES (5, 'e')")
    kit.sql(f"TRUNCATE TABLE {name}")
    assert kit.sql(f"SELECT id FROM {name}") == []
    summaries = [one.summary for one in kit.table(name).metadata.snapshots if one.summary]
    assert {one.operation.value for one in summaries} == {"append", "delete"}


def test_an_overwrite_by_filter_leaves_nulls(kit: SparkKit) -> None:
    from pyspark.sql.functions import col

    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint, p string) PARTITIONED BY (p) {KEYED}")
    kit.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, null)")
    new = kit.spark.createDataFrame([(9, "z")], "id bigint, p string")
    new.writeTo(name).overwrite(col("p") != "b")
    assert kit.sql(f"SELECT id FROM {name}") == [(2,), (3,), (9,)]


@pytest.mark.parametrize("what", ["delete of a row that moved", "rows that came"])
def test_a_conflict_leaves_no_file_and_no_change(kit: SparkKit, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    from sealberg.spark.driver import commits as writes

    name = five_files(kit)
    real = writes.Writes._copy_on_write

    def late(self: writes.Writes, *arguments: Any) -> Any:
        monkeypatch.undo()
        if what == "rows that came":
            kit.table(name).append(kit.table(name).scan("id == 7").to_arrow())
        else:
            kit.table(name).delete("id == 8")
        return real(self, *arguments)

    monkeypatch.undo()  # Python does write here, as another writer
    monkeypatch.setattr(writes.Writes, "_copy_on_write", late)
    # What the late commit did is not in the transaction that the statement has begun.
    with pytest.raises(Exception, match=r"Missing required files|conflicting files that can contain"):
        kit.sql(f"UPDATE {name} SET name = 'new' WHERE id = 7")
    assert kit.sql(f"SELECT count(*) FROM {name} WHERE name = 'new'") == [(0,)]
    snapshots = {one.snapshot_id for one in kit.table(name).metadata.snapshots}
    known = {
        str(entry.data_file.file_path).removeprefix("file://")
        for snapshot in snapshots
        for manifest in kit.table(name).metadata.snapshot_by_id(snapshot).manifests(kit.table(name).io)  # type: ignore[union-attr]
        for entry in manifest.fetch_manifest_entry(kit.table(name).io, discard_deleted=False)
    }
    assert {str(path) for path in kit.data_files(name)} <= known, "an orphan"
    kit.sql(f"UPDATE {name} SET name = 'new' WHERE id = 7")
    assert kit.sql(f"SELECT count(*) FROM {name} WHERE name = 'new'") == [(2 if what == "rows that came" else 1,)]
