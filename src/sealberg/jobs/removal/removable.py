"""The tables whose files may be removed: of version 3, of a catalog, and not shared with other tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealberg.errors import RemovalRefusedError, UnsupportedError
from sealberg.jobs.replacement import SOURCE_GC
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.purge import GC_ENABLED

if TYPE_CHECKING:
    from pyiceberg.table import Table


def removable(table: Table, refusal: str) -> CatalogTable:
    """The table, or an error; `refusal` begins the message, in Java's words."""
    name = ".".join(table.name())
    if not isinstance(table, CatalogTable):
        raise UnsupportedError(
            f"{name} has the format version {table.metadata.format_version}, or was opened without a catalog; "
            "expected a table of version 3 of a catalog"
        )
    if str(table.metadata.properties.get(GC_ENABLED, "true")).lower() != "true":
        way_out = f"set {GC_ENABLED}=true if no other table uses its files"
        if SOURCE_GC in table.metadata.properties:
            way_out = (
                "the table whose place it took by change-master still uses its files. Drop that table with `sealberg "
                f"change-master {name} {table.metadata.properties[KEY_ID_PROPERTY]} --drop-old` (and the --keep-as of "
                "the change, if it had one)"
            )
        raise RemovalRefusedError(
            f"{refusal}: GC is disabled (deleting files may corrupt other tables). {name} has {GC_ENABLED}=false; "
            f"{way_out}"
        )
    return table
