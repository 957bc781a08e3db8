"""Three engines that read and write one table of one metastore: Iceberg Java, sealberg in Python, sealberg on Spark.

    three = Three(java, catalog)
    three.sql("spark", "INSERT INTO {t} ...", "name")       {t} is the table in the catalog of that writer
    three.agreed("name")                                    the rows that all three read; an error if they differ

Rows are compared with their row ids and last updated sequence numbers, in any order.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from kit.programs.iceberg_java import LINEAGE, IcebergJava

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

READERS: Final = ("java", "python", "spark")
CATALOGS: Final = {"java": "h", "spark": "ours"}

Rows = Counter[tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Three:
    """The three engines."""

    java: IcebergJava
    catalog: Catalog

    def table(self, name: str) -> Table:
        return self.catalog.load_table(f"db.{name}")

    def sql(self, writer: str, text: str, name: str) -> list[dict[str, Any]]:
        catalog = CATALOGS[writer]
        full = text.format(t=f"{catalog}.db.{name}", name=f"db.{name}", c=catalog)
        return [row.asDict(recursive=True) for row in self.java.spark.sql(full).collect()]

    def rows(self, reader: str, name: str, version: int | str | None = None) -> Rows:
        """All rows of the newest snapshot, of another snapshot, or of a branch or tag."""
        if reader == "python":
            return counted(ours(self.table(name), version))
        at = "" if version is None else f" VERSION AS OF {version!r}"
        return counted(self.sql(reader, f"SELECT *, {', '.join(LINEAGE)} FROM {{t}}{at}", name))

    def agreed(self, name: str, version: int | str | None = None) -> Rows:
        """The rows that all three read; an error if one of them differs."""
        found = {reader: self.rows(reader, name, version) for reader in READERS}
        assert found["python"] == found["java"], f"{name} at {version}: Python and Java differ"
        assert found["spark"] == found["java"], f"{name} at {version}: Spark and Java differ"
        return found["java"]


def ours(table: Table, version: int | str | None = None) -> list[dict[str, Any]]:
    snapshot = version
    if isinstance(version, str):
        snapshot = table.metadata.refs[version].snapshot_id
    found: list[dict[str, Any]] = (
        table.scan(selected_fields=("*", *LINEAGE), snapshot_id=snapshot).to_arrow().to_pylist()  # type: ignore[arg-type]
    )
    return found


def counted(found: list[dict[str, Any]]) -> Rows:
    return Counter(tuple(sorted((name, repr(plain(value))) for name, value in row.items())) for row in found)


def plain(value: Any) -> Any:
    """Values of Arrow and of Spark in the same form."""
    match value:
        case bytes() | bytearray():
            return bytes(value).hex()
        case uuid.UUID() | Decimal():
            return str(value)
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone().replace(tzinfo=None)  # PySpark gives local times
        case dict():
            return sorted((str(name), plain(inner)) for name, inner in value.items())
        case list():
            pairs = all(isinstance(inner, tuple) for inner in value)
            return sorted((str(k), plain(v)) for k, v in value) if pairs else [plain(inner) for inner in value]
    return value
