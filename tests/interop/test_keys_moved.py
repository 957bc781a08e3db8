"""Tables of Iceberg Java on a Hive Metastore under other keys: Java reads, writes and compacts what the jobs left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from kit.programs.iceberg_java import KMS, IcebergJava
from sealberg.errors import FormatError
from sealberg.jobs import change_master, decrypt, rekey, verify

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


def test_pages_of_version_2_by_java_are_written_again_by_rekey_and_opened_by_decrypt(
    java: IcebergJava, catalog: Any
) -> None:
    java.spark.sql(
        "create table h.db.pages (id bigint not null, data string, tags array<string>) using iceberg tblproperties "
        "('format-version'='3', 'encryption.key-id'='keyA', 'write.delete.mode'='merge-on-read', "
        "'write.parquet.page-version'='v2')"
    )
    for first in (0, 500):
        java.spark.sql(
            "insert into h.db.pages select /*+ coalesce(1) */ id, if(id % 3 = 0, null, concat('d', id)), "
            f"if(id % 4 = 0, null, array('a', concat('b', id))) from range({first}, {first + 500})"
        )
    java.spark.sql("delete from h.db.pages where id % 10 = 1")
    columns = "id, data, tags, _row_id, _last_updated_sequence_number"
    asked = f"select {columns} from h.db.pages order by id"
    before = java.spark.sql(asked).collect()
    with pytest.raises(FormatError, match="altered or damaged, or it has pages of version 2 by Iceberg Java"):
        catalog.load_table("db.pages").scan().to_arrow()
    damaged = verify.plan("db.pages", catalog=catalog).execute()
    assert {finding.code for finding in damaged.findings} == {"plaintext"}
    opened = decrypt.plan("db.pages", "db.pages_open", reason="a test", catalog=catalog).execute()
    assert opened.decoded == 0
    rows = "select id, data, tags from h.db.{} order by id"
    assert java.spark.sql(rows.format("pages_open")).collect() == java.spark.sql(rows.format("pages")).collect()
    result = rekey.plan("db.pages", catalog=catalog, erase=True).execute()
    assert result.decoded == 2
    java.spark.sql("refresh table h.db.pages")
    with java.warnings() as said:
        assert java.spark.sql(asked).collect() == before
    assert said == []
    found = verify.plan("db.pages", catalog=catalog, level="deep", orphan_age=timedelta(0)).execute()
    assert (found.findings, found.not_checked) == ((), ())
    ours = catalog.load_table("db.pages").scan(selected_fields=tuple(columns.split(", "))).to_arrow().sort_by("id")
    assert [tuple(row.values()) for row in ours.to_pylist()] == [tuple(row) for row in before]
