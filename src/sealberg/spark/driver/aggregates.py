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
from sealberg.spark.protocol.scans import AggregateAnswer
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    from sealberg.scan.planner import FilePlan
    from sealberg.spark.driver.tables import Tables
    from sealberg.spark.protocol.scans import Aggregate, AggregateRequest

EXACT: Final = (IntegerType, LongType, DateType, TimestampType, TimestamptzType, DecimalType)
CHOOSE: Final = {"min": min, "max": max}
UNKNOWN: Final = AggregateAnswer()


class _Unknown(Exception):  # noqa: N818 (not an error: the answer is in the rows)
    """The metadata do not tell."""


def aggregate(tables: Tables, request: AggregateRequest) -> AggregateAnswer:
    """The values of these aggregates in the snapshot that the query has seen; None if one of them is not known."""
    handle = request.handle
    table = tables.named(handle)
    if handle.snapshot_id is None or handle.after_snapshot_id is not None or not isinstance(table, EncryptedTable):
        return UNKNOWN
    snapshot = table.metadata.snapshot_by_id(handle.snapshot_id)
    if snapshot is None:
        return UNKNOWN
    schema = table.metadata.schema_by_id(handle.schema_id) or table.metadata.schema()
    plan = Planner(table.metadata, table.io, schema, AlwaysTrue()).file_plan(snapshot.manifests(table.io))
    counts = plan.counted_rows()
    if None in counts:
        return UNKNOWN
    try:
        answer = _Answer(schema, plan, counts)  # type: ignore[arg-type]
        return AggregateAnswer(tuple(answer.of(aggregate) for aggregate in request.aggregates))
    except _Unknown:
        return UNKNOWN


@dataclass(frozen=True)
class _Answer:
    schema: Schema
    plan: FilePlan
    counts: Sequence[int]

    def of(self, aggregate: Aggregate) -> Any:
        function = aggregate.function
        if function == "count-all":
            return sum(self.counts)
        if self.plan.has_deletes:
            raise _Unknown  # the deleted rows are in the bounds and counts, too
        column = next((field for field in self.schema.fields if field.name == aggregate.column), None)
        if column is None:
            raise _Unknown
        filled = self._filled(column.field_id)
        if function == "count":
            return sum(filled)
        if not isinstance(column.field_type, EXACT):
            raise _Unknown
        found = [
            _bound(raw, column) for raw, count in zip(self._bounds(column, function), filled, strict=True) if count
        ]
        return _spelt(CHOOSE[function](found)) if found else None

    def _filled(self, field_id: int) -> list[int]:
        """How many rows of each file have a value there."""
        values = self.plan.statistics(lambda columns: columns.value_counts(field_id))
        nulls = self.plan.statistics(lambda columns: columns.null_value_counts(field_id))
        if None in values or None in nulls:
            raise _Unknown  # not measured, or a column that is younger than the file
        return [count - null for count, null in zip(values, nulls, strict=True)]

    def _bounds(self, column: NestedField, function: str) -> list[bytes | None]:
        if function == "min":
            return self.plan.statistics(lambda columns: columns.lower_bounds(column.field_id))
        return self.plan.statistics(lambda columns: columns.upper_bounds(column.field_id))


def _bound(raw: bytes | None, column: NestedField) -> Any:
    if raw is None:
        raise _Unknown
    try:
        return from_bytes(column.field_type, raw)  # type: ignore[arg-type]
    except Exception as error:
        raise _Unknown from error  # the bytes of a type that was narrower then


def _spelt(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value
