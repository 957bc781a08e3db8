"""A cluster of two executors, each a process of its own, with an encrypted network; run as a program by a test.

a task fails on its first attempt, an executor is killed in the middle of a write: no row is lost or doubled
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.functions import udf

from kit.spark import KEYED, start

NETWORK = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "a secret for a test",
    "spark.network.crypto.enabled": "true",
    "spark.executor.memory": "1g",
    "spark.task.maxFailures": "3",
}


def once(mark: Path, what: str) -> Any:
    """A function that does something terrible to the task or its executor, the first time it sees 15."""
    path = str(mark)

    def terrible(value):  # type: ignore[no-untyped-def]  # Spark reads annotations, and not as texts
        if value == 15 and not os.path.exists(path):  # noqa: PTH110 (the worker needs no more than this)
            open(path, "w").close()  # noqa: PTH123
            if what == "fail":
                raise ValueError("once")
            with open(f"/proc/{os.getppid()}/stat") as stat:  # noqa: PTH123
                os.kill(int(stat.read().rpartition(")")[2].split()[1]), signal.SIGKILL)  # the daemon's parent: the JVM
        return value

    return udf(terrible, "bigint")


def main(folder: Path) -> None:
    kit = start(folder, "local-cluster[2,1,1024]", **NETWORK)
    kit.sql(f"CREATE TABLE prod.hr.c (id bigint, p int) PARTITIONED BY (bucket(4, id)) {KEYED}")
    kit.sql("ALTER TABLE prod.hr.c SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    kit.spark.range(10_000, numPartitions=4).selectExpr("id", "cast(id % 3 as int) p").writeTo("prod.hr.c").append()
    kit.sql("DELETE FROM prod.hr.c WHERE id % 7 = 1")
    kit.sql("UPDATE prod.hr.c SET p = 9 WHERE id < 100")
    left = [one for one in range(10_000) if one % 7 != 1]
    expected = (len(left), sum(left), sum(9 if one < 100 else one % 3 for one in left))
    assert kit.sql("SELECT count(*), sum(id), sum(p) FROM prod.hr.c") == [expected]
    for what in ("fail", "kill"):
        name = f"prod.hr.{what}"
        kit.sql(f"CREATE TABLE {name} (id bigint) {KEYED}")
        changed = once(folder / what, what)
        kit.spark.range(20, numPartitions=2).select(changed("id").alias("id")).writeTo(name).append()
        assert (folder / what).exists()
        assert kit.sql(f"SELECT count(*), count(DISTINCT id) FROM {name}") == [(20, 20)]
        planned = {Path(one["location"].removeprefix("file://")) for one in kit.plan_requests(name)}
        assert what == "kill" or planned == set(kit.data_files(name)), "a killed process cannot tidy up"
    kit.spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
