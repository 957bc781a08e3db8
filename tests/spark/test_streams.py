"""Streams from tables and into them: each row once, whatever is stopped and started again in between."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions

from kit.programs.spark import KEYED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from kit.programs.spark import SparkKit

TESTS = Path(__file__).resolve().parents[1]


def made(kit: SparkKit, columns: str = "id bigint, name string") -> str:
    name = kit.fresh("stream")
    kit.sql(f"CREATE TABLE {name} ({columns}) {KEYED}")
    return name


def append(kit: SparkKit, name: str, *ids: int) -> None:
    """From Python, which takes a tenth of the time."""
    kit.table(name).append(pa.table({"id": ids, "name": [f"n{one}" for one in ids]}))


def run(
    kit: SparkKit, frame: DataFrame, into: str, checkpoint: Path, mode: str = "append", **trigger: Any
) -> StreamingQuery:
    """All that there is now, then stop."""
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).outputMode(mode)
    query = writer.trigger(**(trigger or {"availableNow": True})).toTable(into)
    query.awaitTermination()
    return query


def ids(kit: SparkKit, name: str) -> list[int]:
    return [row[0] for row in sorted(kit.sql(f"SELECT id FROM {name}"))]


def snapshots(kit: SparkKit, name: str) -> list[Any]:
    return list(kit.table(name).metadata.snapshots)


# -- from a table -------------------------------------------------------------------------------------


def test_a_stream_goes_on_from_its_checkpoint(kit: SparkKit, tmp_path: Path) -> None:
    source, target = made(kit), made(kit)
    for round_ in range(3):
        append(kit, source, round_ * 2, round_ * 2 + 1)
        run(kit, kit.spark.readStream.table(source), target, tmp_path)
        assert ids(kit, target) == list(range(round_ * 2 + 2))
    run(kit, kit.spark.readStream.table(source), target, tmp_path)
    assert len(snapshots(kit, target)) == 3, "nothing new, nothing committed"
    for one in snapshots(kit, target):
        assert one.summary["spark.sql.streaming.queryId"] == json.loads((tmp_path / "metadata").read_text())["id"]


@pytest.mark.parametrize(
    ("option", "per_batch"),
    [("files", 2), ("rows", 2), ("bytes", 1)],
)
def test_limits_cut_batches_inside_snapshots_too(kit: SparkKit, tmp_path: Path, option: str, per_batch: int) -> None:
    source, target = made(kit, "id bigint, name string"), made(kit)
    with kit.table(source).update_spec() as update:
        update.add_identity("id")
    append(kit, source, 0, 1, 2)  # three files
    append(kit, source, 3, 4)
    frame = kit.spark.readStream.option(f"streaming-max-{option}-per-micro-batch", str(per_batch)).table(source)
    run(kit, frame, target, tmp_path)
    assert ids(kit, target) == list(range(5))
    added = [int(one.summary["added-records"]) for one in snapshots(kit, target)]
    assert added == ([1] * 5 if option == "bytes" else [2, 2, 1])


def test_a_stream_begins_where_it_is_told(kit: SparkKit, tmp_path: Path) -> None:
    source = made(kit)
    append(kit, source, 1)
    append(kit, source, 2)
    first, second = snapshots(kit, source)
    options = {
        "all": ({}, [1, 2, 3]),
        "after": ({"start-snapshot-id": first.snapshot_id}, [2, 3]),
        "at": ({"stream-from-timestamp": second.timestamp_ms}, [2, 3]),
        "before": ({"stream-from-timestamp": 0}, [1, 2, 3]),
        "future": ({"stream-from-timestamp": second.timestamp_ms + 10**9}, []),
        "now": ({"stream-from-timestamp": "now"}, [3]),
    }
    targets = {name: made(kit) for name in options}

    def run_all() -> None:
        for name, (given, _) in options.items():
            reader = kit.spark.readStream
            for option, value in given.items():
                reader = reader.option(option, str(value))
            run(kit, reader.table(source), targets[name], tmp_path / name)

    run_all()
    append(kit, source, 3)
    run_all()
    assert {name: ids(kit, target) for name, target in targets.items()} == {
        name: expected for name, (_, expected) in options.items()
    }


def test_rewrites_are_skipped_and_deletes_are_refused_unless_told(kit: SparkKit, tmp_path: Path) -> None:
    source, target = made(kit), made(kit)
    append(kit, source, 1, 2)
    kit.table(source).delete("id = 1")
    append(kit, source, 3)
    with pytest.raises(Exception, match="streaming-skip-overwrite-snapshots=true"):
        run(kit, kit.spark.readStream.table(source), target, tmp_path / "a")
    frame = kit.spark.readStream.option("streaming-skip-overwrite-snapshots", "true").table(source)
    run(kit, frame, target, tmp_path / "a")
    kit.table(source).delete("id = 3")
    with pytest.raises(Exception, match="streaming-skip-delete-snapshots=true"):
        run(kit, frame, target, tmp_path / "a")
    run(
        kit,
        kit.spark.readStream.options(
            **{"streaming-skip-delete-snapshots": "true", "streaming-skip-overwrite-snapshots": "true"}
        ).table(source),
        target,
        tmp_path / "a",
    )
    assert ids(kit, target) == [1, 2, 3]


def test_changed_columns_stop_a_stream_until_it_is_defined_again(kit: SparkKit, tmp_path: Path) -> None:
    source, target = made(kit), made(kit)
    append(kit, source, 1)
    frame = kit.spark.readStream.table(source)
    run(kit, frame.select("id", "name"), target, tmp_path)
    kit.sql(f"ALTER TABLE {source} ADD COLUMN extra int")
    kit.sql(f"INSERT INTO {source} VALUES (2, 'n2', 7)")
    with pytest.raises(Exception, match=r"columns of hr.* were changed since this stream was defined"):
        run(kit, frame.select("id", "name"), target, tmp_path)
    run(kit, kit.spark.readStream.table(source).select("id", "name"), target, tmp_path)
    assert ids(kit, target) == [1, 2]


def test_what_has_expired_is_missed_loudly(kit: SparkKit, tmp_path: Path) -> None:
    source, target = made(kit), made(kit)
    append(kit, source, 1)
    run(kit, kit.spark.readStream.table(source), target, tmp_path)
    append(kit, source, 2)
    first, second = (one.snapshot_id for one in snapshots(kit, source))
    kit.table(source).maintenance.expire_snapshots().by_id(first).commit()
    run(kit, kit.spark.readStream.table(source), target, tmp_path)
    assert ids(kit, target) == [1, 2], "nothing was left to take of what expired"
    append(kit, source, 3)
    append(kit, source, 4)
    expiry = kit.table(source).maintenance.expire_snapshots()
    expiry.by_ids([second, snapshots(kit, source)[1].snapshot_id]).commit()
    with pytest.raises(Exception, match="has expired or was rolled back"):
        run(kit, kit.spark.readStream.table(source), target, tmp_path)


def test_a_stream_of_an_empty_table_waits_for_its_first_rows(kit: SparkKit, tmp_path: Path) -> None:
    source, target = made(kit), made(kit)
    writer = kit.spark.readStream.table(source).writeStream.option("checkpointLocation", str(tmp_path))
    query = writer.trigger(processingTime="50 milliseconds").toTable(target)
    try:
        time.sleep(1)  # some triggers find nothing
        append(kit, source, 1, 2)
        deadline = time.monotonic() + 60
        while not ids(kit, target) and query.exception() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert query.exception() is None
        assert ids(kit, target) == [1, 2]
    finally:
        query.stop()


# -- into a table -------------------------------------------------------------------------------------


def test_complete_mode_replaces_all_rows(kit: SparkKit, tmp_path: Path) -> None:
    source, target = made(kit), made(kit, "part bigint, rows bigint")
    for numbers in ((0, 1, 2), (3, 4)):
        append(kit, source, *numbers)
        counts = kit.spark.readStream.table(source).selectExpr("id % 2 AS part").groupBy("part").count()
        run(kit, counts.withColumnRenamed("count", "rows"), target, tmp_path, mode="complete")
    assert kit.sql(f"SELECT * FROM {target}") == [(0, 3), (1, 2)]


def test_a_batch_that_was_committed_is_not_committed_again(kit: SparkKit, tmp_path: Path) -> None:
    """As if the driver had died between our commit and Spark's own note of it."""
    source, target = made(kit), made(kit)
    for number in range(3):
        append(kit, source, number)
        run(kit, kit.spark.readStream.table(source), target, tmp_path)
        append(kit, target, 100 + number)  # others write, too
    done = sorted((tmp_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name))[-1]
    done.unlink()
    (done.parent / f".{done.name}.crc").unlink()
    files = set(kit.data_files(target))
    run(kit, kit.spark.readStream.table(source), target, tmp_path)
    assert ids(kit, target) == [0, 1, 2, 100, 101, 102]
    assert set(kit.data_files(target)) == files, "what was written in vain is gone"


