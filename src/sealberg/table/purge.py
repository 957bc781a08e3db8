"""Every file that a table's metadata name, for when the table goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealberg.errors import SealbergError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.table.catalog_table import CatalogTable


def purge_files(table: CatalogTable) -> list[str]:
    """Data, deletes, manifests, lists, statistics, then metadata: the order in which they can be deleted."""
    data: dict[str, None] = {}
    manifests: dict[str, None] = {}
    lists: dict[str, None] = {}
    for snapshot in table.metadata.snapshots:
        lists[snapshot.manifest_list] = None
        # A snapshot whose key is lost cannot say which files it has; what it says otherwise still goes.
        for path, files in _readable(table, snapshot.snapshot_id):
            manifests[path] = None
            data.update(dict.fromkeys(files))
    metadata = table.metadata
    statistics = [file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)]
    older = [entry.metadata_file for entry in table.metadata.metadata_log]
    return [*data, *manifests, *lists, *statistics, *older, table.metadata_location]


def _readable(table: CatalogTable, snapshot_id: int) -> Iterator[tuple[str, list[str]]]:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    try:
        for manifest in snapshot.manifests(table.io):
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            yield str(manifest.manifest_path), [str(entry.data_file.file_path) for entry in entries]
    except (SealbergError, OSError):
        return
