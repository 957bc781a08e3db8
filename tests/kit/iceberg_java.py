"""Iceberg Java itself: a Hive Metastore, and Spark on it, on this machine.

    with iceberg_java(tmp_path) as java:
        java.register(table)                      our table, as it stands, with the hash of our metadata.json
        java.rows(table)                          what Java reads
        java.sql("insert into {table} ...", table)
        java.reopened(table)                      what Java committed, opened by us

The metastore and Spark come with PySpark; the two jars of Iceberg are brought by Maven, once.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from kit.maven import bring
from kit.metastore import metastore
from sealberg.table.metadata import metadata_hash
from sealberg.table.open import open_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyiceberg.table import Table

    from sealberg.table.catalog_table import CatalogTable

JARS: Final = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.apache.iceberg:iceberg-core:1.11.0:jar:tests",  # has its test KMS; there is none of 1.12.0
)
KMS: Final = {"encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS"}
LINEAGE: Final = ("_row_id", "_last_updated_sequence_number")
ON_ENCRYPTED: Final = ("encryption.key-id", "encryption.data-key-length")


@contextmanager
def iceberg_java(folder: Path, *more: Path, **conf: str) -> Iterator[IcebergJava]:
    """Both, stopped at the end; the test is skipped where Java, Maven or PySpark is missing.

    Args:
        folder: for everything.
        more: jars on top of Iceberg's.
        conf: Spark's configuration on top of what is here.
    """
    pytest.importorskip("pyspark", reason="PySpark brings Spark and the metastore")
    jars = [*bring(*JARS), *more]
    with metastore(folder) as port:
        java = IcebergJava(folder, port, jars, conf)
        try:
            yield java
        finally:
            java.spark.stop()


class IcebergJava:
    """Spark with Iceberg Java's own Hive catalog."""

    def __init__(self, folder: Path, port: int, jars: list[Path], conf: Mapping[str, str]) -> None:
        from pyspark.sql import SparkSession

        self.uri = f"thrift://127.0.0.1:{port}"
        settings = {
            "spark.jars": ",".join(map(str, jars)),
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": f"{folder}/spark",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.h": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.h.type": "hive",
            "spark.sql.catalog.h.uri": self.uri,
            "spark.sql.catalog.h.warehouse": f"file://{folder}/java",
            "spark.sql.catalog.h.cache-enabled": "false",
            **{f"spark.sql.catalog.h.{name}": value for name, value in KMS.items()},
            **conf,
        }
        builder: Any = SparkSession.builder.master("local[1]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.spark.sql("create namespace h.db")
        self._jvm = self.spark.sparkContext._jvm
        hive = self._jvm.org.apache.hadoop.hive.conf.HiveConf()
        hive.set("hive.metastore.uris", self.uri)
        self._client = self._jvm.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(hive)

    # -- our tables in Java's catalog ---------------------------------------------------------------

    def register(self, table: CatalogTable) -> None:
        """Enter a table as its catalog has it now; Java will compare its own hash of the metadata with ours."""
        with table.inner.new_input(table.metadata_location).open() as stream:
            digest = metadata_hash(bytes(stream.read()))
        api, array, hashed = self._jvm.org.apache.hadoop.hive.metastore.api, self._list, self._map
        serde = api.SerDeInfo("t", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", hashed({}))
        storage = api.StorageDescriptor()
        storage.setLocation(table.metadata.location)
        storage.setInputFormat("org.apache.hadoop.mapred.FileInputFormat")
        storage.setOutputFormat("org.apache.hadoop.mapred.FileOutputFormat")
        storage.setSerdeInfo(serde)
        storage.setParameters(hashed({}))
        for setter in (storage.setCols, storage.setBucketCols, storage.setSortCols):
            setter(array())
        entry = api.Table()
        entry.setDbName("db")
        entry.setTableName(_name(table))
        entry.setTableType("EXTERNAL_TABLE")
        entry.setSd(storage)
        entry.setPartitionKeys(array())
        own = {name: value for name, value in table.metadata.properties.items() if name in ON_ENCRYPTED}
        about = {"table_type": "ICEBERG", "EXTERNAL": "TRUE", "metadata_location": table.metadata_location}
        entry.setParameters(hashed({**about, **own, "metadata_hash": digest}))
        self._client.createTable(entry)

    def parameters(self, table: Table) -> dict[str, str]:
        """What the metastore knows of a table."""
        return dict(self._client.getTable("db", _name(table)).getParameters())

    def formats(self, table: Table) -> tuple[str, str, str]:
        """How Hive's own engine would read and write it, as far as the metastore knows."""
        stored = self._client.getTable("db", _name(table)).getSd()
        return stored.getInputFormat(), stored.getOutputFormat(), stored.getSerdeInfo().getSerializationLib()

    def reopened(self, table: Table) -> Table:
        """The table as Java left it, opened by us; our form of its metadata has the hash that Java stored."""
        known = self.parameters(table)
        opened = open_table(known["metadata_location"], KMS, expected_key_id="keyA")
        assert opened.metadata.metadata_hash() == known["metadata_hash"]  # type: ignore[union-attr]
        return opened

    @contextmanager
    def warnings(self) -> Iterator[list[str]]:
        """What Iceberg warns of in the block, known at its end."""
        log4j, said, found = self._jvm.org.apache.logging.log4j, self._jvm.java.io.StringWriter(), list[str]()
        layout = log4j.core.layout.PatternLayout.createDefaultLayout()
        appender = log4j.core.appender.WriterAppender.createAppender(layout, None, said, "warnings", False, True)
        appender.start()
        logger = log4j.LogManager.getLogger("org.apache.iceberg")
        log4j.core.config.Configurator.setLevel("org.apache.iceberg", log4j.Level.WARN)
        logger.addAppender(appender)
        try:
            yield found
        finally:
            logger.removeAppender(appender)
            log4j.core.config.Configurator.setLevel("org.apache.iceberg", log4j.Level.OFF)
            found += said.toString().splitlines()

    # -- rows ---------------------------------------------------------------------------------------

    def sql(self, text: str, table: Table) -> list[dict[str, Any]]:
        """Run a statement in which {table} is the table, and {name} its name for procedures."""
        full = text.format(table=f"h.db.`{_name(table)}`", name=f"db.{_name(table)}")
        return [row.asDict(recursive=True) for row in self.spark.sql(full).collect()]

    def rows(self, table: Table, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        """All rows with their lineage."""
        at = f" version as of {snapshot_id}" if snapshot_id is not None else ""
        return self.sql(f"select *, {', '.join(LINEAGE)} from {{table}}{at}", table)

    def _list(self) -> Any:
        return self._jvm.java.util.ArrayList()

    def _map(self, members: dict[str, str]) -> Any:
        made = self._jvm.java.util.HashMap()
        for name, value in members.items():
            made.put(name, value)
        return made


def _name(table: Table) -> str:
    return table.name()[-1]
