"""The folders of a table: its location, and the folders that its properties name.

    hr/people           the location
    s3://hot/people     write.data.path, write.metadata.path, ...

A file is a table's own if it lies in one of them. `hr/people2` does not lie in `hr/people`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.files.locations import within

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

PATHS: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


def own_folders(metadata: TableMetadata) -> tuple[str, ...]:
    """The folders of the table, none of them inside another."""
    named = [metadata.location, *(metadata.properties[name] for name in PATHS if metadata.properties.get(name))]
    tops: list[str] = []
    for folder in (each.rstrip("/") for each in named):
        if not any(within(folder, top) for top in tops):
            tops = [top for top in tops if not within(top, folder)] + [folder]
    return tuple(tops)


def metadata_folder(metadata: TableMetadata) -> str:
    """Where writers put metadata.json."""
    return (metadata.properties.get("write.metadata.path") or f"{metadata.location.rstrip('/')}/metadata").rstrip("/")
