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

__all__ = [
    "KeyMetadata",
    "KmsClient",
    "SealbergError",
    "SealedReader",
    "SealedWriter",
    "__version__",
    "load_catalog",
    "open_table",
]

if TYPE_CHECKING:
    from sealberg.errors import SealbergError
    from sealberg.files.reader import SealedReader
    from sealberg.files.writer import SealedWriter
    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.keys.kms import KmsClient
    from sealberg.table.catalogs import load_catalog
    from sealberg.table.open import open_table


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if name == "spark":
        return import_module("sealberg.spark")  # which does not import pyspark before it is used
    if home is None:
        raise AttributeError(f"module 'sealberg' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
