"""A Spark session with the catalog `prod` of encrypted tables, and a folder that everything of it is in.

kit = start(folder)
name = kit.fresh()                         prod.hr.t1, an unused name
kit.sql(f"CREATE TABLE {name} ...")        -> rows as tuples, in an order of their own
kit.table(name)                            the same table in Python
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sealberg.table.catalogs.sql import SealedSqlCatalog

MASTER_KEY = "cd" * 16
LOGGING = """
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c %m%n%ex
rootLogger.level = error
rootLogger.appenderRef.file.ref = file
"""
KEYED = "TBLPROPERTIES ('encryption.key-id' = 'hr')"


@dataclass
class SparkKit:
    """A running session."""

    spark: SparkSession
    folder: Path
    catalog: SealedSqlCatalog
    names: Iterator[int] = field(default_factory=count)

    @property
    def warehouse(self) -> Path:
        return self.folder / "wh"

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    @property
    def event_log(self) -> Path:
        return self.folder / "events"

    def fresh(self, prefix: str = "t") -> str:
        return f"prod.hr.{prefix}{next(self.names)}"

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in self.spark.sql(statement).collect()), key=repr)

    def table(self, name: str) -> CatalogTable:
        found = self.catalog.load_table(name.removeprefix("prod."))
        assert isinstance(found, CatalogTable)
        return found

    def data_files(self, name: str) -> list[Path]:
        return sorted((self.warehouse / name.removeprefix("prod.").replace(".", "/")).rglob("*.parquet"))

    def plan_requests(self, name: str) -> list[dict[str, Any]]:
        """The files that Python plans for a whole scan, keys included."""
        from sealberg.spark.plan import plan
        from sealberg.spark.tables import Tables

        tables = Tables(self.catalog)
        handle = tables.load({"table": name.split(".")[1:]})["handle"]
        asked = {"handle": handle, "filters": [], "columns": {"type": "struct", "fields": []}}
        files: list[dict[str, Any]] = plan(tables, json.loads(json.dumps(asked)))["files"]
        return files


def start(folder: Path, master: str = "local[2]", **conf: str) -> SparkKit:
    import sealberg
    import sealberg.spark

    properties = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/wh",
        "encryption.kms-type": "memory",
        "encryption.kms.memory.key.hr": MASTER_KEY,
        "encryption.kms.memory.key.keyA": b"0123456789012345".hex(),  # for tables of kit.small_tables
    }
    (folder / "events").mkdir()
    (folder / "log4j2.properties").write_text(LOGGING.format(folder=folder))
    spark = sealberg.spark.session(
        "prod",
        properties,
        master=master,
        **{
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.showConsoleProgress": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{folder}/events",
            "spark.local.dir": f"{folder}/local",
            "spark.sql.warehouse.dir": f"{folder}/plain",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties",
            **conf,
        },
    )
    catalog: Any = sealberg.load_catalog("prod", **properties)
    catalog.create_namespace("hr")
    return SparkKit(spark, folder, catalog)
