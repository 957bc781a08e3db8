"""Iceberg's DDL with both extensions in one session: each catalog's tables go to their own, and both agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
