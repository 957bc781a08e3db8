"""`spark_catalog`: Spark's own tables and Iceberg tables under names of two parts, on both of Spark's catalogs."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kit.programs.doors import Lake, Refused, java_job, spark_sql
from kit.programs.visit import visit
from kit.servers.metastore import shared_metastore
from sealberg.spark.catalog_options import SESSION_CATALOG, SESSION_CATALOG_CLASS
from sealberg.spark.sessions import settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.programs.doors import Door

KEYED = "TBLPROPERTIES ('encryption.key-id' = 'hr')"


@contextmanager
def embedded(folder: Path) -> Iterator[tuple[Door, Lake]]:
    """Spark's catalog in memory, and sealberg's in SQLite."""
    lake = Lake.create(folder, SESSION_CATALOG, "prod")
    lake.conf["spark.sql.warehouse.dir"] = f"{folder}/warehouse"
    with spark_sql(lake) as shell:
        yield shell, lake


@contextmanager
def hive(folder: Path) -> Iterator[tuple[Door, Lake]]:
    """Both in one Hive Metastore, whose address is Spark's setting alone; with a catalog of its own beside it."""
    metastore = shared_metastore()
    lake = Lake.create(folder, "prod")
    lake.conf |= settings(SESSION_CATALOG, lake.conf["spark.jars"])
    option = f"spark.sql.catalog.{SESSION_CATALOG}"
    lake.conf |= {
        f"{option}.type": "hive",
        f"{option}.encryption.kms-type": "memory",
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": metastore.uri,
        "spark.sql.warehouse.dir": f"file://{metastore.warehouse}",
    }
    configured = folder / "home" / ".pyiceberg.yaml"
    with configured.open("a") as file:
        file.write(f"  {SESSION_CATALOG}:\n    encryption.kms.memory.key.hr: {'ab' * 16}\n")
    with spark_sql(lake) as shell:
        yield shell, replace(lake, folder=metastore.warehouse)


PLACES = pytest.mark.parametrize("place", [embedded, hive], ids=["embedded", "hive"])


@pytest.fixture
def names(request: pytest.FixtureRequest) -> str:
    """A namespace of this test: the metastore is shared."""
    name: str = request.node.name
    return name.split("[", maxsplit=1)[0].removeprefix("test_")[:24]


@PLACES
def test_two_part_names_reach_tables_of_spark_and_of_iceberg(place: object, names: str, tmp_path: Path) -> None:
    with place(tmp_path) as (shell, lake):  # type: ignore[operator]
        run = shell.run
        run(f"CREATE DATABASE {names}")
        run(f"USE {names}")
        run("CREATE TABLE plain (id bigint, name string) USING parquet")
        run("INSERT INTO plain VALUES (1, 'Ada'), (2, 'Bob')")
        run(f"CREATE TABLE pay (id bigint, name string) USING iceberg {KEYED}")
        run("INSERT INTO pay VALUES (1, 'Ada'), (2, 'Bob'), (3, 'Cy')")
        assert run("SELECT p.name FROM plain p JOIN pay USING (id) ORDER BY 1") == [["Ada"], ["Bob"]]
        assert sorted(run("SHOW TABLES")) == [["pay"], ["plain"]]
        assert ["Provider", "iceberg"] in [[word.strip() for word in row[:2]] for row in run("DESCRIBE EXTENDED pay")]
        assert b"Ada" not in b"".join(path.read_bytes() for path in lake.folder.rglob("pay*/data/*.parquet"))

        # Each statement goes to the catalog that has the table.
        for table in ("pay", "plain"):
            run(f"ALTER TABLE {table} ADD COLUMN city string")
            run(f"ALTER TABLE {table} SET TBLPROPERTIES ('note' = '{table}')")
            assert run(f"SHOW TBLPROPERTIES {table} ('note')") == [["note", table]]
            run(f"ALTER TABLE {table} RENAME TO {table}_2")
            assert run(f"SELECT id, city FROM {table}_2 WHERE name = 'Ada'") == [["1", "NULL"]]
            run(f"ALTER TABLE {table}_2 RENAME TO {table}")
        run("ALTER TABLE pay CREATE TAG first")
        run("DELETE FROM pay WHERE id = 3")
        assert run(f"SELECT count(*) FROM {names}.pay VERSION AS OF 'first'") == [["3"]]
        assert run(f"SELECT count(*) FROM {names}.pay.snapshots") == [["2"]]
        assert run(f"CALL spark_catalog.system.verify('{names}.pay')")[0][:2] == [f"{names}.pay", "passed"]
        with pytest.raises(Refused, match=r"(?i)tag"):
            run("ALTER TABLE plain CREATE TAG first")

        # CTAS, RTAS and views.
        run(f"CREATE TABLE copied USING iceberg {KEYED} AS SELECT * FROM plain")
        run("CREATE TABLE exported USING parquet AS SELECT * FROM pay")
        assert run("SELECT count(*) FROM copied") == run("SELECT count(*) FROM exported") == [["2"]]
        run(f"REPLACE TABLE copied USING iceberg {KEYED} AS SELECT 9 AS id")
        assert run("SELECT * FROM copied") == [["9"]]
        with pytest.raises(Refused, match=r"(?i)already exists|TABLE_OR_VIEW_ALREADY_EXISTS"):
            run(f"CREATE OR REPLACE TABLE plain USING iceberg {KEYED} AS SELECT 9 AS id")
        run("CREATE VIEW both AS SELECT p.id FROM plain p JOIN pay USING (id)")
        assert run("SELECT count(*) FROM both") == [["2"]]
        run("CREATE TABLE bucketed (id bigint) USING iceberg PARTITIONED BY (bucket(2, id))")  # by loadFunction
        run("INSERT INTO bucketed SELECT id FROM range(10)")
        assert run(f"SELECT count(*), sum(record_count) FROM {names}.bucketed.files") == [["2", "10"]]

        # A name is taken once, as far as Spark asks: it makes and renames its own tables in its own catalog.
        iceberg = f"iceberg {KEYED}"
        taken = [f"CREATE TABLE {table} (id bigint) USING {iceberg}" for table in ("pay", "plain")]
        taken += ["CREATE TABLE plain (id bigint) USING parquet", "ALTER TABLE pay RENAME TO plain"]
        if place is hive:
            taken += ["CREATE TABLE pay (id bigint) USING parquet", "ALTER TABLE plain RENAME TO pay"]
        for statement in taken:
            with pytest.raises(Refused, match=r"(?i)already exists|ALREADY_EXISTS"):
                run(statement)

        with pytest.raises(Refused, match=r"(?i)empty|cannot drop"):
            run(f"DROP DATABASE {names}")
        run("DROP VIEW both")
        for table in ("plain", "pay", "exported", "copied", "bucketed"):
            run(f"DROP TABLE {table}")
        assert run("SHOW TABLES") == []
        run(f"DROP DATABASE {names}")


