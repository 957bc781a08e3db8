"""Iceberg Java itself: a Hive Metastore, and Spark on it, on this machine.

    with iceberg_java(tmp_path) as java:
        java.spark          has Java's catalog as `h`, and ours on the same metastore as `ours`
        java.uri            the address of the metastore, for a Hive catalog in Python
        java.parameters     the parameters of a table in the metastore

PySpark contains the metastore and Spark; Maven downloads the two jars of Iceberg once.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from kit.programs.maven import bring
from kit.programs.one_spark import stop
from kit.programs.spark import FRUGAL
from kit.servers.metastore import metastore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table

JARS: Final = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.apache.iceberg:iceberg-core:1.11.0:jar:tests",  # has its test KMS; there is none of 1.12.0
)
KMS: Final = {"encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS"}
LINEAGE: Final = ("_row_id", "_last_updated_sequence_number")


@contextmanager
def iceberg_java(folder: Path) -> Iterator[IcebergJava]:
    """Start both, and stop them at the end. The test is skipped if Java, Maven or PySpark is missing."""
    pytest.importorskip("pyspark", reason="PySpark brings Spark and the metastore")
    jars = bring(*JARS)
    with metastore(folder) as port:
        java = IcebergJava(folder, port, jars)
        try:
            yield java
        finally:
            stop(java.spark)


class IcebergJava:
    """Spark with Iceberg Java's Hive catalog and ours."""

    def __init__(self, folder: Path, port: int, jars: list[Path]) -> None:
        from pyspark.sql import SparkSession

        import sealberg.spark

        self.uri = f"thrift://127.0.0.1:{port}"
        settings = {
            "spark.jars": ",".join(map(str, jars)),
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {FRUGAL}",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": f"{folder}/spark",
            # Ours last, so that its parser is asked first; in kit.programs.statement_runner Iceberg's is.
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
            "sealberg.sql.SqlExtensions",
            "spark.sql.catalog.h": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.h.type": "hive",
            "spark.sql.catalog.h.uri": self.uri,
            "spark.sql.catalog.h.warehouse": f"file://{folder}/java",
            "spark.sql.catalog.h.cache-enabled": "false",
            **{f"spark.sql.catalog.h.{name}": value for name, value in KMS.items()},
        }
        builder: Any = SparkSession.builder.master("local[1]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        ours = {"type": "hive", "uri": self.uri, **KMS}
        self.spark = sealberg.spark.configure(builder, "ours", ours).getOrCreate()
        sealberg.spark.install(self.spark)
        self.spark.sparkContext.setLogLevel("OFF")
        self.spark.sql("create namespace if not exists h.db")
        jvm: Any = self.spark.sparkContext._jvm
        self._jvm = jvm
        hive = jvm.org.apache.hadoop.hive.conf.HiveConf()
        hive.set("hive.metastore.uris", self.uri)
        self._client = jvm.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(hive)

    def parameters(self, table: Table) -> dict[str, str]:
        """What the metastore knows of a table."""
        return dict(self._client.getTable("db", _name(table)).getParameters())

    def formats(self, table: Table) -> tuple[str, str, str]:
        """The input format, output format and serde of a table in the metastore."""
        stored = self._client.getTable("db", _name(table)).getSd()
        return stored.getInputFormat(), stored.getOutputFormat(), stored.getSerdeInfo().getSerializationLib()

    @contextmanager
    def warnings(self) -> Iterator[list[str]]:
        """The warnings that Iceberg logs in the block; complete at its end."""
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


def _name(table: Table) -> str:
    return table.name()[-1]
