"""The names in few manifests are read by the driver: a Spark job would take longer than their reading.

    read_list, read_manifest   up to HERE bytes ──> threads of the driver      more ──> tasks of Spark
    other work                 tasks of Spark

The driver needs all these names in any case, and each has to come back from the task that has read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from sealberg.files.file_io import KeyedLocation
from sealberg.jobs.runner import Threads
from sealberg.table.reachable import read_list, read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sealberg.jobs.runner import Runner
    from sealberg.table.reachable import ReadTask

HERE: Final = 64 << 20  # bytes of all files
LEAST: Final = HERE // 256  # bytes for which a file counts at least, as a store takes its time to answer
UNKNOWN: Final = 8 << 20  # for which a file counts whose length nobody knows: the size at which a new one is begun


@dataclass(frozen=True)
class FewNamesHere:
    """A runner that reads few names on threads of this process, and leaves all other work to `elsewhere`."""

    elsewhere: Runner

    def run(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        if work not in (read_list, read_manifest):
            return self.elsewhere.run(work, tasks)
        taken: list[ReadTask] = []
        rest, weight = iter(tasks), 0
        for task in rest:
            taken.append(task)
            weight += _weight(task.location)
            if weight > HERE:
                return self.elsewhere.run(work, chain(taken, rest))
        return Threads().run(work, taken)


def _weight(location: str) -> int:
    length = location.keys.file_length if isinstance(location, KeyedLocation) else None
    return UNKNOWN if length is None else max(length, LEAST)
