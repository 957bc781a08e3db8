"""How Spark's tasks reach the files of a table: the catalog's storage settings, sent along like file keys.

    the properties of the table's FileIO ──> StorageSettings of its stores ──> ScanPlan and WritePlan
                                                                          ──> the tasks of that query, and no others

A REST server may vend credentials with the table, which live for a while; the FileIO renews them. A task that opens a
file when its credentials end soon asks the driver, which asks here, with RefreshStorage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.table import TableProperties

from sealberg.files.confined_io import allowed_stores, store
from sealberg.files.vended_io import VendedFileIO, ends_at
from sealberg.spark.driver.hadoop_settings import hadoop_settings
from sealberg.spark.protocol.storage import StorageSettings, StoreSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.spark.driver.tables import Tables
    from sealberg.spark.protocol.storage import RefreshStorage


def storage(io: FileIO, folder: str) -> StorageSettings:
    """How tasks reach the stores that this FileIO may reach.

    Args:
        io: of the table.
        folder: where the data files of the table are; credentials may be for a prefix.
    """
    properties = _properties(io, folder)
    families = {each.partition("://")[0] for each in {store(folder), *allowed_stores(io)}}
    settings = (hadoop_settings(family, properties) for family in sorted(families))
    ends_s = ends_at(properties)
    stores = (
        StoreSettings(each.prefix, each.settings, each.credentials, tuple(each.credential_names))
        for each in settings
        if each is not None and (each.settings or each.credentials)
    )
    return StorageSettings(tuple(stores), None if ends_s is None else round(ends_s * 1000))


def fresh_storage(tables: Tables, request: RefreshStorage) -> StorageSettings:
    """The same for a query that runs already: the credentials that it was given come to their end."""
    handle = request.handle
    if handle.staged is not None:
        change = tables.staged[handle.staged]
        return storage(change.io, data_folder(change.table_metadata))
    table = tables.found(handle)
    return storage(table.io, data_folder(table.metadata))


def data_folder(metadata: TableMetadata) -> str:
    """Where new data files of a table go."""
    return metadata.properties.get(TableProperties.WRITE_DATA_PATH, f"{metadata.location}/data")


def _properties(io: FileIO, folder: str) -> Mapping[str, Any]:
    at: Any = io
    while at is not None and not isinstance(at, VendedFileIO):
        at = getattr(at, "inner", None)
    return at.io(folder).properties if at is not None else io.properties
