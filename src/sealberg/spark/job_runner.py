"""Runs the files of a job as tasks of Spark: a few files per task, on all executors.

    result = sealberg.jobs.verify.plan("hr.salaries").execute(runner=SparkRunner(spark))

    driver: FileTask with the key of its file ──Spark's encrypted messages──> Python worker ──> FileReport

The key of a file is in the task that works on the file and nowhere else. Spark must encrypt its network and its local
files: PySpark writes tasks into a temporary file unless spark.io.encryption.enabled is set. Spark runs the tasks of an
executor that dies again.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from sealberg.errors import ConfigError
from sealberg.spark.local_disks import SPILL, check_local_disks
from sealberg.spark.network import check_network, protection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
FILES_PER_CORE: Final = 256  # of one job of Spark: the driver holds few files at a time
JOBS_AT_A_TIME: Final = 2  # the second one begins where the first one leaves an executor without work
TASKS_PER_CORE: Final = 4  # of one job: a task costs up to a quarter of a second beside its files


class SparkRunner:
    """A `Runner` on a Spark session.

    Args:
        spark: a classic session; Spark Connect has no tasks of the user's own.
    """

    def __init__(self, spark: SparkSession) -> None:
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            raise ConfigError("Spark Connect cannot run jobs of sealberg: use a classic session")
        self._context = spark.sparkContext
        conf = dict(self._context.getConf().getAll())
        check_local_disks(conf)  # by which PySpark sends tasks, with the keys of their files
        check_network(conf)

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """See `Runner`. While a job of Spark runs, this thread prepares the next one, so that no executor waits."""
        rest, cores = iter(tasks), max(1, self._context.defaultParallelism)
        running: deque[Future[list[R]]] = deque()
        with ThreadPoolExecutor(JOBS_AT_A_TIME, thread_name_prefix="sealberg-spark") as jobs:
            while batch := list(islice(rest, cores * FILES_PER_CORE)):
                pickle.dumps(batch[0])  # a task that cannot be sent says why; PySpark would say only that it cannot
                running.append(jobs.submit(self._job, work, batch, min(len(batch), cores * TASKS_PER_CORE)))
                if len(running) == JOBS_AT_A_TIME:
                    yield from running.popleft().result()
            while running:
                yield from running.popleft().result()

    def _job(self, work: Callable[[T], R], batch: list[T], slices: int) -> list[R]:
        return self._context.parallelize(batch, slices).map(work).collect()


@contextmanager
def spark_runner(master: str) -> Iterator[SparkRunner]:
    """A runner on a new session, which is stopped with the block; for the command line."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = dict(SparkConf().getAll())
    builder = SparkSession.builder.master(master).appName("sealberg")
    for name, value in {SPILL: "true", **QUIET, **protection(given)}.items():
        builder = builder.config(name, given.get(name, value))
    spark = builder.getOrCreate()
    try:
        yield SparkRunner(spark)
    finally:
        spark.stop()
