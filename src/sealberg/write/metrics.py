"""What the manifest tells about the columns of a Parquet file, from its footer.

Counting and bounds are PyIceberg's, but for four cases:

    nanoseconds        it cuts them to microseconds, so an upper bound lies below its own row
    dates, timestamps  it makes Python's of them, which end at the years 1 and 9999, and fails beyond
    a silent row group  one whose statistics have no bounds (its values are too long) is left out of those of the file
    NaN as a bound      Spark's writer counts it as the greatest value; Iceberg's bounds leave it out, and the greatest
                        of the other values is not known, so such a row group counts as silent
"""

from __future__ import annotations

from dataclasses import replace
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow.parquet as pq
    from pyiceberg.schema import Schema

COUNTS: Final = MetricsMode(MetricModeTypes.COUNTS)
TIMES: Final = (DateType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
FLOATS: Final = ("FLOAT", "DOUBLE")
BOUNDED: Final = (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL)


def metrics_of(footer: pq.FileMetaData, schema: Schema, properties: Mapping[str, str]) -> dict[str, Any]:
    """The members of a data file that are about its columns."""
    ids = parquet_path_to_id_mapping(schema)
    plan = compute_statistics_plan(schema, dict(properties))
    times = {
        field_id: one.iceberg_type
        for field_id, one in plan.items()
        if isinstance(one.iceberg_type, TIMES) and one.mode.type in BOUNDED
    }
    counted = {field_id: replace(one, mode=COUNTS) if field_id in times else one for field_id, one in plan.items()}
    found = data_file_statistics_from_parquet_metadata(footer, counted, ids).to_serialized_dict()
    lower, upper = found["lower_bounds"], found["upper_bounds"]
    silent = set()
    for path, column in _columns(footer):
        statistics, field_id = column.statistics, ids[path]
        if statistics is None or not statistics.has_min_max:
            if statistics is None or statistics.num_values:
                silent.add(field_id)
        elif statistics.physical_type in FLOATS and (isnan(statistics.min) or isnan(statistics.max)):
            silent.add(field_id)
        elif field_id in times:
            lower[field_id] = min(statistics.min_raw, lower.get(field_id, statistics.min_raw))
            upper[field_id] = max(statistics.max_raw, upper.get(field_id, statistics.max_raw))
    for bounds in (lower, upper):
        for field_id in times.keys() & bounds.keys():
            stored = IntegerType() if isinstance(times[field_id], DateType) else LongType()
            bounds[field_id] = to_bytes(stored, bounds[field_id])
        for field_id in silent:
            bounds.pop(field_id, None)
    return dict(found)


def _columns(footer: pq.FileMetaData) -> Iterator[tuple[str, pq.ColumnChunkMetaData]]:
    for group in range(footer.num_row_groups):
        for at in range(footer.num_columns):
            column = footer.row_group(group).column(at)
            yield column.path_in_schema, column
