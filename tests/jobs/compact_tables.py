"""Tables for the tests of compact.

filled(catalog)             a table of six small files
registered(folder, small)   a table that was made by hand
state(table)                its rows, and the ids of its rows
sound(table)                verify finds nothing
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from kit.tables.small_tables import KMS, SmallTable
from kit.tables.tables import (
    check_lineage,
    lineage,
    make,
    rows,
)
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.jobs.verify import plan as verify

if TYPE_CHECKING:
    from pathlib import Path

    from sealberg.table.catalog_table import CatalogTable

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "score", DoubleType()),
    NestedField(4, "cat", StringType()),
)
BY_CAT = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "cat"))
VECTORS: dict[str, Any] = {"write.delete.mode": "merge-on-read"}


def some(first: int, stop: int) -> pa.Table:
    ids = range(first, stop)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"canary-{i}" for i in ids],
            "score": [None if i % 7 == 0 else float("nan") if i % 5 == 0 else i / 2 for i in ids],
            "cat": ["x" if i % 2 else "y" for i in ids],
        }
    )


def filled(catalog: EncryptedSqlCatalog, *spec: PartitionSpec, files: int = 6, **properties: Any) -> CatalogTable:
    table = make(catalog, SCHEMA, *spec, **properties)
    for i in range(files):
        table.append(some(i * 10, i * 10 + 10))
    return table


def state(table: CatalogTable) -> tuple[Any, Any]:
    table.refresh()
    return rows(table), lineage(table)


def sound(table: CatalogTable) -> None:
    check_lineage(table)
    result = verify(table, level="deep", orphan_age=timedelta(0)).execute()
    assert result.findings == ()
    assert result.not_checked == ()


def registered(folder: Path, small: SmallTable) -> CatalogTable:
    catalog = EncryptedSqlCatalog("small", uri=f"sqlite:///{folder}/s.db", warehouse=f"file://{folder}", **KMS)
    catalog.create_namespace_if_not_exists("hr")
    table: Any = catalog.register_table("hr.small", small.write_metadata())
    return table  # type: ignore[no-any-return]
