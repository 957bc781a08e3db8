"""Whether the manifests of a scan are read by the driver or by Spark's tasks, as Iceberg Java decides it.

    local         by threads of the driver
    distributed   by tasks, unless no manifest may match
    auto          by tasks, if Spark runs more tasks at a time than the driver has threads, more than two manifests
                  come to each thread, and they are longer than 128 MiB for each thread; else by the driver

"auto" plans deletes locally if the snapshot may have equality deletes, and everything where spark.driver.maxResultSize
is below 256 MiB: what tasks leave would not pass. Java plans data locally as well if there are equality deletes, since
it must send statistics of columns then; we send none.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealberg.files.file_io import EncryptingFileIO
from sealberg.jobs.task_io import storage_only
from sealberg.scan.manifest_reading import read_here
from sealberg.scan.manifest_tasks import read_by_tasks
from sealberg.table.reachable import without_list_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot

    from sealberg.metadata.manifest_columns import ManifestColumns
    from sealberg.metadata.packed_column import Rows
    from sealberg.scan.manifest_filter import Keep
    from sealberg.scan.manifest_tasks import ManifestTask
    from sealberg.spark.driver.calls import Call
    from sealberg.spark.protocol.scans import Planning

AUTO, LOCAL, DISTRIBUTED = "auto", "local", "distributed"
THREADS: Final = max(2, os.cpu_count() or 1)  # as many as Java's worker pool has
BYTES_OF_THREAD: Final = 128 << 20
LEAST_RESULT_BYTES: Final = 256 << 20
EQUALITY_DELETES: Final = "total-equality-deletes"
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlanningModes:
    """Who reads the manifests of one snapshot."""

    data: str
    deletes: str
    planning: Planning

    @classmethod
    def of(cls, planning: Planning, snapshot: Snapshot) -> PlanningModes:
        data, deletes = planning.data_mode or AUTO, planning.delete_mode or AUTO
        if 0 < planning.most_result_bytes < LEAST_RESULT_BYTES:
            data, deletes = (LOCAL if mode == AUTO else mode for mode in (data, deletes))
        summary = snapshot.summary
        if deletes == AUTO and (summary is None or summary[EQUALITY_DELETES] != "0"):
            deletes = LOCAL
        return cls(data, deletes, planning)

    def may_distribute(self, manifests: Sequence[ManifestFile]) -> bool:
        """Whether any of these manifests may be read by tasks; the filter is not asked yet."""
        return self.distributes(self.data, manifests) or self.distributes(self.deletes, manifests)

    def distributes(self, mode: str, manifests: Sequence[ManifestFile]) -> bool:
        if mode != AUTO:
            return mode == DISTRIBUTED and bool(manifests)
        return (
            self.planning.parallelism > THREADS
            and len(manifests) > 2 * THREADS
            and sum(manifest.manifest_length for manifest in manifests) > BYTES_OF_THREAD * THREADS
        )


@dataclass
class DistributedReading:
    """Reads the manifests of one plan, each kind where its mode says; `tasks` counts the tasks of Spark."""

    name: str
    io: FileIO
    modes: PlanningModes
    call: Call
    tasks: int = field(default=0)

    def data(self, manifests: Sequence[ManifestFile], keep: Keep) -> list[tuple[ManifestColumns, Rows]]:
        return self._read("data", self.modes.data, manifests, keep)

    def deletes(self, manifests: Sequence[ManifestFile], keep: Keep) -> list[tuple[ManifestColumns, Rows]]:
        return self._read("delete", self.modes.deletes, manifests, keep)

    def _read(
        self, what: str, mode: str, manifests: Sequence[ManifestFile], keep: Keep
    ) -> list[tuple[ManifestColumns, Rows]]:
        if not self.modes.distributes(mode, manifests):
            return read_here(self.io, manifests, keep)
        _log.info("%s: tasks of Spark read %d %s manifests", self.name, len(manifests), what)
        return read_by_tasks(self._run, manifests, keep, _task_io(self.io), self.modes.planning.slots)

    def _run(self, work: Callable[[ManifestTask], bytes], tasks: Iterable[ManifestTask]) -> Iterator[bytes]:
        chosen = list(tasks)
        self.tasks += len(chosen)
        return self.call.run(work, chosen)


def _task_io(io: FileIO) -> FileIO:
    """The storage, and no key but those that manifests carry."""
    if isinstance(io, EncryptingFileIO):
        return without_list_keys(io, storage_only(io.inner))
    return storage_only(io)
