"""Tables of Iceberg Java on a Hive Metastore under other keys: Java reads, writes and compacts what the jobs left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from kit.programs.iceberg_java import KMS, IcebergJava
from sealberg.jobs import change_master, rekey, verify

if TYPE_CHECKING:
    from collections.abc import Iterator

LINEAGE = "id, data, _row_id, _last_updated_sequence_number"


@pytest.fixture
def catalog(java: IcebergJava) -> Iterator[Any]:
    with sealberg.load_catalog("ours", type="hive", uri=java.uri, **KMS) as opened:
        yield opened


def make(java: IcebergJava, name: str) -> None:
    java.spark.sql(
        f"create table h.db.{name} (id bigint, data string) using iceberg partitioned by (bucket(2, id)) tblproperties "
        "('format-version'='3', 'encryption.key-id'='keyA', 'write.delete.mode'='merge-on-read', "
        "'write.update.mode'='merge-on-read')"
    )
    for first in (0, 10, 20):
        values = ", ".join(f"({each}, 'd{each}')" for each in range(first, first + 10))
        java.spark.sql(f"insert into h.db.{name} values {values}")
    java.spark.sql(f"alter table h.db.{name} create tag first")
    java.spark.sql(f"delete from h.db.{name} where id in (3, 14, 25)")
    java.spark.sql(f"update h.db.{name} set data = 'new' where id = 7")


def seen(java: IcebergJava, name: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in java.spark.sql(f"select {LINEAGE} from h.db.{name} order by id").collect()]


def go_on(java: IcebergJava, catalog: Any, name: str) -> None:
    """Java writes, deletes and compacts, and both read the same."""
    java.spark.sql(f"insert into h.db.{name} values (100, 'x')")
    java.spark.sql(f"delete from h.db.{name} where id in (5, 100)")
    java.spark.sql(f"call h.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))")
    rows = catalog.load_table(f"db.{name}").scan(selected_fields=tuple(LINEAGE.split(", "))).to_arrow()
    assert sorted(tuple(row.values()) for row in rows.to_pylist()) == seen(java, name)
    assert len(rows) == 26


def test_java_goes_on_with_a_table_under_another_master_key(java: IcebergJava, catalog: Any) -> None:
    make(java, "changed")
    before = seen(java, "changed")
    change_master.plan("db.changed", "keyB", catalog=catalog, history=True, drop_old=True).execute()
    with java.warnings() as said:
        assert seen(java, "changed") == before
        assert len(java.spark.sql("select * from h.db.changed version as of 'first'").collect()) == 30
    assert said == []
    go_on(java, catalog, "changed")


def test_java_goes_on_with_files_under_new_keys(java: IcebergJava, catalog: Any) -> None:
    make(java, "rekeyed")
    before = seen(java, "rekeyed")
    result = rekey.plan("db.rekeyed", catalog=catalog, batch_files=4, erase=True).execute()
    assert (result.commits > 1, result.remains.snapshots) == (True, ())
    with java.warnings() as said:
        assert seen(java, "rekeyed") == before
    assert said == []
    found = verify.plan("db.rekeyed", catalog=catalog, level="deep", orphan_age=timedelta(0)).execute()
    assert (found.findings, found.not_checked) == ((), ())
    go_on(java, catalog, "rekeyed")
