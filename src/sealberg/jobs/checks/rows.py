"""Every row of a file, decoded and compared with its manifest entry, for `--deep`.

    records, values, nulls, NaNs     exactly those that the manifest claims
    lower <= values <= upper         for every column that has bounds
    transform(source) == partition   for every row

Columns inside of lists, maps and structs are counted by the footer, not here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import to_bytes
from pyiceberg.types import PrimitiveType

from sealberg.jobs.checks.bounds import comparable
from sealberg.jobs.checks.outcome import Problem
from sealberg.scan.data_file_reader import open_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    from sealberg.metadata.manifest import DataFileV3


def check_rows(io: FileIO, file: DataFileV3, schema: Schema, spec: PartitionSpec) -> Iterator[Problem]:
    """Compare every row of a data or delete file with its manifest entry."""
    rows = 0
    values: Counter[int] = Counter()
    nulls: Counter[int] = Counter()
    nans: Counter[int] = Counter()
    outside: set[str] = set()
    misplaced: set[str] = set()
    with open_rows(io, file) as opened:
        own, _ = opened.schema(schema.fields)
        fields = [field for field in own.fields if isinstance(field.field_type, PrimitiveType)]
        current = {field.field_id: field for field in schema.fields}
        for _, batch in opened.batches([field.name for field in own.fields], None):
            rows += batch.num_rows
            for field in fields:
                column = batch.column(batch.schema.get_field_index(field.name))
                values[field.field_id] += len(column)
                nulls[field.field_id] += column.null_count
                if pa.types.is_floating(column.type):
                    nans[field.field_id] += pc.sum(pc.is_nan(column)).as_py() or 0
                known = current.get(field.field_id, field)
                outside |= set(_outside(field, known.name, column, file))
                misplaced |= set(_misplaced(field, column, file, spec))
    if rows != file.record_count:
        yield Problem("count", f"the manifest claims {file.record_count} records, the file has {rows}")
    for what, said, found in (
        ("values", file.value_counts, values),
        ("nulls", file.null_value_counts, nulls),
        ("NaN values", file.nan_value_counts, nans),
    ):
        yield from _differences(what, said, found)
    for name in sorted(outside):
        yield Problem("bounds", f"a value of column {name} is outside of the bounds in the manifest")
    for name in sorted(misplaced):
        yield Problem("partition", f"a row of the file does not belong to its partition {name}")


def _differences(what: str, said: Mapping[int, int] | None, found: Counter[int]) -> Iterator[Problem]:
    for field_id, number in (said or {}).items():
        if field_id in found and found[field_id] != number:
            yield Problem(
                "count", f"the manifest claims {number} {what} for field {field_id}, the file has {found[field_id]}"
            )


def _outside(field: NestedField, name: str, column: pa.Array, file: DataFileV3) -> Iterator[str]:
    bounds = (file.lower_bounds or {}).get(field.field_id), (file.upper_bounds or {}).get(field.field_id)
    if bounds == (None, None) or column.null_count == len(column):
        return
    if pa.types.is_floating(column.type):
        column = column.filter(pc.invert(pc.is_nan(column)))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        ends = pc.min_max(column)
        lowest, highest = (_bytes(field, ends[name]) for name in ("min", "max"))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, TypeError, ValueError, AttributeError, OverflowError):
        return  # a type without an order in Arrow; its statistics in the footer were compared
    kind = field.field_type
    if bounds[0] is not None and lowest is not None and comparable(kind, bounds[0]) > comparable(kind, lowest):
        yield name
    if bounds[1] is not None and highest is not None and comparable(kind, bounds[1]) < comparable(kind, highest):
        yield name


def _bytes(field: NestedField, end: pa.Scalar) -> bytes | None:
    """The value in Iceberg's form; times are integers in Arrow too."""
    if not end.is_valid:
        return None
    if pa.types.is_temporal(end.type):
        width = pa.int32() if end.type.bit_width == 32 else pa.int64()
        return int(end.cast(width).as_py()).to_bytes(width.bit_width // 8, "little", signed=True)
    value = end.as_py()
    assert isinstance(field.field_type, PrimitiveType)
    return bytes(value) if isinstance(value, bytes) else to_bytes(field.field_type, value)


def _misplaced(field: NestedField, column: pa.Array, file: DataFileV3, spec: PartitionSpec) -> Iterator[str]:
    for at, part in enumerate(spec.fields):
        if part.source_id != field.field_id:
            continue
        try:
            got: Any = part.transform.pyarrow_transform(field.field_type)(column)
        except (NotImplementedError, ValueError, TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue  # a transform that PyIceberg cannot apply; the bounds were compared
        found = {_plain(value) for value in pc.unique(got)}
        if found - {_plain(file.partition[at])}:
            yield part.name


def _plain(value: Any) -> Any:
    """A partition value of Arrow or of a manifest, as one that compares with the other."""
    if isinstance(value, pa.Scalar):
        if not value.is_valid:
            return None
        if pa.types.is_temporal(value.type):
            return int(value.cast(pa.int32() if value.type.bit_width == 32 else pa.int64()).as_py())
        value = value.as_py()
    return value.bytes if hasattr(value, "bytes") and not isinstance(value, bytes | int) else value
