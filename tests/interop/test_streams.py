"""Iceberg Java's streams and ours: the same rows, offsets that both understand, batches that both know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import Operation

from kit.programs.iceberg_java import KMS
from kit.tables import golden
from sealberg.spark.streaming.epochs import EPOCH_ID, QUERY_ID, Epoch, EpochCommittedError
from sealberg.spark.streaming.streams import START, Offset, Stream, StreamOptions
from sealberg.table.static_table import open_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from kit.tables.three import Three

SKIPPING = {"streaming-skip-delete-snapshots": "true", "streaming-skip-overwrite-snapshots": "true"}


def stream_of(table: Table, **options: str) -> Stream:
    return Stream.of(table, table.metadata.current_schema_id, StreamOptions.of(options))


@pytest.mark.parametrize("name", golden.TABLES)
def test_tables_of_java_are_streamed_whole_and_in_steps(name: str) -> None:
    newest = sorted((golden.root() / "wh/db.db" / name / "metadata").glob("*metadata.json"))[-1]
    table = open_table(f"file://{newest}", KMS, relocate={golden.PREFIX: f"file://{golden.root() / 'wh'}"})
    told = [one.summary for one in table.metadata.snapshots]
    added = sum(int(one["added-data-files"] or 0) for one in told if one and one.operation == Operation.APPEND)
    whole = stream_of(table, **SKIPPING)
    files = [str(task.file.file_path) for task in whole.planned(START, whole.latest(START, None))]
    assert len(files) == added > 0
    steps, at = stream_of(table, **SKIPPING, **{"streaming-max-files-per-micro-batch": "1"}), START
    taken: list[str] = []
    while (end := steps.latest(at, None)) != at:
        taken += [str(task.file.file_path) for task in steps.planned(at, end)]
        at = Offset.parse(end.text())
    assert taken == files


def test_java_streams_a_table_and_we_go_on_from_its_checkpoint(three: Three, tmp_path: Path) -> None:
    spark = three.java.spark
    for name in ("stream_from", "stream_to"):
        spark.sql(f"create table ours.db.{name} (id bigint, name string) tblproperties ('encryption.key-id' = 'keyA')")
    source = "db.stream_from"
    for at in (0, 1):
        three.catalog.load_table(source).append(pa.table({"id": [at], "name": [f"n{at}"]}))

    def run(catalog: str) -> None:
        frame = spark.readStream.table(f"{catalog}.{source}")
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.toTable(f"{catalog}.db.stream_to").awaitTermination()

    run("h")
    spark.sql(f"insert into h.{source} values (2, 'n2')")
    run("ours")
    spark.sql(f"insert into ours.{source} values (3, 'n3')")
    run("ours")
    assert sorted(row.id for row in spark.table("h.db.stream_to").collect()) == [0, 1, 2, 3]
    target = three.catalog.load_table("db.stream_to")
    query = json.loads((tmp_path / "metadata").read_text())["id"]
    told = [one.summary for one in target.metadata.snapshots if one.summary]
    marks = [(one[QUERY_ID], int(one[EPOCH_ID] or -1)) for one in told]
    assert {mark[0] for mark in marks} == {query}
    for number in range(max(mark[1] for mark in marks) + 1):
        with pytest.raises(EpochCommittedError):
            Epoch(query, number).check(target.metadata, "main")
    ours = stream_of(three.catalog.load_table(source))
    assert len(ours.planned(START, ours.latest(START, None))) == 4
