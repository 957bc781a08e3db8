"""One table in one Hive Metastore, of Iceberg Java and of us: in turns, at once, and with the same parameters."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType, TimestamptzType

import sealberg
from kit.programs.iceberg_java import KMS, IcebergJava
from kit.servers.metastore import set_parameters
from sealberg.errors import TrustError

if TYPE_CHECKING:
    from collections.abc import Iterator

ENCRYPTED: Final = {"encryption.key-id": "keyA", "encryption.data-key-length": "32"}
PATIENT: Final = {"commit.retry.num-retries": "30", "commit.retry.max-wait-ms": "500"}


@pytest.fixture
def catalog(java: IcebergJava) -> Iterator[Any]:
    with sealberg.load_catalog("ours", type="hive", uri=java.uri, **KMS) as opened:
        yield opened


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "data": pa.array([f"d{i}" for i in ids], pa.string())})


def make(catalog: Any, name: str, **properties: str) -> Any:
    return catalog.create_table(f"db.{name}", rows().schema, properties={**ENCRYPTED, **properties})


def ids(java: IcebergJava, name: str) -> list[int]:
    return sorted(row["id"] for row in java.spark.sql(f"select id from h.db.{name}").collect())


def our_ids(catalog: Any, name: str) -> list[int]:
    return sorted(catalog.load_table(f"db.{name}").scan().to_arrow()["id"].to_pylist())


def test_java_reads_what_we_commit_without_a_warning_and_warns_where_the_hash_is_missing(
    java: IcebergJava, catalog: Any
) -> None:
    table = make(catalog, "ours")
    with java.warnings() as said:
        assert ids(java, "ours") == []
        for i in range(3):
            table.append(rows(i, 10 + i))
            assert len(ids(java, "ours")) == 2 * i + 2
        table.delete("id = 11")
        with table.update_schema() as update:
            update.add_column("more", LongType())
        assert ids(java, "ours") == [0, 1, 2, 10, 12]
    assert said == []
    set_parameters(catalog, "db.ours", {"metadata_hash": None})
    with java.warnings() as said:
        assert ids(java, "ours") == our_ids(catalog, "ours")
    assert any("hash" in line for line in said)


def test_java_fills_a_table_that_we_made_under_the_kek_that_came_with_it(java: IcebergJava, catalog: Any) -> None:
    (kek,) = make(catalog, "empty").metadata.encryption_keys
    java.spark.sql("insert into h.db.empty values (1, 'd1')")
    catalog.load_table("db.empty").append(rows(2))
    assert ids(java, "empty") == our_ids(catalog, "empty") == [1, 2]
    keys = catalog.load_table("db.empty").metadata.encryption_keys
    assert {entry.encrypted_by_id for entry in keys if entry.key_id != kek.key_id} == {kek.key_id}


@pytest.mark.parametrize("version", ["1", "2"])
def test_java_reads_and_writes_a_table_that_we_upgraded(java: IcebergJava, catalog: Any, version: str) -> None:
    name = f"upgraded{version}"
    table = catalog.create_table(f"db.{name}", rows().schema, properties={"format-version": version})
    table.append(rows(1, 2))
    with table.transaction() as change:
        change.upgrade_table_version(3)
    assert ids(java, name) == [1, 2]
    java.spark.sql(f"insert into h.db.{name} values (3, 'd3')")
    table.refresh().append(rows(4))
    assert ids(java, name) == our_ids(catalog, name) == [1, 2, 3, 4]
    lineage = "id, _row_id, _last_updated_sequence_number"
    theirs = [tuple(row) for row in java.spark.sql(f"select {lineage} from h.db.{name} order by id").collect()]
    mine = table.scan(selected_fields=tuple(lineage.split(", "))).to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in mine] == theirs


@pytest.mark.parametrize("engine", [None, "true", "false"])
def test_the_parameters_are_those_that_java_writes(java: IcebergJava, catalog: Any, engine: str | None) -> None:
    """Java's next commit, which changes one property, finds nothing else to change."""
    element = StructType(NestedField(7, "q", DoubleType(), required=False))
    schema = Schema(
        NestedField(1, "id", LongType(), required=True, doc='a "doc" é'),
        NestedField(2, "data", StringType(), required=False),
        NestedField(3, "at", TimestamptzType(), required=False),
        NestedField(5, "ls", ListType(6, element, element_required=False), required=False),
        identifier_field_ids=[1],
    )
    read_by = {"engine.hive.enabled": engine} if engine else {}
    name = f"parameters_{engine or 'unsaid'}"
    table = catalog.create_table(
        f"db.{name}",
        schema,
        partition_spec=PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket")),
        sort_order=SortOrder(SortField(2, IdentityTransform())),
        properties={**ENCRYPTED, "gc.enabled": "true", "gone": "soon", "owner": "mé", **read_by},
    )
    table.append(pa.Table.from_pylist([{"id": i, "data": "x"} for i in range(5)], schema=table.schema().as_arrow()))
    with table.transaction() as transaction:
        transaction.remove_properties("gone")
    before, format_before = java.parameters(table), java.formats(table)
    assert "gone" not in before
    assert ("HiveIcebergInputFormat" in format_before[0]) is (engine == "true")
    java.spark.sql(f"alter table h.db.{name} set tblproperties ('theirs' = '1')")
    after = java.parameters(table)
    assert java.formats(table) == format_before
    moving = {"metadata_location", "previous_metadata_location", "metadata_hash", "transient_lastDdlTime"}
    assert after.pop("theirs") == "1"
    assert {k: v for k, v in before.items() if k not in moving} == {k: v for k, v in after.items() if k not in moving}
    assert after["previous_metadata_location"] == before["metadata_location"]
    assert {"current-schema", "default-partition-spec", "default-sort-order", "current-snapshot-summary"} <= set(after)
    columns = [(row["col_name"], row["data_type"]) for row in java.spark.sql(f"describe h.db.{name}").collect()]
    assert ("ls", "array<struct<q:double>>") in columns


