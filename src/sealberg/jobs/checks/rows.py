"""Every row of a file, decoded and compared with its manifest entry, for `--deep`.

    records, values, nulls, NaNs     exactly those that the manifest claims
    lower <= values <= upper         for every leaf column that has bounds, also inside of structs, lists and maps
    transform(source) == partition   for every row

A file is decoded in small batches, Parquet one column after another, so that a large file needs little memory.
What cannot be compared is `Skipped`, with the reason.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import FileFormat
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import PrimitiveType

from sealberg.jobs.checks.bounds import comparable
from sealberg.jobs.checks.leaves import leaves
from sealberg.jobs.checks.outcome import Problem, Skipped
from sealberg.scan.data_file_reader import DecodeOptions, open_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.name_mapping import NameMapping
    from pyiceberg.types import NestedField

    from sealberg.jobs.checks.leaves import Leaf
    from sealberg.metadata.manifest import DataFileV3

BATCH_ROWS: Final = 1 << 14
BATCH_BYTES: Final = 16 << 20
# Arrow has no such function for the type, or PyIceberg no such transform.
CANNOT: Final = (
    NotImplementedError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
)


def check_rows(
    io: FileIO,
    file: DataFileV3,
    schema: Schema,
    spec: PartitionSpec,
    row_bytes: Mapping[str, float] | None = None,
    name_mapping: NameMapping | None = None,
) -> Iterator[Problem | Skipped]:
    """Compare every row of a data or delete file with its manifest entry.

    Args:
        name_mapping: gives ids to the columns of files that have none.
        row_bytes: about how many bytes a row of a column has, by the name of the column in a Parquet file.
    """
    tally = _Tally(file, schema, spec)
    with open_rows(io, file, name_mapping, streamed=True) as opened:
        own, _ = opened.schema(schema.fields)
        one_by_one = file.file_format == FileFormat.PARQUET
        for fields in [[field] for field in own.fields] if one_by_one else [list(own.fields)]:
            names, rows = [field.name for field in fields], 0
            size = max((row_bytes or {}).get(name, 0) for name in names) if names else 0
            options = DecodeOptions(max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(size, 1)))), threads=False)
            for _, batch in opened.batches(names, None, options):
                rows += batch.num_rows
                for field in fields:
                    for leaf in leaves(field, batch.column(batch.schema.get_field_index(field.name))):
                        tally.add(leaf)
            tally.rows.add(rows)
    yield from tally.findings()


class _Tally:
    """What the batches of a file add up to."""

    def __init__(self, file: DataFileV3, schema: Schema, spec: PartitionSpec) -> None:
        self._file = file
        self._schema = schema
        self._partition = dict(enumerate(spec.fields))
        self.rows: set[int] = set()
        self._values: Counter[int] = Counter()
        self._nulls: Counter[int] = Counter()
        self._absent: Counter[int] = Counter()
        self._nans: Counter[int] = Counter()
        self._found: dict[Problem | Skipped, None] = {}

    def add(self, leaf: Leaf) -> None:
        field_id, values = leaf.field.field_id, leaf.values
        self._values[field_id] += len(values) + leaf.absent
        self._nulls[field_id] += values.null_count
        self._absent[field_id] += leaf.absent
        if pa.types.is_floating(values.type):
            self._nans[field_id] += pc.sum(pc.is_nan(values)).as_py() or 0
        name = self._schema.find_column_name(field_id) or leaf.path
        found = (*_outside(leaf.field, name, values, self._file), *self._misplaced(leaf.field, values))
        self._found.update(dict.fromkeys(found))

    def findings(self) -> Iterator[Problem | Skipped]:
        file = self._file
        for rows in self.rows - {file.record_count}:
            yield Problem("count", f"the manifest claims {file.record_count} records, the file has {rows}")
        yield from _differences("values", file.value_counts, (self._values,))
        yield from _differences("nulls", file.null_value_counts, (self._nulls, self._nulls + self._absent))
        yield from _differences("NaN values", file.nan_value_counts, (self._nans,))
        yield from sorted(self._found)

    def _misplaced(self, field: NestedField, values: Any) -> Iterator[Problem | Skipped]:
        for at, part in self._partition.items():
            if part.source_id != field.field_id:
                continue
            try:
                found = _partition_values(part, field, values)
            except CANNOT:
                why = f"PyIceberg cannot apply the transform {part.transform} to {field.field_type}"
                yield Skipped(f"the partition {part.name} of each row", why)
                continue
            if found - {_plain(self._file.partition[at])}:
                yield Problem("partition", f"a row of the file does not belong to its partition {part.name}")


def _differences(what: str, said: Mapping[int, int] | None, found: tuple[Counter[int], ...]) -> Iterator[Problem]:
    for field_id, number in (said or {}).items():
        counts = sorted({count[field_id] for count in found if field_id in count})
        if counts and number not in counts:
            yield Problem(
                "count", f"the manifest claims {number} {what} for field {field_id}, the file has {counts[0]}"
            )


def _outside(field: NestedField, name: str, values: Any, file: DataFileV3) -> Iterator[Problem | Skipped]:
    bounds = (file.lower_bounds or {}).get(field.field_id), (file.upper_bounds or {}).get(field.field_id)
    if bounds == (None, None) or values.null_count == len(values):
        return
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    kind = field.field_type
    try:
        ends = pc.min_max(values)
        lowest, highest = (_bytes(field, ends[end]) for end in ("min", "max"))
        below = bounds[0] is not None and lowest is not None and comparable(kind, bounds[0]) > comparable(kind, lowest)
        above = (
            bounds[1] is not None and highest is not None and comparable(kind, bounds[1]) < comparable(kind, highest)
        )
    except CANNOT:
        yield Skipped(f"the bounds of column {name} against its values", f"no order of {kind} is known")
        return
    if below or above:
        yield Problem("bounds", f"a value of column {name} is outside of the bounds in the manifest")


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


def _partition_values(part: PartitionField, field: NestedField, values: Any) -> set[Any]:
    """The partitions to which the rows belong."""
    if isinstance(part.transform, VoidTransform):
        return {None}
    made: Any = part.transform.pyarrow_transform(field.field_type)(values)
    return {_plain(value) for value in pc.unique(made)}


def _plain(value: Any) -> Any:
    """A partition value of Arrow or of a manifest, as one that compares with the other."""
    if isinstance(value, pa.Scalar):
        if not value.is_valid:
            return None
        if pa.types.is_temporal(value.type):
            return int(value.cast(pa.int32() if value.type.bit_width == 32 else pa.int64()).as_py())
        value = value.as_py()
    if isinstance(value, float) and math.isnan(value):
        return math.nan  # one object, which a set finds again: NaN is not equal to NaN
    return value.bytes if hasattr(value, "bytes") and not isinstance(value, bytes | int) else value
