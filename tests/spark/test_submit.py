"""A job that `spark-submit` starts, with the options that `sealberg spark-conf` prints and no others."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark

from kit.programs.commands import jdk

JOB = """
from pyspark.sql import SparkSession

import sealberg.spark

spark = SparkSession.builder.getOrCreate()
sealberg.spark.install(spark, {"lake": {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16}})
spark.sql("CREATE NAMESPACE lake.hr")
spark.sql("CREATE TABLE lake.hr.t (id bigint, name string) TBLPROPERTIES ('encryption.key-id' = 'hr')")
spark.sql("INSERT INTO lake.hr.t SELECT id, concat('name-', id) FROM range(50)")
print("found", *spark.sql("SELECT count(*), sum(id), max(name) FROM lake.hr.t WHERE id < 20").first())
spark.stop()
"""


def test_a_submitted_job_writes_and_reads_encrypted_tables(tmp_path: Path) -> None:
    jdk()  # or there is no Spark
    told = [sys.executable, "-m", "sealberg.cli.main", "spark-conf", "--catalog", "lake"]
    options = shlex.split(subprocess.run(told, capture_output=True, text=True, check=True).stdout)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "spark-defaults.conf").write_text("spark.master local[2]\nspark.ui.enabled false\n")
    here = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS")}
    here |= {
        "SPARK_CONF_DIR": str(tmp_path),
        "PYSPARK_PYTHON": sys.executable,
        "PYICEBERG_CATALOG__LAKE__TYPE": "sql",
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{tmp_path}/lake.db",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"file://{tmp_path}/warehouse",
    }
    command = [str(submit), *options, "job.py"]
    done = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "found 20 190 name-9" in done.stdout
    written = list((tmp_path / "warehouse").rglob("*.parquet"))
    assert {path.read_bytes()[:4] for path in written} == {b"PARE"}
    assert {path.read_bytes()[:4] for path in (tmp_path / "warehouse").rglob("*.avro")} == {b"AGS1"}
    assert not [path for path in written if b"name-" in path.read_bytes()]


AVRO = """
from pyspark.sql import SparkSession

import sealberg.spark

spark = SparkSession.builder.getOrCreate()
sealberg.spark.install(spark, {"lake": {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16}})
spark.sql("CREATE NAMESPACE lake.hr")
kept = "TBLPROPERTIES ('encryption.key-id' = 'hr', 'write.format.default' = 'avro')"
spark.sql(f"CREATE TABLE lake.hr.t (id bigint) {kept}")
spark.sql("INSERT INTO lake.hr.t SELECT id FROM range(50)")
print("found", *spark.sql("SELECT count(*), sum(id) FROM lake.hr.t WHERE id < 20").first())
spark.stop()
"""
SITE = """
import sys
if "sealberg.spark.worker" in sys.orig_argv:
    with open({mark!r}, "a") as file:
        file.write("PYTHONPATH ")
        import shipped
        file.write(shipped.NAME)
"""


def test_what_lies_in_the_working_directory_is_not_run_beside_a_task(tmp_path: Path) -> None:
    jdk()  # or there is no Spark
    told = [sys.executable, "-m", "sealberg.cli.main", "spark-conf", "--catalog", "lake"]
    options = shlex.split(subprocess.run(told, capture_output=True, text=True, check=True).stdout)
    job, here, path = (tmp_path / name for name in ("job", "here", "path"))
    for folder in (job, here, path, here / "sealberg"):
        folder.mkdir()
    (job / "job.py").write_text(AVRO)
    for module in ("json.py", "sealberg/__init__.py", "pyarrow.py"):
        (here / module).write_text(f"open({str(tmp_path / 'hostile')!r}, 'a').write(__file__)\n")
    (path / "sitecustomize.py").write_text(SITE.format(mark=str(tmp_path / "found")))  # Python imports it at its start
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as archive:
        archive.writestr("shipped.py", "NAME = 'py-files '")
    (tmp_path / "spark-defaults.conf").write_text("spark.master local[2]\nspark.ui.enabled false\n")
    given = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS")}
    given |= {
        "SPARK_CONF_DIR": str(tmp_path),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(path), ""]),
        "PYTHONSAFEPATH": "",
        "PYICEBERG_CATALOG__LAKE__TYPE": "sql",
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{tmp_path}/lake.db",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"file://{tmp_path}/warehouse",
    }
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    # The driver is the user's own affair: Python runs it with this option, and the tasks' Python has to know better.
    (tmp_path / "driver").write_text(f'#!/bin/sh\nPYTHONPATH="${{PYTHONPATH%:}}" exec {sys.executable} -P "$@"\n')
    (tmp_path / "driver").chmod(0o700)
    given["PYSPARK_DRIVER_PYTHON"] = str(tmp_path / "driver")
    command = [str(submit), *options, "--py-files", str(tmp_path / "shipped.zip"), str(job / "job.py")]
    done = subprocess.run(command, cwd=here, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "found 20 190" in done.stdout
    assert not (tmp_path / "hostile").exists(), (tmp_path / "hostile").read_text()
    assert set((tmp_path / "found").read_text().split()) == {"PYTHONPATH", "py-files"}
