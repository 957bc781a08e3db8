"""Who writes, who reads: every kind of table, written by each of three, is the same to all of them.

Java compares its own hash of each metadata.json with ours, so every table here also shows that our JSON is Java's.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec

from interop import python_tables, spark_tables, sql_tables
from kit.tables.three import Three, ours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table


# What Java does with tables of ours. Wherever it can commit, we must agree on what it made.
BRIEFLY: Final = (
    "insert into {t} select * from {t} where id < 3",
    "delete from {t} where id = 2",
)
AT_LENGTH: Final = (
    "insert into {t} select * from {t} where id < 4",
    "alter table {t} set tblproperties ('write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
    "'write.merge.mode'='merge-on-read')",
    "delete from {t} where id in (2, 6, 11)",
    "update {t} set data = 'java' where id in (1, 9, 12)",
    "merge into {t} t using (select 0 as k union all select 8) s on t.id = s.k "
    "when matched then update set data = 'merged'",
    "alter table {t} set tblproperties ('write.delete.mode'='copy-on-write')",
    "delete from {t} where id = 0",
    "call h.system.rewrite_manifests('{name}')",
    "call h.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
    "call h.system.expire_snapshots(table => '{name}', older_than => timestamp '2100-01-01 00:00:00', "
    "retain_last => 2)",
    "insert into {t} select * from {t} limit 2",
)
AFTERWARDS: Final[dict[str, Sequence[str]]] = {
    "empty": ("insert into {t} values (1, 'a', 'x', null), (2, 'b', null, null)",),
    "of_no_rows": (),
    "nested_in_avro": (),
    "partitioned_in_several_ways": AT_LENGTH,
    "merged_on_read": AT_LENGTH,
    "with_long_manifests": ("call h.system.rewrite_manifests('{name}')",),
}


@pytest.mark.parametrize("make", python_tables.KINDS, ids=lambda make: make.__name__)
def test_written_by_python(three: Three, make: Any) -> None:
    name = f"python_{make.__name__}"

    def new(
        schema: Schema = python_tables.SCHEMA, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC, **more: str
    ) -> Any:
        properties = {"encryption.key-id": "keyA", **more}
        return three.catalog.create_table(f"db.{name}", schema, partition_spec=spec, properties=properties)

    make(new)
    check(three, name)
    check_filters(three, name)
    for statement in AFTERWARDS.get(make.__name__, BRIEFLY):
        three.sql("java", statement, name)
        three.agreed(name)
    assert_encrypted(three.table(name))


@pytest.mark.parametrize("kind", [*sql_tables.KINDS, *sql_tables.JAVA_KINDS])
def test_written_by_java(three: Three, kind: str) -> None:
    write_with_sql(three, "java", kind, {**sql_tables.KINDS, **sql_tables.JAVA_KINDS}[kind])


@pytest.mark.parametrize("kind", [*sql_tables.KINDS, *spark_tables.KINDS])
def test_written_by_us_on_spark(three: Three, kind: str) -> None:
    write_with_sql(three, "spark", kind, {**sql_tables.KINDS, **spark_tables.KINDS}[kind])


def write_with_sql(three: Three, writer: str, kind: str, steps: Sequence[spark_tables.Step]) -> None:
    name = f"{writer}_{kind}"
    for step in steps:
        if isinstance(step, str):
            three.sql(writer, step, name)
        else:
            step(three.table(name))
    check(three, name)
    assert_encrypted(three.table(name))


# -- how they agree -----------------------------------------------------------------------------------


def check(three: Three, name: str) -> None:
    three.agreed(name)
    table = three.table(name)
    for snapshot in table.metadata.snapshots[-4:]:
        three.agreed(name, snapshot.snapshot_id)
    for ref in table.metadata.refs:
        three.agreed(name, ref)
    files = three.sql("java", "select file_path, record_count, file_size_in_bytes from {t}.files", name)
    assert Counter(tuple(one.values()) for one in files) == Counter(
        (str(file.file_path), file.record_count, file.file_size_in_bytes) for file in files_of(table)
    )


def check_filters(three: Three, name: str) -> None:
    """Java finds a row by its values, so bounds and partitions of our files are what Java takes them for."""
    found = ours(three.table(name))
    for row in found[:3]:
        for column in {"id", "data", "kind", "at", "small", "day"} & row.keys():
            value = row[column]
            text = "is null" if value is None else f"= {literal(value)}"
            counts = three.sql("java", f"select count(*) as n from {{t}} where `{column}` {text}", name)
            assert counts == [{"n": sum(one[column] == value for one in found)}], (column, value)


def literal(value: Any) -> str:
    match value:
        case dt.datetime():
            return f"timestamp '{value:%Y-%m-%d %H:%M:%S.%f}'"
        case dt.date():
            return f"date '{value}'"
        case str():
            escaped = "".join(f"\\u{ord(one):04x}" if ord(one) < 0x20 else one for one in value)
            return f"'{escaped}'"
        case _:
            return str(value)


def assert_encrypted(table: Table) -> None:
    """No file of the current snapshot is there in the clear."""
    assert all(manifest.key_metadata for manifest in manifests_of(table))
    assert all(file.key_metadata for file in files_of(table))


def manifests_of(table: Table) -> list[Any]:
    head = table.metadata.current_snapshot()
    return list(head.manifests(table.io)) if head else []


def files_of(table: Table) -> list[Any]:
    return [entry.data_file for one in manifests_of(table) for entry in one.fetch_manifest_entry(table.io)]
