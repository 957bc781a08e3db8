"""Statistics beside Iceberg Java: the same sketches, tables that Java still reads, and plaintext that Java left."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import sealberg
from kit.programs.iceberg_java import KMS, IcebergJava
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.puffin.container import read_blob, read_footer
from sealberg.files.puffin.theta_sketch import ThetaSketch
from sealberg.files.seal import seal_bytes
from sealberg.jobs import partition_stats, stats, stats_removal, verify
from sealberg.metadata.statistics import needed_keys
from sealberg.table.statistics import open_key, read_partition_statistics, read_sketches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.table.catalog_table import CatalogTable

NAMES = itertools.count()
COLUMNS = {
    "flag": "id % 2 = 0",
    "small": "cast(id % 1000 as int)",
    "number": "id",
    "share": "cast(id as float)",
    "ratio": "id / 3",
    "day": "date_add(date'2024-01-01', cast(id % 365 as int))",
    "at": "timestamp_micros(id * 1000)",
    "local_at": "cast(timestamp_micros(id) as timestamp_ntz)",
    "name": "if(id % 10 = 0, '', concat('name ', id))",
    "long_name": "if(id % 7 = 0, null, repeat(cast(id as string), 9))",
    "raw": "cast(concat('b', id) as binary)",
    "amount": "cast(id * 7 - 5000 as decimal(9, 2))",
    "large_amount": "cast(id as decimal(10, 0)) * cast(1234567890123.4567 as decimal(17, 4))",
}
ROWS = ", ".join(f"{value} as {name}" for name, value in COLUMNS.items())
SEALED = "tblproperties ('encryption.key-id'='keyA', 'format-version'='3')"


@pytest.fixture
def catalog(java: IcebergJava) -> Iterator[Any]:
    with sealberg.load_catalog("ours", type="hive", uri=java.uri, **KMS) as opened:
        yield opened


def made(java: IcebergJava, count: int, properties: str = SEALED) -> str:
    name = f"stats{next(NAMES)}"
    java.spark.sql(f"create table h.db.{name} using iceberg {properties} as select {ROWS} from range(1, {count + 1})")
    return name


def compute_in_java(java: IcebergJava, name: str) -> str:
    (row,) = java.spark.sql(f"call h.system.compute_table_stats(table => 'db.{name}')").collect()
    return str(row["statistics_file"])


def sketches(content: bytes) -> dict[int, bytes]:
    """The blobs of a Puffin file by field id."""
    sealed, key = seal_bytes(content)
    with Ags1Reader(sealed, key) as reader:
        return {blob.fields[0]: read_blob(reader, blob) for blob in read_footer(reader).blobs}


def own_sketches(table: CatalogTable) -> dict[int, bytes]:
    (file,) = table.metadata.statistics
    key = open_key(table.metadata, table.io, file)  # type: ignore[arg-type]
    assert key is not None
    with Ags1Reader(local(file.statistics_path).read_bytes(), key) as reader:
        return {blob.fields[0]: read_blob(reader, blob) for blob in read_footer(reader).blobs}


def local(location: str) -> Path:
    return Path(location.removeprefix("file:"))


def count_in_java(java: IcebergJava, name: str) -> int:
    java.spark.sql(f"refresh table h.db.{name}")
    (row,) = java.spark.sql(f"select count(*) c from h.db.{name}").collect()
    return int(row["c"])


def test_sketches_of_every_type_are_those_of_java_byte_for_byte(java: IcebergJava, catalog: Any) -> None:
    plain = made(java, 2500, "tblproperties ('format-version'='3')")
    theirs = sketches(local(compute_in_java(java, plain)).read_bytes())
    table = catalog.load_table(f"db.{made(java, 2500)}")
    counted = stats.plan(table).execute()
    ours = own_sketches(table)
    differ = [name for at, name in enumerate(COLUMNS, 1) if ours[at] != theirs[at]]
    assert differ == []
    assert dict(counted.distinct) == {
        name: ThetaSketch.decode(theirs[at]).estimate for at, name in enumerate(COLUMNS, 1)
    }


def test_estimates_of_many_values_are_near_those_of_java(java: IcebergJava, catalog: Any) -> None:
    plain = made(java, 60_000, "tblproperties ('format-version'='3')")
    theirs = sketches(local(compute_in_java(java, plain)).read_bytes())
    counted = dict(stats.plan(catalog.load_table(f"db.{made(java, 60_000)}")).execute().distinct)
    for at, name in enumerate(COLUMNS, 1):
        assert counted[name] == pytest.approx(ThetaSketch.decode(theirs[at]).estimate, rel=0.08), name


def test_java_plans_with_our_statistics_and_ignores_what_it_cannot_see(java: IcebergJava, catalog: Any) -> None:
    name = made(java, 100)
    stats.plan(catalog.load_table(f"db.{name}")).execute()
    settings = {"spark.sql.cbo.enabled": "true", "spark.sql.iceberg.report-column-stats": "true"}
    for key, value in settings.items():
        java.spark.conf.set(key, value)
    try:
        java.spark.sql(f"refresh table h.db.{name}")
        (row,) = java.spark.sql(
            f"select count(*) c from h.db.{name} a join h.db.{name} b on a.number = b.number where a.small > 5"
        ).collect()
        assert row["c"] == 95
    finally:
        for key in settings:
            java.spark.conf.unset(key)


def test_the_key_survives_a_commit_of_java(java: IcebergJava, catalog: Any) -> None:
    name = made(java, 100)
    table = catalog.load_table(f"db.{name}")
    counted = stats.plan(table).execute()
    java.spark.sql(f"insert into h.db.{name} select {ROWS} from range(101, 111)")
    table.refresh()
    footer = read_sketches(table.metadata, table.io, counted.snapshot_id or 0)
    assert footer is not None
    assert [blob.properties["ndv"] for blob in footer.blobs][:2] == ["2", "100"]
    assert verify.plan(table).execute().exit_code == 0
    stats.plan(table).execute()
    assert count_in_java(java, name) == 110


def test_java_expires_a_snapshot_with_its_statistics_and_leaves_a_key_that_nothing_needs(
    java: IcebergJava, catalog: Any
) -> None:
    name = made(java, 100)
    table = catalog.load_table(f"db.{name}")
    counted = stats.plan(table).execute()
    java.spark.sql(f"insert into h.db.{name} select {ROWS} from range(101, 111)")
    java.spark.sql(
        f"call h.system.expire_snapshots(table => 'db.{name}', snapshot_ids => array({counted.snapshot_id}))"
    )
    table.refresh()
    assert not table.metadata.statistics
    assert not local(counted.location or "").exists()
    unused = {entry.key_id for entry in table.metadata.encryption_keys if entry.timestamp is None}
    assert len(unused - needed_keys(table.metadata)) == 2  # of the list and of the statistics


def test_plaintext_statistics_of_java_are_found_and_removed(java: IcebergJava, catalog: Any) -> None:
    name = made(java, 100)
    left = local(compute_in_java(java, name))
    table = catalog.load_table(f"db.{name}")
    found = verify.plan(table).execute().findings
    assert [(each.code, each.file) for each in found] == [("plaintext", table.metadata.statistics[0].statistics_path)]
    stats_removal.plan(table, plaintext=True).execute()
    assert not left.exists()
    assert verify.plan(table).execute().exit_code == 0
    assert count_in_java(java, name) == 100


PARTITIONED_BY = "small, name, day, days(at), amount, bucket(4, number), truncate(2, long_name)"


def test_partition_statistics_are_those_of_java_and_java_reads_on(java: IcebergJava, catalog: Any) -> None:
    name = f"stats{next(NAMES)}"
    more = SEALED.replace("tblproperties (", "tblproperties ('write.delete.mode'='merge-on-read', ")
    select = f"select {ROWS} from range(1, 31)"
    java.spark.sql(f"create table h.db.{name} using iceberg partitioned by ({PARTITIONED_BY}) {more} as {select}")
    java.spark.sql(f"insert into h.db.{name} {select}")
    java.spark.sql(f"delete from h.db.{name} where number = 7")
    java.spark.sql(f"alter table h.db.{name} drop partition field day")
    java.spark.sql(f"insert into h.db.{name} {select}")
    call = f"call h.system.compute_partition_stats('db.{name}')"
    plaintext = local(java.spark.sql(call).collect()[0]["partition_statistics_file"])
    theirs = pq.read_table(plaintext)
    table = catalog.load_table(f"db.{name}")
    assert [each.code for each in verify.plan(table).execute().findings] == ["plaintext"]

    done = partition_stats.plan(table).execute()
    table.refresh()
    ours = read_partition_statistics(table.metadata, table.io, done.snapshot_id or 0)
    assert ours is not None
    assert ours.to_pylist() == theirs.to_pylist()
    assert [(each.name, each.metadata) for each in ours.schema] == [
        (each.name, each.metadata) for each in theirs.schema
    ]
    assert not plaintext.exists()
    assert verify.plan(table).execute().findings == ()

    assert java.spark.sql(call).collect()[0]["partition_statistics_file"] == done.location
    java.spark.sql(f"insert into h.db.{name} {select}")
    assert count_in_java(java, name) == 118
    later = local(java.spark.sql(call).collect()[0]["partition_statistics_file"])  # it cannot read ours, and counts all
    assert pq.read_table(later)["data_record_count"].to_pylist()
    java.spark.sql(f"call h.system.expire_snapshots(table => 'db.{name}', older_than => now(), retain_last => 1)")
    assert not local(done.location or "").exists()
    assert count_in_java(java, name) == 118
