"""Purge: drops a table and deletes every file that its metadata name.

    plan(table)           all files, from manifest lists and manifests  ── an error here: nothing is dropped
    drop()                the catalog drops the table
    delete, in stages     data and deletes ─> manifests ─> lists ─> statistics ─> older metadata ─> metadata.json
                          a stage that cannot delete a file ends the purge: the later stages still name the file

An interrupted purge can therefore be repeated: register the metadata file and purge again.

`gc.enabled=false` means that other tables share these files. Iceberg's Spark catalog refuses to purge such a table, and
so does every catalog here. (Java's other catalogs keep the data files and delete the manifests; the manifests of an
encrypted table hold the keys of its data files.)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from sealberg.errors import (
    KmsUnavailableError,
    LeftoverFilesError,
    PurgeRefusedError,
    RemovalRefusedError,
    SealbergError,
)
from sealberg.files.locations import normals
from sealberg.files.removal import remove_file
from sealberg.table.own_folders import Domain, neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

GC_ENABLED: Final = "gc.enabled"
DELETE_THREADS: Final = 8
SHOWN: Final = 10


@dataclass(frozen=True)
class PurgePlan:
    """The files of a table, in the order in which they are deleted.

    Attributes:
        stages: a file comes after all files that it names; the last stage is the metadata file alone.
        foreign: files that the table names and that are not its own to remove, with the reason. They stay.
    """

    stages: tuple[tuple[str, ...], ...]
    foreign: Mapping[str, str] = field(default_factory=dict)


def purge(table: Table, drop: Callable[[], None], *, vouched: bool = True) -> None:
    """Find every file, drop the table, delete the files.

    Args:
        drop: drops the table in the catalog.
        vouched: whether the catalog vouches for all of the metadata, because it stores them or a hash of them.

    Raises:
        PurgeRefusedError: nothing was dropped: a manifest cannot be read, `gc.enabled=false`, or another name of the
            catalog has the same table.
        KmsUnavailableError: nothing was dropped.
        LeftoverFilesError: the table is dropped, and these files are still there.
    """
    refuse_shared_files(table)
    others = neighbours(table.catalog)
    try:
        domain = Domain.of(table, others, vouched=vouched)
    except RemovalRefusedError as error:
        raise PurgeRefusedError(f"{_named(table)} is not purged, and nothing was dropped: {error}") from error
    found = plan(table, domain)
    drop()
    delete(table, found)


def refuse_shared_files(table: Table) -> None:
    """Refuse a table with gc.enabled=false, with the message of Iceberg's SparkCatalog."""
    if str(table.metadata.properties.get(GC_ENABLED, "true")).lower() != "true":
        raise PurgeRefusedError(
            f"Cannot purge table: GC is disabled (deleting files may corrupt other tables). {_named(table)} has "
            f"{GC_ENABLED}=false; drop it without purge, or set {GC_ENABLED}=true if no other table uses its files"
        )


def plan(table: Table, domain: Domain, *, missing_ok: bool = False) -> PurgePlan:
    """Every file that the metadata name; an error if a manifest list or a manifest cannot be read.

    Args:
        missing_ok: a manifest list or manifest that does not exist was deleted by a run that was killed, after the
            files that it named.
    """
    data: dict[str, None] = {}
    manifests: dict[str, None] = {}
    lists: dict[str, None] = {}
    unreadable: dict[str, SealbergError | OSError] = {}
    for snapshot in table.metadata.snapshots:
        lists[snapshot.manifest_list] = None
        for manifest in _manifests(table, snapshot, unreadable):
            path = str(manifest.manifest_path)
            if path not in manifests:  # snapshots share most of their manifests
                manifests[path] = None
                data.update(dict.fromkeys(_files(table, manifest, unreadable)))
    if missing_ok:
        unreadable = {path: error for path, error in unreadable.items() if not isinstance(error, FileNotFoundError)}
    if unreadable:
        raise _refusal(table, unreadable)
    metadata = table.metadata
    statistics = [file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)]
    older = [entry.metadata_file for entry in metadata.metadata_log if entry.metadata_file != table.metadata_location]
    stages = (data, manifests, lists, statistics, older, [table.metadata_location])
    foreign: dict[str, str] = {}
    own: list[tuple[str, ...]] = []
    for stage in stages:
        named = list(dict.fromkeys(stage))
        reasons = map(domain.refusal, named, normals(named))
        judged = dict(zip(named, reasons, strict=True))
        own.append(tuple(path for path, reason in judged.items() if reason is None))
        foreign.update({path: reason for path, reason in judged.items() if reason is not None})
    return PurgePlan(tuple(own), foreign)


