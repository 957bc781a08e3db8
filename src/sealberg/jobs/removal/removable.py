"""The tables whose files may be removed: of version 3, of a catalog, and not shared with other tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealberg.errors import RemovalRefusedError, UnsupportedError
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
        raise RemovalRefusedError(
            f"{refusal}: GC is disabled (deleting files may corrupt other tables). {name} has {GC_ENABLED}=false; "
            f"set {GC_ENABLED}=true if no other table uses its files"
        )
    return table
