"""A Spark session with the catalog `prod` of encrypted tables, all in one folder.

kit = start(folder)
name = kit.fresh()                         prod.hr.t1, an unused name
kit.sql(f"CREATE TABLE {name} ...")        -> rows as sorted tuples
kit.table(name)                            the same table in Python
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kit.programs import class_archive
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.spark.protocol.scans import PlannedFile

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
# A JVM of tests lives for a few minutes: its second compiler would take more processor time than its code saves.
FRUGAL = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1{class_archive.options()}"
KEYED = "TBLPROPERTIES ('encryption.key-id' = 'hr')"


@dataclass
class SparkKit:
    """A running session."""

    spark: SparkSession
    folder: Path
    catalog: EncryptedSqlCatalog
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

    def agrees(
        self, name: str, *, where: str | None = None, test: Any = None, columns: str = "*, _pos, _row_id"
    ) -> int:
        """Check that Spark and the Python scan return the same rows; `test` is `where` as a Python function."""
        condition = f" WHERE {where}" if where else ""
        found = [
            row.asDict(recursive=True) for row in self.spark.sql(f"SELECT {columns} FROM {name}{condition}").collect()
        ]
        names = tuple(one.strip() for one in columns.split(","))
        rows = self.table(name).scan(selected_fields=names).to_arrow().to_pylist()
        expected = [row for row in rows if test is None or test(row)]
        # As texts: NaN is not equal to itself.
        ours, theirs = sorted(repr(plain(row)) for row in found), sorted(repr(plain(row)) for row in expected)
        differ = next(((one, other) for one, other in zip(ours, theirs, strict=False) if one != other), None)
        assert differ is None and len(ours) == len(theirs), (where, len(ours), len(theirs), differ)  # noqa: PT018
        return len(found)

    def table(self, name: str) -> CatalogTable:
        found = self.catalog.load_table(name.removeprefix("prod."))
        assert isinstance(found, CatalogTable)
        return found

    def data_files(self, name: str) -> list[Path]:
        return sorted((self.warehouse / name.removeprefix("prod.").replace(".", "/")).rglob("data/**/*.*"))

    def planned_files(self, name: str) -> tuple[PlannedFile, ...]:
        """The files that Python plans for a full scan, with their keys."""
        return planned_files(self.catalog, tuple(name.split(".")[1:]))


def planned_files(catalog: Catalog, name: tuple[str, ...]) -> tuple[PlannedFile, ...]:
    from sealberg.spark.driver.calls import Calls
    from sealberg.spark.driver.planning import plan
    from sealberg.spark.driver.tables import Tables
    from sealberg.spark.protocol.scans import Planning, ScanPlan, ScanRequest
    from sealberg.spark.protocol.tables import TableDescription

    tables = Tables(catalog)
    description = tables.now(name)
    assert isinstance(description, TableDescription)
    nobody = Planning("", 1, 1, 0, "local", "local")
    found = plan(tables, Calls(), ScanRequest(description.handle, {"type": "struct", "fields": []}, (), nobody))
    assert isinstance(found, ScanPlan)
    return found.files


def plain(value: Any) -> Any:
    """A value of Spark or pyarrow as a plain Python value, so that both can be compared."""
    match value:
        case dict():  # which of a map has no order
            return {key: plain(value[key]) for key in sorted(value, key=repr)}
        case list() if value and isinstance(value[0], tuple):  # a map of pyarrow's
            return plain(dict(value))
        case list():
            return [plain(one) for one in value]
        case UUID():
            return str(value)
        case bytearray():
            return bytes(value)
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone().replace(tzinfo=None)
    return value


def properties_of(folder: Path) -> dict[str, str]:
    """The properties of the catalog `prod` in this folder."""
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/wh",
        "encryption.kms-type": "memory",
        "encryption.kms.memory.key.hr": MASTER_KEY,
        "encryption.kms.memory.key.keyA": b"0123456789012345".hex(),  # for tables of kit.small_tables and kit.corpus
        "encryption.kms.memory.key.keyB": b"1123456789012345".hex(),
        "sealberg.storage.locations": "twofaced:/",  # the file system of java/TwoFaced.java
    }


def connect(folder: Path, master: str = "local[2]", **conf: str) -> SparkSession:
    """A Spark session with the catalog in this folder."""
    import sealberg.spark

    return sealberg.spark.session(
        "prod",
        properties_of(folder),
        master=master,
        **{
            "spark.ui.port": "0",
            # Whatever is written to local disks would be readable there, were it not encrypted.
            "spark.shuffle.compress": "false",
            "spark.shuffle.spill.compress": "false",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": f"{folder}/local",
            "spark.sql.warehouse.dir": f"{folder}/plain",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.extraJavaOptions": FRUGAL,
            "spark.executor.extraJavaOptions": FRUGAL,
            **conf,
        },
    )


def start(folder: Path, master: str = "local[2]", **conf: str) -> SparkKit:
    import sealberg

    (folder / "events").mkdir()
    (folder / "log4j2.properties").write_text(LOGGING.format(folder=folder))
    spark = connect(
        folder,
        master,
        **{
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{folder}/events",
            "spark.driver.extraJavaOptions": f"{FRUGAL} -Dlog4j2.configurationFile=file:{folder}/log4j2.properties",
            **conf,
        },
    )
    catalog: Any = sealberg.load_catalog("prod", **properties_of(folder))
    catalog.create_namespace("hr")
    return SparkKit(spark, folder, catalog)
