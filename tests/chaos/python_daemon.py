"""PySpark's daemon, which has imported sealberg before it forks workers: a worker begins at once, not after a second.

spark.python.daemon.module=chaos.python_daemon
"""

from __future__ import annotations

from pyspark.daemon import manager

import sealberg.jobs.compaction.tasks
import sealberg.jobs.copying.file_copy
import sealberg.jobs.rekeying.tasks
import sealberg.jobs.replacement  # noqa: F401

if __name__ == "__main__":
    manager()  # type: ignore[no-untyped-call]
