"""Column metrics of a Parquet file for its manifest entry, from the footer.

PyIceberg computes counts and bounds, except in four cases that it gets wrong:

    nanoseconds          PyIceberg truncates them to microseconds, so an upper bound may be below a value
    dates, timestamps    PyIceberg converts them to Python's types, which fail before year 1 and after 9999
    no bounds            a row group whose statistics have no bounds (too long values) leaves the column unbounded;
                         PyIceberg takes the bounds of the other row groups
    NaN as a bound       Spark's writer takes NaN for the greatest value. Iceberg's bounds leave NaN out, and the
                         greatest other value is unknown, so the row group counts as one without bounds
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from sealberg.properties.table_names import value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import StatisticsCollector
    from pyiceberg.schema import Schema
    from pyiceberg.types import PrimitiveType

COUNTS: Final = MetricsMode(MetricModeTypes.COUNTS)
TIMES: Final = (DateType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
FLOATS: Final = ("FLOAT", "DOUBLE")
BOUNDED: Final = (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL)


@dataclass(frozen=True)
class MetricsPlan:
    """Which metrics the files of one schema have; made once for many files.

    Args:
        ids: the field id of each path of a Parquet file.
        columns: what PyIceberg computes for each field id.
        times: the columns whose bounds PyIceberg does not compute.
    """

    ids: dict[str, int]
    columns: dict[int, StatisticsCollector]
    times: Mapping[int, PrimitiveType]

    @classmethod
    def of(cls, schema: Schema, properties: Mapping[str, str]) -> MetricsPlan:
        for name in properties:
            if name.startswith("write.metadata.metrics."):  # PyIceberg's own error would be a ValueError
                value_of(properties, name, None)
        plan = compute_statistics_plan(schema, dict(properties))
        times = {
            field_id: column.iceberg_type
            for field_id, column in plan.items()
            if isinstance(column.iceberg_type, TIMES) and column.mode.type in BOUNDED
        }
        counted = {
            field_id: replace(column, mode=COUNTS) if field_id in times else column for field_id, column in plan.items()
        }
        return cls(parquet_path_to_id_mapping(schema), counted, times)


def metrics_of(footer: pq.FileMetaData, schema: Schema, properties: Mapping[str, str]) -> dict[str, Any]:
    """The metrics fields of one data file."""
    return planned_metrics(footer, MetricsPlan.of(schema, properties))


def planned_metrics(footer: pq.FileMetaData, plan: MetricsPlan) -> dict[str, Any]:
    """The metrics fields of a data file."""
    ids, times = plan.ids, plan.times
    found = data_file_statistics_from_parquet_metadata(footer, plan.columns, ids).to_serialized_dict()
    lower, upper = found["lower_bounds"], found["upper_bounds"]
    unbounded = set()
    for path, column in _columns(footer):
        statistics, field_id = column.statistics, ids[path]
        if statistics is None or not statistics.has_min_max:
            if statistics is None or statistics.num_values:
                unbounded.add(field_id)
        elif statistics.physical_type in FLOATS and (isnan(statistics.min) or isnan(statistics.max)):
            unbounded.add(field_id)
        elif field_id in times:
            lower[field_id] = min(statistics.min_raw, lower.get(field_id, statistics.min_raw))
            upper[field_id] = max(statistics.max_raw, upper.get(field_id, statistics.max_raw))
    for bounds in (lower, upper):
        for field_id in times.keys() & bounds.keys():
            stored = IntegerType() if isinstance(times[field_id], DateType) else LongType()
            bounds[field_id] = to_bytes(stored, bounds[field_id])
        for field_id in unbounded:
            bounds.pop(field_id, None)
    return dict(found)


def _columns(footer: pq.FileMetaData) -> Iterator[tuple[str, pq.ColumnChunkMetaData]]:
    for group in range(footer.num_row_groups):
        for at in range(footer.num_columns):
            column = footer.row_group(group).column(at)
            yield column.path_in_schema, column
