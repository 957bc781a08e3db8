"""Snapshots that one stages and another publishes; Java, Python and Spark read the same rows afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kit.tables.three import Three

CREATE = (
    "CREATE TABLE {t} (id bigint, kind string) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES "
    "('format-version' = '3', 'encryption.key-id' = 'keyA', 'write.wap.enabled' = 'true')"
)


def staged(three: Three, writer: str, wap_id: str, statement: str) -> None:
    conf: Any = three.java.spark.conf
    conf.set("spark.wap.id", wap_id)
    try:
        three.sql(writer, statement, "wap")
    finally:
        conf.unset("spark.wap.id")


def ids(three: Three) -> list[str]:
    return sorted(dict(row)["id"] for row in three.agreed("wap").elements())


def test_java_and_we_publish_what_the_other_staged(three: Three) -> None:
    three.sql("java", CREATE, "wap")
    three.sql("java", "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')", "wap")
    table: Any = three.table("wap")
    staged(three, "java", "of-java", "INSERT INTO {t} VALUES (3, 'a')")
    staged(three, "spark", "of-us", "INSERT INTO {t} VALUES (4, 'a')")
    assert ids(three) == ["1", "2"]
    table.manage_snapshots().publish_changes("of-java").commit()  # a fast-forward
    three.sql("java", "CALL {c}.system.publish_changes('{name}', 'of-us')", "wap")  # a replay, by Java, of our files
    assert ids(three) == ["1", "2", "3", "4"]
    staged(three, "java", "more-of-java", "INSERT INTO {t} VALUES (5, 'b')")
    three.sql("spark", "INSERT INTO {t} VALUES (6, 'b')", "wap")
    table.manage_snapshots().publish_changes("more-of-java").commit()  # a replay, by us, of Java's files
    assert ids(three) == ["1", "2", "3", "4", "5", "6"]
    summary = table.current_snapshot().summary
    assert (summary["published-wap-id"], summary["added-records"]) == ("more-of-java", "1")


def test_java_picks_partitions_that_we_replaced(three: Three) -> None:
    three.sql("java", CREATE.replace("{t}", "{t}_dyn"), "wap")
    three.sql("java", "INSERT INTO {t}_dyn VALUES (1, 'a'), (2, 'b')", "wap")
    table: Any = three.table("wap_dyn")
    conf: Any = three.java.spark.conf
    conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        staged(three, "spark", "w", "INSERT OVERWRITE {t}_dyn VALUES (9, 'a')")
    finally:
        conf.unset("spark.sql.sources.partitionOverwriteMode")
    three.sql("spark", "INSERT INTO {t}_dyn VALUES (3, 'b')", "wap")
    three.sql("java", "CALL {c}.system.publish_changes('{name}_dyn', 'w')", "wap")
    assert sorted(dict(row)["id"] for row in three.agreed("wap_dyn").elements()) == ["2", "3", "9"]
    assert table.refresh().current_snapshot().summary["published-wap-id"] == "w"
