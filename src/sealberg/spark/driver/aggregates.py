"""count, min and max of a whole snapshot, out of its metadata: exact, or not at all.

    count(*)    rows of the files, less those that deletion vectors name
    count(c)    values that are not null      } only where no row is deleted,
    min max     bounds                        } and of types whose bounds are never shortened nor without NaN

Spark asks only where nothing is filtered and grouped; without an answer it reads the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.types import DateType, DecimalType, IntegerType, LongType, TimestampType, TimestamptzType

from sealberg.scan.planner import Planner
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.spark.driver.tables import Tables

EXACT: Final = (IntegerType, LongType, DateType, TimestampType, TimestamptzType, DecimalType)
CHOOSE: Final = {"min": min, "max": max}


class _Unknown(Exception):  # noqa: N818 (not an error: the answer is in the rows)
    """The metadata do not tell."""


def aggregate(tables: Tables, arguments: dict[str, Any]) -> list[Any] | None:
    """The values of these aggregates in the snapshot that the query has seen; None if one of them is not known."""
    handle = arguments["handle"]
    table = tables.named(handle)
    if handle["snapshot"] is None or "after" in handle or not isinstance(table, EncryptedTable):
        return None
    snapshot = table.metadata.snapshot_by_id(handle["snapshot"])
    if snapshot is None:
        return None
    schema = table.metadata.schema_by_id(handle["schema"]) or table.metadata.schema()
    tasks = Planner(table.metadata, table.io, schema, AlwaysTrue()).plan(snapshot.manifests(table.io))
    counts = [task.counted_rows for task in tasks]
    if None in counts:
        return None
    try:
        answer = _Answer(schema, tasks, counts)  # type: ignore[arg-type]
        return [answer.of(one) for one in arguments["aggregates"]]
    except _Unknown:
        return None


@dataclass(frozen=True)
class _Answer:
    schema: Schema
    tasks: Sequence[EncryptedFileScanTask]
    counts: Sequence[int]

    def of(self, wanted: dict[str, Any]) -> Any:
        kind = wanted["kind"]
        if kind == "count-all":
            return sum(self.counts)
        if any(task.delete_files for task in self.tasks):
            raise _Unknown  # the deleted rows are in the bounds and counts, too
        column = next((one for one in self.schema.fields if one.name == wanted["column"]), None)
        if column is None:
            raise _Unknown
        filled = [(task.file, _filled(task.file, column)) for task in self.tasks]
        if kind == "count":
            return sum(count for _, count in filled)
        if not isinstance(column.field_type, EXACT):
            raise _Unknown
        found = [_bound(file, column, kind) for file, count in filled if count]
        return _spelt(CHOOSE[kind](found)) if found else None


def _filled(file: DataFile, column: NestedField) -> int:
    """How many rows of a file have a value there."""
    values, nulls = (file.value_counts or {}).get(column.field_id), (file.null_value_counts or {}).get(column.field_id)
    if values is None or nulls is None:
        raise _Unknown  # not measured, or a column that is younger than the file
    return values - nulls


def _bound(file: DataFile, column: NestedField, kind: str) -> Any:
    bounds = file.lower_bounds if kind == "min" else file.upper_bounds
    raw = (bounds or {}).get(column.field_id)
    if raw is None:
        raise _Unknown
    try:
        return from_bytes(column.field_type, raw)  # type: ignore[arg-type]
    except Exception as error:
        raise _Unknown from error  # the bytes of a type that was narrower then


def _spelt(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value
