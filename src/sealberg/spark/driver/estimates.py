"""What Spark's optimiser wants to know of a scan: rows, bytes, and statistics of columns.

    rows, bytes          of the files that the filters leave, less rows that deletion vectors name
    null count, min, max out of the manifest entries of these files; None where a file does not say
    distinct values      out of the encrypted statistics file of the snapshot, if there is one

Spark asks if spark.sql.cbo.enabled is true, which Spark's default is not, unless the session sets
spark.sql.iceberg.report-column-stats to false: as in Iceberg Java. Estimates need not be exact: bounds and null counts
of a file include its deleted rows.

Spark takes a number, a date or a time without min and max for a column of nulls, so such a column is left out. Bounds
of strings are never sent: manifests shorten them, and plans are no place for names.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestamptzType,
)

from sealberg.errors import KeyNotFoundError
from sealberg.files.file_io import EncryptingFileIO
from sealberg.files.puffin.container import NDV, THETA_SKETCH
from sealberg.scan.planner import Planner
from sealberg.spark.filters import inclusive
from sealberg.spark.protocol.scans import ColumnEstimate, ScanEstimate
from sealberg.table.base import EncryptedTable
from sealberg.table.statistics import read_sketches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    from sealberg.scan.planner import FilePlan
    from sealberg.spark.driver.tables import Tables
    from sealberg.spark.protocol.scans import EstimateRequest

_log: Final = logging.getLogger(__name__)
ORDERED: Final = (
    BooleanType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    DateType,
    TimestamptzType,
)
UNORDERED: Final = (StringType, BinaryType, FixedType)  # Spark uses no bounds of them
REMEMBERED: Final = 256


@dataclass
class Estimates:
    """The estimates of one catalog; remembers the distinct values of statistics files, which never change."""

    tables: Tables
    _distinct: dict[tuple[str, int], Mapping[int, int]] = field(default_factory=dict)

    def estimate(self, request: EstimateRequest) -> ScanEstimate:
        """The estimate of a scan of the snapshot that the query has seen; without columns if nothing is known."""
        handle = request.handle
        table = self.tables.named(handle)
        if handle.snapshot_id is None or handle.after_snapshot_id is not None or not isinstance(table, EncryptedTable):
            return ScanEstimate(())
        snapshot = table.metadata.snapshot_by_id(handle.snapshot_id)
        if snapshot is None:
            return ScanEstimate(())
        schema = table.metadata.schema_by_id(handle.schema_id) or table.metadata.schema()
        planner = Planner(table.metadata, table.io, schema, inclusive(request.filters, schema))
        plan = planner.file_plan(snapshot.manifests(table.io))
        counts = plan.numbers(lambda columns: columns.record_count).tolist()
        rows = sum(
            count if counted is None else counted for count, counted in zip(counts, plan.counted_rows(), strict=True)
        )
        distinct = self._of(table, handle.snapshot_id)
        names = {each["name"] for each in request.columns["fields"]}
        columns = tuple(_columns(schema, names, plan, rows, distinct))
        size = int(plan.numbers(lambda columns: columns.file_size_in_bytes).sum())
        return ScanEstimate(columns, rows, size)

    def _of(self, table: EncryptedTable, snapshot_id: int) -> Mapping[int, int]:
        """The numbers of distinct values by field id. A file that is gone is ignored: statistics are a help."""
        if not isinstance(table.io, EncryptingFileIO):
            return {}
        path = next((each.statistics_path for each in table.metadata.statistics if each.snapshot_id == snapshot_id), "")
        if not path:
            return {}
        if (path, snapshot_id) not in self._distinct:
            try:
                footer = read_sketches(table.metadata, table.io, snapshot_id)
            except (FileNotFoundError, KeyNotFoundError) as error:
                _log.warning("statistics of %s are ignored: %s", ".".join(table.name()), error)
                return {}
            if len(self._distinct) >= REMEMBERED:
                self._distinct.clear()
            blobs = () if footer is None else footer.blobs
            self._distinct[path, snapshot_id] = {
                blob.fields[0]: int(blob.properties[NDV])
                for blob in blobs
                if blob.type == THETA_SKETCH and len(blob.fields) == 1 and blob.properties.get(NDV, "").isdigit()
            }
        return self._distinct[path, snapshot_id]


def _columns(
    schema: Schema, names: set[str], plan: FilePlan, rows: int, distinct: Mapping[int, int]
) -> Iterator[ColumnEstimate]:
    for column in schema.fields:
        if column.name not in names or not isinstance(column.field_type, (*ORDERED, *UNORDERED)):
            continue
        nulls = _nulls(plan, column)
        count = distinct.get(column.field_id)
        known = None if count is None else min(count, rows if nulls is None else rows - min(nulls, rows))
        lower = upper = None
        if isinstance(column.field_type, ORDERED):
            lower, upper = _bound(plan, column, lower=True), _bound(plan, column, lower=False)
            if lower is None or upper is None:
                continue
        yield ColumnEstimate(
            column.name, known, None if nulls is None else min(nulls, rows), _text(lower), _text(upper)
        )


def _nulls(plan: FilePlan, column: NestedField) -> int | None:
    counts = plan.statistics(lambda columns: columns.null_value_counts(column.field_id))
    return None if None in counts else sum(counts)


def _bound(plan: FilePlan, column: NestedField, *, lower: bool) -> Any:
    """The smallest or largest value of all files; None if a file with values does not tell it."""
    field_id = column.field_id
    raws = plan.statistics(lambda columns: columns.lower_bounds(field_id) if lower else columns.upper_bounds(field_id))
    found = []
    for raw, (is_empty, nans) in zip(raws, _filled(plan, field_id), strict=True):
        if is_empty:
            continue
        if raw is None or nans:
            return None
        try:
            value = from_bytes(column.field_type, raw)  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001 (the bytes of a type that was narrower then)
            return None
        if isinstance(value, float) and math.isnan(value):
            return None
        found.append(value)
    return (min if lower else max)(found, default=None)


def _filled(plan: FilePlan, field_id: int) -> Iterator[tuple[bool, int | None]]:
    """For each file, whether no row has a value in the column, and how many are NaN."""
    counts = plan.numbers(lambda columns: columns.record_count).tolist()
    values = plan.statistics(lambda columns: columns.value_counts(field_id))
    nulls = plan.statistics(lambda columns: columns.null_value_counts(field_id))
    nans = plan.statistics(lambda columns: columns.nan_value_counts(field_id))
    for count, value, null, nan in zip(counts, values, nulls, nans, strict=True):
        yield count == 0 or (value is not None and value == null), nan


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