def test_each_commits_on_top_of_the_other(java: IcebergJava, catalog: Any) -> None:
    spark = java.spark
    spark.sql(
        "create table h.db.turns (id bigint, data string) using iceberg tblproperties "
        "('format-version'='3', 'encryption.key-id'='keyA', 'encryption.data-key-length'='16', "
        "'write.delete.mode'='merge-on-read')"
    )
    spark.sql("insert into h.db.turns values (1, 'a'), (2, 'b')")
    table = catalog.load_table("db.turns")
    table.append(rows(3, 4))
    spark.sql("insert into h.db.turns values (5, 'e')")
    table.append(rows(6))  # from metadata that are older than Java's commit
    spark.sql("delete from h.db.turns where id = 3")
    catalog.load_table("db.turns").delete("id = 1")
    spark.sql("update h.db.turns set data = 'new' where id = 5")
    assert ids(java, "turns") == our_ids(catalog, "turns") == [2, 4, 5, 6]
    spark.sql("alter table h.db.turns add column more bigint")
    spark.sql("alter table h.db.turns rename to h.db.their_turn")
    with catalog.load_table("db.their_turn").update_schema() as update:
        update.rename_column("more", "most")
    catalog.rename_table("db.their_turn", "db.our_turn").append(
        rows(7).append_column("most", pa.array([70], pa.int64()))
    )
    assert spark.sql("select most from h.db.our_turn where id = 7").collect()[0]["most"] == 70
    assert ids(java, "our_turn") == our_ids(catalog, "our_turn") == [2, 4, 5, 6, 7]
    spark.sql("call h.system.expire_snapshots(table => 'db.our_turn', older_than => now(), retain_last => 1)")
    assert ids(java, "our_turn") == our_ids(catalog, "our_turn")
    catalog.purge_table("db.our_turn")
    assert not spark.catalog.tableExists("h.db.our_turn")


def test_java_refuses_what_we_refuse(java: IcebergJava, catalog: Any) -> None:
    table = make(catalog, "refused")
    older = table.metadata_location
    table.append(rows(1))
    for change in (
        {"metadata_location": older},
        {"metadata_hash": "AAAA"},
        {"metadata_hash": None, "encryption.key-id": "keyB"},
    ):
        before = java.parameters(table)
        set_parameters(catalog, "db.refused", change)
        with pytest.raises(TrustError):
            catalog.load_table("db.refused")
        with pytest.raises(Exception, match="might have been modified"):
            ids(java, "refused")
        set_parameters(catalog, "db.refused", {key: before[key] for key in change})
    assert ids(java, "refused") == our_ids(catalog, "refused") == [1]


def test_both_at_once_lose_nothing(java: IcebergJava, catalog: Any) -> None:
    make(catalog, "race", **PATIENT)
    failed: list[BaseException] = []

    def run(commit: Any) -> None:
        try:
            for i in range(6):
                commit(i)
        except BaseException as error:
            failed.append(error)

    def ours(i: int) -> None:
        catalog.load_table("db.race").append(rows(i))

    def theirs(i: int) -> None:
        java.spark.sql(f"insert into h.db.race values ({100 + i}, 'java')")

    both = [threading.Thread(target=run, args=(commit,)) for commit in (ours, theirs)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert [str(error) for error in failed] == []  # an error of Java brings its stack
    assert ids(java, "race") == our_ids(catalog, "race") == [*range(6), *range(100, 106)]
    table = catalog.load_table("db.race")
    assert len(table.metadata.snapshots) == 12
    for snapshot in table.metadata.snapshots:  # every one of them has its key
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows == snapshot.sequence_number
