"""A job in Java by spark-submit, in client mode and in cluster mode on a standalone cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kit.programs.doors import Lake, java_job, spark_sql
from kit.programs.spark_failures import CLUSTER
from kit.programs.two_workers import cluster
from kit.programs.visit import visit

if TYPE_CHECKING:
    from pathlib import Path


def test_two_applications_at_once(tmp_path: Path) -> None:
    """A Java job in client mode and a spark-sql shell, with the same two catalogs."""
    lake = Lake.create(tmp_path, "prod", "other")
    with java_job(lake) as job, spark_sql(lake) as shell:
        job.run("CREATE NAMESPACE prod.both")
        job.run("CREATE TABLE prod.both.t (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr')")
        shell.run("INSERT INTO prod.both.t VALUES (1), (2)")
        job.run("DELETE FROM prod.both.t WHERE id = 1")
        shell.run("CREATE NAMESPACE other.both")
        keyed = "TBLPROPERTIES ('encryption.key-id' = 'hr')"
        shell.run(f"CREATE TABLE other.both.t {keyed} AS SELECT id + 1 AS id FROM prod.both.t")
        assert job.run("SELECT p.id, o.id FROM prod.both.t p CROSS JOIN other.both.t o") == [["2", "3"]]
        visit(job, lake)
        visit(shell, lake, "other")


def test_a_java_job_in_cluster_mode(tmp_path: Path) -> None:
    """The driver runs on a worker, which gives it neither the environment nor the home of who submitted the job."""
    lake = Lake.create(tmp_path)
    lake.conf |= CLUSTER | {"spark.driver.memory": "768m", "spark.executor.memory": "768m"}
    lake.conf["spark.sealberg.python"] = sys.executable
    lake.conf["spark.sealberg.properties-file"] = str(tmp_path / "home" / ".pyiceberg.yaml")
    del lake.environment["PYSPARK_PYTHON"], lake.environment["PYICEBERG_HOME"]
    with cluster(tmp_path) as master:
        lake.conf["spark.master"] = master
        with java_job(lake, "--deploy-mode", "cluster") as door:
            visit(door, lake)
