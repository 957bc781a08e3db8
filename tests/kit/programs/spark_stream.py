"""A driver that streams from one table to another, one file per batch, and kills itself. A test runs this program.

    python -m kit.programs.spark_stream FOLDER SOURCE TARGET CHECKPOINT before:5     dies instead of its sixth commit
                                                               after:5      dies when its sixth commit has landed
                                                               never        is killed by the test, some time

The program sends SIGKILL to Python and the JVM at once: the process is the leader of their group.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kit.programs.spark import connect
from sealberg.spark.driver.commits import Writes

if TYPE_CHECKING:
    from sealberg.spark.protocol.writes import CommitRequest


def doomed(when: str, number: int) -> None:
    """Kill the process before or after one of its commits."""
    commit, seen = Writes.commit, iter(range(1 << 30))

    def deadly(self: Writes, request: CommitRequest) -> None:
        dies = next(seen) == number
        if not (dies and when == "before"):
            commit(self, request)
        if dies:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    Writes.commit = deadly  # type: ignore[method-assign]


def main(folder: Path, source: str, target: str, checkpoint: str, fate: str) -> None:
    when, _, number = fate.partition(":")
    if number:
        doomed(when, int(number))
    spark = connect(folder)
    frame = spark.readStream.option("streaming-max-files-per-micro-batch", "1").table(source)
    query = (
        frame.writeStream.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").toTable(target)
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
