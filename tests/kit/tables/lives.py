"""Tables with a history, for tests of jobs that remove snapshots, files and keys.

lived(catalog)                appends, an overwrite, deletion vectors of several files in one Puffin file, a branch,
                              a tag, rows that come and go: 9 snapshots
needed(table)                 every file that the table's metadata name, live files only
stored(table)                 every file in the table's folder
check_exact(table)            nothing is missing, and nothing lies there that nothing names
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sealberg.files.locations import normal

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
AT_ONCE = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "5"}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"person-{each}" for each in ids]}, schema=SCHEMA)


def ids(table: Any, **scan: Any) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


def lived(catalog: Catalog, name: str = "hr.people", **properties: str) -> Any:
    """A table whose current rows are 2, 4, 5, 6, 20; the branch `audit` has 1 to 4, the tag `first` 1 and 2."""
    settings = {"encryption.key-id": "hr", "write.delete.mode": "merge-on-read", **AT_ONCE, **properties}
    table: Any = catalog.create_table(name, SCHEMA, properties=settings)
    table.append(rows(1, 2))
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "first").commit()
    table.append(rows(3, 4))
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    table.append(rows(5, 6))
    table.delete("id in (1, 3)")  # two vectors in one Puffin file
    table.append(rows(7, 8))
    table.append(rows(9, 10))
    table.overwrite(rows(20), overwrite_filter="id >= 7")
    table.append(rows(30, 31))
    table.delete("id >= 30")
    return table


def stored(table: Any) -> set[str]:
    folder = Path(normal(table.metadata.location))
    return {str(path) for path in folder.rglob("*") if path.is_file()}


def needed(table: Any) -> set[str]:
    """The files that the metadata name; of older metadata files, those that still exist."""
    metadata = table.metadata
    found = {normal(table.metadata_location)}
    found |= {normal(each.statistics_path) for each in (*metadata.statistics, *metadata.partition_statistics)}
    for snapshot in metadata.snapshots:
        found.add(normal(snapshot.manifest_list))
        for manifest in snapshot.manifests(table.io):
            found.add(normal(manifest.manifest_path))
            found |= {normal(entry.data_file.file_path) for entry in manifest.fetch_manifest_entry(table.io)}
    logged = {normal(entry.metadata_file) for entry in metadata.metadata_log}
    return found | (logged & stored(table))


def check_exact(table: Any) -> None:
    """Every snapshot opens, and the table's folder has the files that the metadata name and no other."""
    for snapshot in table.metadata.snapshots:
        ids(table, snapshot_id=snapshot.snapshot_id)
    assert stored(table) == needed(table)


def metadata_files(table: Any) -> list[str]:
    return sorted(each for each in stored(table) if each.endswith(".metadata.json"))
