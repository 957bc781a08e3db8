"""Deletes files in stages: a file goes before the file that names it.

    data, delete files ─> manifests ─> manifest lists ─> statistics ─> older metadata.json
                       a stage that cannot delete a file ends the work: the later stages still name that file

So a job that is killed, or that meets a file that it cannot delete, can be run again: what is left is still named by
what is left. A file that does not exist any more is no error.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from sealberg.files.removal import remove_file
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.io import FileIO

    from sealberg.files.listing import Listed
    from sealberg.jobs.runner import Runner

BATCH: Final = 200
REQUESTS: Final = 8  # at a time, of one batch: stores answer slowly and many at a time
SHOWN: Final = 20


class Unneeded(NamedTuple):
    """A file to delete.

    Attributes:
        size: None where nobody has said how large the file is.
        listed: what a listing saw there; another object at this location stays.
    """

    kind: str
    location: str
    size: int | None
    listed: Listed | None = None


class Left(NamedTuple):
    """A file that could not be deleted or read, and why."""

    location: str
    reason: str


@dataclass
class Removed:
    """What was deleted: files and bytes of each kind, and the first locations.

    Attributes:
        left: files that could not be deleted or read: another run may.
        kept: files that are not the table's own to delete.
    """

    files: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    first: list[str] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    kept: list[Left] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0: all is done. 1: files were kept. 2: files were left; the next run goes on."""
        return FINDINGS if self.kept else NOT_CHECKED if self.left else FINE

    @property
    def count(self) -> int:
        return sum(self.files.values())

    def note(self, batch: Iterable[Unneeded]) -> None:
        for file in batch:
            self.files[file.kind] = self.files.get(file.kind, 0) + 1
            self.bytes += file.size or 0
            if len(self.first) < SHOWN:
                self.first.append(file.location)


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """Some files of one stage, and a FileIO that has no keys.

    Attributes:
        requests: how many files are deleted at a time.
    """

    files: tuple[Unneeded, ...]
    io: FileIO = field(repr=False)
    requests: int = REQUESTS


class Deleted(NamedTuple):
    done: tuple[Unneeded, ...]
    left: tuple[Left, ...]


def delete_batch(task: DeleteTask) -> Deleted:
    """Delete the files of a task; a file that is gone already counts as neither deleted nor left."""
    if len(task.files) == 1:
        answers = [_delete(task.io, task.files[0])]
    else:
        with ThreadPoolExecutor(min(task.requests, len(task.files)), thread_name_prefix="sealberg-delete") as pool:
            answers = list(pool.map(partial(_delete, task.io), task.files))
    pairs = list(zip(task.files, answers, strict=True))
    return Deleted(
        tuple(file for file, answer in pairs if answer is None),
        tuple(Left(file.location, str(answer)) for file, answer in pairs if answer),
    )


def _delete(io: FileIO, file: Unneeded) -> str | None:
    return remove_file(io, str(file.location), file.listed)


def delete_in_stages(
    files: Iterable[Unneeded],
    io: FileIO,
    runner: Runner,
    removed: Removed,
    *,
    noted: Callable[[int, int], None] = lambda _files, _bytes: None,
) -> bool:
    """Delete the files, which come stage by stage; False if something was left, and the later stages with it.

    Args:
        io: has no keys.
        removed: counts what was deleted.
        noted: is told the files and bytes of each finished batch.
    """
    for _, stage in groupby(files, lambda file: file.kind):
        for answer in runner.run(delete_batch, _tasks(stage, io)):
            removed.note(answer.done)
            removed.left.extend(answer.left)
            noted(len(answer.done), sum(file.size or 0 for file in answer.done))
        if removed.left:  # also what could not be read: what it names is not known
            return False
    return not removed.left


def _tasks(stage: Iterator[Unneeded], io: FileIO) -> Iterator[DeleteTask]:
    while batch := tuple(islice(stage, BATCH)):
        yield DeleteTask(batch, io)
