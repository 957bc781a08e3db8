"""Manifests read and filtered by tasks of other processes; what is left comes back as columns.

    driver: manifest list ── ManifestTask: some manifests with their keys, the filter ──> filtered()   on an executor
            ManifestColumns of what is left <── sealed Arrow IPC ─────────────────────────┘
            delete index, residuals, FilePlan: on the driver, as in a plan that it makes alone

A task holds the keys of its own manifests and no other key. Its result holds the keys of the files that are left, so
it is sealed under a key that is made for one plan: Spark may write large results to the disk of an executor. The
driver packs a result before it takes the next one, so it holds what is left and one job's results.

An error of a manifest is a result as well: the driver raises it, as if it had read the manifest itself.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from pyiceberg.manifest import ManifestContent

from sealberg.format import aes_gcm
from sealberg.metadata import manifest_columns_ipc
from sealberg.scan.manifest_reading import kept_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    from sealberg.metadata.manifest_columns import ManifestColumns
    from sealberg.metadata.packed_column import Rows
    from sealberg.scan.manifest_filter import Keep


Run: TypeAlias = "Callable[[Callable[[ManifestTask], bytes], Iterable[ManifestTask]], Iterator[bytes]]"
FILES_OF_JOB: Final = 250_000  # whose columns may come back at a time: some 30 MB
TASKS_PER_SLOT: Final = 4  # so that one slow task does not hold up the others
SEAL_LENGTH: Final = 32


@dataclass(frozen=True)
class ManifestTask:
    """Some manifests of a plan; `first` is the number of the first of them."""

    first: int
    manifests: tuple[ManifestFile, ...] = field(repr=False)
    keep: Keep = field(repr=False)
    io: FileIO = field(repr=False)
    seal: bytes = field(repr=False)


@dataclass(frozen=True)
class _Left:
    """The result of a task: Arrow IPC by the number of the manifest, or the error of one."""

    parts: tuple[tuple[int, bytes], ...] = field(default=(), repr=False)
    error: Exception | None = None


def filtered(task: ManifestTask) -> bytes:
    """What is left of the manifests of a task, sealed."""
    return aes_gcm.seal(task.seal, pickle.dumps(_left(task)))


def _left(task: ManifestTask) -> _Left:
    parts = []
    try:
        kept = kept_rows(task.io, task.manifests, task.keep)
        for number, (manifest, found) in enumerate(zip(task.manifests, kept, strict=True), task.first):
            if found is not None:
                statistics = manifest.content == ManifestContent.DELETES  # by which deletes are matched
                parts.append((number, manifest_columns_ipc.write(*found, statistics=statistics).to_pybytes()))
    except Exception as error:  # noqa: BLE001 (the driver raises it)
        pickle.dumps(error)  # where that fails, Spark reports the error of the task
        return _Left(error=error)
    return _Left(tuple(parts))


def read_by_tasks(
    run: Run, manifests: Sequence[ManifestFile], keep: Keep, io: FileIO, slots: int
) -> list[tuple[ManifestColumns, Rows]]:
    """Read manifests by tasks: as `manifest_reading.read_here`, with the same answer.

    Args:
        run: applies a function to tasks in other processes, and yields the results in any order.
        io: reaches the storage, and opens what carries its key.
        slots: tasks that run at a time.
    """
    seal = os.urandom(SEAL_LENGTH)
    found: list[tuple[int, ManifestColumns]] = []
    for job in _jobs(manifests):
        tasks = [ManifestTask(first, some, keep, io, seal) for first, some in _tasks(*job, slots * TASKS_PER_SLOT)]
        for sealed in run(filtered, tasks):
            left: _Left = pickle.loads(aes_gcm.open(seal, sealed))  # noqa: S301 (sealed under the key of this plan)
            if left.error is not None:
                raise left.error
            found += ((number, manifest_columns_ipc.read(part)) for number, part in left.parts)
    return [(columns, np.arange(len(columns))) for _, columns in sorted(found, key=lambda each: each[0])]


def _files(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _jobs(manifests: Sequence[ManifestFile]) -> Iterator[tuple[int, Sequence[ManifestFile]]]:
    """The manifests of each Spark job, after the number of the first: as many as have FILES_OF_JOB together."""
    begin = files = 0
    for number, manifest in enumerate(manifests):
        if number > begin and files + _files(manifest) > FILES_OF_JOB:
            yield begin, manifests[begin:number]
            begin, files = number, 0
        files += _files(manifest)
    if begin < len(manifests):
        yield begin, manifests[begin:]


def _tasks(first: int, manifests: Sequence[ManifestFile], most: int) -> Iterator[tuple[int, tuple[ManifestFile, ...]]]:
    """The manifests of each task, after the number of the first: at most this many tasks, of about one length."""
    whole = max(1, sum(manifest.manifest_length for manifest in manifests))
    begin = done = 0
    for number, manifest in enumerate(manifests, 1):
        before, done = done, done + manifest.manifest_length
        if done * most // whole > before * most // whole or number == len(manifests):
            yield first + begin, tuple(manifests[begin:number])
            begin = number
