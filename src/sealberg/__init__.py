"""Encrypted Apache Iceberg tables from Python and PySpark, byte-compatible with Iceberg Java.

    load_catalog(...)   a PyIceberg catalog whose tables can be encrypted
    open_table(...)     one table, for reading, without a catalog

    errors    the tree of errors
    format    bytes in, bytes out: AES-GCM, AGS1 streams, key metadata
    keys      who may open what: KMS clients, the keyring, the manager
    files     one encrypted file: streams, Parquet, Avro, Puffin
    table     a whole table: metadata, manifests, commits, scans, catalogs
    spark     Spark SQL and DataFrames: session(...), configure(...), install(...)
    cli       the `sealberg` command

Names are resolved when first used, so `import sealberg` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sealberg.version import __version__

_HOMES = {
    "KeyMetadata": "sealberg.format.key_metadata",
    "KmsClient": "sealberg.keys.kms",
    "SealbergError": "sealberg.errors",
    "SealedReader": "sealberg.files.reader",
    "SealedWriter": "sealberg.files.writer",
    "load_catalog": "sealberg.table.catalogs",
    "open_table": "sealberg.table.open",
}
# None of these imports PyIceberg or pyspark before something in it is used.
_MODULES = ("cli", "errors", "files", "format", "keys", "spark", "table")

__all__ = [
    "KeyMetadata",
    "KmsClient",
    "SealbergError",
    "SealedReader",
    "SealedWriter",
    "__version__",
    "errors",
    "load_catalog",
    "open_table",
    "spark",
]

if TYPE_CHECKING:
    from sealberg import errors, spark
    from sealberg.errors import SealbergError
    from sealberg.files.reader import SealedReader
    from sealberg.files.writer import SealedWriter
    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.keys.kms import KmsClient
    from sealberg.table.catalogs import load_catalog
    from sealberg.table.open import open_table
else:  # a type checker that saw this would take every misspelt name for one that exists

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"sealberg.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'sealberg' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