def test_an_empty_batch_commits_nothing(kit: SparkKit, tmp_path: Path) -> None:
    source, target = made(kit), made(kit)
    append(kit, source, 1)
    run(kit, kit.spark.readStream.table(source).where("id > 1"), target, tmp_path)
    assert snapshots(kit, target) == []


def test_many_small_batches_leave_few_manifests_and_their_keys_expire(kit: SparkKit, tmp_path: Path) -> None:
    source, target = made(kit), made(kit)
    kit.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('commit.manifest.min-count-to-merge' = '3')")
    fill(kit, source, snapshots=2, files=5)
    run(kit, a_file_a_batch(kit, source), target, tmp_path)
    assert len(snapshots(kit, target)) == 10
    assert len(kit.sql(f"SELECT * FROM {target}.manifests")) < 3
    keys = len(kit.table(target).metadata.encryption_keys)
    gone = [one.snapshot_id for one in snapshots(kit, target)[:-1]]
    kit.table(target).maintenance.expire_snapshots().by_ids(gone).commit()
    assert len(kit.table(target).metadata.encryption_keys) == keys - len(gone)
    append(kit, source, 10)
    run(kit, a_file_a_batch(kit, source), target, tmp_path)
    assert ids(kit, target) == list(range(11))


# -- whatever happens -----------------------------------------------------------------------------------