@PLACES
def test_names_have_the_case_of_sparks_catalog(place: object, names: str, tmp_path: Path) -> None:
    with place(tmp_path) as (shell, _):  # type: ignore[operator]
        run = shell.run
        run(f"CREATE DATABASE {names.upper()}")
        run(f"CREATE TABLE {names.upper()}.PAY (id bigint) USING iceberg {KEYED}")
        run(f"INSERT INTO {names}.pay VALUES (1)")
        run(f"ALTER TABLE {names}.Pay CREATE BRANCH Audit")
        assert run(f"SELECT * FROM {names}.PAY.branch_Audit") == [["1"]]
        assert run(f"SHOW TABLES IN {names}") == [["pay"]]
        run(f"CREATE TABLE {names}.of_spark (id bigint) USING parquet")
        with pytest.raises(Refused, match=r"(?i)schema"):
            run(f"CREATE TABLE {names}_other.pay (id bigint) USING iceberg {KEYED}")
        run(f"DROP DATABASE {names} CASCADE")
        run(f"CREATE DATABASE {names}")
        assert run(f"SHOW TABLES IN {names}") == []
        run(f"DROP DATABASE {names}")


def test_every_statement_of_a_visit(tmp_path: Path) -> None:
    """Tables without USING are Spark's, unless its setting says iceberg."""
    with embedded(tmp_path) as (shell, lake):
        shell.run("SET spark.sql.sources.default=iceberg")
        visit(shell, lake, SESSION_CATALOG)


def test_a_catalog_of_its_own_beside_it_and_by_default(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path, "prod", SESSION_CATALOG)
    lake.conf["spark.sql.defaultCatalog"] = "prod"
    with spark_sql(lake) as shell:
        shell.run("CREATE NAMESPACE hr")
        shell.run(f"CREATE TABLE hr.pay (id bigint) {KEYED}")
        shell.run("INSERT INTO hr.pay VALUES (7)")
        assert shell.run("SELECT id FROM prod.hr.pay") == [["7"]]
        shell.run("CREATE TABLE spark_catalog.default.plain (id bigint) USING parquet")
        shell.run("INSERT INTO spark_catalog.default.plain SELECT * FROM hr.pay")
        assert shell.run("SELECT count(*) FROM spark_catalog.default.plain") == [["1"]]


def test_what_it_is_not_for_is_refused_by_name(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path, "prod", SESSION_CATALOG)
    lake.conf["spark.sql.catalog.prod"] = SESSION_CATALOG_CLASS
    lake.conf["spark.sql.catalog.spark_catalog.parquet-enabled"] = "true"
    with java_job(lake) as job:
        with pytest.raises(Refused, match=r"only spark_catalog can be a sealberg.catalog.SessionCatalog"):
            job.run("CREATE NAMESPACE prod.hr")
        with pytest.raises(Refused, match="parquet-enabled is not supported: Spark makes tables of its own formats"):
            job.run("CREATE TABLE spark_catalog.default.pay (id bigint) USING iceberg")
