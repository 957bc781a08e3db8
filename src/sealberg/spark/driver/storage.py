"""How Spark's tasks reach the files of a table: the catalog's storage settings, sent along like file keys.

    the properties of the table's FileIO ──> HadoopSettings of its stores ──> the answers to "plan" and "begin-write"
                                                                          ──> the tasks of that query, and no others

A REST server may vend credentials with the table, which live for a while; the FileIO renews them. A task that opens a
file when its credentials end soon asks the driver, which asks here, with the verb "storage".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.table import TableProperties

from sealberg.files.confined_io import allowed_stores, store
from sealberg.files.vended_io import VendedFileIO, ends_at
from sealberg.spark.driver.hadoop_settings import hadoop_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.spark.driver.tables import Tables


def storage(io: FileIO, folder: str) -> dict[str, Any]:
    """How tasks reach the stores that this FileIO may reach.

    Args:
        io: of the table.
        folder: where the data files of the table are; credentials may be for a prefix.
    """
    properties = _properties(io, folder)
    families = {each.partition("://")[0] for each in {store(folder), *allowed_stores(io)}}
    settings = (hadoop_settings(family, properties) for family in sorted(families))
    ends_s = ends_at(properties)
    return {
        "expires-at-ms": None if ends_s is None else round(ends_s * 1000),
        "stores": [
            {
                "prefix": each.prefix,
                "settings": each.settings,
                "credentials": each.credentials,
                "credential-names": list(each.credential_names),
            }
            for each in settings
            if each is not None and (each.settings or each.credentials)
        ],
    }


def fresh_storage(tables: Tables, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same for a query that runs already: the credentials that it was given come to their end."""
    handle = arguments["handle"]
    if "staged" in handle:
        change = tables.staged[handle["staged"]]
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
