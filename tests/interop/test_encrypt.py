"""Plaintext tables of Java's on a Hive Metastore, encrypted by us: Java, Python and Spark read the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sealberg.jobs import decrypt, encrypt
from sealberg.jobs.verify import plan as verify
from sealberg.spark.job_runner import SparkRunner

if TYPE_CHECKING:
    from kit.tables.three import Three

MORE = (
    "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
    "'write.parquet.bloom-filter-enabled.column.data' = 'true'"
)


def made_by_java(three: Three, name: str, version: int) -> None:
    """Position deletes in version 2, deletion vectors in version 3, bloom filters, lists and structs."""
    three.sql(
        "java",
        "CREATE TABLE {t} (id bigint COMMENT 'the key', data string, kind string, tags array<string>, "
        "place struct<x: double, y: int>) USING iceberg PARTITIONED BY (kind) "
        f"TBLPROPERTIES ('format-version' = '{version}', {MORE})",
        name,
    )
    for step in range(3):
        values = ", ".join(
            f"({i}, 'row {i}', '{'xy'[i % 2]}', array('a', 'b{i}'), named_struct('x', {i}.5D, 'y', {i}))"
            for i in range(step * 8, step * 8 + 8)
        )
        three.sql("java", f"INSERT INTO {{t}} VALUES {values}", name)
    three.sql("java", "DELETE FROM {t} WHERE id % 5 = 1", name)
    three.sql("java", "UPDATE {t} SET data = 'changed' WHERE id = 12", name)
    three.sql("java", "ALTER TABLE {t} CREATE TAG early", name)
    three.sql("java", "INSERT INTO {t} VALUES (100, 'last', 'x', NULL, NULL)", name)


def read(three: Three, name: str) -> list[Any]:
    return sorted(three.java.spark.sql(f"SELECT * FROM h.db.{name}").collect(), key=lambda row: row["id"])


@pytest.mark.parametrize("version", [2, 3])
def test_java_reads_its_own_plaintext_table_after_we_encrypted_it(three: Three, version: int) -> None:
    name, target = f"open{version}", f"sealed{version}"
    made_by_java(three, name, version)
    runner = SparkRunner(three.java.spark) if version == 3 else None
    options: dict[str, Any] = {"key_id": "keyA", "catalog": three.catalog, "history": True}
    result = encrypt.plan(f"db.{name}", f"db.{target}", **options).execute(runner=runner)
    assert result.decoded == 0
    assert read(three, target) == read(three, name)
    by_tag = "SELECT count(*) FROM h.db.{} VERSION AS OF 'early'"
    assert three.java.spark.sql(by_tag.format(target)).collect() == three.java.spark.sql(by_tag.format(name)).collect()
    filtered = three.java.spark.sql(f"SELECT id FROM h.db.{target} WHERE data = 'row 7' AND kind = 'y'").collect()
    assert [row["id"] for row in filtered] == [7]
    agreed = three.agreed(target)
    # Java goes on writing.
    three.sql("java", "DELETE FROM {t} WHERE id = 2", target)
    three.sql("java", "INSERT INTO {t} VALUES (101, 'after', 'y', array(), NULL)", target)
    assert len(three.agreed(target)) == len(agreed)
    assert verify(f"db.{target}", catalog=three.catalog, level="full").execute().exit_code == 0


def test_java_reads_a_table_that_we_decrypted(three: Three) -> None:
    made_by_java(three, "again", 3)
    encrypt.plan("db.again", "db.again_sealed", key_id="keyA", catalog=three.catalog).execute()
    decrypt.plan("db.again_sealed", "db.again_open", reason="a test", catalog=three.catalog).execute()
    assert read(three, "again_open") == read(three, "again")


def test_swap_on_a_metastore_gives_java_the_encrypted_table_under_the_old_name(three: Three) -> None:
    made_by_java(three, "named", 2)
    before = read(three, "named")
    encrypt.plan("db.named", "db.named_old", key_id="keyA", catalog=three.catalog, swap=True).execute()
    assert read(three, "named") == before
    assert three.table("named").metadata.properties["encryption.key-id"] == "keyA"
