"""Read options choose rows or are refused by name; nothing that a reader asks for is ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.programs.spark import SparkKit

KEY = "TBLPROPERTIES ('encryption.key-id' = 'hr')"


class History:
    """A table with three appends, a branch and a tag at the first of them."""

    def __init__(self, kit: SparkKit) -> None:
        self.kit = kit
        self.name = kit.fresh("ro")
        kit.sql(f"CREATE TABLE {self.name} (id int) {KEY}")
        for number in range(3):
            kit.sql(f"INSERT INTO {self.name} VALUES ({number})")
        table = kit.table(self.name)
        self.ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
        self.times = [snapshot.timestamp_ms for snapshot in table.snapshots()]
        with table.manage_snapshots() as refs:
            refs.create_branch(self.ids[0], "audit").create_tag(self.ids[0], "first")

    def read(self, **options: Any) -> list[int]:
        reader = self.kit.spark.read
        for name, value in options.items():
            reader = reader.option(name.replace("_", "-"), value)
        return sorted(row.id for row in reader.table(self.name).collect())


@pytest.fixture(scope="module")
def history(kit: SparkKit) -> History:
    return History(kit)


CHOICES: dict[str, tuple[Callable[[History], dict[str, Any]], list[int]]] = {
    "branch": (lambda _: {"branch": "audit"}, [0]),
    "tag": (lambda _: {"tag": "first"}, [0]),
    "snapshot-id": (lambda h: {"snapshot_id": h.ids[1]}, [0, 1]),
    "as-of-timestamp": (lambda h: {"as_of_timestamp": h.times[1]}, [0, 1]),
    "start": (lambda h: {"start_snapshot_id": h.ids[0]}, [1, 2]),
    "start and end": (lambda h: {"start_snapshot_id": h.ids[0], "end_snapshot_id": h.ids[1]}, [1]),
    "split-size": (lambda _: {"split_size": 1000}, [0, 1, 2]),
    "versionAsOf": (lambda h: {"versionAsOf": h.ids[1]}, [0, 1]),
    "upper case": (lambda _: {"BRANCH": "audit"}, [0]),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_an_option_chooses_rows(history: History, choice: str) -> None:
    options, rows = CHOICES[choice]
    assert history.read(**options(history)) == rows
    reader = history.kit.spark.read
    for name, value in options(history).items():
        reader = reader.option(name.replace("_", "-"), value)
    assert reader.table(history.name).count() == len(rows), "count(*) comes from metadata, of the same rows"


def test_options_in_sql(history: History) -> None:
    sql = history.kit.sql
    assert sql(f"SELECT * FROM {history.name} WITH (`branch` = 'audit')") == [(0,)]
    assert sql(f"SELECT count(*), max(id) FROM {history.name} WITH (`snapshot-id` = '{history.ids[1]}')") == [(2, 1)]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"snapshotid": 1}, "unknown read option snapshotid; known are branch, tag, snapshot-id"),
    "no such branch": ({"branch": "nope"}, "has no branch nope; found audit, main"),
    "a tag as branch": ({"branch": "first"}, "has no branch first"),
    "no such tag": ({"tag": "nope"}, "has no tag nope; found first"),
    "no such snapshot": ({"snapshot_id": 17}, "has no snapshot 17"),
    "no number": ({"snapshot_id": "x"}, "snapshot-id is a number, not 'x'"),
    "too old": ({"as_of_timestamp": 1}, "has no snapshot as old as as-of-timestamp=1"),
    "two points": ({"branch": "audit", "tag": "first"}, "the read options branch, tag exclude each other"),
    "end alone": ({"end_snapshot_id": 1}, "end-snapshot-id needs start-snapshot-id"),
    "split-size": ({"split_size": 0}, "split-size must be positive, found 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_option_that_cannot_be_obeyed_is_refused(history: History, case: str) -> None:
    options, text = REFUSED[case]
    with pytest.raises(AnalysisException, match=text):
        history.read(**options)


def test_options_do_not_add_to_a_point_in_time(history: History) -> None:
    for name in (f"{history.name} VERSION AS OF {history.ids[0]}", f"{history.name}.branch_audit"):
        with pytest.raises(AnalysisException, match="leave out branch=audit"):
            history.kit.sql(f"SELECT * FROM {name} WITH (`branch` = 'audit')")


def test_a_snapshot_with_other_columns_is_refused_and_a_branch_has_the_current_ones(kit: SparkKit) -> None:
    history = History(kit)
    kit.sql(f"ALTER TABLE {history.name} ADD COLUMN more string")
    with pytest.raises(AnalysisException, match=f"VERSION AS OF {history.ids[0]}"):
        history.read(snapshot_id=history.ids[0])
    assert kit.sql(f"SELECT * FROM {history.name} VERSION AS OF {history.ids[0]}") == [(0,)]
    assert kit.sql(f"SELECT * FROM {history.name} WITH (`branch` = 'audit')") == [(0, None)]


def test_a_stream_reads_the_branch_that_it_names(history: History, tmp_path: Any) -> None:
    def stream(name: str, **options: str) -> list[int]:
        reader = history.kit.spark.readStream
        for key, value in options.items():
            reader = reader.option(key.replace("_", "-"), value)
        query = (
            reader.table(history.name)
            .writeStream.format("memory")
            .queryName(name)
            .trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / name))
            .start()
        )
        query.awaitTermination(60)
        return sorted(row.id for row in history.kit.spark.table(name).collect())

    assert stream("of_branch", branch="audit") == [0]
    assert stream("after_first", start_snapshot_id=str(history.ids[0])) == [1, 2]
    for options, text in (
        ({"branch": "nope"}, "has no branch nope"),
        ({"tag": "first"}, "not a snapshot, a tag or a past time"),
        ({"end_snapshot_id": "1", "start_snapshot_id": str(history.ids[0])}, "snapshot"),
        ({"max_files": "1"}, "unknown read option"),
    ):
        with pytest.raises(Exception, match=text):
            stream("refused", **options)


def test_metadata_tables_travel_in_time(history: History) -> None:
    sql, name = history.kit.sql, history.name
    for kind in ("files", "manifests", "partitions"):
        assert sql(f"SELECT count(*) FROM {name}.{kind} VERSION AS OF {history.ids[0]}") == [(1,)]
    assert sql(f"SELECT count(*) FROM {name}.files VERSION AS OF 'first'") == [(1,)]
    assert sql(f"SELECT count(*) FROM {name}.files") == [(3,)]
    with pytest.raises(AnalysisException, match="no snapshot as old"):
        sql(f"SELECT * FROM {name}.manifests TIMESTAMP AS OF '2000-01-01'")
    for kind in ("snapshots", "history", "refs", "metadata_log_entries", "keys"):  # of the table, as in Java
        for how in (f"VERSION AS OF {history.ids[0]}", "WITH (`tag` = 'first')"):
            assert sql(f"SELECT count(*) FROM {name}.{kind} {how}") == sql(f"SELECT count(*) FROM {name}.{kind}")
    with pytest.raises(AnalysisException, match="has no snapshot 12345"):
        sql(f"SELECT * FROM {name}.snapshots VERSION AS OF 12345")
    with pytest.raises(AnalysisException, match="the same at every snapshot"):
        sql(f"SELECT * FROM {name}.all_files VERSION AS OF {history.ids[0]}")
    with pytest.raises(AnalysisException, match="at a snapshot already"):
        sql(f"SELECT * FROM {name}.tag_first VERSION AS OF {history.ids[0]}")
    options = [("branch", "audit"), ("tag", "first"), ("snapshot-id", history.ids[0])]
    for option, value in options:
        found = sql(f"SELECT count(*) FROM {name}.files WITH (`{option}` = '{value}')")
        assert found == sql(f"SELECT count(*) FROM {name}.files VERSION AS OF '{value}'")
    assert history.kit.spark.read.option("versionAsOf", "first").table(f"{name}.files").count() == 1
    for text, refused in (
        ("already read at a point in time", "files VERSION AS OF 'first' WITH (`branch` = 'audit')"),
        ("the same at every snapshot", "all_files WITH (`branch` = 'audit')"),
        ("leave out split-size", "files WITH (`split-size` = '1')"),
        ("has no branch nope", "files WITH (`branch` = 'nope')"),
        ("exclude each other", "files WITH (`branch` = 'audit', `tag` = 'first')"),
    ):
        with pytest.raises(Exception, match=text):
            sql(f"SELECT * FROM {name}.{refused}")
