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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealberg.errors import KmsUnavailableError, LeftoverFilesError, PurgeRefusedError, SealbergError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot

    from sealberg.table.catalog_table import CatalogTable

GC_ENABLED: Final = "gc.enabled"
DELETE_THREADS: Final = 8
SHOWN: Final = 10


@dataclass(frozen=True)
class PurgePlan:
    """The files of a table, in the order in which they are deleted.

    Attributes:
        stages: a file comes after all files that it names; the last stage is the metadata file alone.
        foreign: files outside of the metadata folder that only metadata without a hash name. They are not deleted:
            whoever can write to the storage could have put any path there.
    """

    stages: tuple[tuple[str, ...], ...]
    foreign: tuple[str, ...] = ()


def purge(table: CatalogTable, drop: Callable[[], None], *, vouched: bool = True) -> None:
    """Find every file, drop the table, delete the files.

    Args:
        drop: drops the table in the catalog.
        vouched: whether the catalog vouches for all of the metadata, because it stores them or a hash of them.

    Raises:
        PurgeRefusedError: nothing was dropped: a manifest cannot be read, or `gc.enabled=false`.
        KmsUnavailableError: nothing was dropped.
        LeftoverFilesError: the table is dropped, and these files could not be deleted.
    """
    refuse_shared_files(table)
    found = plan(table, vouched=vouched)
    drop()
    delete(table, found)


def refuse_shared_files(table: CatalogTable) -> None:
    """Refuse a table with gc.enabled=false, with the message of Iceberg's SparkCatalog."""
    if str(table.metadata.properties.get(GC_ENABLED, "true")).lower() != "true":
        raise PurgeRefusedError(
            f"Cannot purge table: GC is disabled (deleting files may corrupt other tables). {_named(table)} has "
            f"{GC_ENABLED}=false; drop it without purge, or set {GC_ENABLED}=true if no other table uses its files"
        )


def plan(table: CatalogTable, *, vouched: bool = True) -> PurgePlan:
    """Every file that the metadata name; an error if a manifest list or a manifest cannot be read."""
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
    if unreadable:
        raise _refusal(table, unreadable)
    metadata = table.metadata
    statistics = [file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)]
    older = [entry.metadata_file for entry in metadata.metadata_log if entry.metadata_file != table.metadata_location]
    foreign = [] if vouched else [path for path in (*statistics, *older) if not _beside(table, path)]
    stages = (data, manifests, lists, statistics, older, [table.metadata_location])
    return PurgePlan(
        tuple(tuple(path for path in dict.fromkeys(stage) if path not in foreign) for stage in stages), tuple(foreign)
    )


def delete(table: CatalogTable, found: PurgePlan) -> None:
    """Delete stage by stage; a file that does not exist is no error."""
    for number, stage in enumerate(found.stages):
        failed = dict(deleted(table.inner, stage))
        if failed:
            above = sum(map(len, found.stages[number + 1 :]))
            path, error = next(iter(failed.items()))
            raise LeftoverFilesError(
                f"table {_named(table)} is dropped, and {len(failed)} of its files could not be deleted: "
                f"{_listed(failed)} ({path}: {type(error).__name__}: {error}). {above} metadata files that name "
                f"them were kept: register {table.metadata_location} and purge again, or delete the files yourself",
                (*failed, *(path for later in found.stages[number + 1 :] for path in later), *found.foreign),
            )
    if found.foreign:
        raise LeftoverFilesError(
            f"table {_named(table)} is dropped and its files are deleted, except {len(found.foreign)} files outside of "
            f"its metadata folder that only its metadata file names, for which the catalog has no hash: "
            f"{_listed(found.foreign)}. Delete them yourself if they belong to the table",
            found.foreign,
        )


def _manifests(
    table: CatalogTable, snapshot: Snapshot, unreadable: dict[str, SealbergError | OSError]
) -> list[ManifestFile]:
    try:
        return snapshot.manifests(table.io)
    except KmsUnavailableError:
        raise  # the whole purge can be tried again; every further request here would wait as long
    except (SealbergError, OSError) as error:
        unreadable[snapshot.manifest_list] = error
        return []


def _files(
    table: CatalogTable, manifest: ManifestFile, unreadable: dict[str, SealbergError | OSError]
) -> Iterator[str]:
    try:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            yield str(entry.data_file.file_path)
    except (SealbergError, OSError) as error:
        unreadable[str(manifest.manifest_path)] = error


def _refusal(table: CatalogTable, unreadable: dict[str, SealbergError | OSError]) -> PurgeRefusedError:
    lost = dict.fromkeys(
        str(snapshot.key_id) for snapshot in table.metadata.snapshots if snapshot.manifest_list in unreadable
    )
    keys = f", whose keys in encryption-keys are {_listed(lost)}" if any(key != "None" for key in lost) else ""
    path, error = next(iter(unreadable.items()))
    return PurgeRefusedError(
        f"table {_named(table)} cannot be purged, and nothing was dropped: {len(unreadable)} manifest lists and "
        f"manifests cannot be read, so the files that they name are not known: {_listed(unreadable)}{keys} "
        f"({path}: {type(error).__name__}: {error}). Drop the table without purge to leave its files in place",
        tuple(unreadable),
    )


def deleted(io: FileIO, paths: Iterable[str]) -> Iterator[tuple[str, Exception]]:
    """Delete files in parallel; yields each file that could not be deleted, with the error."""

    def remove(path: str) -> Exception | None:
        try:
            io.delete(path)
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 (a FileIO may raise anything; the other files are still deleted)
            return error
        return None

    paths = list(paths)
    with ThreadPoolExecutor(DELETE_THREADS, thread_name_prefix="sealberg-purge") as pool:
        for path, error in zip(paths, pool.map(remove, paths), strict=True):
            if error is not None:
                yield path, error


def _beside(table: CatalogTable, path: str) -> bool:
    """Whether the file is in the folder of the metadata file, which the catalog names."""
    folder = table.metadata_location.rpartition("/")[0]
    return path.rpartition("/")[0] == folder and path.rpartition("/")[2] not in {"", ".", ".."}


def _listed(paths: Iterable[str]) -> str:
    """The first few, and how many more."""
    every = list(paths)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more


def _named(table: CatalogTable) -> str:
    return ".".join(table.name())
