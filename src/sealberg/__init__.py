"""Encrypted Apache Iceberg tables from Python and PySpark, byte-compatible with Iceberg Java.

    load_catalog(...)   a PyIceberg catalog whose tables can be encrypted
    open_table(...)     one table, for reading, without a catalog

    errors       the tree of errors
    properties   every option and property, and what is done with it
    format       bytes in, bytes out: AES-GCM, AGS1 streams, key metadata
    keys         who may open what: KMS clients, the keyring, the manager
    files        one encrypted file: AGS1, Parquet, Avro, Puffin
    metadata     metadata.json, manifest lists, manifests
    scan         from a filter to Arrow batches
    write        from rows to a snapshot
    table        tables and transactions
    catalogs     SQL, Hive, Glue, REST; TrustingCatalog is the type of those that keep trust records
    jobs         programs that work on whole tables: verify
    spark        Spark SQL and DataFrames: session(...), configure(...), install(...)
    cli          the `sealberg` command

    version              the version of this package
    pyiceberg_private    private names of PyIceberg, used from here only

Names are resolved when first used, so `import sealberg` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sealberg.version import __version__

_HOMES = {
    "KeyMetadata": "sealberg.format.key_metadata",
    "KmsClient": "sealberg.keys.kms.client",
    "SealbergError": "sealberg.errors",
    "Ags1Reader": "sealberg.files.ags1_reader",
    "Ags1Writer": "sealberg.files.ags1_writer",
    "load_catalog": "sealberg.catalogs.load",
    "open_table": "sealberg.table.static_table",
}
# None of these imports PyIceberg or pyspark before something in it is used.
_MODULES = (
    "catalogs",
    "cli",
    "errors",
    "files",
    "format",
    "jobs",
    "keys",
    "metadata",
    "properties",
    "scan",
    "spark",
    "table",
    "write",
)

__all__ = [
    "KeyMetadata",
    "KmsClient",
    "SealbergError",
    "Ags1Reader",
    "Ags1Writer",
    "__version__",
    "catalogs",
    "errors",
    "jobs",
    "load_catalog",
    "open_table",
    "spark",
]

if TYPE_CHECKING:
    from sealberg import catalogs, errors, jobs, spark
    from sealberg.catalogs.load import load_catalog
    from sealberg.errors import SealbergError
    from sealberg.files.ags1_reader import Ags1Reader
    from sealberg.files.ags1_writer import Ags1Writer
    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.keys.kms.client import KmsClient
    from sealberg.table.static_table import open_table
else:  # a type checker that saw this would take every misspelt name for one that exists

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"sealberg.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'sealberg' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
