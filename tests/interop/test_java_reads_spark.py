"""Iceberg Java finds every row and column of what our Spark wrote, with the ids and the ages of the rows.

One session has both catalogs: `prod` is ours, `h` is Java's. Java compares its own hash of the metadata with ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kit.iceberg_java import LINEAGE, iceberg_java
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog

    from kit.iceberg_java import IcebergJava

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]

COLUMNS = """id bigint, name string, day date, at timestamp, local timestamp_ntz, price decimal(9,2), raw binary,
    ratio double, small float, flag boolean, n int,
    tags array<string>, more map<string,int>, s struct<a: int, b: struct<c: string, d: array<struct<e: bigint>>>>,
    deep map<string, array<struct<x: int, y: map<string, double>>>>"""
ROWS = """SELECT id, if(id % 7 = 0, null, concat('n', id)), date'1969-12-20' + cast(id % 40 as int),
    timestamp'1969-12-30 00:00:00' + make_interval(0, 0, 0, 0, cast(id as int)),
    timestamp_ntz'1969-12-30 00:00:00' + make_interval(0, 0, 0, 0, cast(id as int)), cast(id / 4 - 5 as decimal(9,2)),
    unhex(sha2(cast(id as string), 256)), id / 3, cast(id as float), id % 2 = 0, cast(id as int),
    if(id % 5 = 0, null, array(concat('t', id % 3), null)), map('k', cast(id as int)),
    named_struct('a', cast(id as int), 'b', named_struct('c', 'x', 'd', array(named_struct('e', id)))),
    map('m', array(named_struct('x', 1, 'y', map('z', id / 2)))) FROM range({}, {})"""
PARTITIONS = [
    "",
    "PARTITIONED BY (bucket(4, id), days(at))",
    "PARTITIONED BY (truncate(2, name), months(day))",
    "PARTITIONED BY (flag, hours(local), truncate(10, price))",
    "PARTITIONED BY (years(day), truncate(3, n), bucket(3, name))",
]
STEPS = [
    "DELETE FROM {} WHERE id % 10 = 3",
    "UPDATE {} SET name = concat('u', id), tags = array('new') WHERE id < 12",
    """MERGE INTO {} t USING (SELECT id, id % 2 AS odd FROM range(35, 45)) s ON t.id = s.id
    WHEN MATCHED AND odd = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET price = 0.5
    WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'merged')""",
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[IcebergJava, Catalog]]:
    import sealberg.spark
    from sealberg.spark.jar import find_jar
    from sealberg.spark.sessions import settings

    folder = tmp_path_factory.mktemp("spark-and-java")
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/ours",
        "encryption.kms-type": "memory",
        "encryption.kms.memory.key.keyA": b"0123456789012345".hex(),
    }
    jar = find_jar()
    conf = {name: value for name, value in settings("prod", str(jar)).items() if name != "spark.jars"}
    with iceberg_java(folder, jar, **conf) as java:
        sealberg.spark.install(java.spark, {"prod": properties})
        catalog = sealberg.load_catalog("prod", **properties)
        catalog.create_namespace("db")
        yield java, catalog


def agree(java: IcebergJava, catalog: Catalog, name: str) -> list[dict[str, Any]]:
    """Both read the same; and so does Python."""
    table = catalog.load_table(f"db.{name}")
    assert isinstance(table, CatalogTable)
    java.register(table)
    ours = java.spark.sql(f"SELECT *, {', '.join(LINEAGE)} FROM prod.db.{name}").collect()
    found = sorted((row.asDict(recursive=True) for row in ours), key=lambda row: row["id"])
    assert found == sorted(java.rows(table), key=lambda row: row["id"])
    python = table.scan(selected_fields=("id", *LINEAGE)).to_arrow().to_pylist()
    assert sorted(python, key=lambda row: row["id"]) == [{one: row[one] for one in ("id", *LINEAGE)} for row in found]
    return found


@pytest.mark.parametrize("at", range(len(PARTITIONS)))
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_java_reads_what_spark_wrote(both: tuple[IcebergJava, Catalog], at: int, mode: str) -> None:
    java, catalog = both
    name = f"t{at}_{mode[:4]}"
    modes = ", ".join(f"'write.{one}.mode' = '{mode}'" for one in ("delete", "update", "merge"))
    told = f"TBLPROPERTIES ('encryption.key-id' = 'keyA', {modes})"
    java.spark.sql(f"CREATE TABLE prod.db.{name} ({COLUMNS}) {PARTITIONS[at]} {told}")
    java.spark.sql(f"INSERT INTO prod.db.{name} {ROWS.format(0, 40)}")
    for step in STEPS:
        java.spark.sql(step.format(f"prod.db.{name}"))
    rows = agree(java, catalog, name)
    ids = {row["id"] for row in rows}
    assert ids == {one for one in range(45) if (one >= 40 or one % 10 != 3) and one not in (35, 37, 39)}
    assert {row["name"] for row in rows if row["id"] >= 40} == {"merged"}
    assert next(row for row in rows if row["id"] == 14)["deep"] == {"m": [{"x": 1, "y": {"z": 7.0}}]}
    # What Java filters by, it finds by our bounds and partitions.
    table = catalog.load_table(f"db.{name}")
    for where in (
        "id = 14",
        "name = 'u11'",
        "day < date'1969-12-25'",
        "price = 0.5",
        "s.a = 20",
        "n BETWEEN 20 AND 22",
    ):
        ours = java.spark.sql(f"SELECT id FROM prod.db.{name} WHERE {where} ORDER BY id").collect()
        theirs = java.sql(f"SELECT id FROM {{table}} WHERE {where} ORDER BY id", table)
        assert [row[0] for row in ours] == [row["id"] for row in theirs], where
