"""The files that table metadata name, read by any number of threads or by Spark.

    metadata ──> list tasks ──run──> ListNames ──> manifest tasks ──run──> ManifestNames: data and delete files
                                                                                    └──> Reach: a set of all of them

A task is a file: its location, which carries the key of this file, and a FileIO that has no other key. A file that is
named by several parents is read once. Only names and sizes are decoded, not the statistics of columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from sealberg.errors import KeyNotFoundError, PlaintextFileError, RemovalRefusedError, SealbergError
from sealberg.files.file_io import ALLOW_PLAINTEXT, EncryptingFileIO, keyed, naming
from sealberg.files.locations import Locations, normal
from sealberg.metadata.manifest_names import read_list_names, read_manifest_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Protocol, TypeVar

    from pyiceberg.io import FileIO

    from sealberg.metadata.manifest_names import FileNames
    from sealberg.metadata.table_metadata import V3Snapshot, V3TableMetadata

    T = TypeVar("T")
    R = TypeVar("R")

    class Run(Protocol):
        """How tasks are worked on: `map`, or the method `run` of a runner."""

        def __call__(self, work: Callable[[T], R], tasks: Iterable[T], /) -> Iterable[R]: ...


@dataclass(frozen=True, slots=True)
class ReadTask:
    """A manifest list or a manifest to read."""

    location: str
    io: FileIO = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListNames:
    """The manifests that a manifest list names; their locations carry their keys.

    Attributes:
        error: why the list could not be read; None if it was.
        missing: the file does not exist.
    """

    location: str
    manifests: tuple[str, ...] = ()
    error: str | None = None
    missing: bool = False


@dataclass(frozen=True, slots=True)
class ManifestNames:
    """The files that a manifest names; None if it could not be read."""

    location: str
    files: FileNames | None = None
    error: str | None = None
    missing: bool = False


def read_list(task: ReadTask) -> ListNames:
    """The names in a manifest list; an error is part of the answer."""
    where = str(task.location)
    try:
        with naming(where):
            return ListNames(where, tuple(read_list_names(task.io, task.location)))
    except FileNotFoundError:
        return ListNames(where, error="the file does not exist", missing=True)
    except (SealbergError, OSError) as error:
        return ListNames(where, error=f"{type(error).__name__}: {error}")


def read_manifest(task: ReadTask) -> ManifestNames:
    """The names in a manifest; an error is part of the answer."""
    where = str(task.location)
    try:
        with naming(where):
            return ManifestNames(where, read_manifest_names(task.io, task.location))
    except FileNotFoundError:
        return ManifestNames(where, error="the file does not exist", missing=True)
    except (SealbergError, OSError) as error:
        return ManifestNames(where, error=f"{type(error).__name__}: {error}")


def list_task(snapshot: V3Snapshot, io: FileIO, task_io: FileIO) -> ReadTask:
    """The task that reads a snapshot's manifest list; `io` opens the key of the list here."""
    location = str(snapshot.manifest_list)
    if isinstance(io, EncryptingFileIO):
        if snapshot.key_id is not None:
            return ReadTask(keyed(location, io.open_list_key(snapshot.key_id).encode()), task_io)
        if not io.allow_plaintext:
            raise PlaintextFileError(
                f"a snapshot of an encrypted table has no key-id, so its manifest list {location} is not encrypted; "
                f"{ALLOW_PLAINTEXT}=true reads such files"
            )
    return ReadTask(location, task_io)


def without_list_keys(io: FileIO, storage: FileIO) -> FileIO:
    """A FileIO for tasks over `storage`: it opens what carries its key, as `io` does, and knows no other key."""
    if not isinstance(io, EncryptingFileIO):
        return storage
    return EncryptingFileIO(
        storage, no_list_key, allow_plaintext=io.allow_plaintext, allow_missing_length=io.allow_missing_length
    )


def no_list_key(key_id: str) -> NoReturn:
    raise KeyNotFoundError(f"the FileIO of a task opens no key of encryption-keys, and was asked for {key_id}")


@dataclass
class Reach:
    """Every file that metadata name; the live data and delete files only, as they are what a scan can reach.

    Attributes:
        unread: manifests whose files are not in `files` yet; their locations carry their keys.
    """

    lists: Locations = field(default_factory=Locations)
    manifests: Locations = field(default_factory=Locations)
    files: Locations = field(default_factory=Locations)
    statistics: Locations = field(default_factory=Locations)
    unread: list[str] = field(default_factory=list, repr=False)

    def __contains__(self, location: str) -> bool:
        return self.has_normal(normal(location))

    def has_normal(self, location: str) -> bool:
        """Whether the location, which is in the spelling of `normal`, is among the files."""
        parts = (self.files, self.manifests, self.lists, self.statistics)
        return any(part.has_normal(location) for part in parts)

    def read_files(self, task_io: FileIO, run: Run = map) -> None:
        """Read the manifests, and add the files that are live in them; RemovalRefusedError if one cannot be read."""
        unread, self.unread = self.unread, []
        for held in run(read_manifest, (ReadTask(each, task_io) for each in unread)):
            refuse_unread(held)
            assert held.files is not None, "the manifest was read"
            self.files.update(held.files.live_locations())


def statistics_of(metadata: V3TableMetadata) -> dict[str, int]:
    """The statistics files of tables and partitions, with their sizes."""
    every: tuple[Any, ...] = (*metadata.statistics, *metadata.partition_statistics)
    return {file.statistics_path: file.file_size_in_bytes for file in every}


def reach(
    metadata: V3TableMetadata, io: FileIO, *, task_io: FileIO | None = None, run: Run = map, files: bool = True
) -> Reach:
    """What these metadata name.

    Args:
        io: opens the snapshots of these metadata.
        task_io: for tasks that are sent elsewhere; by default `io`.
        run: works on the tasks.
        files: False to leave data and delete files out, until `read_files` is called.

    Raises:
        RemovalRefusedError: a manifest list or a manifest cannot be read, so what it names is not known.
    """
    task_io = io if task_io is None else task_io
    found = Reach(statistics=Locations(statistics_of(metadata)))
    for names in run(read_list, list_tasks(metadata.snapshots, io, task_io)):
        refuse_unread(names)
        found.lists.add(names.location)
        found.unread.extend(each for each in names.manifests if found.manifests.adds(each))
    if files:
        found.read_files(task_io, run)
    return found


def list_tasks(snapshots: Iterable[V3Snapshot], io: FileIO, task_io: FileIO) -> Iterator[ReadTask]:
    seen = Locations()
    for snapshot in snapshots:
        if seen.adds(snapshot.manifest_list):
            yield list_task(snapshot, io, task_io)


def refuse_unread(names: ListNames | ManifestNames) -> None:
    """RemovalRefusedError if the file could not be read."""
    if names.error is not None:
        raise RemovalRefusedError(
            f"{names.location} cannot be read, so the files that it names are not known, and nothing more was "
            f"removed: {names.error}. `sealberg verify` says what is wrong with the table"
        )
