"""Iceberg Java's streams and ours: the same rows, offsets that both understand, batches that both know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import Operation

from kit import golden
from kit.iceberg_java import KMS, iceberg_java
from sealberg.spark.epochs import EPOCH_ID, QUERY_ID, Epoch, EpochCommittedError
from sealberg.spark.streams import START, Offset, Stream, StreamOptions
from sealberg.table.catalogs.sql import SealedSqlCatalog
from sealberg.table.open import open_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from sealberg.table.catalog_table import CatalogTable

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


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")  # Spark's own
def test_java_streams_our_table_and_we_go_on_where_it_stood(tmp_path: Path) -> None:
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/ours"}
    catalog = SealedSqlCatalog("ours", **place, **KMS)
    catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    made: Any = [catalog.create_table(f"db.{one}", schema, properties={"encryption.key-id": "keyA"}) for one in "ab"]
    source: CatalogTable = made[0]
    for at in (0, 1):
        source.append(pa.table({"id": [at], "name": [f"n{at}"]}))
    with iceberg_java(tmp_path) as java:
        for table in made:
            java.register(table)
        frame = java.spark.readStream.table("h.db.a")
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.toTable("h.db.b").awaitTermination()
        assert sorted(row.id for row in java.spark.table("h.db.b").collect()) == [0, 1]
        java.spark.sql("insert into h.db.a values (2, 'n2')")
        ours = stream_of(java.reopened(source))
        offsets = sorted((tmp_path / "checkpoint/offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        start = Offset.parse(offsets[-1].read_text().splitlines()[-1])
        end = ours.latest(start, None)
        assert [task.file.record_count for task in ours.planned(start, end)] == [1], "what Java had not taken yet"
        everything = ours.planned(START, ours.latest(START, None))
        assert [task.file.record_count for task in everything] == [1, 1, 1]
        query = json.loads((tmp_path / "checkpoint/metadata").read_text())["id"]
        target = java.reopened(made[1])
        last = target.metadata.current_snapshot()
        assert last is not None
        assert last.summary is not None
        assert last.summary[QUERY_ID] == query
        with pytest.raises(EpochCommittedError):
            Epoch(query, int(last.summary[EPOCH_ID] or 0)).check(target.metadata, "main")
        Epoch(query, 1 + int(last.summary[EPOCH_ID] or 0)).check(target.metadata, "main")