def delete(table: Table, found: PurgePlan) -> None:
    """Delete stage by stage; a file that does not exist is no error."""
    io = table.io
    for number, stage in enumerate(found.stages):
        failed = dict(deleted(io, stage))
        if failed:
            above = sum(map(len, found.stages[number + 1 :]))
            path, reason = next(iter(failed.items()))
            raise LeftoverFilesError(
                f"table {_named(table)} is dropped, and {len(failed)} of its files could not be deleted: "
                f"{_listed(failed)} ({path}: {reason}). {above} metadata files that name "
                f"them were kept: register {table.metadata_location} and purge again, or delete the files yourself",
                (*failed, *(path for later in found.stages[number + 1 :] for path in later), *found.foreign),
            )
    if found.foreign:
        path, reason = next(iter(found.foreign.items()))
        raise LeftoverFilesError(
            f"table {_named(table)} is dropped and its files are deleted, except {len(found.foreign)} that are not its "
            f"own: {_listed(found.foreign)} ({path} {reason}). Delete them yourself if they belong to the table",
            tuple(found.foreign),
        )


def _manifests(table: Table, snapshot: Snapshot, unreadable: dict[str, SealbergError | OSError]) -> list[ManifestFile]:
    try:
        return snapshot.manifests(table.io)
    except KmsUnavailableError:
        raise  # the whole purge can be tried again; every further request here would wait as long
    except (SealbergError, OSError) as error:
        unreadable[snapshot.manifest_list] = error
        return []


def _files(table: Table, manifest: ManifestFile, unreadable: dict[str, SealbergError | OSError]) -> Iterator[str]:
    try:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            yield str(entry.data_file.file_path)
    except (SealbergError, OSError) as error:
        unreadable[str(manifest.manifest_path)] = error


def _refusal(table: Table, unreadable: dict[str, SealbergError | OSError]) -> PurgeRefusedError:
    lost = dict.fromkeys(
        str(getattr(snapshot, "key_id", None))
        for snapshot in table.metadata.snapshots
        if snapshot.manifest_list in unreadable
    )
    keys = f", whose keys in encryption-keys are {_listed(lost)}" if any(key != "None" for key in lost) else ""
    path, error = next(iter(unreadable.items()))
    return PurgeRefusedError(
        f"table {_named(table)} cannot be purged, and nothing was dropped: {len(unreadable)} manifest lists and "
        f"manifests cannot be read, so the files that they name are not known: {_listed(unreadable)}{keys} "
        f"({path}: {type(error).__name__}: {error}). Drop the table without purge to leave its files in place",
        tuple(unreadable),
    )


def deleted(io: FileIO, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Delete files in parallel; yields each file that could not be deleted, with the reason."""
    paths = list(paths)
    with ThreadPoolExecutor(DELETE_THREADS, thread_name_prefix="sealberg-purge") as pool:
        for path, reason in zip(paths, pool.map(partial(remove_file, io), paths), strict=True):
            if reason:
                yield path, reason


def _listed(paths: Iterable[str]) -> str:
    """The first few, and how many more."""
    every = list(paths)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more


def _named(table: Table) -> str:
    return ".".join(table.name())