def fill(kit: SparkKit, name: str, *, snapshots: int, files: int) -> None:
    """Numbers from zero, each in a file of its own."""
    with kit.table(name).update_spec() as update:
        update.add_identity("id")
    for number in range(snapshots):
        append(kit, name, *range(number * files, (number + 1) * files))


def a_file_a_batch(kit: SparkKit, name: str) -> DataFrame:
    return kit.spark.readStream.option("streaming-max-files-per-micro-batch", "1").table(name)


def driver(kit: SparkKit, source: str, target: str, checkpoint: Path, fate: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "kit.programs.spark_stream",
        str(kit.folder),
        source,
        target,
        str(checkpoint),
        fate,
    ]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(command, env=here, start_new_session=True, stderr=subprocess.DEVNULL)


def wait_for(checkpoint: Path, commits: int, alive: Callable[[], bool]) -> None:
    """Until Spark has noted that many batches as done."""
    while len(list((checkpoint / "commits").glob("[0-9]*"))) < commits:
        assert alive()
        time.sleep(0.02)


@pytest.mark.timeout(1200)  # four sessions, one after the other
def test_fifty_batches_arrive_once_though_drivers_die(kit: SparkKit, tmp_path: Path) -> None:
    source, target = made(kit), made(kit)
    fill(kit, source, snapshots=10, files=5)
    for fate in ("before:5", "after:9"):
        assert driver(kit, source, target, tmp_path, fate).wait(timeout=600) == -signal.SIGKILL
    third = driver(kit, source, target, tmp_path, "never")
    try:
        wait_for(tmp_path, 25, lambda: third.poll() is None)
    finally:
        os.killpg(third.pid, signal.SIGKILL)
        third.wait()
    writer = a_file_a_batch(kit, source).writeStream.option("checkpointLocation", str(tmp_path))
    query = writer.trigger(processingTime="0 seconds").toTable(target)
    wait_for(tmp_path, 35, lambda: query.isActive)
    query.stop()
    run(kit, a_file_a_batch(kit, source), target, tmp_path)
    assert ids(kit, target) == list(range(50))
    epochs = [int(one.summary["spark.sql.streaming.epochId"]) for one in snapshots(kit, target)]
    assert epochs == list(range(50)), "each batch is one snapshot, in order"


def test_two_streams_into_one_table(kit: SparkKit, tmp_path: Path) -> None:
    target, sources = made(kit), [made(kit), made(kit)]
    for source in sources:
        fill(kit, source, snapshots=1, files=5)
    queries = [
        a_file_a_batch(kit, source)
        .writeStream.option("checkpointLocation", str(tmp_path / source))
        .trigger(availableNow=True)
        .toTable(target)
        for source in sources
    ]
    for query in queries:
        query.awaitTermination()
    assert ids(kit, target) == sorted([*range(5), *range(5)])
    assert len({one.summary["spark.sql.streaming.queryId"] for one in snapshots(kit, target)}) == 2


def test_no_key_and_no_row_is_in_a_checkpoint(kit: SparkKit, tmp_path: Path) -> None:
    source, target = made(kit), made(kit)
    kit.table(source).append(pa.table({"id": range(50), "name": [f"canary-e3-{one}" for one in range(50)]}))
    frame = kit.spark.readStream.table(source)
    run(kit, frame.groupBy("name").agg(functions.max("id").alias("id")), target, tmp_path, mode="complete")
    keys = [file.key or b"" for name in (source, target) for file in kit.planned_files(name)]
    assert len(keys) > 1
    checked = 0
    for folder in (tmp_path, kit.event_log):
        for path in folder.rglob("*"):
            if path.is_file() and "state" not in path.parts:
                data = path.read_bytes()
                assert b"canary-e3-" not in data, path
                for key in keys:
                    assert key not in data, path
                    assert base64.b64encode(key)[:-2] not in data, path
                checked += 1
    assert checked > 4
    query = json.loads((tmp_path / "offsets/0").read_text().splitlines()[-1])
    assert query.keys() == {"version", "snapshot_id", "position", "scan_all_files", "whole", "began"}
