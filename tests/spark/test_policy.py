"""What the configuration of a catalog demands holds for SQL too: default keys, required encryption, format versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from kit.programs.spark import KEYED, properties_of
from sealberg.spark import sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.programs.spark import SparkKit

CATALOG = "strict"
NAMESPACES = ("open", "hr", "must")


@pytest.fixture(scope="module")
def free(kit: SparkKit) -> Iterator[Any]:
    """The catalog as Spark has it under this name, for Python and without what it demands."""
    own = {**properties_of(kit.folder), "encryption.required": "must", "encryption.default-key-id.hr": "hr"}
    kit.spark.conf.set(f"spark.sql.catalog.{CATALOG}", sessions.CATALOG_CLASS)
    sealberg.spark.install(kit.spark, {"prod": properties_of(kit.folder), CATALOG: own})
    with sealberg.load_catalog(CATALOG, **properties_of(kit.folder)) as catalog:
        for name in NAMESPACES:
            catalog.create_namespace(name)
        yield catalog
    kit.spark.conf.unset(f"spark.sql.catalog.{CATALOG}")


def refused(kit: SparkKit, statement: str, words: str) -> None:
    with pytest.raises(Exception, match=words):
        kit.spark.sql(statement).collect()


def test_create_and_ctas_get_the_default_key(kit: SparkKit, free: Any) -> None:
    kit.sql(f"CREATE TABLE {CATALOG}.hr.t (id bigint)")
    kit.sql(f"INSERT INTO {CATALOG}.hr.t VALUES (1)")
    kit.sql(f"CREATE TABLE {CATALOG}.hr.u AS SELECT * FROM {CATALOG}.hr.t")
    kit.sql(f"CREATE OR REPLACE TABLE {CATALOG}.hr.u AS SELECT id + 1 AS id FROM {CATALOG}.hr.t")
    for name, rows in (("hr.t", [1]), ("hr.u", [2])):
        table = free.load_table(name)
        assert (table.format_version, table.properties["encryption.key-id"]) == (3, "hr")
        assert table.scan().to_arrow()["id"].to_pylist() == rows
    kit.sql(f"CREATE TABLE {CATALOG}.open.t (id bigint)")
    assert "encryption.key-id" not in free.load_table("open.t").properties


def test_nothing_plain_is_made_or_written_where_encryption_is_required(kit: SparkKit, free: Any) -> None:
    plain = free.create_table("must.old", pa.schema([("id", pa.int64())]), properties={"format-version": "3"})
    plain.append(pa.table({"id": [1, 2]}))
    kit.sql(f"CREATE TABLE {CATALOG}.open.source AS SELECT 7L AS id")
    before = {path for path in (kit.warehouse / "must").rglob("*") if path.is_file()}
    make = r"must\.t would not be encrypted, and .* has encryption\.required=must"
    refused(kit, f"CREATE TABLE {CATALOG}.must.t (id bigint)", make)
    refused(kit, f"CREATE TABLE {CATALOG}.must.t AS SELECT * FROM {CATALOG}.open.source", make)
    refused(kit, f"CREATE OR REPLACE TABLE {CATALOG}.must.t AS SELECT * FROM {CATALOG}.open.source", make)
    refused(kit, f"ALTER TABLE {CATALOG}.open.source RENAME TO must.t", make)
    write = r"table must\.old is not encrypted, and .* it can be read but not written"
    for statement in (
        "INSERT INTO {} VALUES (3)",
        "INSERT OVERWRITE {} VALUES (3)",
        "DELETE FROM {} WHERE id = 1",
        "UPDATE {} SET id = 3 WHERE id = 1",
        f"MERGE INTO {{}} t USING {CATALOG}.open.source s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "CREATE OR REPLACE TABLE {} AS SELECT 1 AS id",
        "ALTER TABLE {} SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE {} ADD COLUMN more int",
    ):
        refused(kit, statement.format(f"{CATALOG}.must.old"), write)
    assert {path for path in (kit.warehouse / "must").rglob("*") if path.is_file()} == before
    assert kit.sql(f"SELECT * FROM {CATALOG}.must.old") == [(1,), (2,)]
    kit.sql(f"CREATE TABLE {CATALOG}.must.t {KEYED} AS SELECT * FROM {CATALOG}.must.old")
    assert kit.sql(f"SELECT * FROM {CATALOG}.must.t") == [(1,), (2,)]


def test_a_key_that_the_kms_does_not_know_makes_no_table(kit: SparkKit) -> None:
    name = kit.fresh()
    unknown = "TBLPROPERTIES ('encryption.key-id' = 'pay')"
    words = r"wrapping key pay is not found; existing keys: hr, keyA, keyB"
    refused(kit, f"CREATE TABLE {name} (id bigint) {unknown}", words)
    refused(kit, f"CREATE TABLE {name} {unknown} AS SELECT 1 AS id", words)
    assert not kit.catalog.table_exists(name.removeprefix("prod."))


def test_a_plain_table_is_upgraded_and_none_is_downgraded(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('format-version' = '2')")
    kit.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '3', 'color' = 'red')")
    assert kit.table(name).format_version == 3
    assert kit.table(name).properties == {"color": "red"}
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    kit.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '3')")
    assert kit.sql(f"SELECT * FROM {name}") == [(1,)]
    refused(kit, f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '2')", "Cannot downgrade v3 table to v2")
    refused(kit, f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '4')", "unsupported format version: v4")
    key = "('encryption.key-id' = 'hr')"
    refused(kit, f"ALTER TABLE {name} SET TBLPROPERTIES {key}", "of a plaintext table: its files are not encrypted")
    refused(kit, f"REPLACE TABLE {name} (id bigint) TBLPROPERTIES {key}", "of a plaintext table: its files are not")


def test_spark_does_not_ask_the_catalog_to_create_a_table_that_exists(kit: SparkKit) -> None:
    # Spark answers IF NOT EXISTS by itself, so that nobody sees the key id. docs/spark.md says so.
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint)")
    kit.sql(f"CREATE TABLE IF NOT EXISTS {name} (id bigint) {KEYED}")
    assert "encryption.key-id" not in kit.table(name).properties
