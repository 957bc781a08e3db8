"""Iceberg's DDL with both extensions in one session: each catalog's tables go to their own, and both agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import ParseException

if TYPE_CHECKING:
    from kit.tables.three import Three

pytestmark = pytest.mark.slow


def test_partition_fields_orders_and_refs_by_both_are_seen_by_both(three: Three) -> None:
    name = "ddl_by_both"
    three.sql(
        "java",
        "CREATE TABLE {t} (id bigint, day date) USING iceberg TBLPROPERTIES ('format-version' = '3', "
        "'encryption.key-id' = 'keyA')",
        name,
    )
    three.sql("java", "INSERT INTO {t} VALUES (1, DATE '2026-01-01')", name)
    three.sql("java", "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)", name)
    three.sql("spark", "ALTER TABLE {t} ADD PARTITION FIELD months(day) AS month", name)
    three.sql("spark", "INSERT INTO {t} VALUES (2, DATE '2026-02-01')", name)
    three.sql("java", "ALTER TABLE {t} DROP PARTITION FIELD month", name)
    three.sql("spark", "ALTER TABLE {t} REPLACE PARTITION FIELD bucket(4, id) WITH bucket(8, id)", name)
    three.sql("java", "INSERT INTO {t} VALUES (3, DATE '2026-03-01')", name)
    three.sql("spark", "ALTER TABLE {t} WRITE ORDERED BY id DESC", name)
    three.sql("java", "ALTER TABLE {t} CREATE BRANCH audit", name)
    three.sql("spark", "ALTER TABLE {t} CREATE TAG done RETAIN 2 DAYS", name)
    three.agreed(name)
    metadata = three.table(name).metadata
    assert [(field.name, str(field.transform)) for field in metadata.spec().fields] == [("id_bucket_8", "bucket[8]")]
    assert set(metadata.refs) == {"main", "audit", "done"}
    (shown,) = three.sql("java", "SHOW TBLPROPERTIES {t} ('sort-order')", name)
    assert shown["value"] == "id DESC NULLS LAST"


def test_a_syntax_error_of_icebergs_parser_is_one_of_sparks(three: Three) -> None:
    """Behind our parser, where the error came as an UndeclaredThrowableException."""
    with pytest.raises(ParseException, match=r"(?s)Syntax error at or near 'FIELDS': .*'FIELDS'.*\^\^\^"):
        three.sql("java", "ALTER TABLE {t}\n ADD PARTITION FIELDS id", "nothing")


ICEBERG = [
    "rollback_to_snapshot",
    "rollback_to_timestamp",
    "set_current_snapshot",
    "cherrypick_snapshot",
    "publish_changes",
    "fast_forward",
    "expire_snapshots",
    "remove_orphan_files",
    "rewrite_data_files",
    "rewrite_manifests",
    "rewrite_position_delete_files",
    "ancestors_of",
    "register_table",
    "add_files",
    "snapshot",
    "migrate",
    "compute_table_stats",
    "compute_partition_stats",
]


def test_procedures_have_the_arguments_of_icebergs_in_their_order(three: Three) -> None:
    """So a call by position means the same. Spark tells an argument that must be given by its lack of a default."""
    session: Any = three.java.spark._jsparkSession
    jvm: Any = three.java.spark.sparkContext._jvm
    manager = session.sessionState().catalogManager()
    namespace = three.java.spark.sparkContext._gateway.new_array(jvm.java.lang.String, 1)  # type: ignore[union-attr]
    namespace[0] = "system"

    def arguments(catalog: str, name: str) -> list[tuple[str, str, bool]]:
        identifier = jvm.org.apache.spark.sql.connector.catalog.Identifier.of(namespace, name)
        bound = manager.catalog(catalog).loadProcedure(identifier).bind(jvm.org.apache.spark.sql.types.StructType())
        return [
            (each.name(), each.dataType().simpleString(), each.defaultValue() is None) for each in bound.parameters()
        ]

    differ = {
        name: (ours, java) for name in ICEBERG if (ours := arguments("ours", name)) != (java := arguments("h", name))
    }
    assert differ == {}


def test_a_table_that_was_replaced_again_and_again_is_loaded_by_java(three: Three) -> None:
    name = "ddl_replaced"
    properties = "TBLPROPERTIES ('encryption.key-id' = 'keyA')"
    three.sql("spark", f"CREATE TABLE {{t}} (id bigint, s string) PARTITIONED BY (bucket(4, id)) {properties}", name)
    for number in range(3):
        three.sql("spark", f"CREATE OR REPLACE TABLE {{t}} (id bigint, s string, n int) {properties}", name)
        three.sql("spark", f"INSERT INTO {{t}} VALUES ({number}, 'a', 1)", name)
    three.sql("spark", f"REPLACE TABLE {{t}} {properties} AS SELECT 5L AS id, 'b' AS s", name)
    three.sql("java", "INSERT INTO {t} VALUES (6, 'c')", name)
    three.agreed(name)
