"""Metadata tables and metadata columns: the same rows from the driver and from tasks, and in harmony with the data.

Columns and rows are compared with Iceberg Java's in `vectors/statements/metadata_tables.sql`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from kit.programs import spark_corpus
from kit.tables import corpus
from sealberg.spark.driver import metadata_tables
from sealberg.spark.metadata_tables.kinds import KINDS, OF_ONE_SNAPSHOT
from sealberg.spark.metadata_tables.pieces import IN_PIECES
from spark.test_golden import newest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.programs.spark import SparkKit

home = spark_corpus.home  # a fixture

KEY = "TBLPROPERTIES ('encryption.key-id' = 'hr', 'write.delete.mode' = 'merge-on-read')"
WITH_DELETES = ("mor_deletes", "partitioned_deletes", "equality_deletes", "equality_deletes_avro", "evolved")
BY_JAVA = (*WITH_DELETES, "void_partition", "alltypes_avro", "refs", "long_list")  # of the corpus; all pass, slowly


@pytest.fixture(scope="module")
def evolved(kit: SparkKit) -> str:
    """A table with three partition specs, deletion vectors, a branch, a dropped file and every kind of column."""
    name = kit.fresh("mt")
    kit.sql(
        f"CREATE TABLE {name} (id bigint, p string, n decimal(9,2), at timestamp, day date, b binary, d double, "
        f"s struct<x:int,y:array<string>>, m map<string,int>) PARTITIONED BY (p) {KEY}"
    )
    rest = "1.25, timestamp'2021-02-03 04:05:06', date'2020-02-29', X'01', 0.5, named_struct('x', 1, 'y', array('q'))"
    kit.sql(f"INSERT INTO {name} SELECT id, if(id % 2 = 0, 'a', 'b'), {rest}, map('k', 1) FROM range(0, 8, 1, 1)")
    kit.sql(f"DELETE FROM {name} WHERE id IN (2, 3)")
    kit.sql(f"ALTER TABLE {name} CREATE BRANCH audit")
    with kit.table(name).update_spec() as spec:
        spec.add_field("day", "month", "day_month")
    kit.sql(f"INSERT INTO {name} SELECT id, 'c', {rest}, NULL FROM range(8, 12, 1, 1)")
    with kit.table(name).update_spec() as spec:
        spec.remove_field("p")
    kit.sql(f"INSERT INTO {name} SELECT id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM range(12, 14, 1, 1)")
    kit.sql(f"DELETE FROM {name} WHERE id = 9")
    kit.sql(f"DELETE FROM {name} WHERE p = 'b'")
    return name


def rows_of(kit: SparkKit, table: str) -> list[str]:
    return sorted(repr(row.asDict(recursive=True)) for row in kit.spark.sql(f"SELECT * FROM {table}").collect())


@pytest.mark.parametrize("kind", IN_PIECES)
def test_tasks_read_the_rows_that_the_driver_reads(
    kit: SparkKit, evolved: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"{evolved}.{kind}"
    whole, count = rows_of(kit, table), kit.sql(f"SELECT count(*) FROM {table}")
    plan = kit.spark.sql(f"EXPLAIN SELECT * FROM {table}").collect()[0][0]
    assert "LocalTableScan" in plan
    monkeypatch.setattr(metadata_tables, "INLINE_CELLS", 1)
    plan = kit.spark.sql(f"EXPLAIN SELECT * FROM {table}").collect()[0][0]
    assert "BatchScan" in plan
    assert rows_of(kit, table) == whole != []
    assert kit.sql(f"SELECT count(*) FROM {table}") == count == [(len(whole),)]
    for file in kit.planned_files(evolved):
        assert file.key is not None
        for text in (base64.b64encode(file.key).decode(), file.key.hex()):
            assert text not in plan


def test_an_answer_is_bounded_in_cells(kit: SparkKit, evolved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_tables, "INLINE_CELLS", 40)
    scan = "EXPLAIN SELECT {} FROM {}.entries"
    narrow = kit.spark.sql(scan.format("status", evolved)).collect()[0][0]
    wide = kit.spark.sql(scan.format("*", evolved)).collect()[0][0]
    assert "LocalTableScan" in narrow
    assert "BatchScan" in wide


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_snapshots_has_empty_metadata_tables(kit: SparkKit, kind: str) -> None:
    name = kit.fresh("em")
    kit.sql(f"CREATE TABLE {name} (id bigint, p string) PARTITIONED BY (p) {KEY}")
    assert kit.sql(f"SELECT count(*) FROM {name}.{kind}") == [(1 if kind == "metadata_log_entries" else 0,)]


def test_deleted_rows_come_only_with_the_column_that_tells_them_apart(kit: SparkKit, evolved: str) -> None:
    live = kit.sql(f"SELECT id FROM {evolved}")
    assert live == kit.sql(f"SELECT id FROM {evolved} WHERE NOT _deleted")
    assert [row[0] for row in live] == [0, 10, 11, 12, 13, 4, 6, 8]
    assert kit.sql(f"SELECT id, _deleted FROM {evolved} WHERE _deleted") == [(2, True), (9, True)]
    assert kit.sql(f"SELECT count(*) FROM {evolved}") == [(8,)]
    positions = f"SELECT count(*) FROM {evolved}.position_deletes"
    assert kit.sql(positions) == [(2,)]
    assert kit.sql(f"{positions} VERSION AS OF 'audit'") == [(2,)]
    joined = f"SELECT t.id FROM {evolved} t JOIN {evolved}.position_deletes d ON _file = file_path AND _pos = pos"
    assert kit.sql(f"{joined} WHERE _deleted") == [(2,), (9,)]


def test_the_partition_of_a_row_is_that_of_its_file(kit: SparkKit, evolved: str) -> None:
    by_row = f"SELECT DISTINCT _file, _spec_id, _partition FROM {evolved}"
    by_file = f"SELECT file_path, spec_id, partition FROM {evolved}.data_files"
    assert kit.sql(by_row) == kit.sql(by_file) != []
    assert kit.sql(f"SELECT DISTINCT _partition.day_month FROM {evolved}") == [(601,), (None,)]


@pytest.mark.parametrize("table", BY_JAVA)
def test_metadata_tables_of_java_are_in_harmony_with_its_rows(
    kit: SparkKit, home: Callable[[dict[str, Any]], str], table: str
) -> None:
    """Java has made the table: Parquet, Avro, all kinds of deletes, old specs and lost columns."""
    entry = corpus.TABLES[table]
    name = home(entry)

    def one(query: str) -> Any:
        ((value,),) = kit.sql(query)
        return value

    live, dead = (one(f"SELECT count(*) FROM {name} WHERE _deleted = {flag}") for flag in ("false", "true"))
    assert live == newest(entry)["row-count"]
    assert live + dead == (one(f"SELECT sum(record_count) FROM {name}.data_files") or 0)
    equalities = one(f"SELECT count(*) FROM {name}.delete_files WHERE content = 2")
    positions = one(f"SELECT count(*) FROM (SELECT DISTINCT file_path, pos FROM {name}.position_deletes)")
    assert equalities or dead == positions
    files, entries = (one(f"SELECT count(*) FROM {name}.{kind}") for kind in ("files", "entries"))
    assert files == one(f"SELECT count(*) FROM {name}.entries WHERE status < 2") <= entries
    assert one(f"SELECT sum(record_count) FROM {name}.partitions") in (None, live + dead)
    counts = "added_data_files_count + existing_data_files_count + deleted_data_files_count"
    assert entries == one(f"SELECT sum({counts} + {counts.replace('_data_', '_delete_')}) FROM {name}.manifests")
    assert {row[0] for row in kit.sql(f"SELECT data_file.key_metadata FROM {name}.all_entries")} == {None}
    for kind in OF_ONE_SNAPSHOT:
        kit.sql(f"SELECT * FROM {name}.{kind}")


@pytest.mark.parametrize("table", WITH_DELETES)
def test_tasks_read_the_metadata_of_tables_of_java(
    kit: SparkKit, home: Callable[[dict[str, Any]], str], table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = home(corpus.TABLES[table])
    whole = {kind: rows_of(kit, f"{name}.{kind}") for kind in ("all_entries", "position_deletes")}
    monkeypatch.setattr(metadata_tables, "INLINE_CELLS", 1)
    assert {kind: rows_of(kit, f"{name}.{kind}") for kind in whole} == whole


def test_avro_files_have_the_metadata_columns_too(kit: SparkKit) -> None:
    name = kit.fresh("av")
    kit.sql(f"CREATE TABLE {name} (id bigint) {KEY[:-1]}, 'write.format.default' = 'avro')")
    kit.sql(f"INSERT INTO {name} SELECT id FROM range(0, 3, 1, 1)")
    kit.sql(f"DELETE FROM {name} WHERE id = 1")
    found = kit.sql(f"SELECT id, _spec_id, _partition, _deleted FROM {name}")
    assert found == [(0, 0, None, False), (1, 0, None, True), (2, 0, None, False)]
    assert kit.sql(f"SELECT _deleted FROM {name} WHERE id = 1") == [(True,)]
    assert kit.sql(f"SELECT id FROM {name}") == [(0,), (2,)]


def test_tables_of_version_2_have_metadata_tables_too(kit: SparkKit) -> None:
    import pyarrow as pa

    name = kit.fresh("v2")
    rows = pa.table({"id": [1, 2, 3]})
    kit.catalog.create_table(name[5:], rows.schema, properties={"format-version": "2"}).append(rows)
    assert kit.sql(f"SELECT record_count, readable_metrics.id.upper_bound, first_row_id FROM {name}.files") == [
        (3, 3, None)
    ]
    for kind in ("entries", "all_files", "all_manifests", "manifests", "partitions"):
        assert kit.sql(f"SELECT count(*) FROM {name}.{kind}") == [(1,)]
    assert kit.sql(f"SELECT id, _spec_id, _deleted FROM {name}") == [(1, 0, False), (2, 0, False), (3, 0, False)]
    assert "content_offset" not in kit.spark.table(f"{name}.position_deletes").columns
