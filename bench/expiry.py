"""The table of the figures about expiry: 1,000 snapshots of 10,000 files, expired by Java and by us, over and over.

    SQLite catalog ──1,000 commits──> the table ──registered──> Hive Metastore: Java and we expire the same table
                                          └── a copy with hard links, from which each round starts again

Each snapshot adds ten files and removes five of the files that the snapshot before it added. The files are copies of
one small encrypted file: their content does not matter, their number does.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import sealberg
from kit.programs.iceberg_java import KMS
from kit.servers.metastore import parameters, set_parameters
from sealberg.jobs import expire
from sealberg.metadata.manifest import DataFileV3
from sealberg.pyiceberg_private import values_of
from sealberg.write.snapshot_builder import FileChanges

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NAME = "db.life"
POINTER = ("metadata_location", "previous_metadata_location", "metadata_hash")


@dataclass
class Life:
    """A table that can be expired again and again."""

    folder: Path
    uri: str
    parameters: dict[str, str]

    @classmethod
    def make(cls, folder: Path, uri: str, snapshots: int = 1000, files: int = 10) -> Life:
        location = _build(folder, snapshots, files)
        with sealberg.load_catalog("ours", type="hive", uri=uri, **KMS) as catalog:
            catalog.create_namespace_if_not_exists("db")
            catalog.register_table(NAME, location)
            known = {name: value for name, value in parameters(catalog, NAME).items() if name in POINTER}
        subprocess.run(["cp", "-al", folder / "wh", folder / "copy"], check=True)
        return cls(folder, uri, known)

    def restore(self) -> None:
        """The table as it was before it was expired."""
        shutil.rmtree(self.folder / "wh")
        subprocess.run(["cp", "-al", self.folder / "copy", self.folder / "wh"], check=True)
        with sealberg.load_catalog("ours", type="hive", uri=self.uri, **KMS) as catalog:
            set_parameters(catalog, NAME, {**dict.fromkeys(POINTER), **self.parameters})

    def count(self) -> int:
        """The files that are left, without metadata.json and Hadoop's checksums."""
        return sum(path.is_file() and path.suffix not in (".json", ".crc") for path in (self.folder / "wh").rglob("*"))

    def ours(self) -> None:
        with sealberg.load_catalog("ours", type="hive", uri=self.uri, **KMS) as catalog:
            done = expire.plan(NAME, catalog=catalog, older_than=timedelta(0), retain_last=1).execute()
            assert done.exit_code == 0, str(done)

    def java_procedure(self, spark: SparkSession) -> None:
        spark.catalog.refreshTable(f"java.{NAME}")
        spark.sql(
            f"call java.system.expire_snapshots(table => '{NAME}', older_than => timestamp '2100-01-01 00:00:00', "
            "retain_last => 1)"
        ).collect()


def _build(folder: Path, snapshots: int, files: int) -> str:
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh", **KMS}
    with sealberg.load_catalog("building", **properties) as catalog:
        catalog.create_namespace("db")
        rows = pa.table({"id": pa.array(range(10), pa.int64()), "name": pa.array(["x"] * 10)})
        table: Any = catalog.create_table(NAME, rows.schema, properties={"encryption.key-id": "keyA"})
        table.append(rows)
        ((task,),) = [list(table.scan().plan_files())]
        before: list[DataFileV3] = []
        for number in range(snapshots - 1):
            added = [copy_of(task.file, f"{number:05}-{each}") for each in range(files)]
            table.transaction_at_once().commit_changes(
                FileChanges(added=tuple(added), removed=tuple(before[: files // 2]))
            )
            before = added
        return str(table.metadata_location)


def copy_of(file: DataFileV3, name: str) -> DataFileV3:
    """The same file under another name, as a new data file."""
    made = DataFileV3(*values_of(file))
    made.spec_id = file.spec_id
    old = str(file.file_path)
    new = f"{old.rpartition('/')[0]}/{name}.parquet"
    shutil.copyfile(old.removeprefix("file://"), new.removeprefix("file://"))
    values_of(made)[1] = new
    made.first_row_id = None
    return made
