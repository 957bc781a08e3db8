"""`format("sealberg")`: under Spark Connect, without a jar, without registration; no secret is shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, ListType, LongType, NestedField, StructType, UUIDType

import sealberg
from kit.programs.commands import jdk
from kit.programs.spark import FRUGAL, LOGGING, MASTER_KEY, properties_of
from sealberg.errors import ConfigError, TrustError
from sealberg.files.confined_io import ConfinedFileIO
from sealberg.spark.datasource.source import COLUMNS, STREAM_READ, STREAM_WRITE, Target, Writer, _packed
from sealberg.spark.datasource.tasks import FileRows, NewFiles, storage_of
from sealberg.spark.driver.planning import table_of
from sealberg.spark.types import spark_schema
from sealberg.spark.worker.payload import FilePayload
from sealberg.table.catalog_table import CatalogTable

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.timeout(900)
def test_a_connect_server_reads_writes_and_streams(tmp_path: Path) -> None:
    jdk()  # or there is no Spark
    (tmp_path / "events").mkdir()
    (tmp_path / "log4j2.properties").write_text(LOGGING.format(folder=tmp_path).replace("= error", "= debug"))
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{tmp_path}/events",
        "spark.local.dir": f"{tmp_path}/local",
        "spark.driver.extraJavaOptions": f"{FRUGAL} -Dlog4j2.configurationFile=file:{tmp_path}/log4j2.properties",
    }
    (tmp_path / "conf.json").write_text(json.dumps(conf))
    names = {
        name: f"PYICEBERG_CATALOG__PROD__{name.upper().replace('-', '_').replace('.', '__')}"
        for name in properties_of(tmp_path)
    }
    configured = {names[name]: value for name, value in properties_of(tmp_path).items()}
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    here = {**os.environ, **configured, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "kit.programs.spark_connect", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if not line.lstrip().startswith("at ")]
    assert done.returncode == 0, "\n".join(told)[-4000:]
    assert {path.read_bytes()[:4] for path in (tmp_path / "wh").rglob("*.parquet")} == {b"PARE"}
    searched = [tmp_path / "spark.log", *(tmp_path / "events").rglob("*"), *(tmp_path / "checkpoint").rglob("*")]
    assert sum(path.stat().st_size for path in searched if path.is_file()) > 100_000
    for path_ in searched:
        if path_.is_file():
            data = path_.read_bytes()
            assert MASTER_KEY.encode() not in data, path_
            assert b"canary-7a-17" not in data, path_


@pytest.mark.parametrize(
    "name",
    [
        "adls.account-key",
        "adls.connection-string",
        "header.Authorization",
        "s3.secret-access-key",
        "encryption.kms.memory.key.hr",
        "uri",
        "colums",
        "checkpointLocation",
    ],
)
def test_options_that_are_not_known_are_refused_by_name(name: str) -> None:
    options = {"path": "prod.hr.t", name: "hush"}
    with pytest.raises(ConfigError, match=rf"unknown option {name}: known here are path, .*columns") as told:
        Target.of(options, COLUMNS)
    assert "hush" not in str(told.value)


def test_each_use_knows_its_own_options() -> None:
    assert Target.of({"PATH": "x", "path": "prod.hr.t", "Columns": "a"}, COLUMNS).table == ("hr", "t")
    Target.of({"table": "hr.t", "catalog": "prod", "checkpointlocation": "c", "query-id": "q"}, *STREAM_WRITE)
    for name in STREAM_READ:
        Target.of({"path": "prod.hr.t", name: "1"}, *STREAM_READ)
        with pytest.raises(ConfigError, match=f"unknown option {name}"):
            Target.of({"path": "prod.hr.t", name: "1"}, *STREAM_WRITE)


def test_rows_fit_a_table_by_the_names_of_their_columns(tmp_path: Path) -> None:
    catalog = sealberg.load_catalog("prod", **properties_of(tmp_path))
    catalog.create_namespace("hr")
    first = Schema(NestedField(1, "gone", LongType()), NestedField(2, "id", LongType()))
    table = catalog.create_table("hr.t", first, properties={"encryption.key-id": "hr"})
    inner = StructType(NestedField(11, "key", UUIDType()), NestedField(12, "code", FixedType(2)))
    with table.update_schema() as update:
        update.delete_column("gone")
        update.add_column("parts", ListType(10, inner, element_required=False))
        update.add_column("late", LongType())
    (tmp_path / "prod.json").write_text(json.dumps(properties_of(tmp_path)))
    target = Target("prod", ("hr", "t"), str(tmp_path / "prod.json"))
    given = spark_schema(table.refresh().schema())
    assert given["fields"][1]["type"]["elementType"]["fields"][0]["type"] == "string"
    Writer(target, given, False)
    given["fields"][1]["type"]["elementType"]["fields"][0]["type"] = "integer"
    with pytest.raises(ValueError, match="Mismatch in fields"):
        Writer(target, given, False)


@pytest.mark.parametrize("encrypted", [True, False])
def test_tasks_stay_in_the_stores_of_the_table(tmp_path: Path, encrypted: bool) -> None:
    """A plaintext manifest of a table in a bucket may name any file of the executor's machine."""
    catalog = sealberg.load_catalog("prod", **properties_of(tmp_path))
    catalog.create_namespace("hr")
    rows = pa.table({"id": pa.array([1], pa.int64())})
    table = catalog.create_table(
        "hr.t", rows.schema, properties={"encryption.key-id": "hr"} if encrypted else {"format-version": "3"}
    )
    table.append(rows)
    assert isinstance(table, CatalogTable)
    [task] = list(table.scan().plan_files())
    here = table_of(table, table.schema())
    bucket = replace(here, metadata=here.metadata.model_copy(update={"location": "s3://lake/w/hr/t"}))
    wanted = {"fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    storage = {name: value for name, value in storage_of(table.inner.properties).items() if name != "warehouse"}
    payload = FilePayload(task.file, (), 1)
    [batch] = list(FileRows(here, wanted, storage).read([payload]))
    assert batch.to_pydict() == {"id": [1]}
    with pytest.raises(TrustError, match=r"is in another store \(file\) than its table \(s3"):
        list(FileRows(bucket, wanted, storage).read([payload]))
    new = NewFiles.of(table)
    new.metadata.properties["write.data.path"] = "s3://other/d"
    with pytest.raises(TrustError, match=r"is in another store \(s3\) than its table \(file"):
        new.write(iter(rows.to_batches()))
    assert len(_packed([task], table.io)) == 1
    with pytest.raises(TrustError, match="is in another store"):
        _packed([task], ConfinedFileIO(table.inner, {"s3"}))
